from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from vecsieve.adapters.wire import json_vectors
from vecsieve.adapters.wire.json import REPLY_BYTES, elements, whole
from vecsieve.adapters.wire.json_vectors import (
    HAS_SIMDJSON,
    Edit,
    Row,
    by_orjson,
    by_simdjson,
    decode_arrays,
    decode_matrix,
    guess_arrays,
    guess_rows,
    kept_inside,
    numbers,
    set_aside,
    sparse_matrix,
    stack,
)


def guessed(body: bytes, name: str) -> list[bytes]:
    return [body[start:end] for start, end in guess_arrays(body, name, may_follow=True)]


@given(body=st.binary(max_size=60), data=st.data())
def test_every_offset_outside_the_placeholders_maps_back(body: bytes, data: st.DataObject) -> None:
    # Invariant: cutting the shortened text at any offsets that are not inside a placeholder cuts the original alike.
    edges = sorted(data.draw(st.lists(st.integers(0, len(body)), max_size=8)))
    spans = [(start, end) for start, end in zip(edges[::2], edges[1::2], strict=False) if end > start]
    spans = [span for index, span in enumerate(spans) if not index or spans[index - 1][1] < span[0]]
    short = set_aside(body, spans)
    assert short.cut(0, len(short.text)) == body
    for (start, end), at, until in zip(spans, tuple(end - 2 for end in short.ends), short.ends, strict=True):
        assert short.text[at:until] == b"[]"
        assert short.aside((at, until)) == (start, end)
        assert short.cut(at, until) == short.cut_value((at, until)) == body[start:end]
        assert short.cut(0, at) == body[:start]
        assert short.cut(until, len(short.text)) == body[end:]
    assert short.aside((0, len(short.text) + 1)) is None


def test_nothing_set_aside_is_the_text_itself() -> None:
    short = set_aside(b"abc", ())
    assert short.text == b"abc"
    assert short.cut(1, 3) == short.cut_value((1, 3)) == b"bc"
    assert short.aside((0, 2)) is None


def test_vectors_are_guessed_wherever_they_stand() -> None:
    assert guessed(b'[{"id":1,"vector":[1,2]},{"id":2,"vector":[3.5]},{"id":3,"vector":null}]', "vector") == [
        b"[1,2]",
        b"[3.5]",
    ]
    assert guessed(b'[{"vector":{"a":[1,2]}},{"vector":{"b":[9],"a":[3]}}]', "a") == [b"[1,2]", b"[3]"]
    assert guessed('{"vector":{"grö\\"ße":[1]}}'.encode(), 'grö"ße') == [b"[1]"]


def test_a_multivector_is_left_where_it_is() -> None:
    assert guessed(b'[{"vector":[[1],[2]]},{"vector":{"a":[[1]]}}]', "a") == []


def test_a_body_cut_inside_a_vector_ends_the_guess() -> None:
    assert guessed(b'[{"vector":[1]},{"vector":[2,3', "vector") == [b"[1]"]
    assert guessed(b'{"vector":', "vector") == []


def test_text_inside_a_string_is_not_mistaken_for_a_vector() -> None:
    assert guessed(rb'{"payload":{"t":"\"vector\":[1]"},"vector":[2]}', "vector") == [b"[2]"]


@given(body=st.text(alphabet='{}[]",:\\ve1', max_size=40).map(lambda text: text.replace("v", '"vector":').encode()))
def test_guesses_are_disjoint_ascending_and_bracketed(body: bytes) -> None:
    # Invariant: whatever the bytes, the spans can be set aside, and each is one bracket pair without another inside.
    spans = guess_arrays(body, "e", may_follow=True)
    assert all(first[1] <= second[0] for first, second in itertools.pairwise(spans))
    for start, end in spans:
        assert body[start:end].startswith(b"[")
        assert body[start:end].endswith(b"]")
        assert body[start:end].count(b"]") == 1


def arrays(body: bytes, name: str) -> list[bytes]:
    return [body[start:end] for start, end in guess_arrays(body, name)]


