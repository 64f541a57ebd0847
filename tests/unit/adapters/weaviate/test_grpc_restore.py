from __future__ import annotations

from typing import Any

import numpy as np

from support.weaviate.conversations import UNKNOWN, search
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


def test_the_first_page_of_a_wider_reply_is_the_direct_answer() -> None:
    for metadata in (None, {"uuid": True}, {"vector": True}, {"distance": True, "vectors": ["a"]}):
        assert kept([0, 1, 2], metadata=metadata) == direct(metadata=metadata)


def test_of_named_vectors_only_those_are_shown_that_the_client_lists() -> None:
    near: dict[str, Any] = {"near_vector": {"vector": [1.0, 0.0], "targets": {"target_vectors": ["a"]}}}
    for metadata in (None, {"uuid": True, "vectors": ["b"]}, {"vectors": ["b", "a"]}, {"vector": True}):
        answer = kept([0, 1, 2], server=WITH_NAMES, metadata=metadata, **near)
        assert answer == direct(server=WITH_NAMES, metadata=metadata, **near)


def test_properties_that_were_added_are_gone_and_what_held_nothing_else_is_gone_with_them() -> None:
    needs = Needs(payload_fields=("owner",))
    for properties in ({}, {"non_ref_properties": ["text"]}, {"non_ref_properties": ["text", "owner"]}, None):
        assert kept([0, 1, 2], needs, properties=properties) == direct(properties=properties)
