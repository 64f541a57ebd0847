"""Header lists, targets and framing: what is forwarded, in its order, case and number, and what is refused.

Lists are aiohttp's raw pairs of bytes. RFC 9110 7.6.1 names the fields of one connection; `Connection` may name more. Framing
(`Content-Length`, `Transfer-Encoding`) and `Host` are set by the proxy, so `Connection: content-length` removes nothing. No field is added
that the other side did not send, except the body's framing.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum, auto
from operator import itemgetter

from aiohttp import HttpVersion10, HttpVersion11
from aiohttp.http import HttpVersion

from vecsieve.adapters.fusions import SAME, Ending

from ..runtime.addresses import Origin
from ..search.errors import Trouble
from ..search.policy import is_override
from ..telemetry.tracing import NAME

RawHeaders = Sequence[tuple[bytes, bytes]]
Headers = list[tuple[str, str]]

HOP_BY_HOP = frozenset(
    {
        b"connection",
        b"keep-alive",
        b"proxy-authenticate",
        b"proxy-authorization",
        b"proxy-connection",
        b"te",
        b"trailer",
        b"upgrade",
    }
)
# Naming them in Connection must not remove them: they keep two messages apart.
PROTECTED = frozenset({b"content-length", b"transfer-encoding", b"host"})
# Answered on this hop, when the body is first read; the database's interim answers are dropped.
EXPECT = b"expect"
TRACE_PARENT = NAME.encode("ascii")
# Fields that certify the bytes of a body, and are wrong for a changed body. `Last-Modified` is about the data behind them, which is the
# same, and stays.
VOUCHING = frozenset(
    {b"content-md5", b"digest", b"content-digest", b"repr-digest", b"etag", b"signature", b"signature-input"}
)
# Fields that request exact bytes: a condition on them, a range of them, a certificate for them.
EXACTING = frozenset(
    {
        b"range",
        b"if-match",
        b"if-none-match",
        b"if-modified-since",
        b"if-unmodified-since",
        b"if-range",
        b"want-digest",
        b"want-content-digest",
        b"want-repr-digest",
        b"accept-signature",
        b"x-amz-content-sha256",
    }
)
# aiohttp's serializer raises on these and silently drops what is not UTF-8; neither may happen in the middle of a head.
CONTROL = re.compile(rb"[\x00-\x08\x0a-\x1f\x7f]")


_VALUE = itemgetter(1)


def are_forwardable(parts: Sequence[bytes]) -> bool:
    """Whether these names or values can be forwarded byte for byte: UTF-8 without control characters.

    Other bytes are legal in HTTP (obs-text), but aiohttp's serializer would drop them silently.
    """
    whole = b"".join(parts)
    if CONTROL.search(whole) is not None:
        return False
    return whole.isascii() or all(map(_is_utf8, parts))


def _is_utf8(data: bytes) -> bool:
    try:
        data.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True


def values(raw: RawHeaders, name: bytes) -> list[bytes]:
    """All values of a field, in order. ``name``: lower case."""
    return [value for key, value in raw if key.lower() == name]


def replaced(raw: RawHeaders, name: bytes, value: bytes | None) -> list[tuple[bytes, bytes]]:
    """The list with one field set, in the place and case of its first line, or at the end. None removes all lines of the field."""
    result: list[tuple[bytes, bytes]] = []
    done = value is None
    for key, old in raw:
        if key.lower() != name:
            result.append((key, old))
        elif not done and value is not None:
            result.append((key, value))
            done = True
    if not done and value is not None:
        result.append((name, value))
    return result


def traced(raw: RawHeaders, traceparent: str) -> RawHeaders:
    """The list with this traceparent instead of the client's."""
    return replaced(raw, TRACE_PARENT, traceparent.encode("ascii"))


