"""OpenSearch and Elasticsearch over HTTP: a GET with a body, lines, a query string; and the answers that are the server's own."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import pytest

from support.network.faulty_upstream import FaultyUpstream, RawClient, Received, answering, reply
from support.opensearch.model import VECTOR, Server, Stored
from support.process.running import running

WORDS = "valve pump seal motor shaft gauge hose tank filter lamp cable fuse plug rotor blade bolt".split()  # noqa: SIM905 - a sentence is easier to read
PRODUCT = (b"X-elastic-product", b"Elasticsearch")
JSON = (PRODUCT, (b"content-type", b"application/json"))
VERSION = b'{"version":{"number":"9.3.1","build_flavor":"default"}}'
KNN: dict[str, Any] = {"query": {"knn": {VECTOR: {"vector": [0.5, 1.0], "k": 4}}}, "size": 4}


def stored(rank: int) -> Stored:
    """Each text twice: the second time as a copy."""
    number = rank // 2
    text = f"Part {number} has a {' and a '.join(WORDS[number % 16 :] + WORDS[: number % 16])}."
    vector = json.dumps([round(0.5 + number / 64, 4), round(1 - number / 128, 4)])
    return Stored(
        id=f'"{rank}"',
        score=str(1 - rank / 128),
        vector=vector,
        source=(("text", json.dumps(text)), ("page", str(rank))),
    )


HITS = tuple(map(stored, range(60)))
SERVER = Server(hits=HITS, has_vectors=False, total=60)
DISTINCT = Server(hits=HITS[::2], has_vectors=False, total=60)


def answer(received: Received) -> bytes:
    is_batch = b"_msearch" in received.line
    made = SERVER.answer_batch(received.content) if is_batch else SERVER.answer(received.content)
    return reply(made, headers=JSON)


def is_description(received: Received) -> bool:
    return received.line.startswith(b"GET / ")


@dataclass(frozen=True, slots=True)
class Spoken:
    """What the client got, and what the server was sent for it, but for the question for its version."""

    status: int
    body: bytes
    head: bytes
    sent: tuple[Received, ...]


async def spoken(
    target: str,
    body: bytes,
    *,
    method: str = "POST",
    fields: str = "",
    content_type: str = "application/json",
    script: Any = answer,
    **settings: object,
) -> Spoken:
    head = f"{method} {target} HTTP/1.1\r\nHost: c\r\nContent-Type: {content_type}\r\n{fields}Content-Length: {len(body)}\r\n\r\n"

    def described(received: Received) -> bytes:
        made: bytes = reply(VERSION, headers=JSON) if is_description(received) else script(received)
        return made

    async with (
        FaultyUpstream(answering(described)) as upstream,
        running(upstream.url, **{"backend": "elasticsearch", **settings}) as proxy,
    ):
        client = await RawClient.connect(proxy.port)
        await client.send(head.encode() + body)
        got = await client.reply()
        await client.close()
        return Spoken(
            got.status, got.body, got.head, tuple([sent for sent in upstream.requests if not is_description(sent)])
        )


@pytest.mark.parametrize("method", ["POST", "GET"])
@pytest.mark.parametrize("backend", ["opensearch", "elasticsearch"])
async def test_a_page_has_no_copies_and_the_servers_bytes(method: str, backend: str) -> None:
    body = json.dumps(KNN).encode()
    talk = await spoken("/docs/_search?pretty", body, method=method, backend=backend)
    assert talk.body == DISTINCT.answer(body)
    assert b"X-elastic-product: Elasticsearch" in talk.head
    (sent,) = talk.sent
    assert sent.line == f"{method} /docs/_search?pretty HTTP/1.1".encode()
    wide = json.loads(sent.content)
    assert wide["size"] == wide["query"]["knn"][VECTOR]["k"] > 4
    assert wide["fields" if backend == "opensearch" else "docvalue_fields"] == [VECTOR]


async def test_what_the_query_string_says_of_the_page_holds_for_the_answer() -> None:
    body = json.dumps({**KNN, "size": 20}).encode()
    talk = await spoken("/docs/_search?size=3&pretty&_source_includes=page", body)
    assert talk.body == DISTINCT.answer(json.dumps({**KNN, "size": 3, "_source": ["page"]}).encode())
    (sent,) = talk.sent
    assert sent.line == b"POST /docs/_search?pretty HTTP/1.1"
    assert "page" in json.loads(sent.content)["_source"]["includes"]


async def test_the_original_has_the_query_string_as_it_came() -> None:
    body, calls = json.dumps(KNN).encode(), []

    def script(received: Received) -> bytes:
        calls.append(received.line)
        if len(calls) == 1:
            return reply(
                b'{"error":{"type":"parsing_exception","reason":"no"},"status":400}', status=b"400 Bad Request"
            )
        return answer(received)

    talk = await spoken("/docs/_search?size=3", body, script=script)
    assert calls == [b"POST /docs/_search HTTP/1.1", b"POST /docs/_search?size=3 HTTP/1.1"]
    assert (talk.status, talk.body) == (200, SERVER.answer(body))
    assert talk.sent[1].content == body


@pytest.mark.parametrize(
    "content_type", ["application/x-ndjson", "application/vnd.elasticsearch+x-ndjson; compatible-with=9"]
)
async def test_each_search_of_a_batch_has_a_page_without_copies(content_type: str) -> None:
    match = {"query": {"match": {"text": "pump"}}, "size": 2}
    lines = [{}, KNN, {"index": "docs"}, match, {}, {**KNN, "size": 2, "_source": False}]
    body = b"".join(json.dumps(line).encode() + b"\n" for line in lines)
    talk = await spoken("/docs/_msearch", body, content_type=content_type)
    answers = json.loads(talk.body)["responses"]
    pages = [[hit["_id"] for hit in part["hits"]["hits"]] for part in answers]
    assert pages == [["0", "2", "4", "6"], ["0", "1"], ["0", "2"]]
    assert all("_source" not in hit for hit in answers[2]["hits"]["hits"])
    assert len(talk.sent) == 1


@pytest.mark.parametrize("mode", ["off", "shadow"])
@pytest.mark.parametrize("target", ["/docs/_search?size=3&pretty", "/docs/_search"])
async def test_without_mode_on_everything_is_the_servers(mode: str, target: str) -> None:
    body = json.dumps(KNN).encode()
    talk = await spoken(target, body, mode=mode)
    assert talk.body == SERVER.answer(body)
    assert talk.sent[0].content == body
    assert talk.sent[0].line == f"POST {target} HTTP/1.1".encode()


async def test_a_signed_search_passes_through_and_says_why() -> None:
    body = json.dumps(KNN).encode()
    talk = await spoken("/docs/_search", body, fields="Authorization: AWS4-HMAC-SHA256 Credential=a\r\n")
    assert talk.body == SERVER.answer(body)
    assert [sent.content for sent in talk.sent] == [body]
    assert b"x-vecsieve: bypass=signed" in talk.head


async def test_a_failed_shard_is_left_to_the_clients_own_search() -> None:
    body = json.dumps(KNN).encode()
    partial = SERVER.answer(body).replace(b'"failed":0', b'"failed":1')
    talk = await spoken("/docs/_search", body, script=lambda _: reply(partial, headers=JSON))
    assert talk.body == partial
    assert [sent.content == body for sent in talk.sent] == [False, True]
