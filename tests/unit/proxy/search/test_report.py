"""A report's numbers are those of the selection, and its header reads back to them."""

from __future__ import annotations

import json
import re
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.jobs.reports import FIGURES, REPORT, report_of, timed
from support.network.faulty_upstream import FaultyUpstream, Received, answering, raw_exchange, reply
from support.process.running import running
from support.qdrant.scripted import JSON, honest, request, search
from support.qdrant.scripted_grpc import in_front, query
from support.selection.policies import CLASSICAL
from support.selection.pools import planted, pool
from support.selection.selections import selection
from vecsieve.adapters.contract import Pool, Reason, Search
from vecsieve.config.policy import PolicySettings
from vecsieve.proxy.search.policy import resolved
from vecsieve.proxy.search.pools.values import PoolSet, Selected
from vecsieve.proxy.search.report import (
    COLLAPSED_BYTES,
    COLLAPSED_HEADER,
    NOTES_BYTES,
    REPORT_HEADER,
    collapsed_notes,
    collapsed_value,
    figures,
    header_value,
)
from vecsieve.proxy.selection.single import select
from vecsieve.proxy.selection.values import Fate, FloatMatrix, Link, Selection
from vecsieve.proxy.telemetry.labels import Bypass, Collapse, FailOpen, Outcome, VectorFetchOutcome
from vecsieve.proxy.telemetry.reports import Figures

COUNTS = st.integers(min_value=0, max_value=10_000)
SECONDS = st.floats(min_value=0, max_value=1_000)


def test_the_header_reads_as_documented() -> None:
    assert (REPORT_HEADER, header_value(REPORT)) == (
        "x-vecsieve",
        "pool=50;clusters=31;returned=8;collapsed=12;added_ms=1.4",
    )


@given(COUNTS, COUNTS, COUNTS, COUNTS, SECONDS, SECONDS)
def test_every_header_value_follows_the_grammar_and_reads_back(
    pool: int, clusters: int, returned: int, collapsed: int, total: float, upstream: float
) -> None:
    """Invariant: five members in order, each the report's own number, nothing but digits behind the signs."""
    counts = FIGURES._replace(candidates=pool, clusters=clusters, returned=returned, collapsed=collapsed)
    value = header_value(timed(report_of(counts), total, upstream))
    match = re.fullmatch(r"pool=(\d+);clusters=(\d+);returned=(\d+);collapsed=(\d+);added_ms=(\d+\.\d)", value)
    assert match is not None
    assert [int(number) for number in match.groups()[:4]] == [pool, clusters, returned, collapsed]
    assert float(match[5]) == pytest.approx(max(0.0, total - upstream) * 1000, abs=0.051)


@given(COUNTS, st.sampled_from(VectorFetchOutcome))
def test_a_call_with_lookups_says_behind_the_five_what_they_cost(units: int, looked: VectorFetchOutcome) -> None:
    """Invariant: the value without lookups, and one more member with the report's own number, zero included."""
    report = REPORT._replace(vector_fetch=looked, extra_read_units=units)
    assert header_value(report) == f"{header_value(REPORT)};extra_read_units={units}"


def test_a_page_that_only_copies_could_fill_says_how_many_are_missing() -> None:
    report = report_of(FIGURES._replace(short=2), FIGURES._replace(short=1))
    assert header_value(report).endswith(";added_ms=1.4;short=3")


def test_a_call_of_several_searches_reports_their_sums() -> None:
    report = report_of(FIGURES, FIGURES._replace(candidates=10, clusters=9, returned=4, collapsed=1))
    assert report.counts == (60, 40, 12, 13, 0)


def test_a_call_without_figures_reports_zeros() -> None:
    assert header_value(timed(REPORT._replace(figures=()), 0.0, 0.0)) == (
        "pool=0;clusters=0;returned=0;collapsed=0;added_ms=0.0"
    )


@pytest.mark.parametrize(
    ("bypass", "fail_open", "reason"),
    [
        (None, None, None),
        (Bypass.DISABLED, None, "disabled"),
        (Reason.ORDERING_CHOSEN, None, "ordering_chosen"),
        (None, FailOpen.BREAKER, "breaker"),
    ],
)
def test_the_reason_is_the_one_that_was_given(
    bypass: Bypass | Reason | None, fail_open: FailOpen | None, reason: str | None
) -> None:
    assert REPORT._replace(outcome=Outcome.BYPASS, bypass=bypass, fail_open=fail_open).reason == reason


def searched(scores: list[float], keep: list[int], representative: list[int]) -> Figures:
    """Numbers of one search of top_k ``len(keep)`` over candidates whose representatives are given."""
    standing = np.array(representative, dtype=np.intp)
    fates = np.full(len(scores), Fate.NOT_CHOSEN, dtype=np.int8)
    fates[standing != np.arange(len(scores))] = Fate.COLLAPSED
    fates[keep] = np.where(standing[keep] == np.array(keep, dtype=np.intp), Fate.KEPT, Fate.FILLED)
    wanting = max(0, len(keep) - len(set(representative)))
    chosen = selection(keep, representative, fates.tolist(), wanting=wanting, acted=True)
    return numbers(chosen, scores, pages=False)


def numbers(chosen: Selection, scores: list[float], *, pages: bool = False) -> Figures:
    fetched = Pool(
        scores=np.array(scores, dtype=np.float64),
        vectors=np.zeros((len(scores), 0), dtype=np.float32),
        unusable=1,
    )
    return figures(Search(top_k=len(chosen.keep), offset=0, pages=pages, query=None), fetched, chosen)


