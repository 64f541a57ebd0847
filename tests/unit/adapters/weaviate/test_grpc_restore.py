from __future__ import annotations

from typing import Any

import numpy as np

from support.weaviate.conversations import EVERYTHING, UNKNOWN, search
from support.weaviate.messages import message_type
from support.weaviate.model import Collection, Stored
from vecsieve.adapters.contract import Needs, Operation
from vecsieve.adapters.weaviate.grpc import read_reply, trim
from vecsieve.adapters.weaviate.grpc_request import read_request, widen

OPERATION = Operation(backend="weaviate", name="search", collection="Docs")
NEAR: dict[str, Any] = {"near_vector": {"vector": [1.0, 0.0]}}
OBJECTS = [
    Stored(
        id=f"00000000-0000-0000-0000-{number:012}",
        properties={"text": f"t{number}", "owner": "o"},
        vector=[1.0, number],
    )
    for number in range(6)
]
NAMED = [
    Stored(id=each.id, properties=each.properties, vectors={"a": each.vector or [], "b": [0.0, 1.0]})
    for each in OBJECTS
]
PLAIN = Collection(name="Docs", properties=("text", "owner"), objects=OBJECTS)
WITH_NAMES = Collection(name="Docs", properties=("text", "owner"), named=("a", "b"), objects=NAMED)


def kept(places: list[int], needs: Needs | None = None, *, server: Collection = PLAIN, **fields: Any) -> bytes:
    """The answer of these candidates of six."""
    body = search(collection="Docs", limit=3, **{**NEAR, **fields})
    document = read_request(OPERATION, body, needs or Needs())[1]
    _, reply = read_reply(document, needs or Needs(), server.answer(widen(document, [6])) + UNKNOWN)
    return trim(document, reply, [np.array(places, dtype=np.intp)])


def direct(*, server: Collection = PLAIN, **fields: Any) -> bytes:
    return server.answer(search(collection="Docs", limit=3, **{**NEAR, **fields})) + UNKNOWN


def ids(answer: bytes) -> list[str]:
    return [each.metadata.id[-1] for each in message_type("SearchReply").FromString(answer).results]


def test_the_first_page_of_a_wider_reply_is_the_direct_answer() -> None:
    for metadata in (None, {"uuid": True}, {"vector": True}, {"distance": True, "vectors": ["a"]}):
        assert kept([0, 1, 2], metadata=metadata) == direct(metadata=metadata)


def test_the_kept_results_stand_in_their_order_and_around_them_all_is_as_it_was() -> None:
    answer = kept([0, 3, 5], metadata={"uuid": True})
    assert ids(answer) == ["0", "3", "5"]
    assert answer.endswith(UNKNOWN)
    assert message_type("SearchReply").FromString(answer).took == 0.25


def test_nothing_kept_is_a_reply_without_results() -> None:
    assert ids(kept([])) == []


def test_of_named_vectors_only_those_are_shown_that_the_client_lists() -> None:
    near: dict[str, Any] = {"near_vector": {"vector": [1.0, 0.0], "targets": {"target_vectors": ["a"]}}}
    for metadata in (None, {"uuid": True, "vectors": ["b"]}, {"vectors": ["b", "a"]}, {"vector": True}):
        answer = kept([0, 1, 2], server=WITH_NAMES, metadata=metadata, **near)
        assert answer == direct(server=WITH_NAMES, metadata=metadata, **near)


def test_properties_that_were_added_are_gone_and_what_held_nothing_else_is_gone_with_them() -> None:
    needs = Needs(payload_fields=("owner",))
    for properties in ({}, {"non_ref_properties": ["text"]}, {"non_ref_properties": ["text", "owner"]}, None):
        assert kept([0, 1, 2], needs, properties=properties) == direct(properties=properties)


def test_a_result_without_the_property_that_was_asked_for_stays_as_it_is() -> None:
    needs = Needs(payload_fields=("owner",))
    fields: dict[str, Any] = {**NEAR, "properties": {}, "metadata": EVERYTHING}
    body = search(collection="Docs", limit=3, **fields)
    _, document = read_request(OPERATION, body, needs)
    assert document.shown.properties == ("owner",)
    upstream = PLAIN.answer(body)
    _, reply = read_reply(document, needs, upstream)
    assert trim(document, reply, [np.arange(3)]) == upstream
