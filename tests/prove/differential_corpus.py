"""Raw requests and answers after linkerd's transparency suite and the titles of nginx-tests. Data only.

linkerd/linkerd2-proxy@29637b6 `linkerd/app/integration/src/tests/transparency.rs`; nginx/nginx-tests `*.t`. Each probe is
sent to the database itself, through nginx and through us. Host names the database: what is done with it is no difference.
"""

from __future__ import annotations

from dataclasses import dataclass

HOST = b"Host: DATABASE\r\n"
CLOSE = b"Connection: close\r\n"
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


@dataclass(frozen=True, slots=True, kw_only=True)
class Probe:
    """``data``: what the client sends. ``answer``: what the database says to each request.

    ``ends``: the database ends the connection behind its answer; ``resets``: it breaks it.
    """

    name: str
    data: bytes
    answer: bytes = OK
    ends: bool = False
    resets: bool = False


def _get(
    name: str,
    *,
    line: bytes = b"GET / HTTP/1.1",
    fields: bytes = b"",
    answer: bytes = OK,
    ends: bool = False,
    resets: bool = False,
) -> Probe:
    data = line + b"\r\n" + HOST + CLOSE + fields + b"\r\n"
    return Probe(name=name, data=data, answer=answer, ends=ends, resets=resets)


def _post(name: str, *, fields: bytes, body: bytes = b"", line: bytes = b"POST /a HTTP/1.1") -> Probe:
    return Probe(name=name, data=line + b"\r\n" + HOST + CLOSE + fields + b"\r\n" + body)


def _answer(
    name: str,
    head: bytes,
    body: bytes = b"",
    *,
    line: bytes = b"GET / HTTP/1.1",
    ends: bool = False,
    resets: bool = False,
) -> Probe:
    return _get(name, line=line, answer=b"HTTP/1.1 " + head + b"\r\n\r\n" + body, ends=ends, resets=resets)