def test_arrays_of_numbers_are_guessed_wherever_a_member_of_the_name_stands() -> None:
    body = b'{"values":[1,2],"a":{"values":[-3.5]},"b":"\\"values\\":[4]","values":[]}'
    assert arrays(body, "values") == [b"[1,2]", b"[-3.5]"]
    assert arrays('{"größe":[1]}'.encode(), "größe") == [b"[1]"]
    assert arrays(b'{"a\\"b":[1]}', 'a"b') == [b"[1]"]
    assert arrays(b"", "values") == []


def test_the_values_behind_the_indices_of_a_sparse_vector_are_not_guessed() -> None:
    body = b'{"values":[1,2],"sparseValues":{"indices":[7],"values":[0.5]}}'
    assert arrays(body, "values") == [b"[1,2]"]


def test_an_array_that_does_not_end_and_a_list_of_other_things_are_not_guessed() -> None:
    assert arrays(b'{"values":["a"],"values":[[1]],"values":[null]}', "values") == []
    assert arrays(b'{"values":[1,2', "values") == []


@given(body=st.binary(max_size=60).map(lambda noise: noise.replace(b"x", b'"values":[1')), name=st.just("values"))
def test_guesses_are_disjoint_and_ascending(body: bytes, name: str) -> None:
    """Invariant: whatever the bytes, each guess is a bracketed run of its own, in order."""
    spans = guess_arrays(body, name)
    assert all(body[start:end].startswith(b"[") and body[start:end].endswith(b"]") for start, end in spans)
    assert all(before[1] <= after[0] for before, after in itertools.pairwise(spans))


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (b'{"e":[[[1,2],[3]],[[-4]]]}', [b"[1,2]", b"[3]", b"[-4]"]),
        (b'{"e":[[null,[3],null],[],[[4]]]}', [b"[3]", b"[4]"]),
        (b'{"e":[[],[[4],[5]]]} "e":[[[6]]]', [b"[4]", b"[5]"]),
        (b'{"e":[[[1,2],"x",[3]]]}', [b"[1,2]"]),
        (b'{"e":[[[1],[[2]],[3]]]}', [b"[1]", b"[2]", b"[3]"]),
        (b'{"e":[[[1', []),
        (b'{"e":[[[1],[2', [b"[1]"]),
        (b'{"e":null}', []),
        (b'{"x":[[[1]]]}', []),
        (b"", []),
    ],
)
def test_rows_are_guessed_in_the_first_member_of_the_name_up_to_a_quote(body: bytes, expected: list[bytes]) -> None:
    assert [body[start:end] for start, end in guess_rows(body, "e")] == expected


@given(body=st.binary(max_size=60).map(lambda noise: b'{"e":[[[1,2],[3' + noise))
def test_guessed_rows_never_overlap_and_ascend(body: bytes) -> None:
    """Invariant: the spans can be set aside, whatever the bytes."""
    spans = guess_rows(body, "e")
    assert all(earlier[1] <= later[0] for earlier, later in itertools.pairwise(spans))
    assert all(body[start:end].startswith(b"[") and body[start:end].endswith(b"]") for start, end in spans)


MANY = 40_000


@pytest.mark.parametrize(
    ("item", "guess"),
    [
        (b'"v":[1],', lambda body: guess_arrays(body, "v", may_follow=True)),
        (b'"v":[1],"x":1,', lambda body: guess_arrays(body, "v")),
        (b'"v":[],"x":1,', lambda body: guess_arrays(body, "v")),
    ],
)
def test_what_a_payload_pretends_to_be_is_guessed_up_to_a_bound(
    item: bytes, guess: Callable[[bytes], list[tuple[int, int]]]
) -> None:
    assert len(guess(item * MANY)) == min(len(guess(item)) * MANY, 32_768)


def test_rows_are_guessed_up_to_a_bound() -> None:
    assert len(guess_rows(b'"e":[[' + b",".join([b"[1]"] * MANY) + b"]]", "e")) == 32_768


