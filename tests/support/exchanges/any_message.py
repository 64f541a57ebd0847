"""HTTP messages as a stranger might word them: targets, fields, bodies with their framing."""

from __future__ import annotations

from dataclasses import dataclass

from hypothesis import strategies as st

TOKEN = st.text("ABCxyz019-_.!#$%&'*+^`|~", min_size=1, max_size=12).map(lambda name: "X-" + name)
VALUE = st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Cs"]), max_size=40).map(
    lambda text: text.strip(" \t")
)
FIELDS = st.lists(st.tuples(TOKEN, VALUE), max_size=10)
TARGET = st.text("ab/.%2F?&=:@!$'()*+,;~-_#", max_size=30).map(lambda text: "/" + text)
BODY = st.binary(max_size=3000)


@dataclass(frozen=True)
class Message:
    """A generated body with its framing."""

    body: bytes
    framing: str

    def head(self) -> bytes:
        return {
            "none": b"",
            "length": b"Content-Length: %d\r\n" % len(self.body),
            "chunked": b"Transfer-Encoding: chunked\r\n",
        }[self.framing]

    def wire(self) -> bytes:
        if self.framing == "none":
            return b""
        if self.framing == "length":
            return self.body
        half = len(self.body) // 2
        parts = [part for part in (self.body[:half], self.body[half:]) if part]
        return b"".join(b"%X;e=1\r\n%s\r\n" % (len(part), part) for part in parts) + b"0\r\n\r\n"


MESSAGE = st.builds(Message, BODY, st.sampled_from(["none", "length", "chunked"]))


def lines(fields: list[tuple[str, str]]) -> bytes:
    return b"".join(f"{name}: {value}\r\n".encode() for name, value in fields)


# What an application, its client library and a proxy before us may send: fields of one hop among them, in any case.
KNOWN_NAMES = (
    *("Accept", "Accept-Encoding", "Authorization", "Api-Key", "Cache-Control", "Cookie", "Content-Encoding", "Content-Type"),
    *("Date", "ETag", "Forwarded", "If-Match", "Origin", "Range", "Referer", "User-Agent", "Via", "X-Forwarded-For", "X-Id"),
    *("Connection", "Keep-Alive", "Proxy-Connection", "TE", "Upgrade", "Server", "Set-Cookie", "Vary", "Location"),
)  # fmt: skip
CASES = st.sampled_from((str, str.lower, str.upper, str.swapcase))
KNOWN = st.tuples(
    st.builds(lambda name, case: case(name), st.sampled_from(KNOWN_NAMES), CASES),
    st.one_of(VALUE, st.sampled_from(("gzip", "a=1; b=2", "application/json", "x-id, x-other", "bytes=0-3", ""))),
)
OFTEN = st.lists(st.one_of(KNOWN, st.tuples(TOKEN, VALUE), st.just(("x-id", "1"))), max_size=10)
# Sizes that meet a buffer's edge, and now and then the largest; a body is made of its size and one byte, not drawn.
SIZES = st.one_of(st.integers(0, 3_000), st.sampled_from((0, 1, 8_191, 8_192, 16_384, 65_535, 65_536, 65_537, 262_145)))
LARGE = st.one_of(*[SIZES] * 19, st.integers(2**18, 2**20))
MADE = st.builds(
    lambda size, salt: (bytes(range(salt, 256)) * (size // (256 - salt) + 1))[:size], LARGE, st.integers(0, 255)
)
