from __future__ import annotations

from typing import Any

import pytest
from qdrant_client import grpc

from support.qdrant.grpc_model import field
from vecsieve.adapters.contract import Needs, Reason, UnsupportedError
from vecsieve.adapters.qdrant.grpc_request import read_payload, read_vectors, widen_payload, widen_vectors
from vecsieve.adapters.qdrant.grpc_schema import proto
from vecsieve.adapters.qdrant.ranking import Payload
from vecsieve.adapters.wire.schema import parsed

VECTORS, PAYLOAD = 10, 11


def search(number: int, selector: Any) -> Any:
    """A search with that selector."""
    if selector is None:
        return proto.Query()
    return parsed(proto.Query, field(number, selector if isinstance(selector, bytes) else selector.SerializeToString()))


def wide(message: Any, added: dict[str, Any]) -> Any:
    """The same search with an addition appended, as the server reads it."""
    return grpc.QueryPoints.FromString(message.SerializeToString() + proto.Query(**added).SerializeToString())


def vectors(value: bool | list[str]) -> Any:
    if isinstance(value, bool):
        return grpc.WithVectorsSelector(enable=value)
    return grpc.WithVectorsSelector(include=grpc.VectorsSelector(names=value))


def including(*keys: str) -> Any:
    return grpc.WithPayloadSelector(include=grpc.PayloadIncludeSelector(fields=keys))


def excluding(*keys: str) -> Any:
    return grpc.WithPayloadSelector(exclude=grpc.PayloadExcludeSelector(fields=keys))


@pytest.mark.parametrize(
    ("selector", "wanted"),
    [
        (None, False),
        (grpc.WithVectorsSelector(), False),
        (vectors(False), False),
        (vectors(True), True),
        (vectors([]), ()),
        (vectors(["a", "größe"]), ("a", "größe")),
    ],
)
def test_the_vectors_a_client_selects(selector: Any, wanted: bool | tuple[str, ...]) -> None:
    assert read_vectors(search(VECTORS, selector).with_vectors) == wanted


@pytest.mark.parametrize(
    ("selector", "reason"),
    [
        (field(2, field(1, b"\xff")), Reason.UNSUPPORTED_FIELD),
        (field(1, b""), Reason.UNSUPPORTED_FIELD),
        (b"\x10\x01", Reason.UNSUPPORTED_FIELD),
        (field(3, b""), Reason.UNSUPPORTED_FIELD),
        (b"\x08\x01" + field(2, b""), Reason.AMBIGUOUS_FIELD),
    ],
)
def test_a_selection_that_is_not_understood_is_left_alone(selector: bytes, reason: Reason) -> None:
    with pytest.raises(UnsupportedError) as refused:
        read_vectors(search(VECTORS, selector).with_vectors)
    assert refused.value.reason is reason


@pytest.mark.parametrize(
    ("client", "name", "merged"),
    [
        (None, "a", vectors(["a"])),
        (None, "", vectors([""])),
        (None, None, vectors(True)),
        (vectors(False), "a", vectors(["a"])),
        (vectors(False), None, vectors(True)),
        (vectors(True), "a", vectors(True)),
        (vectors(True), None, vectors(True)),
        (vectors([]), "a", vectors(["a"])),
        (vectors(["b"]), "a", vectors(["b", "a"])),
        (vectors(["a"]), "a", vectors(["a"])),
        (vectors(["b"]), None, vectors(True)),
    ],
)
def test_what_is_added_and_what_the_client_said_are_merged_to_both(client: Any, name: str | None, merged: Any) -> None:
    message = search(VECTORS, client)
    assert wide(message, widen_vectors(read_vectors(message.with_vectors), name)).with_vectors == merged


@pytest.mark.parametrize(
    ("client", "fields_wanted", "optional", "planned", "merged"),
    [
        (None, (), (), Payload(), None),
        (None, ("a",), ("b",), Payload(("a", "b"), is_forced=True), including("a", "b")),
        (grpc.WithPayloadSelector(enable=False), ("a",), (), Payload(("a",), is_forced=True), including("a")),
        (grpc.WithPayloadSelector(enable=True), ("a",), ("b",), Payload(), grpc.WithPayloadSelector(enable=True)),
        (including("x"), ("a",), ("b",), Payload(("a", "b")), including("x", "a", "b")),
        (including("a"), ("a",), (), Payload(), including("a")),
        (including(), (), ("b",), Payload(("b",)), including("b")),
        (including("b.c"), (), ("b",), Payload(is_cut=True), including("b.c")),
        (including("b.c"), (), ("a",), Payload(("a",)), including("b.c", "a")),
        (including('"b"'), (), ("b",), Payload(is_cut=True), including('"b"')),
        (excluding("x"), ("a",), ("b",), Payload(), excluding("x")),
        (excluding("b"), (), ("b",), Payload(is_cut=True), excluding("b")),
        (excluding("b"), (), (), Payload(), excluding("b")),
    ],
)
def test_payload_keys_are_added_to_what_the_client_selects(
    client: Any, fields_wanted: tuple[str, ...], optional: tuple[str, ...], planned: Payload, merged: Any
) -> None:
    message = search(PAYLOAD, client)
    plan = read_payload(message, Needs(payload_fields=fields_wanted, optional_fields=optional))
    assert plan == planned
    found = wide(message, widen_payload(plan))
    assert found.with_payload == merged if merged is not None else not found.HasField("with_payload")


@pytest.mark.parametrize(
    ("client", "reason"),
    [
        (including("a.b"), Reason.PAYLOAD_SELECTOR),
        (excluding("a.b"), Reason.PAYLOAD_SELECTOR),
        (grpc.WithPayloadSelector(), Reason.PAYLOAD_SELECTOR),
        (field(2, field(1, b"\xff")), Reason.UNSUPPORTED_FIELD),
        (field(2, b"") + field(3, b""), Reason.AMBIGUOUS_FIELD),
    ],
)
def test_a_field_that_could_not_be_had_and_taken_out_again_refuses_the_search(client: Any, reason: Reason) -> None:
    with pytest.raises(UnsupportedError) as refused:
        read_payload(search(PAYLOAD, client), Needs(payload_fields=("a",)))
    assert refused.value.reason is reason
