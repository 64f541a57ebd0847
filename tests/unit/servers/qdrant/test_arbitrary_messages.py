"""Whatever message comes in, a method answers or refuses: nothing else escapes its reader, its verb or its writer."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from servers.qdrant import catalogue, points
from servers.qdrant.catalogue import FullRegistry
from servers.qdrant.grpc_messages import Encoding, decoded, messages
from servers.qdrant.grpc_server import METHODS

from vecsieve.proxy.demo.embedded.collections import Call, Registry
from vecsieve.proxy.demo.embedded.fields import RefusalError

KINDS = {
    "int": st.integers(0, 12),
    "float": st.sampled_from([0.0, 0.5, 1.0, -1.0, 3.0]),
    "bool": st.booleans(),
    "str": st.sampled_from(["c", "", "sp", "rows", "n", "n[]", "u", "00000000-0000-4000-8000-000000000001"]),
}
MOST_LEVELS = 6


@pytest.fixture(scope="module")
def registry() -> Iterator[Registry]:
    made = FullRegistry()
    settings = {
        "vectors": {
            "": {"size": 2, "distance": "Cosine"},
            "rows": {"size": 2, "distance": "Dot", "multivector_config": {"comparator": "max_sim"}},
        },
        "sparse_vectors": {"sp": {}},
    }
    catalogue.create(made, Call({"collection": "c"}, body=settings))
    rows = [
        {
            "id": n,
            "vector": {"": [1, n], "rows": [[n, 1]], "sp": {"indices": [n], "values": [1]}},
            "payload": {"n": [n]},
        }
        for n in range(1, 9)
    ]
    points.upsert(made, Call({"collection": "c"}, body={"points": rows}))
    yield made
    made.close()


def scalar(field: Any, data: st.DataObject) -> Any:
    if field.enum_type is not None:
        return data.draw(st.sampled_from([value.number for value in field.enum_type.values]))
    kinds = {field.TYPE_FLOAT: "float", field.TYPE_DOUBLE: "float", field.TYPE_BOOL: "bool", field.TYPE_STRING: "str"}
    return data.draw(KINDS[kinds.get(field.type, "int")])


def fill(message: Any, data: st.DataObject, level: int = 0) -> None:
    """Set some fields, of any type, each to something that has the type."""
    fields = [field for field in message.DESCRIPTOR.fields if level < MOST_LEVELS or field.message_type is None]
    count = min(len(fields), 4)
    for field in (
        data.draw(st.lists(st.sampled_from(fields), max_size=count, unique_by=lambda each: each.name)) if fields else []
    ):
        inner = field.message_type
        if inner is not None and inner.GetOptions().map_entry:
            target = getattr(message, field.name)[data.draw(KINDS["str"])]
            fill(target, data, level + 1)
        elif inner is not None and field.is_repeated:
            for _ in range(data.draw(st.integers(0, 2))):
                fill(getattr(message, field.name).add(), data, level + 1)
        elif inner is not None:
            getattr(message, field.name).SetInParent()
            fill(getattr(message, field.name), data, level + 1)
        elif field.is_repeated:
            getattr(message, field.name).extend(scalar(field, data) for _ in range(data.draw(st.integers(0, 2))))
        else:
            setattr(message, field.name, scalar(field, data))


def outcome(registry: Registry, path: str, message: Any) -> RefusalError | bytes:
    """What goes back; everything but a refusal and a client's conversion that fails comes through."""
    method = METHODS[path]
    try:
        call = method.read(message)
    except ValueError as error:
        return RefusalError(400, str(error))
    except RefusalError as refusal:
        return refusal
    reply = getattr(messages(), method.reply)()
    try:
        method.write(reply, method.verb(registry, call), Encoding.ONEOF)
    except RefusalError as refusal:
        return refusal
    sent: bytes = reply.SerializeToString()
    return sent


@pytest.mark.parametrize("path", [path for path in METHODS if path.startswith("/qdrant.Points/")])
@given(data=st.data())
def test_any_message_about_points_is_answered_or_refused(registry: Registry, path: str, data: st.DataObject) -> None:
    """Every method about points, for every message of its type, gives a reply that can be sent or a client error."""
    message = getattr(messages(), METHODS[path].request)()
    fill(message, data)
    message.collection_name = "c"
    found = outcome(registry, path, message)
    assert isinstance(found, bytes) or found.status in {400, 404, 422, 501}, found


@pytest.mark.parametrize("path", METHODS)
@given(raw=st.binary(max_size=60))
def test_any_bytes_are_read_or_refused(path: str, raw: bytes) -> None:
    """Every reader, for any bytes, gives a Call, a refusal or ValueError."""
    try:
        call = METHODS[path].read(decoded(METHODS[path].request, raw))
    except (RefusalError, ValueError):
        return
    assert isinstance(call, Call)
