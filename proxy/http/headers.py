"""Header lists: what passes, what stays on one hop, in the order, case and number they came in.

Lists are aiohttp's raw pairs of bytes. RFC 9110 7.6.1 names the fields of one connection; `Connection` may name more.
Framing (`Content-Length`, `Transfer-Encoding`) and `Host` are ours to decide, so `Connection: content-length` removes
nothing. No field is ever added that the other side did not send, but the framing that the body then really has.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from aiohttp import HttpVersion10, HttpVersion11
from aiohttp.http import HttpVersion

from vecsieve.proxy.addresses import Origin
from vecsieve.proxy.search.errors import Trouble
from vecsieve.proxy.search.policy import is_override
from vecsieve.proxy.telemetry.tracing import NAME

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
# Nobody may have these removed by naming them in Connection: they are what keeps two messages apart.
PROTECTED = frozenset({b"content-length", b"transfer-encoding", b"host"})
# Answered on this hop, when the body is first read: aiohttp's client drops interim answers.
EXPECT = b"expect"
TRACE_PARENT = NAME.encode("ascii")
# What vouches for the bytes of a body, and is wrong when they are others. `Last-Modified` is about the data behind them, which is
# the same, and stays.
VOUCHING = frozenset(
    {b"content-md5", b"digest", b"content-digest", b"repr-digest", b"etag", b"signature", b"signature-input"}
)
# What makes a request one for exact bytes: a condition on them, a part of them, a wish that somebody vouches for them.
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
# aiohttp's serializer raises on these and silently drops what is not UTF-8; neither may happen halfway through.
CONTROL = re.compile(rb"[\x00-\x08\x0a-\x1f\x7f]")


def is_forwardable(raw: RawHeaders) -> bool:
    """Whether every field can be passed on byte for byte: UTF-8 without control characters.

    Other bytes are legal in HTTP (obs-text), but aiohttp's serializer would drop them without a word.
    """
    whole = b"".join([part for pair in raw for part in pair])
    if CONTROL.search(whole) is not None:
        return False
    return whole.isascii() or all(_is_utf8(part) for pair in raw for part in pair)


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
    """The list with one field set: in the place and case of its first line, or last when it was absent.

    ``value`` None removes every line of it.
    """
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


def traced(raw: RawHeaders, traceparent: str | None) -> RawHeaders:
    """The list with this traceparent in the place of the client's, or last; untouched without one to set."""
    return raw if traceparent is None else replaced(raw, TRACE_PARENT, traceparent.encode("ascii"))


def for_upstream(raw: RawHeaders, authority: str) -> Headers:
    """A client's fields as the database gets them. ``authority``: the upstream's own host and port."""
    host = authority.encode("ascii")
    kept: list[tuple[bytes, bytes]] = []
    has_host = False
    for key, value in _end_to_end(raw):
        low = key.lower()
        if low == b"host":
            kept.append((key, host))
            has_host = True
        elif low != EXPECT and not is_override(low.decode("ascii")):
            kept.append((key, value))
    if not has_host:
        kept.insert(0, (b"Host", host))
    return _decoded(kept)


def for_client(raw: RawHeaders) -> Headers:
    """The database's fields as the client gets them."""
    return _decoded(_end_to_end(raw))


def around_other_bytes(raw: RawHeaders) -> Headers:
    """The database's fields around a body that is no longer its own."""
    return _decoded([pair for pair in _end_to_end(raw) if pair[0].lower() not in VOUCHING])


def wants_exact_bytes(raw: RawHeaders) -> bool:
    """Whether a client's head says something that a rewritten request or a cut answer would make false."""
    return any(name.lower() in EXACTING or name.lower() in VOUCHING for name, _ in raw)


def framed(headers: Headers, *, length: int | None, chunked: bool) -> Headers:
    """The fields with exactly the framing the body has: a length, chunks, or neither."""
    wanted = {
        "content-length": None if length is None else str(length),
        "transfer-encoding": "chunked" if chunked else None,
    }
    result: Headers = []
    for name, value in headers:
        low = name.lower()
        if low not in wanted:
            result.append((name, value))
        elif (framing := wanted[low]) is not None:
            result.append((name, framing))
            wanted[low] = None
    if (size := wanted["content-length"]) is not None:
        result.append(("Content-Length", size))
    if wanted["transfer-encoding"] is not None:
        result.append(("Transfer-Encoding", "chunked"))
    return result


def _end_to_end(raw: RawHeaders) -> list[tuple[bytes, bytes]]:
    connection = values(raw, b"connection")
    named = {token.strip().lower() for line in connection for token in line.split(b",")} - PROTECTED
    dropped = HOP_BY_HOP | named if named else HOP_BY_HOP
    return [pair for pair in raw if pair[0].lower() not in dropped]


def _decoded(raw: RawHeaders) -> Headers:
    return [(name.decode("ascii"), value.decode("utf-8")) for name, value in raw]


