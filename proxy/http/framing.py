"""Which parsed request heads are refused: what aiohttp's parser lets through although two parsers could read it apart.

llhttp refuses most of the smuggling forms itself; the rest is decided here, before any handler sees the request.
"""

from __future__ import annotations

from aiohttp import HttpVersion10, HttpVersion11
from aiohttp.http import HttpVersion

from vecsieve.proxy.http.headers import RawHeaders, is_forwardable, values
from vecsieve.proxy.http.target import read_target
from vecsieve.proxy.trouble import Trouble


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
