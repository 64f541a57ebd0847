"""Which parsed heads are refused: what aiohttp's parser lets through although two parsers could read it apart.

llhttp refuses most of the smuggling forms of requests itself; the rest is decided here, before any handler sees the request.
Of replies it lets more through, because aiohttp's client asks it to be lenient.
"""

from __future__ import annotations

from aiohttp import HttpVersion10, HttpVersion11
from aiohttp.http import HttpVersion

from vecsieve.proxy.http.headers import RawHeaders, is_forwardable, replaced, values
from vecsieve.proxy.http.target import read_target
from vecsieve.proxy.trouble import Trouble

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
