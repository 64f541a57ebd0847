"""Pinecone's control plane through the proxy: hosts lead back here, every other byte is the service's and the client's."""

from __future__ import annotations

import gzip
import json
from contextlib import AbstractAsyncContextManager

import pytest

from support.network.faulty_upstream import (
    FaultyUpstream,
    RawClient,
    RawReply,
    Talk,
    answering,
    raw_exchange,
    reply,
)
from support.process.running import Running, running

INDEX = "docs-abc123.svc.aped-4627-b74a.pinecone.io"
PRIVATE = "docs-abc123.svc.private.aped-4627-b74a.pinecone.io"
CLOSE = b"Connection: close\r\n\r\n"
BODY = json.dumps(
    {"name": "docs", "metric": "cosine", "host": INDEX, "private_host": PRIVATE, "spec": {"host": "kept"}}, indent=1
).encode()
LIST = json.dumps({"indexes": [json.loads(BODY), {"name": "b", "host": INDEX, "private_host": None}]}).encode()
FIELDS = (
    (b"Date", b"Mon, 12 Jan 2026 10:00:00 GMT"),
    (b"content-type", b"application/json"),
    (b"x-pinecone-request-id", b"5171"),
    (b"X-Twice", b"1"),
    (b"x-twice", b"2"),
)


def in_front(upstream: FaultyUpstream, **settings: object) -> AbstractAsyncContextManager[Running]:
    return running(upstream.url, backend="pinecone", **settings)


async def one(port: int, raw: bytes) -> RawReply:
    client = await RawClient.connect(port)
    try:
        await client.send(raw)
        return await client.reply()
    finally:
        await client.close()


def led_here(body: bytes, base: str) -> bytes:
    """The body as a client of ours must get it."""
    for host in (INDEX, PRIVATE):
        body = body.replace(b'"%s"' % host.encode(), f'"{base}/_i/{host}"'.encode())
    return body


@pytest.mark.parametrize(
    ("line", "body", "status"),
    [
        (b"GET /indexes/docs", BODY, b"200 OK"),
        (b"GET /indexes", LIST, b"200 OK"),
        (b"POST /indexes", BODY, b"201 Created"),
        (b"PATCH /indexes/docs", BODY, b"202 Accepted"),
        (b"POST /indexes/create-for-model", BODY, b"201 Created"),
    ],
)
async def test_descriptions_lead_to_the_url_the_client_used(line: bytes, body: bytes, status: bytes) -> None:
    sent = (
        line + b" HTTP/1.1\r\nApi-Key: k\r\nHost: vs.local:80\r\nX-A: 1\r\nx-a: 2\r\nAccept-Encoding: gzip, deflate\r\n"
    )
    content = b'{"name":"docs"}' if not line.startswith(b"GET") else b""
    framing = b"Content-Length: %d\r\n" % len(content) if content else b""
    async with (
        FaultyUpstream(answering(reply(body, status=status, headers=FIELDS))) as upstream,
        in_front(upstream) as proxy,
    ):
        answer = await one(proxy.port, sent + framing + b"\r\n" + content)
    assert answer.line == b"HTTP/1.1 " + status
    assert answer.body == led_here(body, "http://vs.local:80")
    assert answer.headers == [*FIELDS, (b"Content-Length", b"%d" % len(answer.body))]
    assert [received.line for received in upstream.requests] == [line + b" HTTP/1.1"]
    assert upstream.requests[0].headers == [
        (b"Api-Key", b"k"),
        (b"Host", b"127.0.0.1:%d" % upstream.port),
        (b"X-A", b"1"),
        (b"x-a", b"2"),
        (b"Accept-Encoding", b"gzip, deflate"),
        *([(b"Content-Length", b"%d" % len(content))] if content else []),
    ]
    assert upstream.requests[0].body == content


async def test_a_coding_that_could_not_be_read_is_not_asked_for_there_and_is_everywhere_else() -> None:
    head = b" HTTP/1.1\r\nHost: vs\r\nAccept-Encoding: gzip, br\r\nX: 1\r\n\r\n"
    async with FaultyUpstream(answering(reply(BODY))) as upstream, in_front(upstream) as proxy:
        await one(proxy.port, b"GET /indexes/docs" + head)
        await one(proxy.port, b"GET /collections" + head)
    assert [received.header(b"accept-encoding") for received in upstream.requests] == [b"identity", b"gzip, br"]
    assert [name for name, _ in upstream.requests[0].headers] == [b"Host", b"Accept-Encoding", b"X"]


NOTHING_TO_CHANGE = [
    reply(b'{"name":"docs","host":null}', headers=FIELDS),
    reply(b'{"indexes":[]}'),
    reply(b'{"host":["x"]}'),
    reply(
        b'{"status":404,"error":{"code":"NOT_FOUND","message":"x"},"host":"%s"}' % INDEX.encode(), status=b"404 Gone"
    ),
    reply(b'{"host":"%s"' % INDEX.encode()),
    reply(b"Unauthorized", status=b"401 Nope", headers=((b"x-pinecone-auth-rejected-reason", b"key"),)),
    reply(gzip.compress(b'{"host":null}'), headers=((b"Content-Encoding", b"gzip"),)),
    b"HTTP/1.1 200 Fine\r\nTransfer-Encoding: chunked\r\n\r\n3\r\n{} \r\n0\r\n\r\n",
    b"HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\n\r\n",
    b"HTTP/1.1 204 No Content\r\n\r\n",
]


@pytest.mark.parametrize("answer", NOTHING_TO_CHANGE, ids=range(len(NOTHING_TO_CHANGE)))
async def test_an_answer_without_a_host_to_change_is_the_services_own_bytes(answer: bytes) -> None:
    async with FaultyUpstream(answering(answer)) as upstream, in_front(upstream) as proxy:
        got = await raw_exchange(proxy.port, b"GET /indexes/docs HTTP/1.1\r\nHost: vs\r\n" + CLOSE)
    assert got.replace(b"Connection: close\r\n", b"") == answer