# The request target: which forms we take, and how a path is read for matching.
#
# The raw target is what goes upstream, byte for byte. Only the matching works on a normalised path, as actix-web's
# `NormalizePath::trim` routes in Qdrant: runs of slashes merged, the trailing slash dropped, percent-encoding left alone.

SLASHES = re.compile(r"/{2,}")
# Space and control characters would end the request line or a log line; anything beyond ASCII is no URI (RFC 3986 2).
FORWARDABLE = re.compile(r"/[\x21-\x7e]*")


@dataclass(frozen=True, slots=True)
class Target:
    """An origin-form request target. ``raw`` is forwarded; ``path`` is everything before the first `?`.

    ``origin``: where it goes; None is the configured upstream. ``prefix``: how ``path`` begins where what is found there is behind
    a path: another gateway's, or another VecSieve's.
    """

    raw: str
    path: str
    origin: Origin | None = None
    prefix: str = ""

    def beside(self, raw: str) -> str:
        """Another target of the same place."""
        return self.prefix + raw


def read_target(raw: str) -> Target | None:
    """Read an origin-form target; None for absolute-form, authority-form, asterisk-form and bytes that are no URI.

    `//evil.example/a` is a path: the upstream comes from the settings alone, never from a request.
    """
    if FORWARDABLE.fullmatch(raw) is None:
        return None
    return Target(raw=raw, path=raw.split("?", 1)[0])


def matching_path(path: str, prefix: str = "") -> str | None:
    """The path that decides what a request is: normalised, the deployment prefix removed.

    ``prefix``: as in the settings, such as `/qdrant`, or empty. None when the path lies outside it.
    """
    merged = SLASHES.sub("/", path)
    trimmed = merged.rstrip("/") or "/"
    if not prefix:
        return trimmed
    if trimmed == prefix:
        return "/"
    return trimmed[len(prefix) :] if trimmed.startswith(prefix + "/") else None


# Which parsed heads are refused: what aiohttp's parser lets through although two parsers could read it apart.
#
# llhttp refuses most of the smuggling forms of requests itself; the rest is decided here, before any handler sees the request.
# Of replies it lets more through, because aiohttp's client asks it to be lenient.

IDENTITY = b"identity"


def objection(method: str, target: str, version: HttpVersion, raw: RawHeaders) -> Trouble | None:
    """Why a request head is refused, or None."""
    if version not in {HttpVersion10, HttpVersion11}:
        return Trouble.VERSION
    if method == "CONNECT":
        return Trouble.CONNECT_METHOD
    if read_target(target) is None:
        return Trouble.TARGET
    if not is_forwardable(raw):
        return Trouble.HEADER_BYTES
    return _framing_objection(version, raw)


def is_reply_sound(status: int, version: HttpVersion, raw: RawHeaders) -> bool:
    """Whether a reply's head can be passed on and everybody reads the same end of its body.

    A transfer coding that we do not undo would be forwarded as a name without its framing; nobody offered one, because `TE`
    stays on the client's hop. Blanks before a colon: aiohttp 3.14.5 takes them in the names that frame a message. RFC 9112 5.1
    has a proxy remove them, but by then the parser has read the body by another rule; nginx answers 502 as well.
    """
    if version not in {HttpVersion10, HttpVersion11} or not 100 <= status <= 999:
        return False
    if any(name != name.strip() or not name for name, _ in raw):
        return False
    codings, lengths = values(raw, b"transfer-encoding"), values(raw, b"content-length")
    if len(codings) + len(lengths) > 1:
        return False
    if codings and (version == HttpVersion10 or codings[0].strip().lower() not in {b"chunked", IDENTITY}):
        return False  # RFC 9112 6.1: the framing of an HTTP/1.0 message with a transfer coding is faulty
    return all(length.isascii() and length.isdigit() for length in lengths)


def without_identity(raw: RawHeaders) -> RawHeaders:
    """A sound reply's fields without the transfer coding that is none: RFC 2616 had it, and the body ends with the connection."""
    codings = values(raw, b"transfer-encoding")
    return replaced(raw, b"transfer-encoding", None) if codings and codings[0].strip().lower() == IDENTITY else raw


def _framing_objection(version: HttpVersion, raw: RawHeaders) -> Trouble | None:
    codings, lengths, hosts = values(raw, b"transfer-encoding"), values(raw, b"content-length"), values(raw, b"host")
    if codings and lengths:
        return Trouble.TWO_FRAMINGS  # RFC 9112 6.1: whoever sends both may be smuggling
    if codings and [coding.strip().lower() for coding in codings] != [b"chunked"]:
        return Trouble.TRANSFER_CODING  # aiohttp accepts `gzip, chunked` and would pass the inner coding as content
    if codings and version == HttpVersion10:
        return Trouble.OLD_CHUNKED  # RFC 9112 6.1: the framing of an HTTP/1.0 message with it is faulty
    if len(lengths) > 1 or any(not (length.isascii() and length.isdigit()) for length in lengths):
        return Trouble.MALFORMED
    if len(hosts) > 1:
        return Trouble.MALFORMED
    return None
