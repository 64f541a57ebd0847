"""A call's second step: what it asks for, what it falls back to, and what it costs."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from support.backends.searching import Run
from support.backends.transports import operation_of
from support.pinecone.model import Service, Stored
from vecsieve.adapters.contract import Lookup, Operation, RequestHead
from vecsieve.adapters.pinecone.rest import PineconeRest
from vecsieve.config.schema import Settings
from vecsieve.proxy.search.errors import LookupFailedError
from vecsieve.proxy.search.fetch import needs_of, plan
from vecsieve.proxy.search.policy import Policies, ResolvedPolicy
from vecsieve.proxy.search.pools.lookups import SendVectorFetch
from vecsieve.proxy.search.report import stages_of
from vecsieve.proxy.search.searcher import Searcher
from vecsieve.proxy.telemetry.labels import Stage, VectorFetchOutcome
from vecsieve.proxy.telemetry.tracing import Stopwatch

FLOOR = 24
# No two share a word. Letters: guards know numbers for facts.
WORDS = [f'"{one}{two} {two}{one}{one} {one}{two}{two}"' for one in "abcdefghijk" for two in "lmnopqrstuv"]


def operation() -> Operation:
    return operation_of(PineconeRest(), RequestHead(method="POST", path="/records/namespaces/ns/search"))


def text(rank: int, family: int) -> str:
    """The text of a record, as JSON: the second half of its words is its family's. By words such texts are no copies."""
    return json.dumps(f"{json.loads(WORDS[rank])} {json.loads(WORDS[-1 - family])}")


def policy(integrated: str = "fetch", **members: Any) -> ResolvedPolicy:
    made = Settings.model_validate({"backend": "pinecone", "policy": {"fetch": {"integrated": integrated}, **members}})
    return Policies(made).resolve("pinecone", "docs")


class Upstream:
    """Records in rank order, each of a family; a lookup brings the vectors of their families.

    ``requested``: the ids of each lookup. ``fails``: what the lookups end in, from number ``after`` on. ``gone``: ids that have
    no record any more.
    """

    def __init__(
        self,
        families: Sequence[int],
        *,
        fails: VectorFetchOutcome | None = None,
        after: int = 0,
        gone: Sequence[str] = (),
    ) -> None:
        self.vectors = {
            f"r{rank}": [float(axis == family) for axis in range(64)] for rank, family in enumerate(families)
        }
        self.service = Service(records=tuple(
            Stored(id=f'"r{rank}"', score=f"{0.9 - rank / 1000:.3f}", fields=(("text", text(rank, family)),))
            for rank, family in enumerate(families)
        ))  # fmt: skip
        self.requested: list[tuple[str, ...]] = []
        self.searched = 0
        self.fails, self.after, self.gone = fails, after, gone

    async def fetch(self, body: bytes) -> bytes:
        self.searched += 1
        return self.service.answer("records_search", body)

    async def look(self, lookup: Lookup) -> bytes:
        assert parse_qs(urlsplit(lookup.target).query)["ids"] == list(lookup.ids)
        self.requested.append(lookup.ids)
        if self.fails is VectorFetchOutcome.MALFORMED and len(self.requested) > self.after:
            return b'{"vectors":'
        if self.fails is not None and len(self.requested) > self.after:
            raise LookupFailedError(self.fails)
        fetched = {one: {"values": self.vectors[one]} for one in lookup.ids if one not in self.gone}
        return json.dumps({"vectors": fetched, "usage": {"readUnits": 3}}).encode()


async def answered(
    upstream: Upstream, *, top_k: int = 3, look: SendVectorFetch | None = None, **members: Any
) -> tuple[list[str], int, Run]:
    """The ids, the read units that the client is told of, and what the attempt came to."""
    searcher, chosen = Searcher(PineconeRest()), policy(**members)
    body = json.dumps({"query": {"top_k": top_k, "inputs": {"text": "a"}}}).encode()
    call = PineconeRest().parse_request(operation(), body, needs_of(chosen, None))
    sizes = plan(call, chosen, None)
    assert sizes is not None
    ticks = iter(range(10_000))
    attempt = Run(call=call, policy=chosen, plan=sizes, watch=Stopwatch(lambda: float(next(ticks)), 0.0))
    content = json.loads(await attempt.improve(searcher, upstream.fetch, look=look or upstream.look))
    return [hit["_id"] for hit in content["result"]["hits"]], content["usage"]["read_units"], attempt


BY_VECTORS: dict[str, Any] = {"texts": "none", "threshold": {"fixed": 0.1}}
COPIES = [0, 0, 1, 1, 2, 2, 3, 3]
FIRSTS = ["r0", "r1", "r2"]
DISTINCT = ["r0", "r2", "r4"]
SEARCH_UNITS = 5  # what the model of the service charges for a search


async def test_vectors_that_are_looked_up_show_the_copies_and_are_charged() -> None:
    upstream = Upstream(COPIES)
    ids, units, attempt = await answered(upstream, **BY_VECTORS)
    assert (ids, units) == (DISTINCT, SEARCH_UNITS + 3)
    assert upstream.requested == [tuple(f"r{rank}" for rank in range(len(COPIES)))]
    assert attempt.lookups is not None
    assert (attempt.lookups.outcome, attempt.lookups.read_units) == (VectorFetchOutcome.FOUND, 3)
    assert attempt.lookups.fetched_bytes > 0
    assert stages_of(attempt.planned.watch.marks)[Stage.UPSTREAM] == 2.0  # the search and the lookup, one tick each