def test_what_is_too_much_to_be_read_beside_the_vectors_is_said() -> None:
    vector = b"[" + b"1," * REPLY_BYTES + b"1]"
    assert set_aside(b"[" + vector + b"]", [(1, 1 + len(vector))]).text == b"[[]]"
    with pytest.raises(ValueError, match="beside vectors"):
        set_aside(vector, [])


Decode = Callable[[Sequence[bytes]], list[Row | None]]

needs_simdjson = pytest.mark.skipif(not HAS_SIMDJSON, reason="pysimdjson is optional and not installed here")
WAYS = [pytest.param(by_simdjson, marks=needs_simdjson), by_orjson]
ONE_WIDTH = st.tuples(st.floats(-1e40, 1e40), st.floats(-1, 1)).map(lambda row: json.dumps(row).encode())
BAD = [
    b"",
    b"1",
    b"[",
    b"[1",
    b"[1]]",
    b"[1,]",
    b"[01]",
    b"[NaN]",
    b"[Infinity]",
    b"[1e400]",
    b"[null]",
    b"[1,null]",
    b"[true]",
    b"[1.5,false]",
    b'["1"]',
    b"[[1],[2]]",
    b'[{"a":1}]',
    b"[" + b"9" * 400 + b"]",
    b' {"a":1}',
    b"null",
]


@pytest.mark.parametrize("decode", WAYS)
@given(values=st.lists(st.floats(allow_nan=False, allow_infinity=False) | st.integers(-(2**80), 2**80), max_size=8))
def test_numbers_are_read_as_python_reads_them(decode: Decode, values: list[float]) -> None:
    # Invariant: every array of JSON numbers is decoded to the nearest doubles.
    (row,) = decode([json.dumps(values).encode()])
    assert row is not None
    assert row.dtype == np.float64
    assert row.tolist() == [float(value) for value in values]


@pytest.mark.parametrize("decode", WAYS)
@pytest.mark.parametrize("bad", BAD)
def test_what_is_no_flat_array_of_numbers_is_none_and_spoils_nothing_else(decode: Decode, bad: bytes) -> None:
    rows = decode([b"[1,2.5]", bad, b"[3]"])
    assert rows[1] is None
    assert [row.tolist() for row in rows if row is not None] == [[1.0, 2.5], [3.0]]


@needs_simdjson
@given(arrays=st.lists(st.text(alphabet='[]0123456789.eE+-, ntf"', max_size=14).map(str.encode), max_size=5))
def test_both_ways_agree_on_everything(arrays: list[bytes]) -> None:
    # Invariant: pysimdjson and orjson accept the same bytes and give the same numbers.
    fast, plain = by_simdjson(arrays), by_orjson(arrays)
    assert [None if row is None else row.tolist() for row in fast] == [
        None if row is None else row.tolist() for row in plain
    ]


@given(arrays=st.lists(st.text(alphabet="[]019.e+-, n", max_size=9).map(str.encode) | ONE_WIDTH, max_size=5))
def test_a_matrix_is_the_stacked_rows_however_it_was_made(arrays: list[bytes]) -> None:
    # Invariant: decoding all rows at once changes neither a number, nor a missing row, nor what is proven.
    matrix, proven = decode_matrix(arrays)
    rows = by_orjson(arrays)
    np.testing.assert_array_equal(matrix, stack(rows))
    assert matrix.dtype == np.float32
    assert proven == tuple(row is not None for row in rows)


def test_the_installed_way_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json_vectors, "HAS_SIMDJSON", False)
    assert [row.tolist() for row in decode_arrays([b"[1]"]) if row is not None] == [[1.0]]


def test_rows_are_stacked_by_the_length_of_the_first_that_is_not_empty() -> None:
    matrix = stack([None, np.zeros(0), np.array([1.0, 2.0]), np.array([1.0]), np.array([3.0, 4.0])])
    assert matrix.dtype == np.float32
    assert np.isnan(matrix[[0, 1, 3]]).all()
    assert matrix[[2, 4]].tolist() == [[1.0, 2.0], [3.0, 4.0]]


