"""Recent pools: a bounded sample, taken beside the answers, that keeps nobody waiting."""

from __future__ import annotations

import asyncio
import sys
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.network.faulty_upstream import FaultyUpstream, answering, raw_exchange
from support.process.clocks import ManualClock
from support.process.running import Running, running
from support.qdrant.scripted import honest, request, search
from support.selection.kept_pools import EDITED, TOP_K, demo_pool, kept, of_preset, pool_of
from support.selection.texts import as_texts
from vecsieve.proxy.admin.pools import LONGEST_SENTENCE, PER_SECOND, choosing, page_of, taking
from vecsieve.proxy.admin.whatif import PRESET_NAMES
from vecsieve.proxy.selection.paged import paging
from vecsieve.proxy.selection.reading.text import READINGS, UNREAD
from vecsieve.proxy.selection.single import select
from vecsieve.proxy.selection.values import Candidates, Metadata, Metric, finished


async def until_taken(proxy: Running, count: int) -> None:
    async with asyncio.timeout(20):
        while len(proxy.process.pools.kept()) < count:
            await asyncio.sleep(0.01)


async def test_a_search_is_taken_after_its_answer_with_its_number_and_policy() -> None:
    async with FaultyUpstream(answering(honest)) as upstream, running(upstream.url) as proxy:
        await raw_exchange(proxy.port, request(search()))
        await until_taken(proxy, 1)
        (sampled,) = proxy.process.pools.kept()
        (numbered,) = proxy.process.recent.newest()
        assert (sampled.collection, sampled.number) == ("c", numbered.number)
        assert sampled.pool.top_k == 3
        assert len(sampled.pool.bare.scores) == 8
        assert proxy.process.pools.size_bytes == sampled.pool.size_bytes


@pytest.mark.parametrize("offset", [0, 2])
async def test_a_page_by_offset_is_taken_with_its_place_in_the_list(offset: int) -> None:
    async with FaultyUpstream(answering(honest)) as upstream, running(upstream.url) as proxy:
        await raw_exchange(proxy.port, request(search(extra={"offset": offset})))
        await until_taken(proxy, 1)
        (sampled,) = proxy.process.pools.kept()
        assert (sampled.pool.offset, sampled.pool.top_k) == (offset, 3)


async def test_where_no_searches_are_kept_no_pools_are() -> None:
    async with FaultyUpstream(answering(honest)) as upstream, running(upstream.url, explain={"keep": 0}) as proxy:
        await raw_exchange(proxy.port, request(search()))
        await asyncio.sleep(0.05)
        assert proxy.process.pools.kept() == []


async def test_a_reload_that_keeps_nothing_drops_what_is_held() -> None:
    async with FaultyUpstream(answering(honest)) as upstream, running(upstream.url) as proxy:
        await raw_exchange(proxy.port, request(search()))
        await until_taken(proxy, 1)
        proxy.process.pools.resize(keep=False)
        assert (proxy.process.pools.kept(), proxy.process.pools.size_bytes) == ([], 0)


async def test_more_searches_than_the_budget_are_not_taken_until_time_passes() -> None:
    clock = ManualClock()
    async with FaultyUpstream(answering(honest)) as upstream, running(upstream.url) as proxy:
        proxy.process.pools._clock = clock
        proxy.process.pools._at = clock()
        proxy.process.pools._allowed = 1.0
        for _ in range(3):
            await raw_exchange(proxy.port, request(search()))
        await until_taken(proxy, 1)
        await asyncio.sleep(0.05)
        assert len(proxy.process.pools.kept()) == 1
        clock.now += 1.0 / PER_SECOND
        await raw_exchange(proxy.port, request(search()))
        await until_taken(proxy, 2)


async def test_the_oldest_go_when_there_are_too_many_bytes() -> None:
    async with FaultyUpstream(answering(honest)) as upstream, running(upstream.url) as proxy:
        pools = proxy.process.pools
        await raw_exchange(proxy.port, request(search()))
        await until_taken(proxy, 1)
        pools._most_bytes = 3 * pools.size_bytes
        (first,) = pools.kept()
        for _ in range(6):
            pools._add(first)
        assert len(pools.kept()) == 3
        assert pools.size_bytes <= pools._most_bytes


async def test_closing_ends_what_is_being_taken() -> None:
    async with FaultyUpstream(answering(honest)) as upstream, running(upstream.url) as proxy:
        for _ in range(4):
            await raw_exchange(proxy.port, request(search()))
        await proxy.process.pools.close()
        assert proxy.process.pools._task is None or proxy.process.pools._task.done()


# A kept pool is selected from as the pool itself, by any policy, and takes the room that it says.

# Three ways to ask for one thing among others; their vectors are as near as a model has them.
REWORDED = (
    "How do I reset my password?",
    "I want to change a forgotten password, can you help me?",
    "My password is lost and I need to set another, what can I do?",
)
OTHERS = (
    "When does the shop open on Sundays?",
    "Is there a fee for a second card?",
    "Where can I see my last invoices?",
    "Do you ship to Norway by train?",
    "Can a friend use my season ticket?",
)


def reworded_pool() -> Candidates:
    texts = (*REWORDED, *OTHERS)
    directions = np.random.default_rng(7).normal(size=(len(texts), 256)).astype(np.float32)
    directions[1:3] = directions[0] + 0.1 * directions[1:3]
    return pool_of(*texts, vectors=directions)


