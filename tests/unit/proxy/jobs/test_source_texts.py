"""The text of a payload: the first named field that holds one."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vecsieve.proxy.jobs.source import USUAL_FIELDS, text_of, value_at

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=10,
)


@pytest.mark.parametrize("field", USUAL_FIELDS)
def test_each_of_the_usual_fields_is_found(field: str) -> None:
    assert text_of({"other": "x", field: "the text"}) == "the text"


def test_the_first_field_in_the_callers_order_wins() -> None:
    payload = {"body": "b", "title": "t"}
    assert text_of(payload, ("title", "body")) == "t"
    assert text_of(payload, ("body", "title")) == "b"


@pytest.mark.parametrize("value", [None, 3, "", "  \n", ["text"], {"text": "x"}])
def test_what_is_no_text_is_passed_over(value: object) -> None:
    assert text_of({"text": value}) is None
    assert text_of({"text": value, "content": "c"}) == "c"


def test_dots_lead_inwards_and_a_key_with_dots_goes_first() -> None:
    assert text_of({"metadata": {"page": {"text": "deep"}}}, ("metadata.page.text",)) == "deep"
    assert text_of({"metadata.source": "flat", "metadata": {"source": "deep"}}, ("metadata.source",)) == "flat"
    assert text_of({"metadata": {"page.text": "half"}}, ("metadata.page.text",)) == "half"


@pytest.mark.parametrize("field", ["a.b.c", "a.", ".", ".a", "", "a.b.c.d"])
def test_a_way_that_leads_nowhere_holds_nothing(field: str) -> None:
    assert value_at({"a": {"b": 3}}, field) is None


@given(st.dictionaries(st.text(max_size=5), JSON, max_size=4), st.lists(st.text(max_size=8), max_size=4))
def test_any_payload_has_a_text_or_none(payload: Mapping[str, object], fields: list[str]) -> None:
    """Whatever the payload and the fields, what comes back is a string with something in it, or None."""
    found = text_of(payload, fields)
    assert found is None or found.strip()
