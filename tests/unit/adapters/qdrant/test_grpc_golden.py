"""What Qdrant's Go, JavaScript and Java clients really send: recognised, read, widened in declared fields alone, cut to itself."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest
from qdrant_client import grpc as pb

from support.backends.transports import operation_of
from support.exchanges.foreign_calls import ForeignCall, foreign_calls
from vecsieve.adapters.contract import Needs, RequestHead, SearchCall, UnsupportedError
from vecsieve.adapters.qdrant.calls import METHODS
from vecsieve.adapters.qdrant.grpc import QdrantGrpc
from vecsieve.adapters.wire.protobuf import fields

CALLS = foreign_calls()
# What the scenario asks that is not ours.
NOT_SEARCHES, LEFT_ALONE = {"groups"}, {"mmr", "one"}
OURS = [call for call in CALLS if call.name not in NOT_SEARCHES | LEFT_ALONE]
# Their replies are what a widened request would have been answered: payload and vectors are all there.
WHOLE = [call for call in OURS if call.name in {"copied.both", "copied.vectors", "named.sparse"}]
FETCH_K = 24
DECLARED = ("limit", "offset", "with_vectors", "with_payload")
NEEDS = {"vectors alone": Needs(), "texts too": Needs(payload_fields=("base",), optional_fields=("text",))}


def parsed(call: ForeignCall, needs: Needs = NEEDS["vectors alone"]) -> tuple[QdrantGrpc, SearchCall]:
    adapter = QdrantGrpc()
    operation = operation_of(adapter, RequestHead(method="POST", path=call.path, message=call.message))
    assert (operation.name, operation.collection) == (METHODS[call.path], call.name.split(".")[0])
    return adapter, adapter.parse_request(operation, call.message, needs)


def items(call: ForeignCall, message: bytes) -> list[Any]:
    """The searches of a request, itself where it is one, by protobuf's own library."""
    name = call.path.rpartition("/")[2]
    searched = name.removesuffix("Batch")
    if searched == name:
        return [getattr(pb, f"{name}Points").FromString(message)]
    return list(getattr(getattr(pb, f"{name}Points").FromString(message), f"{searched.lower()}_points"))


def undeclared(item: Any) -> bytes:
    """A search without the fields that may change."""
    for name in DECLARED:
        item.ClearField(name)
    data: bytes = item.SerializeToString(deterministic=True)
    return data


def test_three_clients_are_recorded_in_every_way_there_is_to_search() -> None:
    assert Counter(call.client for call in CALLS) == {"go": 27, "java": 27, "node": 27}
    for client in ("go", "java", "node"):
        asked = {METHODS[call.path] for call in CALLS if call.client == client and call.path in METHODS}
        assert asked == {"query", "query_batch", "search", "search_batch", "recommend", "discover"}


@pytest.mark.parametrize("needs", NEEDS.values(), ids=NEEDS)
@pytest.mark.parametrize("call", OURS, ids=str)
def test_a_search_is_read_and_widened_in_its_declared_fields_alone(call: ForeignCall, needs: Needs) -> None:
    adapter, search = parsed(call, needs)
    wide = adapter.widen(search, [FETCH_K] * len(search.searches))
    before, after = (items(call, message) for message in (call.message, wide))
    assert len(after) == len(before) == len(search.searches)
    for asked, item in zip(before, after, strict=True):
        assert item.limit == FETCH_K
        assert not item.offset
        assert item.HasField("with_vectors")
        assert undeclared(item) == undeclared(asked)
    assert search.searches[0].top_k == (10 if call.name.endswith("default limit") else 2)
    assert search.searches[0].offset == (3 if call.name.endswith("offset") else 0)


@pytest.mark.parametrize("call", [call for call in OURS if call.name.startswith("copied.batch")], ids=str)
def test_a_search_of_no_candidates_more_stays_as_it_was_sent(call: ForeignCall) -> None:
    adapter, search = parsed(call)
    assert adapter.widen(search, [0] * len(search.searches)) == call.message


@pytest.mark.parametrize("call", [call for call in CALLS if call.name in LEFT_ALONE], ids=str)
def test_what_orders_for_itself_or_wants_one_result_is_left_alone(call: ForeignCall) -> None:
    adapter = QdrantGrpc()
    operation = operation_of(adapter, RequestHead(method="POST", path=call.path, message=call.message))
    with pytest.raises(UnsupportedError):
        adapter.parse_request(operation, call.message, Needs())


@pytest.mark.parametrize("call", [call for call in CALLS if call.name in NOT_SEARCHES], ids=str)
def test_groups_are_not_ours(call: ForeignCall) -> None:
    assert QdrantGrpc().classify(RequestHead(method="POST", path=call.path, message=call.message)) is None


@pytest.mark.parametrize("call", WHOLE, ids=str)
def test_a_reply_of_which_all_is_kept_is_itself(call: ForeignCall) -> None:
    adapter, search = parsed(call)
    reply = adapter.parse_reply(search, call.reply)
    (pool,) = reply.pools
    count = len(pool.scores)
    assert count == sum(field.number == 1 for field in fields(call.reply)) == 2
    assert np.isfinite(pool.vectors).all()
    assert adapter.trim(search, reply, [np.arange(count)]) == call.reply
