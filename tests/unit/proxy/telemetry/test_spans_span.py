"""A span has no place for text, and whatever number a request brings becomes a member of a closed set or nothing."""

from __future__ import annotations

from dataclasses import FrozenInstanceError, fields
from enum import Enum
from types import NoneType
from typing import get_args, get_type_hints

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vecsieve.proxy.grpc.status import Code
from vecsieve.proxy.telemetry.spans import Kind, Method, Span, known_code, known_status

SPAN = Span(kind=Kind.REQUEST, trace_id=1, span_id=2, parent_id=None, flags=1, started_ns=3, ended_ns=4)


def test_no_field_can_hold_anything_but_numbers_flags_and_members_of_closed_sets() -> None:
    hints = get_type_hints(Span)
    assert len(hints) == len(fields(Span)) > 15
    # A name of the backend's row: the laws show that adapters give no other.
    assert hints.pop("operation") == str | None
    for name, hint in hints.items():
        for kind in get_args(hint) or (hint,):
            assert kind in {int, bool, NoneType} or issubclass(kind, Enum), name


def test_a_span_cannot_be_changed_or_given_more() -> None:
    with pytest.raises(FrozenInstanceError):
        SPAN.status = 200  # type: ignore[misc]  # - the point of the test
    with pytest.raises((AttributeError, TypeError)):
        SPAN.path = "/secret"  # type: ignore[attr-defined]  # - the point of the test


@given(st.text() | st.sampled_from([member.value for member in Method] + ["get", "PURGE"]))
def test_a_method_is_known_by_its_exact_name_or_is_other(name: str) -> None:
    """For any text: a member of the set, OTHER unless it is spelt as RFC 9110 does."""
    found = Method.of(name)
    assert found is Method.OTHER or found.value == name
    assert (found is Method.OTHER) == (name not in {m.value for m in Method if m is not Method.OTHER})


@given(st.none() | st.integers())
def test_a_status_has_three_digits_or_is_none(status: int | None) -> None:
    """For any number: itself when it is a status, else None."""
    found = known_status(status)
    assert found is None or (found == status and len(str(found)) == 3)


@given(st.integers())
def test_a_code_is_one_of_grpcs_seventeen(code: int) -> None:
    """For any number: the code of that number, UNKNOWN where there is none."""
    assert known_code(code) == (code if 0 <= code <= 16 else Code.UNKNOWN)
    assert known_code(None) is None
