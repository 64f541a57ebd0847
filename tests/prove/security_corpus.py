"""Requests that two parsers could read apart, after the catalogues of HAProxy, nginx, linkerd and PortSwigger. Data only.

A probe is sent with `POISON` behind it on the same connection. `SMUGGLED` stands where one of two readings finds a request
of its own: no reader of what reaches the database may find it.
"""

from __future__ import annotations

from dataclasses import dataclass

LINE = b"POST /collections/c/points/query HTTP/1.1"
HEAD = LINE + b"\r\nHost: c\r\nContent-Type: application/json\r\n"
SMUGGLED = b"GET /smuggled HTTP/1.1\r\nHost: c\r\n\r\n"
POISON = b"GET /poison HTTP/1.1\r\nHost: c\r\nConnection: close\r\n\r\n"
INSIDE = b"0\r\n\r\n" + SMUGGLED  # a chunked reader finds the end, then a request; a reader of lengths finds content
SEARCH = b'{"query":[0.5,0.25,0.125,0.0],"limit":2,"filter":{"must":[{"key":"\\r\\n\\r\\nGET /smuggled HTTP/1.1"}]}}'


@dataclass(frozen=True, slots=True, kw_only=True)
class Probe:
    """``status``: what refuses it; None when it is odd but can be read in one way only, and is to arrive as ``framed``.

    ``framed``: the contents of the requests that the client framed before the poison, all with ``line``; None as a
    content: any, for the proxy rewrites a search. ``begins``: part of a request whose framing breaks later may arrive.
    ``may_be_last``: the connection may end with it, the poison unread.
    """

    name: str
    data: bytes
    status: int | None = 400
    framed: tuple[bytes | None, ...] = ()
    line: bytes = LINE
    begins: bool = False
    may_be_last: bool = False


def _with_length(field: bytes, body: bytes = INSIDE) -> bytes:
    return HEAD + field + b"\r\nContent-Length: %d\r\n\r\n" % len(body) + body


def _chunked(body: bytes) -> bytes:
    return HEAD + b"Transfer-Encoding: chunked\r\n\r\n" + body


def _get(target: bytes, version: bytes = b"HTTP/1.1") -> bytes:
    return b"GET " + target + b" " + version + b"\r\nHost: c\r\n\r\n"