@pytest.mark.parametrize("name", PRESET_NAMES)
def test_every_preset_selects_the_page_that_it_selects_from_the_pool(name: str) -> None:
    for question in range(6):
        pool, policy = demo_pool(question), of_preset(name)
        stored = kept(pool)
        again = finished(choosing(stored.candidates(), top_k=TOP_K, policy=policy, offset=None))
        selection = select(pool, top_k=TOP_K, policy=policy)
        assert again.keep.tolist() == selection.keep.tolist(), question
        assert again.links.tolist() == selection.links.tolist(), question


@pytest.mark.parametrize("offset", [0, 8])
@pytest.mark.parametrize("name", ["default", "vectors"])
def test_a_page_by_offset_is_a_piece_of_the_same_list(name: str, offset: int) -> None:
    pool, policy = demo_pool(3, 50), of_preset(name)
    selection = finished(paging(pool, top_k=TOP_K, offset=offset, policy=policy, exhausted=True))
    stored = kept(pool, preset=name, offset=offset)
    assert stored.now.keep.tolist() == selection.keep.tolist()
    again = finished(choosing(stored.candidates(), top_k=TOP_K, policy=policy, offset=offset))
    assert again.keep.tolist() == selection.keep.tolist()


def test_what_was_not_read_stays_unread_and_what_is_missing_stays_missing() -> None:
    pool = replace(pool_of("a", "b", None), metadata=Metadata(texts=(UNREAD, *as_texts(["b", None]))))
    texts = kept(pool).candidates().metadata.texts
    assert texts is not None
    assert texts[0] is UNREAD
    assert [None if text is None else text.raw for text in texts[1:]] == ["b", None]
    assert kept(replace(pool, metadata=Metadata())).candidates().metadata.texts is None


@given(st.floats(1e-30, 1e30), st.integers(1, 8), st.integers(1, 40))
def test_vectors_of_any_length_come_back_and_copies_as_copies(length: float, n: int, dimensions: int) -> None:
    """Invariant: a row is within a thousandth of its largest component, equal rows are equal, and rows that were unusable still are."""
    rows = np.random.default_rng(n).normal(size=(n, dimensions)).astype(np.float32) * np.float32(length)
    vectors = np.concatenate((rows, rows, np.zeros((1, dimensions)), np.full((1, dimensions), np.nan))).astype(
        np.float32
    )
    pool = Candidates(scores=np.linspace(1, 0, len(vectors)), vectors=vectors, metric=Metric.EUCLIDEAN)
    restored = kept(pool, preset="vectors").candidates().vectors
    assert np.abs(restored[:n] - rows).max() <= np.abs(rows).max() * 1e-3
    assert np.array_equal(restored[:n], restored[n : 2 * n])
    assert np.isnan(restored[2 * n :]).all()


def test_a_pool_without_vectors_is_kept_by_its_texts() -> None:
    stored = kept(pool_of("one text", "one text", vectors=np.empty((2, 0), np.float32)))
    assert not stored.has_vectors
    assert stored.now.keep.tolist() == [0]
    assert kept(pool_of("one text")).has_vectors


def test_its_size_counts_texts_vectors_and_names() -> None:
    stored = kept(demo_pool(0))
    texts = sum(sys.getsizeof(text) for text in stored.texts or () if text is not None)
    assert texts + 40 * 384 * 2 < stored.size_bytes < texts + 40 * 384 * 2 + 10_000
    named = replace(demo_pool(0).metadata, documents=("d" * 100,) * 40)
    assert kept(replace(demo_pool(0), metadata=named)).size_bytes > stored.size_bytes + 40 * 100


def test_the_page_counts_its_copies_and_the_results_that_left_in_other_words() -> None:
    pool = reworded_pool()
    selection = select(pool, top_k=3, policy=of_preset("meaning"))
    assert selection.keep.tolist() == [0, 3, 4]
    page = page_of(selection, 3, None)
    assert (page.filled, page.reworded) == (0, 2)
    filled = page_of(select(pool_of(*EDITED, "Another."), top_k=3, policy=of_preset("default")), 3, None)
    assert (filled.keep.tolist(), filled.filled, filled.reworded) == ([0, 1, 2], 1, 0)


def test_what_preset_meaning_would_remove_is_counted_and_the_page_is_that_of_the_policy() -> None:
    stored, reworded = finished(taking(reworded_pool(), top_k=3, policy=of_preset("default"), offset=None))
    assert (stored.now.keep.tolist(), stored.results, reworded) == ([0, 1, 2], 3, 2)


@pytest.mark.parametrize(
    "pool",
    [pool_of(*REWORDED, vectors=np.empty((3, 0), np.float32)), replace(reworded_pool(), metadata=Metadata())],
    ids=["no vectors", "no texts"],
)
def test_what_cannot_be_known_is_not_counted(pool: Candidates) -> None:
    assert finished(taking(pool, top_k=1, policy=of_preset("default"), offset=None))[1] is None


def test_a_policy_with_rewordings_has_nothing_to_be_counted_beyond_it() -> None:
    assert finished(taking(reworded_pool(), top_k=3, policy=of_preset("meaning"), offset=None))[1] is None


def test_long_texts_behind_the_page_are_not_read_to_count_rewordings() -> None:
    pool = reworded_pool()
    long = as_texts(f"{word} {'is not read ' * (LONGEST_SENTENCE // 10)}" for word in ("first", "second"))
    texts = (*(pool.metadata.texts or ())[:-2], *long)
    pool = replace(pool, metadata=Metadata(texts=texts))
    _, reworded = finished(taking(pool, top_k=3, policy=of_preset("default"), offset=None))
    assert reworded == 2
    assert [READINGS.get((text.raw, False)) for text in long if text is not None] == [None, None]