LINKERD = (
    _get("a plain GET"),
    Probe(
        name="fields named by Connection",
        data=b"GET / HTTP/1.1\r\n" + HOST + b"X-Foo-Bar: baz\r\nConnection: x-foo-bar, close\r\nKeep-Alive: 500\r\n"
        b"Proxy-Connection: a\r\nX-Kept: 1\r\n\r\n",
    ),
    _answer(
        "fields named by the answer's Connection",
        b"200 OK\r\nX-Server-Quux: lorem\r\nConnection: close, x-server-quux\r\nKeep-Alive: 500\r\nContent-Length: 0",
        ends=True,
    ),
    Probe(name="HTTP/1.0 with Host", data=b"GET / HTTP/1.0\r\n" + HOST + b"\r\n"),
    Probe(name="HTTP/1.0 without Host", data=b"GET / HTTP/1.0\r\n\r\n"),
    _get("an absolute target that differs from Host", line=b"GET http://foo.example/a HTTP/1.1"),
    Probe(
        name="an upgrade",
        data=b"GET /chat HTTP/1.1\r\n" + HOST + b"Connection: upgrade\r\nUpgrade: chatproto\r\n\r\n",
        answer=b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: chatproto\r\nConnection: upgrade\r\n\r\nwelcome",
        ends=True,
    ),
    Probe(
        name="an upgrade to HTTP/2",
        data=b"GET / HTTP/1.1\r\n" + HOST + b"Connection: upgrade, http2-settings, close\r\nUpgrade: h2c\r\nHTTP2-Settings: AAA\r\n\r\n",
    ),
    _get("CONNECT", line=b"CONNECT db.example:443 HTTP/1.1"),
    _get("CONNECT of a path", line=b"CONNECT / HTTP/1.1"),
    _post("a body with a length", fields=b"Content-Length: 5\r\n", body=b"hello"),
    _post("a chunked body", fields=b"Transfer-Encoding: chunked\r\n", body=b"5\r\nhello\r\n0\r\n\r\n"),
    *(_get(f"{method} without a body", line=method.encode() + b" /a HTTP/1.1") for method in ("POST", "PUT", "PATCH", "DELETE")),
    *(_post(f"{method} with length 0", fields=b"Content-Length: 0\r\n", line=method.encode() + b" /a HTTP/1.1") for method in ("GET", "POST", "DELETE")),
    _answer("204", b"204 No Content\r\nX-A: 1"),
    _answer("205 with length 0", b"205 Reset Content\r\nContent-Length: 0"),
    _answer("304 with a length", b"304 Not Modified\r\nETag: \"x\"\r\nContent-Length: 77"),
    _answer("an answer to HEAD with a length", b"200 OK\r\nContent-Length: 55", line=b"HEAD / HTTP/1.1"),
    _answer("an answer to HEAD with chunks", b"200 OK\r\nTransfer-Encoding: chunked", line=b"HEAD / HTTP/1.1"),
    _answer("an answer that ends with its connection", b"200 OK\r\nX-A: 1", b"body until the end", ends=True),
    _get("an answer of HTTP/1.0", answer=b"HTTP/1.0 200 OK\r\nX-A: 1\r\n\r\nold", ends=True),
    _get("a reset instead of an answer", answer=b"", resets=True),
    _answer("a reset within a body", b"200 OK\r\nContent-Length: 9999", b"begun", resets=True),
)  # fmt: skip
REQUESTS = (
    *(
        _get(f"target {target}", line=f"GET {target} HTTP/1.1".encode())
        for target in ("/a/../b", "/a/./b/", "//a//b", "/%2e%2e/%41", "/a%2Fb?x=%zz&&y", "/%00", "/?a?b#c", "/a;b=c|{}\\")
    ),
    _get("a target beyond ASCII", line=b"GET /\xc3\xa9 HTTP/1.1"),
    _get("a target of 8 kB", line=b"GET /" + b"a" * 8_000 + b" HTTP/1.1"),
    _get("a target of 12 kB", line=b"GET /" + b"a" * 12_000 + b" HTTP/1.1"),
    _get("a field of 12 kB", fields=b"X-Long: " + b"b" * 12_000 + b"\r\n"),
    _get("fields twice, in any case", fields=b"X-a: 1\r\nx-A: 2\r\nX-a: 1\r\nCookie: a=1\r\ncookie: b=2\r\nAccept: a\r\nACCEPT: b\r\n"),
    _get("names with underscores and dots", fields=b"x_y: 1\r\nx.y: 2\r\nx-y: 3\r\n"),
    _get("an empty field", fields=b"X-Empty:\r\nX-Blank:   \r\n"),
    _get("white space around a value", fields=b"X-A:   1 \t \r\nX-B:2\r\n"),
    _get("a value of UTF-8", fields=b"X-A: caf\xc3\xa9\r\n"),
    _get("a value of Latin-1", fields=b"X-A: caf\xe9\r\n"),
    _get("Content-Type twice", fields=b"Content-Type: a/b\r\nContent-Type: c/d\r\n"),
    _get("fields that proxies set", fields=b"X-Forwarded-For: 1.2.3.4\r\nVia: 1.0 a\r\nForwarded: for=x\r\nX-Real-IP: 1.2.3.4\r\nX-Accel-Buffering: no\r\n"),
    _get("Accept-Encoding and Range", fields=b"Accept-Encoding: gzip\r\nRange: bytes=0-1\r\nIf-Range: x\r\nIf-None-Match: \"x\"\r\n"),
    _get("Proxy-Authorization", fields=b"Proxy-Authorization: Basic eDp5\r\n"),
    _get("TE", fields=b"TE: trailers\r\n"),
    _get("a method nobody knows", line=b"FROBNICATE / HTTP/1.1"),
    _get("a method of WebDAV", line=b"PROPFIND / HTTP/1.1"),
    _get("TRACE", line=b"TRACE / HTTP/1.1"),
    _get("a method in small letters", line=b"get / HTTP/1.1"),
    _get("OPTIONS *", line=b"OPTIONS * HTTP/1.1"),
    _get("HTTP/1.2", line=b"GET / HTTP/1.2"),
    _get("HTTP/2.0", line=b"GET / HTTP/2.0"),
    Probe(name="HTTP/0.9", data=b"GET /\r\n"),
    Probe(name="no Host", data=b"GET / HTTP/1.1\r\n" + CLOSE + b"\r\n"),
    Probe(name="two of Host", data=b"GET / HTTP/1.1\r\n" + HOST + HOST + CLOSE + b"\r\n"),
    Probe(name="an empty line before", data=b"\r\nGET / HTTP/1.1\r\n" + HOST + CLOSE + b"\r\n"),
    Probe(name="two requests at once", data=(b"GET /1 HTTP/1.1\r\n" + HOST + b"\r\n") + b"GET /2 HTTP/1.1\r\n" + HOST + CLOSE + b"\r\n"),
    _post("chunks with extensions", fields=b"Transfer-Encoding: chunked\r\n", body=b"5;a=b\r\nhello\r\n00;c\r\n\r\n"),
    _post("chunks with a trailer", fields=b"Trailer: X-T\r\nTransfer-Encoding: chunked\r\n", body=b"5\r\nhello\r\n0\r\nX-T: 1\r\n\r\n"),
    _post("a length with a sign", fields=b"Content-Length: +5\r\n", body=b"hello"),
    _post("two equal lengths", fields=b"Content-Length: 5\r\nContent-Length: 5\r\n", body=b"hello"),
    _post("a length and chunks", fields=b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n", body=b"0\r\n\r\n"),
    _post("a body that waits for 100", fields=b"Expect: 100-continue\r\nContent-Length: 5\r\n", body=b"hello"),
    _post("a compressed body", fields=b"Content-Encoding: gzip\r\nContent-Length: 4\r\n", body=b"\x1f\x8b\x08\x00"),
    _get("a GET with a body", line=b"GET /a HTTP/1.1", fields=b"Content-Length: 0\r\n"),
    _post("a list of codings", fields=b"Content-Encoding: gzip, x-gzip\r\nContent-Encoding: br\r\nContent-Length: 2\r\n", body=b"ab"),
    _post("a body with its digests", fields=b"Content-MD5: a\r\nContent-Digest: b\r\nSignature: c\r\nContent-Length: 2\r\n", body=b"ab"),
    _post("a blank before a length's colon", fields=b"Content-Length : 2\r\n", body=b"ab"),
    _post("a blank before a coding's colon", fields=b"Transfer-Encoding : chunked\r\n", body=b"0\r\n\r\n"),
    _get("a blank before a colon", fields=b"X-A : b\r\n"),
    _post("a transfer coding nobody knows", fields=b"Transfer-Encoding: xchunked\r\n", body=b"0\r\n\r\n"),
    _post("chunks within another coding", fields=b"Transfer-Encoding: chunked, gzip\r\n", body=b"0\r\n\r\n"),
    _post("another coding within chunks", fields=b"Transfer-Encoding: gzip, chunked\r\n", body=b"0\r\n\r\n"),
    _post("a list of lengths", fields=b"Content-Length: 2, 2\r\n", body=b"ab"),
    _get("a folded field", fields=b"X-A: a\r\n b\r\n"),
    _get("a NUL in a value", fields=b"X-A: a\x00b\r\n"),
    _get("a CR in a value", fields=b"X-A: a\rb\r\n"),
    _get("a field that ends with LF alone", fields=b"X-A: a\nX-B: b\r\n"),
)  # fmt: skip
ANSWERS = (
    _answer("a body cut short", b"200 OK\r\nContent-Length: 100", b"short", ends=True),
    _answer("a last chunk that never comes", b"200 OK\r\nTransfer-Encoding: chunked", b"5\r\nhello\r\n", ends=True),
    _answer("more than the length says", b"200 OK\r\nContent-Length: 2", b"okHTTP/1.1 200 OK\r\n\r\n", ends=True),
    _answer("bytes behind the last chunk", b"200 OK\r\nTransfer-Encoding: chunked", b"2\r\nok\r\n0\r\n\r\nextra", ends=True),
    _answer("a body behind 204", b"204 No Content", b"extra", ends=True),
    _answer("a body in answer to HEAD", b"200 OK\r\nContent-Length: 2", b"ok", line=b"HEAD / HTTP/1.1", ends=True),
    _answer("an answer's two equal lengths", b"200 OK\r\nContent-Length: 2\r\nContent-Length: 2", b"ok", ends=True),
    _answer("an answer's two lengths", b"200 OK\r\nContent-Length: 2\r\nContent-Length: 3", b"ok", ends=True),
    _answer("an answer's length that is none", b"200 OK\r\nContent-Length: two", b"ok", ends=True),
    _answer("an answer's length and chunks", b"200 OK\r\nContent-Length: 2\r\nTransfer-Encoding: chunked", b"2\r\nok\r\n0\r\n\r\n", ends=True),
    _answer("an answer's chunks with extensions", b"200 OK\r\nTransfer-Encoding: chunked", b"2;a=b\r\nok\r\n0\r\n\r\n", ends=True),
    _answer("an answer's trailer", b"200 OK\r\nTrailer: X-T\r\nTransfer-Encoding: chunked", b"2\r\nok\r\n0\r\nX-T: 1\r\n\r\n", ends=True),
    _get("early hints", answer=b"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n" + OK),
    _answer("a reason of its own", b"200 Fine And Dandy\r\nContent-Length: 0"),
    _answer("no reason", b"200 \r\nContent-Length: 0"),
    _answer("a status nobody knows", b"599 Odd\r\nContent-Length: 0"),
    _answer("Server and Date of its own", b"200 OK\r\nServer: qdrant\r\nDate: Thu, 01 Jan 1970 00:00:00 GMT\r\nContent-Length: 0"),
    _answer("an answer's fields twice, in any case", b"200 OK\r\nSet-Cookie: a=1\r\nset-cookie: b=2\r\nVary: a\r\nvary: b\r\nX-B: 1\r\nx-a: 2\r\nContent-Length: 0"),
    _answer("fields that nginx obeys", b"200 OK\r\nX-Accel-Redirect: /x\r\nX-Accel-Expires: 5\r\nX-Pad: 1\r\nContent-Length: 0"),
    _answer("a redirect", b"307 Temporary Redirect\r\nLocation: http://db.example/a\r\nRefresh: 5; url=http://db.example/\r\nContent-Length: 0"),
    _answer("a compressed answer", b"200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 4", b"\x1f\x8b\x08\x00"),
    _answer("part of a document", b"206 Partial Content\r\nContent-Range: bytes 0-1/9\r\nAccept-Ranges: bytes\r\nContent-Length: 2", b"ab"),
    _answer("an answer's value of Latin-1", b"200 OK\r\nX-A: caf\xe9\r\nContent-Length: 0"),
    _answer("an answer's empty field", b"200 OK\r\nX-Empty:\r\nContent-Length: 0"),
    _answer("an answer's field of 12 kB", b"200 OK\r\nX-Long: " + b"b" * 12_000 + b"\r\nContent-Length: 0"),
    _answer("an answer's transfer coding nobody knows", b"200 OK\r\nTransfer-Encoding: xchunked", b"abc", ends=True),
    _answer("an answer's empty transfer coding", b"200 OK\r\nTransfer-Encoding:", b"abc", ends=True),
    _answer("an answer's transfer coding that is none", b"200 OK\r\nTransfer-Encoding: identity", b"abc", ends=True),
    _answer("an answer's chunks in capitals", b"200 OK\r\nTransfer-Encoding: CHUNKED", b"3\r\nabc\r\n0\r\n\r\n"),
    _answer("an answer's other coding within chunks", b"200 OK\r\nTransfer-Encoding: gzip, chunked", b"3\r\nabc\r\n0\r\n\r\n", ends=True),
    _answer("a blank before an answer's coding's colon", b"200 OK\r\nTransfer-Encoding : chunked", b"3\r\nabc\r\n0\r\n\r\n", ends=True),
    _answer("a blank before an answer's length's colon", b"200 OK\r\nContent-Length : 3", b"abc", ends=True),
    _answer("a blank before an answer's colon", b"200 OK\r\nX-A : b\r\nContent-Length: 3", b"abc", ends=True),
    _get("an answer of HTTP/1.0 in chunks", answer=b"HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n", ends=True),
    _get("an answer of HTTP/2.0", answer=b"HTTP/2.0 200 OK\r\nContent-Length: 2\r\n\r\nok", ends=True),
    _answer("a status below 100", b"099 Odd\r\nContent-Length: 2", b"ok", ends=True),
    _answer("an answer's list of lengths", b"200 OK\r\nContent-Length: 2, 2", b"ok", ends=True),
    _answer("an answer's folded field", b"200 OK\r\nX-A: a\r\n b\r\nContent-Length: 2", b"ok", ends=True),
    _answer("an answer's NUL", b"200 OK\r\nX-A: a\x00b\r\nContent-Length: 2", b"ok", ends=True),
    _answer("an answer's digests", b"200 OK\r\nETag: \"a\"\r\nContent-MD5: b\r\nDigest: c\r\nContent-Digest: d\r\nRepr-Digest: e\r\nContent-Length: 2", b"ok"),
    _get("no HTTP at all", answer=b"SSH-2.0-OpenSSH_9.2\r\n\r\n", ends=True),
)  # fmt: skip
PROBES: tuple[Probe, ...] = (*LINKERD, *REQUESTS, *ANSWERS)
