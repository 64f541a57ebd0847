from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from support.weaviate.messages import message_type, packed, single
from vecsieve.adapters.weaviate.grpc import compare
from vecsieve.adapters.weaviate.grpc_schema import proto

NAN = float("nan")


def compared(*results: dict[str, Any], wanted: str | None = None) -> tuple[str | None, list[list[float]]]:
    """The name, and the rows."""
    metadata = [
        proto.Result().metadata.FromString(message_type("MetadataResult")(**each).SerializeToString())
        for each in results
    ]
    name, rows = compare(metadata, wanted)
    assert rows.dtype == np.float32
    return name, rows.tolist()


def test_the_unnamed_vector_is_read_from_its_bytes_or_its_floats() -> None:
    both = {"vector": [1, 2], "vector_bytes": packed([1, 2])}
    assert compared(both, {"vector_bytes": packed([3, 4])}, {"vector": [5, 6]}) == ("", [[1, 2], [3, 4], [5, 6]])


def test_a_named_vector_is_found_by_its_name() -> None:
    one = {"vectors": [single([1, 2], "a"), single([3, 4], "b")]}
    assert compared(one, wanted="b") == ("b", [[3, 4]])
    assert compared(one) == ("a", [[1, 2]])


def test_where_there_is_an_unnamed_vector_a_search_without_a_name_looked_at_that() -> None:
    one = {"vector_bytes": packed([9.0]), "vectors": [single([1.0], "a")]}
    assert compared(one) == ("", [[9.0]])
    assert compared(one, wanted="a") == ("a", [[1.0]])


def test_servers_that_say_no_type_mean_one_row() -> None:
    old = message_type("Vectors")(name="a", vector_bytes=packed([1.0]))
    assert compared({"vectors": [old]}) == ("a", [[1.0]])


@pytest.mark.parametrize("wanted", [None, "", "a"])
def test_results_without_a_vector_have_no_row_to_compare(wanted: str | None) -> None:
    name, rows = compared({}, {}, wanted=wanted)
    assert (name, rows) == (wanted, [[], []])


def test_a_result_without_a_vector_among_others_has_a_row_of_no_numbers() -> None:
    name, rows = compared({}, {"vectors": [single([1.0, 2.0], "a")]}, {"vectors": [single([1.0], "a")]}, wanted="a")
    assert name == "a"
    assert np.array_equal(np.array(rows), np.array([[NAN, NAN], [1, 2], [NAN, NAN]]), equal_nan=True)


def test_a_multivector_is_not_compared() -> None:
    several = message_type("Vectors")(name="a", vector_bytes=b"\x01\x00" + packed([1.0]), type=2)
    assert compared({"vectors": [several]}) == (None, [[]])


@pytest.mark.parametrize("one", [{"vector_bytes": b"123"}, {"vectors": [{"name": "a", "vector_bytes": b"12"}]}])
def test_half_a_number_is_an_error(one: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="whole floats"):
        compared(one)


def test_a_vector_without_a_name_is_the_unnamed_one() -> None:
    assert compared({"vectors": [single([1.0])]}, wanted="") == ("", [[]])
    assert compared({"vectors": [single([1.0])]}) == ("", [[1.0]])
