"""Messages of a partial schema, against protobuf's own library with the whole one."""

from __future__ import annotations

from typing import Any

import pytest
from google.protobuf.descriptor_pool import Default
from qdrant_client import grpc

from support.grpc.wire_fields import number_field
from vecsieve.adapters.wire.protobuf import length_field
from vecsieve.adapters.wire.schema import compiled, has_unknown, parsed

TYPES = compiled(
    "vecsieve.tests",
    {
        "Hit": "2 payload map:Text, 3 score float, 5 version uint64, 7 opaque bytes*",
        "Text": "4 string_value bytes",
        "Dense": "1 data float*",
        "Several": "1 hits Hit*, 2 flag bool",
    },
)


def test_what_is_not_named_survives_behind_what_is() -> None:
    message = grpc.ScoredPoint(id=grpc.PointId(num=7), score=0.5, version=3, shard_key=grpc.ShardKey(number=1))
    hit = parsed(TYPES["Hit"], message.SerializeToString())
    assert (hit.score, hit.version) == (0.5, 3)
    assert has_unknown(hit)
    hit.score = 0.25
    again: Any = grpc.ScoredPoint.FromString(hit.SerializeToString())
    message.score = 0.25
    assert again == message


def test_a_number_set_to_zero_is_written() -> None:
    assert TYPES["Hit"](version=0).SerializeToString() == number_field(5, 0)
    assert not parsed(TYPES["Hit"], b"").HasField("version")


def test_maps_have_texts_as_keys_and_messages_as_values() -> None:
    payload = {"a": grpc.Value(string_value="größe"), "n": grpc.Value(integer_value=3)}
    entries = parsed(TYPES["Hit"], grpc.ScoredPoint(payload=payload).SerializeToString()).payload
    assert entries.get("a").string_value.decode() == "größe"
    assert entries.get("n").SerializeToString() == payload["n"].SerializeToString()
    assert entries.get("gone") is None


def test_an_opaque_message_that_is_set_twice_is_kept_twice() -> None:
    twice = length_field(7, b"a") + length_field(7, b"b")
    hit = parsed(TYPES["Hit"], twice)
    assert b"".join(hit.opaque) == b"ab"
    assert hit.SerializeToString() == twice


@pytest.mark.parametrize(
    "data", [b"\xff", b"\x0a\x05", length_field(1, b"123"), b"\x0b" * 300, b"\x0a\xff\xff\xff\xff\x07"]
)
def test_what_is_no_message_raises_a_value_error(data: bytes) -> None:
    with pytest.raises(ValueError, match="Error parsing"):
        parsed(TYPES["Dense"], data)


def test_a_field_of_another_wire_type_is_unknown() -> None:
    assert has_unknown(parsed(TYPES["Several"], length_field(2, b"")))
    assert has_unknown(parsed(TYPES["Several"], number_field(1, 5)))
    assert not has_unknown(parsed(TYPES["Several"], length_field(1, b"") + number_field(2, 1)))


def test_the_types_are_in_no_pool_of_others() -> None:
    assert TYPES["Hit"].DESCRIPTOR.file.pool is not Default()
    assert compiled("vecsieve.tests", {"Hit": "1 a bytes"})["Hit"] is not TYPES["Hit"]
