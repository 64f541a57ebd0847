"""Messages as the service's public description has them, and the JSON they stand for."""

from __future__ import annotations

import os
import re
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from google.protobuf import json_format
from hypothesis import given
from hypothesis import strategies as st
from servers.pinecone.errors import RefusalError
from servers.pinecone.grpc_messages import MESSAGES, as_bytes, as_json, message_type

from support.exchanges.captures import BESIDE

DESCRIBED = Path(os.environ.get("VECSIEVE_CAPTURES", BESIDE)) / "pinecone" / "pinecone_2026-04_noapi.proto"


def sent(name: str, **fields: Any) -> bytes:
    return bytes(message_type(name)(**fields).SerializeToString())


def test_only_what_is_set_is_in_the_object() -> None:
    assert as_json("QueryRequest", b"") == {}
    assert as_json("QueryRequest", sent("QueryRequest", top_k=0, id="", namespace="")) == {}
    assert as_json("QueryRequest", sent("QueryRequest", max_candidates=0)) == {"maxCandidates": 0}
    raw = sent("QueryRequest", namespace="ns", top_k=3, vector=[0.5, -1], include_values=True)
    assert as_json("QueryRequest", raw) == {
        "namespace": "ns",
        "topK": 3,
        "vector": [0.5, -1.0],
        "includeValues": True,
    }


def test_messages_within_messages_are_objects() -> None:
    request: Any = message_type("UpsertRequest")()
    vector = request.vectors.add(id="a", values=[1])
    vector.metadata.update({"t": "x", "n": 2.5, "list": ["a", "b"], "yes": True})
    vector.sparse_values.indices.extend([4_000_000_000])
    vector.sparse_values.values.extend([0.25])
    assert as_json("UpsertRequest", request.SerializeToString()) == {
        "vectors": [
            {
                "id": "a",
                "values": [1.0],
                "metadata": {"t": "x", "n": 2.5, "list": ["a", "b"], "yes": True},
                "sparseValues": {"indices": [4_000_000_000], "values": [0.25]},
            }
        ]
    }


def test_an_empty_filter_is_there() -> None:
    assert as_json("QueryRequest", b"\x1a\x00") == {"filter": {}}


def test_numbers_one_by_one_are_read_as_packed_ones_are() -> None:
    # What the Python clients 9 and 10 send for sparse vectors.
    raw = bytes.fromhex("4a0e080108051500 00003f150000803e".replace(" ", ""))
    assert as_json("QueryRequest", raw) == {"sparseVector": {"indices": [1, 5], "values": [0.5, 0.25]}}


def test_a_field_nobody_knows_is_left_out() -> None:
    assert as_json("FetchRequest", b"\x0a\x01a\x9a\x06\x01x") == {"ids": ["a"]}


@pytest.mark.parametrize("raw", [b"\x0a", b"\x0a\x05a", b"\xff\xff", b"\x0a\x01\xff"])
def test_bytes_that_are_no_message_are_refused(raw: bytes) -> None:
    with pytest.raises(RefusalError, match="Error parsing a FetchRequest") as caught:
        as_json("FetchRequest", raw)
    assert caught.value.code.number == 13


def test_a_filter_that_is_no_json_is_refused() -> None:
    request: Any = message_type("QueryRequest")()
    request.filter.update({"x": float("nan")})
    with pytest.raises(RefusalError) as caught:
        as_json("QueryRequest", request.SerializeToString())
    assert caught.value.code.number == 3


def test_an_answer_becomes_its_message() -> None:
    match = {"id": "a", "score": 1, "values": [], "metadata": {"n": 1.0, "none": None}}
    answer = {"results": [], "matches": [match], "namespace": "", "usage": {"readUnits": 1}, "unheard_of": 1}
    raw = as_bytes("QueryResponse", answer)
    read = message_type("QueryResponse").FromString(raw)
    assert json_format.MessageToDict(read) == {
        "matches": [{"id": "a", "score": 1.0, "metadata": {"n": 1.0, "none": None}}],
        "usage": {"readUnits": 1},
    }


