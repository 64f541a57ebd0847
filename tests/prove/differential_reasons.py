"""Why a probe of the corpus is not the same as directly: a table for us, one for nginx 1.22 as transparent as it can be set.

The words are those of differential_views. A difference that is not here fails the run; so does one of ours that is gone.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Reason:
    """``differs``: the words that are justified."""

    differs: frozenset[str]
    why: str


Row = tuple[tuple[str, ...], str, str]
REFUSED = "answered 400, never arrives"
BROKEN = "answered 502"


def _table(rows: Iterable[Row]) -> Mapping[str, Reason]:
    reasons: dict[str, Reason] = {}
    for names, words, why in rows:
        for name in names:
            assert name not in reasons, f"{name} stands twice"
            reasons[name] = Reason(frozenset(words.split(", ")), why)
    return reasons


OURS = _table(
    (
        (("HTTP/1.0 with Host",), "request line, status line", "each hop speaks its own version (RFC 9110 2.5): HTTP/1.1 to the database, the client's own to the client"),
        (("HTTP/1.0 without Host",), "gains host, request line, status line", "as above, and HTTP/1.1 demands a Host"),
        (("an answer of HTTP/1.0",), "status line", "each hop speaks its own version"),
        (("an absolute target that differs from Host", "OPTIONS *"), REFUSED, "only a path is a target: what else a target may name must not decide where we connect (THREAT_MODEL.md, T2)"),
        (("CONNECT", "CONNECT of a path"), "answered 405, never arrives", "a tunnel is no request for a database"),
        (("an upgrade",), "answered 502, kept open", "Upgrade belongs to one hop and is not offered on; a 101 that nobody asked for is no answer"),
        (("a reset instead of an answer",), BROKEN, "the client keeps its connection and is told that the database broke its own"),
        (("a target beyond ASCII",), REFUSED, "no URI (RFC 3986 2); what the parser lets through depends on its build"),
        (("a value of Latin-1",), REFUSED, "aiohttp's serializer would drop it without a word"),
        (("an answer's value of Latin-1",), BROKEN, "the same in the other direction"),
        (("Content-Type twice",), REFUSED, "aiohttp's parser allows one line of those of which RFC 9110 5.3 allows one"),
        (("a method nobody knows", "a method in small letters"), REFUSED, "llhttp knows the registered methods, in capitals"),
        (("HTTP/1.2",), REFUSED, "aiohttp's parser speaks 1.0 and 1.1"),
        (("HTTP/2.0",), "answered 505, never arrives", "the HTTP/2 of gRPC begins with another line"),
        (("HTTP/0.9",), "never arrives", "no head, which the deadline of a head ends"),
        (("no Host", "two of Host"), REFUSED, "RFC 9112 3.2 demands the refusal"),
        (("a length with a sign", "two equal lengths", "a length and chunks"), REFUSED, "two parsers could read it apart (THREAT_MODEL.md, T1)"),
        (("a blank before a length's colon", "a blank before a coding's colon", "a blank before a colon", "a list of lengths", "a folded field", "a NUL in a value", "a CR in a value", "a field that ends with LF alone"), REFUSED, "two parsers could read it apart: RFC 9112 5.1 and 5.2, RFC 9110 5.5"),
        (("a transfer coding nobody knows", "chunks within another coding"), REFUSED, "where its body ends is a matter of opinion (RFC 9112 6.3)"),
        (("another coding within chunks",), "answered 501, never arrives", "only chunked is undone (RFC 9112 6.1)"),
        (("an answer's transfer coding nobody knows", "an answer's empty transfer coding", "an answer's other coding within chunks", "an answer of HTTP/1.0 in chunks", "an answer's list of lengths"), BROKEN, "a coding that nobody offered, or a faulty framing, is not passed on under other framing (RFC 9112 6.1 and 6.3)"),
        (("a blank before an answer's coding's colon", "a blank before an answer's length's colon", "a blank before an answer's colon", "an answer's NUL"), BROKEN, "as nginx's; parsers read it apart"),
        (("an answer of HTTP/2.0", "a status below 100"), BROKEN, "no status line of HTTP/1.1"),
        (("an answer's transfer coding that is none",), "answer: loses transfer-encoding", "the body ends with its connection, as without it"),
        (("an answer's folded field",), "answer: changes x-a, answer: loses  b", "unfolded, as RFC 9112 5.2 demands of a proxy"),
        (("a body that waits for 100",), "loses expect", "the wait is answered on the client's hop, when the body is first read"),
        (("more than the length says",), "answered 200", "what follows a whole answer is nobody's answer; the connection is not used again"),
        (("bytes behind the last chunk", "a body behind 204", "a body in answer to HEAD"), BROKEN, "aiohttp's parser refuses an answer with bytes behind it that begin no other, when both come together"),
        (("an answer's two equal lengths", "an answer's two lengths", "an answer's length that is none", "an answer's length and chunks"), BROKEN, "an answer whose end is a matter of opinion is none (RFC 9112 6.3)"),
        (("early hints",), "answered 200", "aiohttp's client drops interim answers"),
        (("no HTTP at all",), BROKEN, "no answer"),
    )
)  # fmt: skip
UNFOLDED = "answer: order"
NGINX = _table(
    (
        (("fields named by Connection",), "gains x-foo-bar", "what Connection names is passed on"),
        (("an upgrade to HTTP/2",), "gains http2-settings", "the same"),
        (("fields named by the answer's Connection",), "answer: gains x-server-quux", "the same of answers"),
        (("HTTP/1.0 with Host", "HTTP/1.0 without Host", "an absolute target that differs from Host", "HTTP/1.2"), "request line, gains host, loses host", "the line is written anew: a path, its own version"),
        (("CONNECT", "CONNECT of a path", "TRACE", "a method in small letters", "OPTIONS *"), "answered 400, answered 405, never arrives", "refused by its parser"),
        (("target /%2e%2e/%41", "target /%00"), REFUSED, "the decoded path leaves the root, or ends"),
        (("no Host", "two of Host", "a length with a sign", "two equal lengths", "a length and chunks"), REFUSED, "as ours"),
        (("HTTP/2.0",), "answered 505, never arrives", "as ours"),
        (("HTTP/0.9",), "content, gains host, gains connection, no answer, request line, never arrives, answered HTTP", "it still speaks 0.9"),
        (("a chunked body", "chunks with extensions", "chunks with a trailer"), "gains content-length, loses transfer-encoding", "a small chunked body is whole before the head is written"),
        (("a body that waits for 100",), "answered 100 200, loses expect", "the wait is answered on the client's hop, always"),
        (("a compressed body", "a list of codings", "a body with its digests"), "order", "the length is written first"),
        (("a blank before a length's colon", "a blank before a coding's colon", "a blank before a colon", "a list of lengths", "a folded field", "a NUL in a value", "a CR in a value"), REFUSED, "as ours"),
        (("a transfer coding nobody knows", "chunks within another coding", "another coding within chunks"), "answered 501, never arrives", "as ours"),
        (("a field that ends with LF alone",), "changes x-a, gains x-b", "LF alone ends a line"),
        (("an answer's transfer coding nobody knows",), "answer cut, answer: changes transfer-encoding", "chunked anew under the name of the other coding; newer versions answer 502"),
        (("an answer's empty transfer coding", "an answer's transfer coding that is none", "an answer's chunks in capitals"), "answer: changes transfer-encoding", "chunked anew"),
        (("an answer's other coding within chunks",), "answer's content, answer: changes transfer-encoding", "chunked anew, the other coding forgotten"),
        (("a blank before an answer's coding's colon", "a blank before an answer's length's colon", "a blank before an answer's colon", "an answer's folded field", "an answer's NUL"), BROKEN, "refused by its parser"),
        (("an answer of HTTP/1.0 in chunks", "an answer of HTTP/2.0"), "status line", "in its own version"),
        (("an answer's list of lengths",), "answer: gains transfer-encoding, answer: loses content-length", "the lengths are forgotten; newer versions refuse"),
        (("an upgrade",), "answered 502, kept open, gains upgrade", "not offered on without a setting"),
        (("304 with a length", "Server and Date of its own", "an answer's fields twice, in any case", "fields that nginx obeys", "a redirect", "a compressed answer", "part of a document", "an answer's value of Latin-1", "an answer's empty field", "an answer's field of 12 kB", "an answer's digests"), UNFOLDED, "Server, Date, Content-Type, Content-Length and Connection are written first"),
        (("an answer to HEAD with chunks",), "answer: loses transfer-encoding", "no framing of a body that does not come"),
        (("an answer that ends with its connection",), "answer: gains transfer-encoding", "chunked anew for a client of HTTP/1.1"),
        (("an answer of HTTP/1.0",), "answer: gains transfer-encoding, status line", "the same, in its own version"),
        (("a reset instead of an answer",), BROKEN, "as ours"),
        (("more than the length says", "bytes behind the last chunk"), "answered 200", "what follows a whole answer is cut off"),
        (("an answer's two equal lengths", "an answer's two lengths", "an answer's length and chunks"), "answer: loses content-length, answered 502", "one framing is chosen; newer versions refuse"),
        (("an answer's length that is none",), "answer: gains transfer-encoding, answer: loses content-length, answered 502", "the same"),
        (("early hints",), "kept open, answered 200", "1.22 takes 103 for the answer; newer ones drop it or pass it on"),
    )
)  # fmt: skip
