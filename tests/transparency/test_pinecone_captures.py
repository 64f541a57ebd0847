"""What the real Pinecone clients sent, sent again through the proxy: it arrives as it was, and its answer comes back so.

Two things of a request belong to the client's own hop and change on the way: what Host says, and that Connection is
there at all. Nothing else may.
"""

from __future__ import annotations

import json
import uuid
from contextlib import AbstractAsyncContextManager
from typing import Any

import pytest

from support.exchanges.captures import NEEDS_CAPTURES, Captured, recordings
from support.network.faulty_upstream import FaultyUpstream, RawClient, Received, answering, reply
from support.process.running import Running, running

RECORDINGS = recordings("pinecone")
# Clients over gRPC send a few calls over HTTP/1.1 as well; the others send all.
OVER_REST = [name for name in RECORDINGS if not name.endswith("grpc")]
EMPTY = b'{"results":[],"matches":[],"result":{"hits":[]},"namespace":"","usage":{"readUnits":1}}'
# The service's edge is an Envoy: `grpc-status` on plain HTTP, counters that tell whether a write can be read yet.
ANSWER = reply(
    EMPTY,
    status=b"200 Fine",
    headers=(
        (b"Date", b"Mon, 12 Jan 2026 10:00:00 GMT"),
        (b"Content-Type", b"application/json"),
        (b"x-pinecone-max-indexed-lsn", b"7"),
        (b"X-Pinecone-Request-Id", b"5171"),
        (b"grpc-status", b"0"),
        (b"server", b"envoy"),
        (b"x-twice", b"1"),
        (b"x-twice", b"2"),
    ),
)
# What a widened search may say differently, by the path's end.
MAY_CHANGE = {
    "/query": {"topK", "includeValues"},
    "/records/namespaces/ns1/search": {"query.top_k", "fields", "rerank.top_n"},
    "/namespaces/ns1/documents/search": {"top_k", "include_fields"},
}


def in_front(upstream: FaultyUpstream, mode: str) -> AbstractAsyncContextManager[Running]:
    return running(upstream.url, mode=mode, backend="pinecone", pinecone={"index_host": upstream.url})


def fields(sent: Captured, upstream: FaultyUpstream) -> list[tuple[bytes, bytes]]:
    """What must arrive: order, case and number kept."""
    pairs = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in sent.headers]
    host = b"127.0.0.1:%d" % upstream.port
    return [
        (name, host if name.lower() == b"host" else value) for name, value in pairs if name.lower() != b"connection"
    ]


def request(method: str, target: str, body: bytes, *headers: tuple[str, str]) -> Captured:
    """One that nobody recorded."""
    framed = (("Content-Length", str(len(body))),) if body else ()
    return Captured(label="made", method=method, target=target, headers=(("Host", "c"), *headers, *framed), body=body)


def is_what_was_sent(received: Received, sent: Captured, upstream: FaultyUpstream) -> bool:
    return (received.line, received.headers, received.body) == (sent.line, fields(sent, upstream), sent.body)


async def replayed(sent: list[Captured], mode: str) -> tuple[FaultyUpstream, list[bytes]]:
    """The upstream with what it received, and each whole answer, all on one connection of the client, as recorded."""
    async with FaultyUpstream(answering(ANSWER)) as upstream, in_front(upstream, mode) as proxy:
        client = await RawClient.connect(proxy.port)
        answers = []
        for request in sent:
            await client.send(request.raw)
            answer = await client.reply()
            answers.append(answer.head + answer.body)
        await client.close()
    return upstream, answers


@NEEDS_CAPTURES
def test_the_captures_are_those_of_every_major() -> None:
    assert {name.split("_")[0] for name in RECORDINGS} == {
        *("py5", "py6", "py7", "py8", "py9", "py10"),
        *("ts2", "ts4", "ts6", "ts8", "ts9"),
    }
    assert sum(len(requests) for requests in RECORDINGS.values()) > 150