def request_head(
    method: str, target: str, raw: RawHeaders, *, authority: str, length: int | None, is_chunked: bool
) -> bytes:
    """A client's head as sent upstream, with the body's framing: a length, chunks, or neither.

    ``authority``: the upstream's host and port. ``target``: as read_target returned it.
    """
    host = authority.encode("ascii")
    framing = {_Kind.LENGTH: b"" if length is None else b"%d" % length, _Kind.CODING: b"chunked" if is_chunked else b""}
    has_host = False
    lines = [f"{method} {target} HTTP/1.1".encode("ascii")]
    for place, kind, _ in _passing(raw):
        if kind is _Kind.KEPT:
            lines.append(raw[place][0] + b": " + raw[place][1])
        elif kind is _Kind.HOST:
            has_host = True
            lines.append(raw[place][0] + b": " + host)
        elif given := framing.get(kind):
            lines.append(raw[place][0] + b": " + given)
            framing[kind] = b""
    if not has_host:
        lines.insert(1, b"Host: " + host)
    if framing[_Kind.LENGTH]:
        lines.append(b"Content-Length: " + framing[_Kind.LENGTH])
    if framing[_Kind.CODING]:
        lines.append(b"Transfer-Encoding: chunked")
    head = b"\r\n".join([*lines, b"", b""])
    if head.count(b"\n") != len(lines) + 1:
        raise ValueError("a field that is two lines: `objection` refuses such requests")
    return head


def for_client(raw: RawHeaders) -> Headers:
    """Upstream's fields as sent to the client."""
    return [(name, raw[place][1].decode("utf-8")) for place, _, name in _passing(raw)]


def around_other_bytes(raw: RawHeaders, length: int) -> Headers:
    """Upstream's fields for a body that was changed, with its new length."""
    passing = for_client(raw)
    if shape_of(raw).is_exacting:
        passing = [pair for pair in passing if pair[0].lower().encode() not in VOUCHING]
    return framed(passing, length=length)


SIGNATURE = b"AWS4-"
"""How credentials begin that are an AWS signature (SigV4), which covers the host, the target and the body."""


# RFC 9110 12.5.3: identity is acceptable unless it is excluded by name, or by `*` without being named.
NO_IDENTITY = re.compile(rb"(?:^|,)\s*(identity|\*)\s*;\s*q=0(?:\.0{0,3})?\s*(?=,|$)", re.IGNORECASE)


def accepts_identity(raw: RawHeaders) -> bool:
    """Whether an answer without content coding is acceptable to the client."""
    line = b",".join(values(raw, b"accept-encoding"))
    if b"=0" not in line:
        return True
    excluded = {name.lower() for name in NO_IDENTITY.findall(line)}
    if b"identity" in excluded:
        return False
    return b"*" not in excluded or re.search(rb"(?:^|,)\s*identity\s*(?:;|,|$)", line, re.IGNORECASE) is not None


def framed(headers: Headers, *, length: int) -> Headers:
    """The fields of a body of this length, in the place and case of the previous length field."""
    result: Headers = []
    done = False
    for name, value in headers:
        low = name.lower()
        if low != "content-length":
            if low != "transfer-encoding":
                result.append((name, value))
        elif not done:
            result.append((name, str(length)))
            done = True
    if not done:
        result.append(("Content-Length", str(length)))
    return result


class _Kind(IntEnum):
    """What is done with a field."""

    KEPT = auto()
    HOP = auto()
    CONNECTION = auto()
    HOST = auto()
    LENGTH = auto()
    CODING = auto()
    OURS = auto()  # not sent to the database


_OF_ONE_CONNECTION = frozenset({_Kind.HOP, _Kind.CONNECTION})
_KINDS = {
    **dict.fromkeys(HOP_BY_HOP, _Kind.HOP),
    b"connection": _Kind.CONNECTION,
    b"host": _Kind.HOST,
    b"content-length": _Kind.LENGTH,
    b"transfer-encoding": _Kind.CODING,
    EXPECT: _Kind.OURS,
}


