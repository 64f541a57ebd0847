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