def test_candidates_clusters_and_fates_are_counted() -> None:
    counts = searched([0.9, 0.8, 0.7, 0.6, 0.5], keep=[0, 3], representative=[0, 0, 0, 3, 4])
    assert (counts.candidates, counts.clusters, counts.returned, counts.collapsed, counts.filled, counts.unusable) == (
        5,
        3,
        2,
        2,
        0,
        1,
    )
    assert not counts.exhausted


def test_the_collapsed_are_counted_by_reason() -> None:
    chosen = selection(
        keep=[0, 5],
        representative=[0, 0, 0, 0, 0, 5, 6],
        fates=[Fate.KEPT, *[Fate.COLLAPSED] * 3, Fate.CAPPED, Fate.KEPT, Fate.NOT_CHOSEN],
        links=[0, Link.EQUAL, Link.JOINED, Link.JOINED, Link.CONTAINED, 0, 0],
    )
    counts = numbers(chosen, [0.9] * 7)
    assert (counts.collapsed, counts.capped) == (3, 1)
    assert counts.collapsed_by == ((Collapse.EQUAL_TEXT, 1), (Collapse.JOINED, 2)), (
        "who was not collapsed is not counted"
    )


@given(planted(), st.integers(0, 10))
def test_the_reasons_add_up_to_the_collapsed(vectors: FloatMatrix, top_k: int) -> None:
    """Invariant: whatever was selected, every collapsed candidate has exactly one reason."""
    counts = numbers(select(pool(vectors), top_k=top_k, policy=CLASSICAL), [0.5] * len(vectors))
    assert sum(count for _, count in counts.collapsed_by) == counts.collapsed
    assert counts.capped == 0


def test_a_pool_with_fewer_clusters_than_wanted_is_exhausted_and_its_fills_are_counted() -> None:
    counts = searched([0.9, 0.8, 0.7], keep=[0, 1, 2], representative=[0, 0, 0])
    assert (counts.exhausted, counts.filled, counts.collapsed) == (True, 2, 0)


@pytest.mark.parametrize(
    ("scores", "loss"),
    [
        ([0.8, 0.6, 0.4], 1 / 7),  # mean 0.7 became 0.6
        ([-0.8, -0.6, -0.4], 1 / 7),  # lower is better here: the size of the move is the same
        ([0.0, 0.0, 1.0], 0.0),  # no mean to compare with
        ([float("nan"), 0.5, 0.4], 0.0),
        ([float("inf"), 0.5, 0.4], 0.0),
    ],
)
def test_score_loss_is_the_share_by_which_the_mean_moved(scores: list[float], loss: float) -> None:
    assert searched(scores, keep=[0, 2], representative=[0, 0, 2]).score_loss == pytest.approx(loss)


def test_an_empty_pool_has_figures_too() -> None:
    counts = searched([], keep=[], representative=[])
    assert (counts.candidates, counts.returned, counts.score_loss) == (0, 0, 0.0)


# Clients that ask are told which results stand for which others: by REST and gRPC, in ASCII, bounded, and nobody else.

ASK = b"x-vecsieve-collapsed: header\r\n"
IN_PAYLOADS = b"x-vecsieve-collapsed: payload\r\n"
BY_VECTORS = {"texts": "none"}


def collapsed_in(head: bytes) -> dict[str, Any] | None:
    fields = [line.split(b": ", 1) for line in head.split(b"\r\n") if line.lower().startswith(b"x-vecsieve-collapsed:")]
    return json.loads(fields[0][1]) if fields else None


async def test_a_client_that_asks_gets_the_ids_behind_each_result() -> None:
    async with FaultyUpstream(answering(honest)) as upstream, running(upstream.url) as proxy:
        response = (await raw_exchange(proxy.port, request(search(), headers=ASK))).split(b"\r\n\r\n", 1)
        plain = (await raw_exchange(proxy.port, request(search()))).split(b"\r\n\r\n", 1)
        assert collapsed_in(response[0]) == {"collapsed": [[[0, [1]], [2, [6]], [3, [4]]]], "omitted": 0}
        assert collapsed_in(plain[0]) is None
        assert response[1] == plain[1]
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
        head, content = (await raw_exchange(proxy.port, request(body, headers=IN_PAYLOADS))).split(b"\r\n\r\n", 1)
        plain = (await raw_exchange(proxy.port, request(body))).split(b"\r\n\r\n", 1)[1]
        points = json.loads(content)["result"]["points"]
        assert [point["payload"].pop("_vecsieve") for point in points] == [
            {"collapsed_ids": [1], "collapsed_sources": []},
            {"collapsed_ids": [6], "collapsed_sources": []},
            {"collapsed_ids": [4], "collapsed_sources": []},
        ]
        assert points == json.loads(plain)["result"]["points"]
        assert collapsed_in(head) is None
        assert b"_vecsieve" not in plain


async def test_a_result_without_a_payload_gets_none() -> None:
    async with FaultyUpstream(answering(honest)) as upstream, running(upstream.url) as proxy:
        response = (await raw_exchange(proxy.port, request(search(), headers=IN_PAYLOADS))).split(b"\r\n\r\n", 1)
        plain = (await raw_exchange(proxy.port, request(search()))).split(b"\r\n\r\n", 1)
        assert response[1] == plain[1]


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
        assert collapsed_in(answer.split(b"\r\n\r\n", 1)[0]) is None


async def test_without_the_report_header_who_asks_is_still_told() -> None:
    async with FaultyUpstream(answering(honest)) as upstream, running(upstream.url, report_header=False) as proxy:
        head = (await raw_exchange(proxy.port, request(search(), headers=ASK))).split(b"\r\n\r\n", 1)[0]
        assert collapsed_in(head) is not None
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
            assert [ids.index(gone_id) for gone_id in gone] == [ids.index(kept) + 1]
