from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vecsieve.adapters.wire.json import elements, whole
from vecsieve.adapters.wire.json_vectors import Edit, kept_inside, set_aside


def inside(text: bytes, kept: list[int], edits: dict[int, list[Edit]] | None = None) -> bytes:
    array = whole(text)
    spans = elements(text, array)
    return b"".join(kept_inside(set_aside(text, []), array, spans, kept, lambda index: (edits or {}).get(index, [])))


@pytest.mark.parametrize(
    ("kept", "expected"),
    [
        ([0, 1, 2], b" 1 ,\n22,  333 "),
        ([0], b" 1 "),
        ([1], b" 22 "),
        ([2, 0], b" 333,1 "),
        ([0, 2], b" 1,  333 "),
        ([2, 1], b" 333 ,\n22 "),
        ([], b""),
    ],
)
def test_an_element_brings_the_separator_that_stood_before_it(kept: list[int], expected: bytes) -> None:
    assert inside(b"[ 1 ,\n22,  333 ]", kept) == expected


def test_an_empty_array_stays_as_it_was_written() -> None:
    assert inside(b"[ \n]", []) == b" \n"


def test_edits_change_the_element_they_belong_to_whatever_their_order() -> None:
    text = b'["abc","def"]'
    edits: dict[int, list[Edit]] = {0: [(4, 5, b"C"), (2, 3, b"")], 1: [(7, 12, b"null")]}
    assert inside(text, [1, 0], edits) == b'null,"bC"'
    assert inside(text, [0], edits) == b'"bC"'


@given(
    values=st.lists(st.integers() | st.text() | st.none(), max_size=6),
    indent=st.sampled_from([None, 0, 3]),
    data=st.data(),
)
def test_what_is_kept_is_those_elements_in_that_order(
    values: list[int | str | None], indent: int | None, data: st.DataObject
) -> None:
    """Invariant: the pieces make the array of the kept elements; all of them in order change no byte."""
    text = json.dumps(values, indent=indent).encode()
    kept = data.draw(st.permutations(range(len(values)))) if values else []
    kept = kept[: data.draw(st.integers(0, len(values)))]
    assert json.loads(b"[" + inside(text, kept) + b"]") == [values[index] for index in kept]
    assert b"[" + inside(text, list(range(len(values)))) + b"]" == text
