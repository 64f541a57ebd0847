from __future__ import annotations

from functools import partial

import numpy as np
import pytest

from support.backends.transports import reason_of
from vecsieve.adapters.contract import Reason, UnsupportedError
from vecsieve.adapters.wire.json import Members, Span, splice, whole
from vecsieve.adapters.wire.json_requests import (
    integer,
    member_edit,
    present,
    read_object,
    required,
    spelled_once,
    switch,
    text_of,
    texts_of,
    vector_of,
)
from vecsieve.adapters.wire.vectors import usable


def read(text: bytes, *known: str) -> Members:
    return read_object(text, whole(text), known)


def span(text: bytes) -> Span:
    return 0, len(text)


def test_an_object_has_only_known_members_each_once() -> None:
    assert list(read(b'{"a":1,"b":2}', "a", "b", "c")) == ["a", "b"]
    assert reason_of(read, b'{"a":1,"d":2}', "a") is Reason.UNSUPPORTED_FIELD
    assert reason_of(read, b'{"a":1,"a":1}', "a") is Reason.AMBIGUOUS_FIELD
    assert reason_of(read, b'{"a":1,"\\u0061":1}', "a") is Reason.AMBIGUOUS_FIELD


@pytest.mark.parametrize("text", [b"[]", b'"a"', b"1", b"null", b"", b"{", b'{"a":\xff}'])
def test_what_is_no_object_is_refused_for_the_reason_given(text: bytes) -> None:
    assert reason_of(read, text, "a") is Reason.UNSUPPORTED_FIELD
    assert reason_of(read_object, text, whole(text), ("a",), reason=Reason.NOT_JSON) is Reason.NOT_JSON


def test_a_field_is_spelled_one_way() -> None:
    spellings = {"topK": "topK", "top_k": "topK", "id": "id"}
    assert spelled_once(read(b'{"top_k":1,"id":2}', "top_k", "id"), spellings) == {"topK": "top_k", "id": "id"}
    both = read(b'{"top_k":1,"topK":1}', "top_k", "topK")
    assert reason_of(spelled_once, both, spellings) is Reason.AMBIGUOUS_FIELD


def test_null_is_absent() -> None:
    text = b'{"a":null,"b": 0 }'
    members = read(text, "a", "b")
    assert present(text, members, "a") is present(text, members, "c") is present(text, members, None) is None
    assert present(text, members, "b") == required(text, members, "b") == (15, 16)
    assert reason_of(partial(required, text, members, "a")) is Reason.AMBIGUOUS_FIELD
    assert reason_of(partial(required, text, members, None)) is Reason.AMBIGUOUS_FIELD


@pytest.mark.parametrize(("text", "value"), [(b"0", 0), (b"7", 7), (b"10000", 10_000), (b"999999999", 999_999_999)])
def test_whole_numbers_are_read(text: bytes, value: int) -> None:
    assert integer(text, span(text)) == value


@pytest.mark.parametrize("text", [b"", b"-1", b"1.0", b"1e1", b'"10"', b"01", b"9999999999", b"true", b"null", b"[1]"])
def test_other_numbers_are_left_to_the_service(text: bytes) -> None:
    assert reason_of(integer, text, span(text)) is Reason.AMBIGUOUS_FIELD


def test_switches_are_true_or_false() -> None:
    assert switch(b"true", (0, 4))
    assert not switch(b"false", (0, 5))
    assert not switch(b"", None)
    for text in (b'"true"', b"1", b"[]"):
        assert reason_of(partial(switch, text, span(text))) is Reason.AMBIGUOUS_FIELD


def test_texts_are_decoded() -> None:
    assert text_of(b"", None) == ""
    assert text_of(b'"\\u00e9\\""', (0, 10)) == 'é"'
    assert texts_of(b'["a", "b\\u0063"]', (0, 16)) == ("a", "bc")
    assert texts_of(b"[ ]", (0, 3)) == ()


@pytest.mark.parametrize("text", [b"1", b"null", b"{}", b'"\\ud800"'])
def test_what_is_no_text_is_left_to_the_service(text: bytes) -> None:
    assert reason_of(text_of, text, span(text)) is Reason.AMBIGUOUS_FIELD
    assert reason_of(texts_of, text, span(text)) is Reason.AMBIGUOUS_FIELD
    assert reason_of(texts_of, b"[%s]" % text, (0, len(text) + 2)) is Reason.AMBIGUOUS_FIELD


def test_a_vector_is_a_list_of_numbers() -> None:
    vector = vector_of(b"[0.5, 1, -3e-1]", (0, 15))
    assert vector.dtype == np.float32
    assert vector.tolist() == pytest.approx([0.5, 1, -0.3])
    assert len(vector_of(b"", None)) == len(vector_of(b"[]", (0, 2))) == 0
    for text in (b"[[1]]", b'["1"]', b"[null]", b"{}", b"1"):
        assert reason_of(partial(vector_of, text, span(text))) is Reason.AMBIGUOUS_FIELD


def test_a_query_vector_that_cannot_be_compared_is_none() -> None:
    assert usable(np.zeros(0, np.float32)) is None
    assert usable(vector_of(b"[1,1e39]", (0, 8))) is None
    assert usable(np.ones(2, np.float32)) is not None


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (b"{}", b'{"n":1}'),
        (b'{ "a" : 1.50 }', b'{ "a" : 1.50 ,"n":1}'),
        (b'{"n":"old","a":2}', b'{"n":1,"a":2}'),
        (b"null", b'{"n":1}'),
        (b"[1]", b'{"n":1}'),
    ],
)
def test_an_object_gets_a_member_in_place_of_any_that_is_there(text: bytes, expected: bytes) -> None:
    assert splice(text, [member_edit(text, whole(text), "n", b"1")]) == expected


@pytest.mark.parametrize("text", [b'{"a":1,"a":2}', b'{"\x80":1}', b"{"])
def test_an_object_that_cannot_be_read_gets_none(text: bytes) -> None:
    with pytest.raises(UnsupportedError):
        member_edit(text, whole(text), "n", b"1")