async def test_an_answer_past_the_limit_passes_whole_and_as_it_came() -> None:
    big = BODY[:-1] + b',"x":"' + b"y" * 300_000 + b'"}'
    async with (
        FaultyUpstream(answering(reply(big))) as upstream,
        in_front(upstream, limits={"reply_body_bytes": 1000}) as proxy,
    ):
        answer = await one(proxy.port, b"GET /indexes/docs HTTP/1.1\r\nHost: vs\r\n\r\n")
    assert answer.body == big


async def test_a_description_that_breaks_off_is_answered_in_the_services_shape() -> None:
    async def script(talk: Talk) -> None:
        await talk.request()
        await talk.send(reply(BODY, length=len(BODY) + 9))
        talk.close()

    async with FaultyUpstream(script) as upstream, in_front(upstream) as proxy:
        answer = await one(proxy.port, b"GET /indexes/docs HTTP/1.1\r\nHost: vs\r\n\r\n")
    assert answer.status == 502
    words = {"code": "UNAVAILABLE", "message": "The database broke off its answer"}
    assert json.loads(answer.body) == {"status": 502, "error": words}
    assert answer.header(b"x-vecsieve-origin") == b"proxy"


async def test_a_creation_goes_out_once_although_its_answer_breaks_off() -> None:
    async def script(talk: Talk) -> None:
        await talk.request()
        talk.reset()

    async with FaultyUpstream(script) as upstream, in_front(upstream) as proxy:
        sent = b"POST /indexes HTTP/1.1\r\nHost: vs\r\nContent-Length: 2\r\n\r\n{}"
        assert (await one(proxy.port, sent)).status == 502
    assert len(upstream.requests) == 1


def describing(index: FaultyUpstream) -> bytes:
    return b'{"name":"docs","host":"http://127.0.0.1:%d"}' % index.port


def searching(path: bytes, top_k: int = 3) -> bytes:
    body = b'{"topK":%d,"vector":[1.0,0.5]}' % top_k
    return b"POST %s HTTP/1.1\r\nHost: vs\r\nContent-Length: %d\r\n\r\n%s" % (path, len(body), body)


ANSWER = b'{"results":[],"matches":[],"namespace":"","usage":{"readUnits":1}}'


async def described(proxy: Running) -> bytes:
    """The path of the one index, as the client is told."""
    answer = await one(proxy.port, b"GET /indexes/docs HTTP/1.1\r\nHost: vs\r\n\r\n")
    host: str = json.loads(answer.body)["host"]
    return host.removeprefix("http://vs").encode()


@pytest.mark.parametrize(
    "rest",
    [
        *(b"/vectors/fetch?ids=b+c&ids=b%20c&namespace=", b"/records/namespaces//search", b"//query", b"/"),
        *(b"/records/namespaces/a%2Fb%20c%25d/search", b"/records/namespaces/%2E%2E/search", b"/a/../b", b"/x?"),
    ],
)
async def test_the_rest_of_a_path_arrives_at_the_index_byte_for_byte(rest: bytes) -> None:
    async with FaultyUpstream(answering(reply(b"ok"))) as index:
        async with FaultyUpstream(answering(reply(describing(index)))) as control, in_front(control) as proxy:
            path = await described(proxy)
            assert path == b"/_i/127.0.0.1:%d" % index.port
            answer = await one(proxy.port, b"GET " + path + rest + b" HTTP/1.1\r\nHost: vs\r\nApi-Key: k\r\n\r\n")
        assert answer.body == b"ok"
        assert [received.line for received in index.requests] == [b"GET " + rest + b" HTTP/1.1"]
        assert index.requests[0].headers == [(b"Host", b"127.0.0.1:%d" % index.port), (b"Api-Key", b"k")]
    assert len(control.requests) == 1


async def test_each_index_is_searched_at_its_own_host_and_under_its_own_policy() -> None:
    async with FaultyUpstream(answering(reply(ANSWER))) as one_index, FaultyUpstream(answering(reply(ANSWER))) as other:
        listed = b'{"indexes":[%s,%s]}' % (describing(one_index), describing(other))
        rules = ({"collection": f"127.0.0.1:{other.port}", "policy": {"mode": "off"}},)
        async with FaultyUpstream(answering(reply(listed))) as control, in_front(control, rules=rules) as proxy:
            await one(proxy.port, b"GET /indexes HTTP/1.1\r\nHost: vs\r\n\r\n")
            for index in (one_index, other):
                await one(proxy.port, searching(b"/_i/127.0.0.1:%d/query" % index.port))
    assert json.loads(one_index.requests[0].body)["topK"] > 3
    assert [received.content for received in other.requests] == [b'{"topK":3,"vector":[1.0,0.5]}']


@pytest.mark.parametrize(
    ("path", "hint"),
    [(b"/query", "--index-host"), (b"/docs/query", "/_i/"), (b"/_i/", "/_i/"), (b"/vectors/list", "index")],
)
async def test_a_path_that_leads_nowhere_is_answered_with_what_to_do(path: bytes, hint: str) -> None:
    async with FaultyUpstream(answering(reply(b"ok"))) as control, in_front(control) as proxy:
        answer = await one(proxy.port, searching(path))
        assert proxy.count("local_errors_total", backend="pinecone", kind="bad_request") == 1
    assert answer.status == 404
    refusal = json.loads(answer.body)
    assert (refusal["code"], refusal["details"]) == (5, [])
    assert hint in refusal["message"]
    assert control.connections == 0