@NEEDS_CAPTURES
@pytest.mark.parametrize("name", RECORDINGS)
async def test_in_mode_off_every_request_arrives_byte_for_byte_and_so_does_its_answer(name: str) -> None:
    upstream, answers = await replayed(RECORDINGS[name], "off")
    for received, sent in zip(upstream.requests, RECORDINGS[name], strict=True):
        assert received.line == sent.line
        assert received.headers == fields(sent, upstream), sent.label
        assert received.body == sent.body, sent.label
    assert answers == [ANSWER] * len(RECORDINGS[name])


@NEEDS_CAPTURES
@pytest.mark.parametrize("name", RECORDINGS)
async def test_in_mode_shadow_the_client_sees_no_difference_either(name: str) -> None:
    upstream, answers = await replayed(RECORDINGS[name], "shadow")
    for sent in RECORDINGS[name]:
        assert any(is_what_was_sent(received, sent, upstream) for received in upstream.requests), sent.label
    assert answers == [ANSWER] * len(RECORDINGS[name])


def leaves(body: bytes) -> dict[str, Any]:
    """The members of a body; those of an object within it by its name and a dot."""
    members = json.loads(body or b"{}")
    flat = {name: value for name, value in members.items() if not isinstance(value, dict)}
    return flat | {
        f"{name}.{key}": members[name][key] for name in members.keys() - flat.keys() for key in members[name]
    }


@NEEDS_CAPTURES
@pytest.mark.parametrize("name", OVER_REST)
async def test_in_mode_on_a_search_differs_in_how_much_it_asks_for_and_nothing_else_differs(name: str) -> None:
    searches = [sent for sent in RECORDINGS[name] if sent.target in MAY_CHANGE]
    others = [sent for sent in RECORDINGS[name] if sent.target not in MAY_CHANGE]
    assert searches
    assert others
    upstream, _ = await replayed(others, "on")
    assert all(is_what_was_sent(*pair, upstream) for pair in zip(upstream.requests, others, strict=True))
    widened = 0
    for sent in searches:
        upstream, _ = await replayed([sent], "on")
        first, plain = leaves(upstream.requests[0].body), leaves(sent.body)
        changed = {member for member in first.keys() | plain.keys() if first.get(member) != plain.get(member)}
        assert changed <= MAY_CHANGE[sent.target], sent.label
        assert upstream.requests[0].line == sent.line
        widened += bool(changed)
    assert widened, "at least /query is ours"


async def test_a_fetch_of_a_thousand_uuids_passes() -> None:
    ids = "&".join(f"ids={uuid.UUID(int=number)}" for number in range(1_000))
    sent = request("GET", f"/vectors/fetch?{ids}&namespace=ns1", b"", ("Api-Key", "k"))
    assert len(sent.target) > 40_000
    upstream, answers = await replayed([sent], "on")
    assert is_what_was_sent(upstream.requests[0], sent, upstream)
    assert answers == [ANSWER]


async def test_an_upsert_of_two_megabytes_passes() -> None:
    body = b'{"vectors":[{"id":"a","values":[' + b"0.125," * 333_333 + b"0.5]}]}"
    assert len(body) > 2_000_000 - 100
    sent = request("POST", "/vectors/upsert", body, ("Api-Key", "k"))
    upstream, answers = await replayed([sent], "on")
    assert is_what_was_sent(upstream.requests[0], sent, upstream)
    assert answers == [ANSWER]


@pytest.mark.parametrize(
    "target", ["//query", "/records/namespaces//search", "/records/namespaces/a%2Fb%20c%25d/search"]
)
@pytest.mark.parametrize("mode", ["off", "on"])
async def test_odd_paths_arrive_as_they_were_written(target: str, mode: str) -> None:
    body = b'{"topK":1,"vector":[0.5]}' if target == "//query" else b'{"query":{"top_k":1,"inputs":{"text":"a"}}}'
    version = ("X-Pinecone-Api-Version", "2025-10")
    sent = request("POST", target, body, version, version)
    upstream, answers = await replayed([sent], mode)
    assert is_what_was_sent(upstream.requests[0], sent, upstream)
    header = b"x-vecsieve: bypass=single_result\r\n"
    assert [answer.replace(header, b"") for answer in answers] == [ANSWER]
    assert (header in answers[0]) == (mode == "on")