@dataclass(frozen=True, slots=True)
class Shape:
    """What the names of a head's fields show; nothing of the values, which may be credentials.

    ``passing``: places, kinds and names of the fields that are not for one connection only. ``is_plain``: at most one length and one host,
    no transfer coding. ``is_exacting``: it has a field that a rewritten request or a trimmed answer would make false. ``accepts_codings``: it names
    content codings for the answer. ``codings``, ``credentials``, ``connections``: places of these fields.
    """

    passing: tuple[tuple[int, _Kind, str], ...]
    are_names_trimmed: bool
    are_names_forwardable: bool
    is_plain: bool
    is_exacting: bool
    has_overrides: bool
    accepts_codings: bool
    length_at: int | None
    codings: tuple[int, ...]
    credentials: tuple[int, ...]
    connections: tuple[int, ...]

    @classmethod
    def of(cls, names: tuple[bytes, ...]) -> Shape:
        low = [name.lower() for name in names]

        def places(field: bytes) -> tuple[int, ...]:
            return tuple(place for place, name in enumerate(low) if name == field)

        lengths = places(b"content-length")
        return cls(
            passing=tuple(
                (place, kind, names[place].decode("latin-1"))
                for place, name in enumerate(low)
                if (kind := _kind(name)) not in _OF_ONE_CONNECTION
            ),
            are_names_trimmed=all(name and name == name.strip() for name in names),
            are_names_forwardable=are_forwardable(names),
            is_plain=len(lengths) <= 1 and low.count(b"host") <= 1 and b"transfer-encoding" not in low,
            has_overrides=any(name.isascii() and is_override(name.decode("ascii")) for name in low),
            is_exacting=not (EXACTING | VOUCHING).isdisjoint(low),
            length_at=lengths[0] if lengths else None,
            accepts_codings=b"accept-encoding" in low,
            codings=places(b"content-encoding"),
            credentials=places(b"authorization"),
            connections=places(b"connection"),
        )


_SHAPES: dict[tuple[bytes, ...], Shape] = {}  # clients send the same names again and again
MOST_SHAPES = 1024
SHAPE_BYTES = 1024  # of names; a client may send any number of fields


def shape_of(raw: RawHeaders) -> Shape:
    """The shape of a client's head, or of a reply's."""
    names = next(zip(*raw, strict=True), ())
    shape = _SHAPES.get(names)
    if shape is None:
        shape = Shape.of(names)
        if sum(map(len, names)) <= SHAPE_BYTES:
            if len(_SHAPES) >= MOST_SHAPES:
                _SHAPES.clear()
            _SHAPES[names] = shape
    return shape


def _kind(low: bytes) -> _Kind:
    is_ours = low.isascii() and is_override(low.decode("ascii"))
    return _Kind.OURS if is_ours else _KINDS.get(low, _Kind.KEPT)


def _passing(raw: RawHeaders) -> Sequence[tuple[int, _Kind, str]]:
    """Places, kinds and names of the fields that are sent on."""
    shape = shape_of(raw)
    named: set[bytes] = set()
    for place in shape.connections:
        if (value := raw[place][1].lower()) != b"keep-alive":  # which is not sent on in any case
            named.update(map(bytes.strip, value.split(b",")))
    named -= HOP_BY_HOP | PROTECTED
    return [field for field in shape.passing if raw[field[0]][0].lower() not in named] if named else shape.passing


SLASHES = re.compile(r"/{2,}")
# Space and control characters would end the request line or a log line; non-ASCII bytes are no URI (RFC 3986 2).
FORWARDABLE = re.compile(r"/[\x21-\x7e]*")


@dataclass(frozen=True, slots=True)
class Target:
    """An origin-form request target. ``raw`` is forwarded; ``path`` ends before the first `?`.

    ``origin``: None is the configured upstream. ``prefix``: the start of ``path`` that belongs to another gateway.
    """

    raw: str
    path: str
    origin: Origin | None = None
    prefix: str = ""

    def sibling(self, raw: str) -> str:
        """Another target behind the same prefix."""
        return self.prefix + raw

    def ending(self, ending: Ending, query: str | None = None) -> str:
        """``raw`` with the end of its path, and its query string, replaced. ``query``: None for the client's."""
        path = self.path if ending == SAME else ending.of(self.path.rstrip("/"))
        if query is None:
            return path + self.raw[len(self.path) :]
        return f"{path}?{query}" if query else path


