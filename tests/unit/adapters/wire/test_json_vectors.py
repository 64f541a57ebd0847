from __future__ import annotations

import itertools
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vecsieve.adapters.wire.json import REPLY_BYTES
from vecsieve.adapters.wire.json_vectors import guess_arrays, guess_rows, set_aside


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
    ("body", "found"),
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
def test_rows_are_guessed_in_the_first_member_of_the_name_up_to_a_quote(body: bytes, found: list[bytes]) -> None:
    assert [body[start:end] for start, end in guess_rows(body, "e")] == found


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