def test_a_value_beyond_float32_makes_its_row_unusable_without_a_warning() -> None:
    assert np.isnan(stack([np.array([1e39, 1.0]), np.array([1.0, 2.0])])).all(axis=1).tolist() == [True, False]


@pytest.mark.parametrize(("rows", "shape"), [([], (0, 0)), ([None, None], (2, 0)), ([np.zeros(0)], (1, 0))])
def test_without_a_usable_row_the_matrix_has_no_columns(rows: list[None], shape: tuple[int, int]) -> None:
    assert stack(rows).shape == shape


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


def sparse(indices: list[int], values: list[float]) -> bytes:
    return f'{{"indices":{indices},"values":{values}}}'.encode()


def test_sparse_vectors_become_rows_over_the_union_of_their_indices() -> None:
    matrix = sparse_matrix([sparse([70000, 3], [0.5, 1.0]), None, sparse([5], [2.0]), sparse([3], [1.0])])
    assert matrix.dtype == np.float32
    assert matrix[[0, 2, 3]].tolist() == [[1.0, 0.0, 0.5], [0.0, 2.0, 0.0], [1.0, 0.0, 0.0]]
    assert np.isnan(matrix[1]).all()


@pytest.mark.parametrize("values", [[], [None], [b"[]", b"null"], [sparse([], [])]])
def test_without_a_sparse_vector_there_are_no_columns(values: list[bytes | None]) -> None:
    assert sparse_matrix(values).shape == (len(values), 0)


@pytest.mark.parametrize(
    "broken",
    [
        b"{}",
        b'{"indices":[1]}',
        b'{"indices":[1],"values":[1,2]}',
        b'{"indices":[1],"values":["1"]}',
        b'{"indices":1,"values":1}',
        b'{"indices":[[1]],"values":[[1]]}',
        b'{"indices":[1],"values":[1],"more":1}',
        b'{"indices":[true],"values":[1]}',
        b'{"indices":[1],"values":[1e39]}',
        b'{"indices":[1],"values":[1e400]}',
    ],
)
def test_a_broken_sparse_vector_is_a_row_of_nan(broken: bytes) -> None:
    matrix = sparse_matrix([sparse([1], [1.0]), broken])
    assert matrix[0].tolist() == [1.0]
    assert np.isnan(matrix[1]).all()


def test_an_object_that_names_a_member_twice_is_refused() -> None:
    with pytest.raises(ValueError, match="repeated key"):
        sparse_matrix([b'{"indices":[1],"indices":[2],"values":[1]}'])


@given(
    rows=st.lists(st.dictionaries(st.integers(0, 40), st.floats(-4, 4, width=32), min_size=1, max_size=6), min_size=1),
)
def test_products_of_the_rows_are_those_of_the_sparse_vectors(rows: list[dict[int, float]]) -> None:
    """Invariant: the dense rows have the inner products of the sparse vectors they stand for."""
    matrix = sparse_matrix([sparse(list(row), list(row.values())) for row in rows]).astype(np.float64)
    expected = [[sum(a[key] * b[key] for key in a.keys() & b.keys()) for b in rows] for a in rows]
    np.testing.assert_allclose(matrix @ matrix.T, expected, atol=1e-4)


@pytest.mark.parametrize("value", [None, b"", b"[1", b"[1,[2]]", b"[[1],[2,3]]", b"[null]", b'["1"]', b"[true]", b"{}"])
def test_what_is_no_array_of_numbers_is_none(value: bytes | None) -> None:
    assert numbers(value) is None


def test_arrays_and_arrays_of_arrays_are_read() -> None:
    assert [rows.tolist() for rows in (numbers(b"[1,2]"), numbers(b"[[1],[2]]")) if rows is not None] == [
        [1, 2],
        [[1], [2]],
    ]
