"""Clients that ask are told which results stand for which others: by REST and gRPC, in ASCII, bounded, and nobody else."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.network.faulty_upstream import FaultyUpstream, Received, answering, raw_exchange, reply
from support.process.running import running
from support.qdrant.scripted import JSON, honest, request, search
from support.qdrant.scripted_grpc import in_front, query
from support.selection.selections import selection
from vecsieve.adapters.contract import Pool
from vecsieve.config.policy import PolicySettings
from vecsieve.proxy.search.policy import resolved
from vecsieve.proxy.search.pools.values import PoolSet, Selected
from vecsieve.proxy.search.report import (
    COLLAPSED_BYTES,
    COLLAPSED_HEADER,
    NOTES_BYTES,
    collapsed_notes,
    collapsed_value,
)
from vecsieve.proxy.selection.values import Fate

ASK = b"x-vecsieve-collapsed: header\r\n"
IN_PAYLOADS = b"x-vecsieve-collapsed: payload\r\n"
BY_VECTORS = {"texts": "none"}


def told(head: bytes) -> dict[str, Any] | None:
    fields = [line.split(b": ", 1) for line in head.split(b"\r\n") if line.lower().startswith(b"x-vecsieve-collapsed:")]
    return json.loads(fields[0][1]) if fields else None


async def test_a_client_that_asks_gets_the_ids_behind_each_result() -> None:
    async with FaultyUpstream(answering(honest)) as upstream, running(upstream.url) as proxy:
        asked = (await raw_exchange(proxy.port, request(search(), headers=ASK))).split(b"\r\n\r\n", 1)
        plain = (await raw_exchange(proxy.port, request(search()))).split(b"\r\n\r\n", 1)
        assert told(asked[0]) == {"collapsed": [[[0, [1]], [2, [6]], [3, [4]]]], "omitted": 0}
        assert told(plain[0]) is None
        assert asked[1] == plain[1]
        assert not any(b"collapsed" in name.lower() for received in upstream.requests for name, _ in received.headers)


def with_payloads(received: Received) -> bytes:
    """As `honest`, each point with a payload where the request wants one."""
    _, _, body = honest(received).partition(b"\r\n\r\n")
    answer = json.loads(body)
    for point in answer["result"]["points"]:
        point["payload"] = {"text": f"unlike {point['id']}"} if point["id"] else {}
    return reply(json.dumps(answer, separators=(",", ":")).encode(), headers=[JSON])


async def test_a_client_that_wants_it_in_payloads_finds_it_there_and_in_no_header() -> None:
    async with FaultyUpstream(answering(with_payloads)) as upstream, running(upstream.url, policy=BY_VECTORS) as proxy:
        body = search(extra={"with_payload": True})
        head, asked = (await raw_exchange(proxy.port, request(body, headers=IN_PAYLOADS))).split(b"\r\n\r\n", 1)
        plain = (await raw_exchange(proxy.port, request(body))).split(b"\r\n\r\n", 1)[1]
        points = json.loads(asked)["result"]["points"]
        assert [point["payload"].pop("_vecsieve") for point in points] == [
            {"collapsed_ids": [1], "collapsed_sources": []},
            {"collapsed_ids": [6], "collapsed_sources": []},
            {"collapsed_ids": [4], "collapsed_sources": []},
        ]
        assert points == json.loads(plain)["result"]["points"]
        assert told(head) is None
        assert b"_vecsieve" not in plain


async def test_a_result_without_a_payload_gets_none() -> None:
    async with FaultyUpstream(answering(honest)) as upstream, running(upstream.url) as proxy:
        asked = (await raw_exchange(proxy.port, request(search(), headers=IN_PAYLOADS))).split(b"\r\n\r\n", 1)
        plain = (await raw_exchange(proxy.port, request(search()))).split(b"\r\n\r\n", 1)
        assert asked[1] == plain[1]


async def test_over_grpc_too_a_result_without_a_payload_gets_none() -> None:
    async with in_front() as (_, proxy):
        plain = await query(proxy.port)
        seen = await query(proxy.port, metadata=((COLLAPSED_HEADER, "payload"),))
        assert COLLAPSED_HEADER not in dict(seen.initial)
        assert seen.messages == plain.messages


@given(sizes=st.lists(st.integers(1, 2 * NOTES_BYTES), min_size=1, max_size=20))
def test_the_ids_of_an_answers_notes_are_bounded_and_what_is_left_out_is_counted(sizes: list[int]) -> None:
    """Invariant: all notes together have at most NOTES_BYTES of ids, and told and omitted ones are all that collapsed."""
    ids = (b"0", *(b'"%s"' % (b"x" * size) for size in sizes))
    fates = [Fate.KEPT] + [Fate.COLLAPSED] * len(sizes)
    chosen = selection(keep=[0], representative=[0] * len(ids), fates=fates)
    pool = Pool(scores=np.linspace(1, 0, len(ids)), vectors=np.empty((len(ids), 0), np.float32), ids=ids)
    pools = SimpleNamespace(reply=SimpleNamespace(pools=(pool,)), policy=resolved(PolicySettings(), mode=None))
    ((note,),) = collapsed_notes(Selected(cast(PoolSet, pools), (chosen,), (chosen,)))
    assert note is not None
    assert len(note) <= NOTES_BYTES + 70
    content = json.loads(note)
    assert len(content["collapsed_ids"]) + content.get("omitted", 0) == len(sizes)


async def test_over_grpc_it_is_a_member_of_the_metadata() -> None:
    async with in_front() as (_, proxy):
        seen = await query(proxy.port, metadata=((COLLAPSED_HEADER, "header"),))
        assert json.loads(str(dict(seen.initial)[COLLAPSED_HEADER]))["collapsed"] == [[[0, [1]], [2, [6]], [3, [4]]]]


@pytest.mark.parametrize("headers", [ASK + b"x-vecsieve-mode: off\r\n", ASK + b"x-vecsieve-mode: shadow\r\n"])
async def test_where_the_answer_is_the_databases_own_nothing_is_added(headers: bytes) -> None:
    async with FaultyUpstream(answering(honest)) as upstream, running(upstream.url) as proxy:
        answer = await raw_exchange(proxy.port, request(search(), headers=headers))
        assert told(answer.split(b"\r\n\r\n", 1)[0]) is None


async def test_without_the_report_header_who_asks_is_still_told() -> None:
    async with FaultyUpstream(answering(honest)) as upstream, running(upstream.url, report_header=False) as proxy:
        head = (await raw_exchange(proxy.port, request(search(), headers=ASK))).split(b"\r\n\r\n", 1)[0]
        assert told(head) is not None
        assert b"x-vecsieve: " not in head


async def test_the_settings_can_forbid_it() -> None:
    settings = {"forbidden_overrides": ("collapsed",)}
    async with FaultyUpstream(answering(honest)) as upstream, running(upstream.url, **settings) as proxy:
        answer = await raw_exchange(proxy.port, request(search(), headers=ASK))
        assert answer.startswith(b"HTTP/1.1 400 ")


IDS = st.one_of(st.integers(0, 2**64 - 1), st.uuids().map(str), st.text(max_size=300))


@given(ids=st.lists(IDS, min_size=2, max_size=60, unique=True), searches=st.integers(1, 20), has_ids=st.booleans())
def test_any_ids_make_a_bounded_ascii_value_that_reads_back(ids: list[int | str], searches: int, has_ids: bool) -> None:
    """Invariant: valid JSON of printable ASCII within the bound; every copy is told or counted."""
    n = len(ids)
    representative = [row - row % 2 for row in range(n)]
    fates = [Fate.COLLAPSED if row % 2 else Fate.KEPT for row in range(n)]
    chosen = selection(keep=list(range(0, n, 2)), representative=representative, fates=fates)
    raw = (
        tuple(json.dumps(identifier, ensure_ascii=False).encode("utf-8", "surrogatepass") for identifier in ids)
        if has_ids
        else ()
    )
    pool = Pool(scores=np.linspace(1, 0, n), vectors=np.empty((n, 0), np.float32), ids=raw)
    pools = SimpleNamespace(reply=SimpleNamespace(pools=(pool,) * searches))
    value = collapsed_value(Selected(cast(PoolSet, pools), (chosen,) * searches, (chosen,) * searches))
    assert len(value) <= COLLAPSED_BYTES
    assert value.isascii()
    assert value.isprintable()
    content = json.loads(value)
    assert len(content["collapsed"]) == searches
    copies = sum(len(gone) for pairs in content["collapsed"] for _, gone in pairs)
    assert copies + content["omitted"] == searches * (n // 2)
    for pairs in content["collapsed"]:
        for kept, gone in pairs:
            assert [ids.index(each) for each in gone] == [ids.index(kept) + 1]