def read_target(raw: str) -> Target | None:
    """Read an origin-form target; None for other forms and for bytes that are no URI.

    `//evil.example/a` is a path: only the settings decide where requests go.
    """
    if FORWARDABLE.fullmatch(raw) is None:
        return None
    return Target(raw=raw, path=raw.split("?", 1)[0])


def matching_path(path: str, prefix: str = "") -> str | None:
    """The path for matching: slashes merged, the trailing slash and the deployment prefix removed.

    As actix-web's `NormalizePath::trim` routes in Qdrant; percent-encoding is kept. ``prefix``: such as `/qdrant`, or
    empty. None when the path lies outside it.
    """
    merged = SLASHES.sub("/", path)
    trimmed = merged.rstrip("/") or "/"
    if not prefix:
        return trimmed
    if trimmed == prefix:
        return "/"
    return trimmed[len(prefix) :] if trimmed.startswith(prefix + "/") else None


IDENTITY = b"identity"


def objection(method: str, target: str, version: HttpVersion, raw: RawHeaders) -> Trouble | None:
    """Why a request head is refused although the parser accepted it: two parsers could read it differently. None if it is not."""
    if version not in {HttpVersion10, HttpVersion11}:
        return Trouble.VERSION
    if method == "CONNECT":
        return Trouble.CONNECT_METHOD
    if FORWARDABLE.fullmatch(target) is None:
        return Trouble.TARGET
    shape = shape_of(raw)
    if not (shape.are_names_forwardable and are_forwardable(tuple(map(_VALUE, raw)))):
        return Trouble.HEADER_BYTES
    return _framing_objection(shape, version, raw)


def is_reply_sound(status: int, version: HttpVersion, raw: RawHeaders, reason: bytes = b"") -> bool:
    """Whether a reply's head can be forwarded unchanged, and every reader of it finds the same end of its body.

    aiohttp's client parses replies leniently. A transfer coding that is not decoded here would be forwarded without its framing. aiohttp
    3.14.5 accepts blanks before the colon of framing fields; RFC 9112 5.1 tells a proxy to remove them, but by then the parser has read the
    body by another rule, so the answer is 502, as with nginx.
    """
    shape = shape_of(raw)
    is_known = version in {HttpVersion10, HttpVersion11} and 100 <= status <= 999
    is_spelled = (
        shape.are_names_trimmed and shape.are_names_forwardable and are_forwardable((reason, *map(_VALUE, raw)))
    )
    return is_known and is_spelled and _framing_objection(shape, version, raw, is_reply=True) is None


def without_identity(raw: RawHeaders) -> RawHeaders:
    """The fields without RFC 2616's transfer coding `identity`, which means none."""
    codings = values(raw, b"transfer-encoding")
    return replaced(raw, b"transfer-encoding", None) if codings and codings[0].strip().lower() == IDENTITY else raw


def _framing_objection(
    shape: Shape, version: HttpVersion, raw: RawHeaders, *, is_reply: bool = False
) -> Trouble | None:
    if shape.is_plain:
        return None if shape.length_at is None or raw[shape.length_at][1].isdigit() else Trouble.MALFORMED
    codings, lengths, hosts = values(raw, b"transfer-encoding"), values(raw, b"content-length"), values(raw, b"host")
    names = [coding.strip().lower() for coding in codings]
    if codings and lengths:
        return Trouble.TWO_FRAMINGS  # RFC 9112 6.1: both together may be request smuggling
    if codings and names != [b"chunked"] and not (is_reply and names == [IDENTITY]):
        return Trouble.TRANSFER_CODING  # aiohttp accepts `gzip, chunked` and would treat the inner coding as content
    if codings and version == HttpVersion10:
        return Trouble.OLD_CHUNKED  # RFC 9112 6.1: the framing of an HTTP/1.0 message with it is faulty
    if len(lengths) > 1 or not all(map(bytes.isdigit, lengths)) or (len(hosts) > 1 and not is_reply):
        return Trouble.MALFORMED
    return None