def test_text_of_64_bits_and_both_spellings_of_a_name_are_taken() -> None:
    described = {"name": "ns", "record_count": "20000", "indexed_fields": {"fields": ["a"]}}
    raw = as_bytes("ListNamespacesResponse", {"namespaces": [described], "totalCount": 7})
    assert json_format.MessageToDict(message_type("ListNamespacesResponse").FromString(raw)) == {
        "namespaces": [{"name": "ns", "recordCount": "20000", "indexedFields": {"fields": ["a"]}}],
        "totalCount": 7,
    }


def test_maps_and_empty_messages_are_kept() -> None:
    raw = as_bytes("FetchResponse", {"vectors": {"a": {"id": "a"}, "": {}}, "usage": {}})
    read: Any = message_type("FetchResponse").FromString(raw)
    assert sorted(read.vectors) == ["", "a"]
    assert read.HasField("usage")


JSON = st.recursive(
    st.one_of(st.text(max_size=3), st.booleans(), st.floats(allow_nan=False, allow_infinity=False), st.none()),
    lambda inner: st.one_of(st.lists(inner, max_size=2), st.dictionaries(st.text(max_size=2), inner, max_size=2)),
    max_leaves=4,
)


@given(
    st.fixed_dictionaries(
        {},
        optional={
            "namespace": st.text(min_size=1, max_size=3),
            "topK": st.integers(1, 2**32 - 1),
            "vector": st.lists(st.floats(width=32, allow_nan=False), min_size=1, max_size=3),
            "filter": st.dictionaries(st.text(max_size=3), JSON, max_size=3),
            "queries": st.lists(st.fixed_dictionaries({"topK": st.integers(1, 9)}), min_size=1, max_size=2),
            "includeValues": st.just(True),
            "maxCandidates": st.integers(0, 2**32 - 1),
        },
    )
)
def test_what_is_written_is_read_again(value: dict[str, Any]) -> None:
    """Invariant: an object of fields that are set survives being a message."""
    assert as_json("QueryRequest", as_bytes("QueryRequest", value)) == value


@given(st.binary(max_size=60))
def test_arbitrary_bytes_are_read_or_refused(raw: bytes) -> None:
    """Invariant: bytes are an object or a RefusalError, nothing else is raised."""
    for name in ("QueryRequest", "UpsertRequest", "CreateNamespaceRequest"):
        with suppress(RefusalError):
            assert isinstance(as_json(name, raw), dict)


@pytest.mark.skipif(not DESCRIBED.exists(), reason="no public description here: name its folder in VECSIEVE_CAPTURES")
def test_every_field_is_as_the_public_description_has_it() -> None:
    text = re.sub(r"//.*|\[\s*deprecated = true\s*\]", "", DESCRIBED.read_text())
    described = {
        name: {field for line in body.split(";") if (field := declared(line)) is not None}
        for name, body in re.findall(r"^message (\w+) *\{(.*?)\n?\}", text, re.MULTILINE | re.DOTALL)
        if name != "RequestUnion"  # says of itself that no call uses it
    }
    ours = {name: {tuple(column.split()) for column in row.split(" | ") if column} for name, row in MESSAGES.items()}
    assert len(described) == 34
    assert ours == described


def declared(line: str) -> tuple[str, str, str] | None:
    """A field of the description as the table has it."""
    found = re.search(r"(?:(optional|repeated)\s+)?(map<string,\s*(\w+)>|[\w.]+)\s+(\w+)\s*=\s*(\d+)", line)
    if found is None:
        return None
    label, kind, of_map, name, number = found.groups()
    kind = f"{{{of_map}}}" if of_map else kind.removeprefix("google.protobuf.")
    if label == "repeated":
        kind += "*"
    # Messages have presence as they are.
    if label == "optional" and kind[0].islower():
        kind += "?"
    return number, name, kind