TWO_FRAMINGS: tuple[tuple[str, bytes, int], ...] = (
    ("CL.TE", _with_length(b"Transfer-Encoding: chunked"), 400),
    ("TE.CL", HEAD + b"Transfer-Encoding: chunked\r\nContent-Length: 4\r\n\r\n24\r\n" + SMUGGLED + b"\r\n0\r\n\r\n", 400),
    ("CL.0", HEAD + b"Content-Length: 0\r\nTransfer-Encoding: chunked\r\n\r\n" + SMUGGLED, 400),
    ("TE.0", HEAD + b"Transfer-Encoding: chunked\r\nContent-Length: 0\r\n\r\n" + INSIDE, 400),
    ("CL and TE identity", _with_length(b"Transfer-Encoding: identity"), 400),
    ("CL and TE, then CL named by Connection", _with_length(b"Connection: content-length\r\nTransfer-Encoding: chunked"), 400),
    ("CL and TE named by Connection", _with_length(b"Connection: transfer-encoding\r\nTransfer-Encoding: chunked"), 400),
)  # fmt: skip
CODINGS: tuple[tuple[str, bytes, int], ...] = tuple(
    (f"TE.TE, {name}", _with_length(field), status)
    for name, field, status in (
        ("xchunked", b"Transfer-Encoding: xchunked", 400),
        ("a space before the colon", b"Transfer-Encoding : chunked", 400),
        ("a tab before the colon", b"Transfer-Encoding\t: chunked", 400),
        ("a vertical tab before the value", b"Transfer-Encoding: \x0bchunked", 400),
        ("a form feed before the value", b"Transfer-Encoding: \x0cchunked", 400),
        ("a non-breaking space", b"Transfer-Encoding: \xa0chunked", 400),
        ("NUL after the value", b"Transfer-Encoding: chunked\x00", 400),
        ("quoted", b'Transfer-Encoding: "chunked"', 400),
        ("a parameter", b"Transfer-Encoding: chunked;q=1", 400),
        ("folded", b"Transfer-Encoding:\r\n chunked", 400),
        ("folded by a tab", b"Transfer-Encoding:\r\n\tchunked", 400),
        ("behind a fold", b"X: x\r\n Transfer-Encoding: chunked", 400),
        ("behind a bare LF", b"X: x\nTransfer-Encoding: chunked", 400),
        ("behind a bare CR", b"X: x\rTransfer-Encoding: chunked", 400),
        ("LF before the colon", b"Transfer-Encoding\n: chunked", 400),
        ("a leading space", b" Transfer-Encoding: chunked", 400),
        ("chunked, identity", b"Transfer-Encoding: chunked, identity", 400),
        ("identity, chunked", b"Transfer-Encoding: identity, chunked", 400),
        ("gzip, chunked", b"Transfer-Encoding: gzip, chunked", 400),
        ("chunked, chunked", b"Transfer-Encoding: chunked, chunked", 400),
        ("an empty element", b"Transfer-Encoding: , chunked", 400),
        ("two lines", b"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked", 400),
        ("a second line of nonsense", b"Transfer-Encoding: chunked\r\nTransfer-encoding: x", 400),
        ("a first line of nonsense", b"Transfer-Encoding: x\r\nTransfer-Encoding: chunked", 400),
        ("empty", b"Transfer-Encoding:", 400),
        ("long s", "Tran\u017ffer-Encoding: chunked".encode(), 400),
        ("Kelvin sign", "Transfer-Encoding: chun\u212aed".encode(), 400),
    )
)  # fmt: skip
ALONE: tuple[tuple[str, bytes, int], ...] = tuple(
    (f"alone, {name}", HEAD + field + b"\r\n\r\n" + INSIDE, status)
    for name, field, status in (
        ("gzip, chunked", b"Transfer-Encoding: gzip, chunked", 501),
        ("identity", b"Transfer-Encoding: identity", 400),
        ("chunked, identity", b"Transfer-Encoding: chunked, identity", 400),
        ("chunked twice", b"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked", 400),
        ("xchunked", b"Transfer-Encoding: xchunked", 400),
        ("a tab behind the value", b"Transfer-Encoding: chunked\t", 400),
    )
)  # fmt: skip
LENGTHS: tuple[tuple[str, bytes, int], ...] = tuple(
    (f"CL {name}", HEAD + field + b"\r\n\r\n" + b"abcd" + SMUGGLED, status)
    for name, field, status in (
        ("twice, apart", b"Content-Length: 3\r\nContent-Length: 4", 400),
        ("twice, alike", b"Content-Length: 4\r\nContent-Length: 4", 400),
        ("twice, one in small letters", b"Content-Length: 4\r\ncontent-length: 40", 400),
        ("as a list, alike", b"Content-Length: 4, 4", 400),
        ("as a list, apart", b"Content-Length: 4, 40", 400),
        ("with a plus", b"Content-Length: +4", 400),
        ("negative", b"Content-Length: -4", 400),
        ("minus zero", b"Content-Length: -0", 400),
        ("hexadecimal", b"Content-Length: 0x4", 400),
        ("with an exponent", b"Content-Length: 4e0", 400),
        ("with a fraction", b"Content-Length: 4.0", 400),
        ("with a gap", b"Content-Length: 4 0", 400),
        ("with an underscore", b"Content-Length: 4_0", 400),
        ("with letters behind", b"Content-Length: 4abc", 400),
        ("quoted", b'Content-Length: "4"', 400),
        ("empty", b"Content-Length:", 400),
        ("of Arabic digits", "Content-Length: \u0664".encode(), 400),
        ("beyond 64 bits", b"Content-Length: 18446744073709551620", 400),
        ("beyond 63 bits, a list", b"Content-Length: 9223372036854775808, 4", 400),
        ("with a space before the colon", b"Content-Length : 4", 400),
        ("with a vertical tab", b"Content-Length: \x0b4", 400),
        ("behind NUL", b"\x00Content-Length: 4", 400),
        ("folded", b"Content-Length:\r\n 4", 400),
        ("behind a bare CR", b"X: x\rContent-Length: 4", 400),
    )
)  # fmt: skip
FIELDS: tuple[tuple[str, bytes, int], ...] = (
    ("a folded field", HEAD + b"X: a\r\n b\r\nContent-Length: 0\r\n\r\n" + SMUGGLED, 400),
    ("a folded first field", LINE + b"\r\n Host: c\r\n\r\n" + SMUGGLED, 400),
    ("bare LF in the head", HEAD.replace(b"\r\n", b"\n") + b"\n" + SMUGGLED, 400),
    ("bare LF after one field", HEAD + b"X: y\n\r\n" + SMUGGLED, 400),
    ("bare LF instead of the empty line", HEAD + b"X: y\r\n\n" + SMUGGLED, 400),
    ("bare CR in a value", HEAD + b"X: a\rb\r\n\r\n" + SMUGGLED, 400),
    ("bare CR instead of the empty line", HEAD + b"X: y\r\n\r\r" + SMUGGLED, 400),
    ("CR CR LF", HEAD + b"X: y\r\r\n\r\n" + SMUGGLED, 400),
    ("NUL in a value", HEAD + b"X: a\x00b\r\n\r\n" + SMUGGLED, 400),
    ("NUL in a name", HEAD + b"X\x00: a\r\n\r\n" + SMUGGLED, 400),
    ("a control character", HEAD + b"X: a\x01b\r\n\r\n" + SMUGGLED, 400),
    ("delete in a value", HEAD + b"X: a\x7fb\r\n\r\n" + SMUGGLED, 400),
    ("a space in a name", HEAD + b"X y: a\r\n\r\n" + SMUGGLED, 400),
    ("a bracket in a name", HEAD + b"X[y]: a\r\n\r\n" + SMUGGLED, 400),
    ("Latin-1 in a name", HEAD + b"X\xe9: a\r\n\r\n" + SMUGGLED, 400),
    ("no name", HEAD + b": a\r\n\r\n" + SMUGGLED, 400),
    ("no colon", HEAD + b"justwords\r\n\r\n" + SMUGGLED, 400),
    ("bytes that are no UTF-8", HEAD + b"X: caf\xe9\r\n\r\n" + SMUGGLED, 400),
    ("two hosts", HEAD + b"Host: d\r\n\r\n" + SMUGGLED, 400),
    ("two hosts alike", HEAD + b"Host: c\r\n\r\n" + SMUGGLED, 400),
    ("no host", b"GET /a HTTP/1.1\r\n\r\n" + SMUGGLED, 400),
    ("too long a field", HEAD + b"X: " + b"a" * 17_000 + b"\r\n\r\n" + SMUGGLED, 431),
    ("too many fields", HEAD + b"X: a\r\n" * 200 + b"\r\n" + SMUGGLED, 431),
)  # fmt: skip
# RTSP/1.0 is not among them: llhttp 9 refuses it whole and takes it for HTTP/1.0 byte by byte, with the same framing.
START_LINES: tuple[tuple[str, bytes, int], ...] = (
    ("chunked on HTTP/1.0", b"POST /a HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n" + INSIDE, 400),
    ("HTTP/0.9", b"GET /a\r\n\r\n" + SMUGGLED, 400),
    ("HTTP/0.9 by name", _get(b"/a", b"HTTP/0.9") + SMUGGLED, 400),
    ("HTTP/1.2", _get(b"/a", b"HTTP/1.2") + SMUGGLED, 400),
    ("HTTP/1.10", _get(b"/a", b"HTTP/1.10") + SMUGGLED, 400),
    ("HTTP/01.1", _get(b"/a", b"HTTP/01.1") + SMUGGLED, 400),
    ("HTTP/2.0", _get(b"/a", b"HTTP/2.0") + SMUGGLED, 400),
    ("HTTP/3.0", _get(b"/a", b"HTTP/3.0") + SMUGGLED, 400),
    ("the HTTP/2 preface", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + SMUGGLED, 400),
    ("a lower-case protocol", _get(b"/a", b"http/1.1") + SMUGGLED, 400),
    ("a word behind the version", _get(b"/a", b"HTTP/1.1 x") + SMUGGLED, 400),
    ("absolute form", _get(b"http://evil.example/a") + SMUGGLED, 400),
    ("absolute form of another scheme", _get(b"gopher://evil.example/a") + SMUGGLED, 400),
    ("authority form", _get(b"evil.example:80") + SMUGGLED, 400),
    ("userinfo as target", _get(b"@evil.example/a") + SMUGGLED, 400),
    ("a query alone", _get(b"?a") + SMUGGLED, 400),
    ("asterisk form", b"OPTIONS * HTTP/1.1\r\nHost: c\r\n\r\n" + SMUGGLED, 400),
    ("CONNECT", b"CONNECT evil.example:443 HTTP/1.1\r\nHost: c\r\n\r\n" + SMUGGLED, 405),
    ("CONNECT with a length", b"CONNECT evil.example:443 HTTP/1.1\r\nHost: c\r\nContent-Length: 36\r\n\r\n" + SMUGGLED, 405),
    ("a space in the target", _get(b"/a b") + SMUGGLED, 400),
    ("a tab in the target", _get(b"/a\tb") + SMUGGLED, 400),
    ("tabs between the words", b"GET\t/a\tHTTP/1.1\r\nHost: c\r\n\r\n" + SMUGGLED, 400),
    ("NUL in the target", _get(b"/a\x00b") + SMUGGLED, 400),
    ("a bare CR in the target", _get(b"/a\rb") + SMUGGLED, 400),
    ("bytes beyond ASCII in the target", _get(b"/caf\xc3\xa9") + SMUGGLED, 400),
    ("an unknown method", b"FROBNICATE /a HTTP/1.1\r\nHost: c\r\n\r\n" + SMUGGLED, 400),
    ("a lower-case method", b"get /a HTTP/1.1\r\nHost: c\r\n\r\n" + SMUGGLED, 400),
    ("a method with a colon", b"GET: /a HTTP/1.1\r\nHost: c\r\n\r\n" + SMUGGLED, 400),
    ("a space before the method", b" GET /a HTTP/1.1\r\nHost: c\r\n\r\n" + SMUGGLED, 400),
    ("a byte-order mark before the method", b"\xef\xbb\xbfGET /a HTTP/1.1\r\nHost: c\r\n\r\n" + SMUGGLED, 400),
    ("a TLS hello", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n" + SMUGGLED, 400),
    ("too long a line", _get(b"/" + b"a" * 17_000) + SMUGGLED, 431),
)  # fmt: skip
BROKEN: tuple[tuple[str, bytes], ...] = (
    ("a size that is none", b"zz\r\nabc\r\n0\r\n\r\n"),
    ("no size", b"\r\nabc\r\n0\r\n\r\n"),
    ("a size with a plus", b"+3\r\nabc\r\n0\r\n\r\n"),
    ("a negative size", b"-3\r\nabc\r\n0\r\n\r\n"),
    ("a size in 0x form", b"0x3\r\nabc\r\n0\r\n\r\n"),
    ("a size with an underscore", b"0_3\r\nabc\r\n0\r\n\r\n"),
    ("a size of full-width digits", "\uff13\r\nabc\r\n0\r\n\r\n".encode()),
    ("a size beyond 64 bits", b"fffffffffffffffff\r\nabc\r\n0\r\n\r\n"),
    ("a size that wraps around", b"10000000000000003\r\nabc\r\n0\r\n\r\n"),
    ("a chunk longer than its size", b"3\r\nabcd\r\n0\r\n\r\n"),
    ("a chunk that holds a request beyond its size", b"3\r\nabc" + SMUGGLED + b"\r\n0\r\n\r\n"),
    ("a size ended by a bare LF", b"3\nabc\r\n0\r\n\r\n"),
    ("a size ended by a bare CR", b"3\rabc\r\n0\r\n\r\n"),
    ("a chunk ended by a bare LF", b"3\r\nabc\n0\r\n\r\n"),
    ("spaces before a size", b"  3\r\nabc\r\n0\r\n\r\n"),
    ("a space after a size", b"3 \r\nabc\r\n0\r\n\r\n"),
    ("a size before a NUL", b"3\x00\r\nabc\r\n0\r\n\r\n"),
    ("a bare CR in an extension", b"3;a\rb\r\nabc\r\n0\r\n\r\n"),
    ("a bare LF in an extension", b"3;a\nabc\r\n0\r\n\r\n"),
    ("a quoted line end in an extension", b'3;a="\r\nabc\r\n0\r\n\r\n"\r\nabc\r\n0\r\n\r\n'),
    ("a length among the trailers", b"3\r\nabc\r\n0\r\nContent-Length: 9\r\n\r\n"),
    ("a coding among the trailers", b"3\r\nabc\r\n0\r\nTransfer-Encoding: chunked\r\n\r\n"),
    ("a trailer without a colon", b"3\r\nabc\r\n0\r\nGET /smuggled HTTP/1.1\r\n\r\n"),
    ("a folded trailer", b"3\r\nabc\r\n0\r\nX: a\r\n b\r\n\r\n"),
)  # fmt: skip
ODD: tuple[tuple[str, bytes, tuple[bytes | None, ...]], ...] = (
    ("upgrade to websocket", HEAD + b"Connection: upgrade\r\nUpgrade: websocket\r\nContent-Length: 3\r\n\r\nabc", (b"abc",)),
    ("a large extension", _chunked(b"3;" + b"x" * 900 + b"\r\nabc\r\n0\r\n\r\n"), (b"abc",)),
    ("trailers", _chunked(b"3\r\nabc\r\n0\r\nX-Checksum: 9\r\n\r\n"), (b"abc",)),
    ("a credential among the trailers", _chunked(b"3\r\nabc\r\n0\r\nX: y\r\nApi-Key: stolen\r\n\r\n"), (b"abc",)),
    ("sizes with zeros", _chunked(b"0000003\r\nabc\r\n000\r\n\r\n"), (b"abc",)),
    ("a chunk for each byte", _chunked(b"1\r\na\r\n1\r\nb\r\n1\r\nc\r\n0\r\n\r\n"), (b"abc",)),
    ("TE in capitals", HEAD + b"TRANSFER-ENCODING: CHUNKED\r\n\r\n3\r\nabc\r\n0\r\n\r\n", (b"abc",)),
    ("a length between tabs", HEAD + b"Content-Length:\t3\t\r\n\r\nabc", (b"abc",)),
    ("Connection names the length", HEAD + b"Connection: content-length\r\nContent-Length: 3\r\n\r\nabc", (b"abc",)),
    ("Connection names the coding", HEAD + b"Connection: transfer-encoding\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
     (b"abc",)),
    ("an underscored length", HEAD + b"Content_Length: 9\r\nContent-Length: 3\r\n\r\nabc", (b"abc",)),
    ("an underscored coding", HEAD + b"Transfer_Encoding: chunked\r\nContent-Length: %d\r\n\r\n" % len(INSIDE) + INSIDE, (INSIDE,)),
    ("a coding under another name", HEAD + b"X-Transfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\nabc", (b"abc",)),
    ("empty lines before", b"\r\n\r\n" + HEAD + b"Content-Length: 3\r\n\r\nabc", (b"abc",)),
    ("a length with zeros", HEAD + b"Content-Length: 0003\r\n\r\nabc", (b"abc",)),
    ("no body at all", HEAD + b"\r\n", (b"",)),
    ("Expect", HEAD + b"Expect: 100-continue\r\nContent-Length: 3\r\n\r\nabc", (b"abc",)),
    ("a request inside a body", HEAD + b"Content-Length: %d\r\n\r\n" % len(SMUGGLED) + SMUGGLED, (SMUGGLED,)),
    ("a request inside a chunk", _chunked(b"%x\r\n" % len(SMUGGLED) + SMUGGLED + b"\r\n0\r\n\r\n"), (SMUGGLED,)),
    ("a request inside a search", HEAD + b"Content-Length: %d\r\n\r\n" % len(SEARCH) + SEARCH, (None,)),
    ("a request behind a search", (HEAD + b"Content-Length: %d\r\n\r\n" % len(SEARCH) + SEARCH) * 2, (None, None)),
    ("a host of two", HEAD.replace(b"Host: c", b"Host: c, d") + b"Content-Length: 3\r\n\r\nabc", (b"abc",)),
    ("a host with a path", HEAD.replace(b"Host: c", b"Host: c/d") + b"Content-Length: 3\r\n\r\nabc", (b"abc",)),
    ("two spaces before the target", HEAD.replace(b" ", b"  ", 1) + b"Content-Length: 3\r\n\r\nabc", (b"abc",)),
    ("three at once", (HEAD + b"Content-Length: 3\r\n\r\nabc") * 3, (b"abc",) * 3),
)  # fmt: skip


def _may_end(data: bytes) -> bool:
    """Behind chunks, whose trailers aiohttp hands on to the next request, and behind an upgrade nothing has to be read."""
    return b"chunked\r\n" in data.lower() or b"chunked\t" in data or b"Upgrade: websocket" in data


# aiohttp 3.14.5 loses what comes in one segment behind an upgrade that it does not know: without `close` a client would wait.
LAST: tuple[tuple[str, bytes], ...] = tuple(
    (name, HEAD + field + b"\r\nContent-Length: 3\r\n\r\nabc")
    for name, field in (
        ("upgrade to h2c", b"Connection: close, Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: A"),
        ("upgrade to TLS", b"Connection: close, Upgrade\r\nUpgrade: TLS/1.0"),
    )
)
PROBES: tuple[Probe, ...] = (
    *(
        Probe(name=name, data=data, status=status)
        for name, data, status in (*TWO_FRAMINGS, *CODINGS, *ALONE, *LENGTHS, *FIELDS, *START_LINES)
    ),
    *(Probe(name=f"chunks, {name}", data=_chunked(data), begins=True) for name, data in BROKEN),
    *(
        Probe(name=f"chunks, {name}, behind a good one", data=_chunked(b"2\r\nok\r\n" + data), begins=True)
        for name, data in BROKEN
    ),
    *(
        Probe(name=name, data=data, status=None, framed=framed, may_be_last=_may_end(data))
        for name, data, framed in ODD
    ),
    *(Probe(name=name, data=data, status=None, framed=(b"abc",), may_be_last=True) for name, data in LAST),
)
