"""A search in every form that HTTP lets a client give it, over raw sockets against the proxy's own process."""

from __future__ import annotations

import gzip
import json
import socket
from collections.abc import Sequence
from urllib.parse import quote, urlsplit

import pytest
from qdrant_client import QdrantClient

from support.process.stack import TIME
from support.qdrant import planted

BODY = json.dumps({"query": planted.query_vector(1), "limit": 8}).encode()
PATH = b"/collections/copied_cosine/points/query"
JSON = b"Content-Type: application/json\r\n"
CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"
CHUNKED = b"%x\r\n%s\r\n%x\r\n%s\r\n0\r\n\r\n" % (100, BODY[:100], len(BODY) - 100, BODY[100:])
UNICODE_NAME = "漢 字%2F é"


def request(
    *,
    method: bytes = b"POST",
    path: bytes = PATH,
    version: bytes = b"HTTP/1.1",
    fields: bytes = JSON,
    body: bytes | None = BODY,
    last: bool = True,
) -> bytes:
    length = b"" if body is None else b"Content-Length: %d\r\n" % len(body)
    close = b"Connection: close\r\n" if last else b""
    return b"%s %s %s\r\nHost: db\r\n%s%s%s\r\n%s" % (method, path, version, fields, length, close, body or b"")


def talk(url: str, *parts: bytes, waits_for: bytes = b"") -> bytes:
    """Send the parts, each after the first only once ``waits_for`` has come; everything that came back."""
    address = urlsplit(url)
    with socket.create_connection((address.hostname, address.port), timeout=20) as connection:
        came = b""
        for number, part in enumerate(parts):
            while number and waits_for not in came:
                came += connection.recv(65_536)
            connection.sendall(part)
        while piece := connection.recv(65_536):
            came += piece
        return came


def bodies(stream: bytes) -> list[bytes]:
    """The bodies of the answers in a stream, each framed by Content-Length, without their times."""
    requests = []
    while stream:
        head, _, rest = stream.partition(b"\r\n\r\n")
        fields = dict(line.lower().split(b": ", 1) for line in head.split(b"\r\n")[1:])
        length = int(fields[b"content-length"])
        requests.append(TIME.sub(b"", rest[:length]))
        stream = rest[length:]
    return requests


@pytest.fixture(scope="module")
def improved(on: str) -> bytes:
    """The body of the improved answer to BODY."""
    (body,) = bodies(talk(on, request()))
    assert (
        len({planted.family(point["id"]) for point in json.loads(body.replace(b",}", b"}"))["result"]["points"]}) == 8
    )
    return body


@pytest.mark.parametrize(
    "sent",
    [
        request(path=b"//collections/copied_cosine//points/query/"),
        request(path=PATH + b"?timeout=3&consistency=majority"),
        request(path=b"/collections/copied%5Fcosine/points/query"),
        request(fields=b"Content-Type: application/json; charset=utf-8\r\n"),
        request(fields=b"cOnTeNt-TyPe: Application/JSON\r\n"),
        request(fields=JSON + b"Content-Encoding: gzip\r\n", body=gzip.compress(BODY)),
        request(fields=JSON + b"Accept-Encoding: gzip, deflate\r\n"),
        request(fields=JSON + b"Transfer-Encoding: chunked\r\n", body=None) + CHUNKED,
        request(fields=JSON + b"X-Large: " + b"a" * 8_000 + b"\r\n"),
        request(version=b"HTTP/1.0"),
        request(version=b"HTTP/1.0").replace(b"Host: db\r\n", b""),
    ],
    ids=lambda sent: repr(sent.split(b"\r\n", 1)[0] + sent[60:140])[:120],
)
def test_a_search_is_improved_however_it_is_worded(on: str, improved: bytes, sent: bytes) -> None:
    assert bodies(talk(on, sent)) == [improved]


def test_pipelined_searches_in_one_segment_are_answered_in_their_order(on: str, improved: bytes) -> None:
    other = request(path=b"/collections/copied_cosine/points/count", body=b"{}", last=False)
    answers = bodies(talk(on, request(last=False) + other + request(last=False) + request()))
    assert [answers[0], *answers[2:]] == [improved] * 3
    assert b'"count":240' in answers[1]


def test_one_connection_serves_searches_one_after_the_other(on: str, improved: bytes) -> None:
    answers = bodies(talk(on, request(last=False), request(), waits_for=b'"status":"ok"'))
    assert answers == [improved] * 2


def test_a_search_that_waits_for_100_continue_gets_it_and_then_its_answer(on: str, improved: bytes) -> None:
    head = request(fields=JSON + b"Expect: 100-continue\r\n").removesuffix(BODY)
    came = talk(on, head, BODY, waits_for=CONTINUE)
    assert bodies(came.removeprefix(CONTINUE)) == [improved]


def test_a_body_that_comes_in_many_pieces_is_one_search(on: str, improved: bytes) -> None:
    whole = request()
    assert bodies(talk(on, *(whole[start : start + 40] for start in range(0, len(whole), 40)))) == [improved]


@pytest.mark.parametrize(
    "sent",
    [
        request(method=b"HEAD", body=b""),
        request(method=b"OPTIONS", body=b""),
        request(method=b"GET", body=b""),
        request(method=b"PUT"),
        request(path=b"/collections/copied_cosine/%70oints/query"),
        request(path=b"/collections/x/../copied_cosine/points/query"),
        request(fields=b""),
        request(fields=b"Content-Type: text/plain\r\n"),
        request(fields=JSON + b"Content-Encoding: gzip\r\n", body=b"no gzip"),
        request(body=b"\xef\xbb\xbf" + BODY),
        request(body=BODY + b" x"),
        request(body=BODY.decode().encode("utf-16")),
        request(body=b""),
        request(path=PATH + b"?timeout=0"),
        request(path=b"/collections/copied_cosine%2Fx/points/query"),
    ],
    ids=lambda sent: repr(sent.split(b"\r\n", 1)[0] + sent[60:140])[:120],
)
def test_what_is_no_search_or_a_wrong_one_is_answered_by_the_database(engine: str, on: str, sent: bytes) -> None:
    assert without_times(talk(on, sent)) == without_times(talk(engine, sent))


def without_times(stream: bytes) -> Sequence[bytes]:
    """The answer's lines but for what differs between two equal calls: the clock, and the length of how it is written."""
    changing = (b"date:", b"content-length:")
    return [TIME.sub(b"", line) for line in stream.split(b"\r\n") if not line.lower().startswith(changing)]


def test_a_collections_name_may_be_anything_that_a_url_can_carry(engine: str, on: str) -> None:
    client = QdrantClient(url=engine, timeout=30)
    planted.fill(client, UNICODE_NAME, [(number, planted.bases()[number // 3].tolist(), {}) for number in range(60)])
    try:
        path = f"/collections/{quote(UNICODE_NAME, safe='')}/points/query".encode()
        (body,) = bodies(talk(on, request(path=path)))
        families_ = [point["id"] // 3 for point in json.loads(body.replace(b",}", b"}"))["result"]["points"]]
        assert len(set(families_)) == len(families_) == 8
    finally:
        client.delete_collection(UNICODE_NAME)
        client.close()