async def test_a_policy_that_says_text_asks_for_nothing_more() -> None:
    assert not needs_of(policy("text"), None).lookups
    assert needs_of(policy("fetch"), None).lookups


async def test_a_transport_that_cannot_look_up_leaves_it_to_the_texts() -> None:
    searcher, upstream, chosen = Searcher(PineconeRest()), Upstream(COPIES), policy()
    call = PineconeRest().parse_request(
        operation(), b'{"query":{"top_k":3,"inputs":{"text":"a"}}}', needs_of(chosen, None)
    )
    attempt = Run(call=call, policy=chosen, plan=(FLOOR,), watch=Stopwatch(lambda: 0.0, 0.0))
    content = json.loads(await attempt.improve(searcher, upstream.fetch))
    assert [hit["_id"] for hit in content["result"]["hits"]] == FIRSTS
    assert attempt.lookups is None


@pytest.mark.parametrize("failure", [item for item in VectorFetchOutcome if item is not VectorFetchOutcome.FOUND])
async def test_when_a_lookup_fails_the_texts_decide_and_nobody_is_charged(failure: VectorFetchOutcome) -> None:
    upstream = Upstream(COPIES, fails=failure)
    ids, units, attempt = await answered(upstream)
    assert (ids, units) == (FIRSTS, SEARCH_UNITS)
    assert (len(upstream.requested), upstream.searched) == (1, 1)
    assert attempt.lookups is not None
    assert (attempt.lookups.outcome, attempt.lookups.read_units) == (failure, 0)


async def test_records_that_are_gone_by_then_stand_for_themselves() -> None:
    ids, _, attempt = await answered(Upstream(COPIES, gone=["r1"]), top_k=4, **BY_VECTORS)
    assert ids == ["r0", "r1", "r2", "r4"]
    assert attempt.reply is not None
    assert attempt.reply.pools[0].unusable == 1


@pytest.mark.parametrize("size", [0, 1])
async def test_a_reply_with_nothing_to_compare_is_not_looked_up(size: int) -> None:
    upstream = Upstream(COPIES[:size])
    ids, units, attempt = await answered(upstream)
    assert (len(ids), units, upstream.requested) == (size, SEARCH_UNITS, [])
    assert attempt.lookups is not None
    assert attempt.lookups.outcome is None


FLOOD = [0] * FLOOR + [1, 2, 3]


async def test_a_grown_pool_asks_only_for_what_is_new_and_charges_both() -> None:
    upstream = Upstream(FLOOD)
    ids, units, _ = await answered(upstream, **BY_VECTORS)
    assert ids == ["r0", "r24", "r25"]
    assert [len(lookup_ids) for lookup_ids in upstream.requested] == [FLOOR, 3]
    assert units == SEARCH_UNITS + 6


async def test_when_only_the_grown_pool_cannot_be_looked_up_the_smaller_one_stands() -> None:
    upstream = Upstream(FLOOD, fails=VectorFetchOutcome.TIMEOUT, after=1)
    ids, units, attempt = await answered(upstream, **BY_VECTORS)
    assert ids == FIRSTS  # filled up with copies
    assert units == SEARCH_UNITS + 3
    assert attempt.rounds == 1
    assert attempt.lookups is not None
    assert attempt.lookups.outcome is VectorFetchOutcome.TIMEOUT


async def test_what_earlier_requests_of_a_failed_lookup_cost_is_charged() -> None:
    upstream = Upstream(range(60))
    for one in list(upstream.vectors):
        upstream.vectors[one.ljust(510, "x")] = upstream.vectors.pop(one)
    upstream.service = Service(records=tuple(
        Stored(id=json.dumps(one), score="0.5", fields=(("text", text),))
        for one, text in zip(upstream.vectors, WORDS, strict=False)
    ))  # fmt: skip
    upstream.fails, upstream.after = VectorFetchOutcome.STATUS, 1
    ids, units, attempt = await answered(upstream, top_k=10)
    assert len(ids) == 10
    assert len(upstream.requested) == 2  # two were sent, one was answered
    assert units == SEARCH_UNITS + 3
    assert attempt.reply is not None
    assert attempt.reply.pools[0].unusable == attempt.reply.pools[0].size


async def test_once_failed_it_is_not_tried_again_in_the_same_call() -> None:
    same = json.dumps("one text for all of them")
    upstream = Upstream(FLOOD, fails=VectorFetchOutcome.RESET)
    upstream.service = Service(records=tuple(
        Stored(id=f'"r{rank}"', score="0.5", fields=(("text", same),)) for rank in range(60)
    ))  # fmt: skip
    _, _, attempt = await answered(upstream)
    assert (attempt.rounds, upstream.searched, len(upstream.requested)) == (2, 2, 1)


async def test_when_our_own_part_of_it_breaks_the_plain_answer_stands() -> None:
    async def broken(_: Lookup) -> bytes:
        raise RuntimeError("ours")

    searcher, upstream, chosen = Searcher(PineconeRest()), Upstream(COPIES), policy()
    call = PineconeRest().parse_request(
        operation(), b'{"query":{"top_k":3,"inputs":{"text":"a"}}}', needs_of(chosen, None)
    )
    attempt = Run(call=call, policy=chosen, plan=(FLOOR,), watch=Stopwatch(lambda: 0.0, 0.0))
    with pytest.raises(RuntimeError):
        await attempt.improve(searcher, upstream.fetch, look=broken)
    content = json.loads(attempt.plain(searcher))
    assert [hit["_id"] for hit in content["result"]["hits"]] == FIRSTS
