"""The door to the official client's messages."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from servers.qdrant.grpc_messages import decoded, messages, rest_models, said, to_grpc, to_rest


def test_bytes_that_are_no_message_are_told_by_its_name() -> None:
    with pytest.raises(ValueError, match="failed to decode Protobuf message: QueryPoints"):
        decoded("QueryPoints", b"\x0a\x7f")


@given(st.binary(max_size=40))
def test_any_bytes_are_a_message_or_a_value_error(raw: bytes) -> None:
    """Decoding raises nothing but ValueError, and what it returns is of the class asked for."""
    try:
        message = decoded("QueryPoints", raw)
    except ValueError:
        return
    assert isinstance(message, messages().QueryPoints)


def test_a_model_is_said_in_the_words_of_the_wire() -> None:
    models = rest_models()
    condition = models.FieldCondition(key="k", match=models.MatchExcept(**{"except": [1]}))
    assert said({"f": models.Filter(must=condition)}) == {"f": {"must": {"key": "k", "match": {"except": [1]}}}}


def test_a_clause_without_conditions_is_left_out_wherever_the_filter_stands() -> None:
    models = rest_models()
    inner = models.Filter(must_not=[models.HasVectorCondition(has_vector="v")])
    prefetch = models.Prefetch(query=[0.5], filter=models.Filter(must=[inner]))
    arrived: Any = to_rest().convert_prefetch_query(to_grpc().convert_prefetch_query(prefetch))
    assert said(arrived.filter) == {"must": [{"must_not": [{"has_vector": "v"}]}]}
    assert said(arrived)["filter"] == said(arrived.filter)
    assert said(models.Filter(must=[], should=[])) == {}
