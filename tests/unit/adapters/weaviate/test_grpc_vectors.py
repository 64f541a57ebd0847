from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from support.weaviate.messages import message_type, packed, single
from vecsieve.adapters.weaviate.grpc import compare
from vecsieve.adapters.weaviate.grpc_schema import proto


def compared(*results: dict[str, Any], wanted: str | None = None) -> tuple[str | None, list[list[float]]]:
    """The name, and the rows."""
    metadata = [
        proto.Result().metadata.FromString(message_type("MetadataResult")(**result).SerializeToString())
        for result in results
    ]
    name, rows = compare(metadata, wanted)
    assert rows.dtype == np.float32
    return name, rows.tolist()


def test_servers_that_say_no_type_mean_one_row() -> None:
    old = message_type("Vectors")(name="a", vector_bytes=packed([1.0]))
    assert compared({"vectors": [old]}) == ("a", [[1.0]])


@pytest.mark.parametrize("one", [{"vector_bytes": b"123"}, {"vectors": [{"name": "a", "vector_bytes": b"12"}]}])
def test_half_a_number_is_an_error(one: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="whole floats"):
        compared(one)


def test_a_vector_without_a_name_is_the_unnamed_one() -> None:
    assert compared({"vectors": [single([1.0])]}, wanted="") == ("", [[]])
    assert compared({"vectors": [single([1.0])]}) == ("", [[1.0]])
