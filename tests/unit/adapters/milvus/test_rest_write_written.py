"""What the writes of both transports have in common."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from vecsieve.adapters.contract import UnsupportedError
from vecsieve.adapters.milvus.rest_write import noted, stacked, without_empty

NOTE = b'{"tier":"exact"}'
VALUES = st.dictionaries(st.sampled_from(["a", "_vecsieve", "é"]), st.none() | st.text() | st.integers(), max_size=3)


@given(VALUES, st.sampled_from(["", " ", "\n"]))
def test_a_note_is_a_member_and_all_others_stay(values: dict[str, object], space: str) -> None:
    """Whatever the object holds: the note replaces any that is there, the rest is as it was."""
    text = f"{space}{json.dumps(values)}{space}".encode()
    assert json.loads(noted(text, NOTE)) == {**values, "_vecsieve": json.loads(NOTE)}


@pytest.mark.parametrize("text", [b"[]", b"null", b'{"a":1,"a":2}', b"{", b'"{}"'])
def test_another_value_gets_no_note(text: bytes) -> None:
    with pytest.raises(UnsupportedError):
        noted(text, NOTE)


@pytest.mark.parametrize("empty", [b"null", b"{}", b'"null"', b'"{}"', None])
def test_an_empty_note_is_none(empty: bytes | None) -> None:
    rows = [(empty, b"{}"), (NOTE, None)]
    assert without_empty(rows, ("_vecsieve", "a")) == ((None, b"{}"), (NOTE, None))
    assert without_empty(rows, ("b", "a")) == tuple(rows)


def test_matrices_of_other_widths_are_rows_without_vectors() -> None:
    found = stacked([np.zeros((1, 0), np.float32), np.ones((2, 3), np.float32)])
    assert np.isnan(found[0]).all()
    assert found[1:].tolist() == [[1.0] * 3] * 2
    assert stacked([]).shape == (0, 0)
