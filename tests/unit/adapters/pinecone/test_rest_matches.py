from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vecsieve.adapters.pinecone import rest_request as pinecone_rest_request
from vecsieve.adapters.pinecone.rest import Match, array_of, has_id, read_matches
from vecsieve.adapters.pinecone.rest_request import Layout

QUERY = pinecone_rest_request.QUERY_LAYOUT


def matches(text: bytes, layout: Layout = QUERY) -> tuple[Match, ...]:
    return read_matches(text, (0, len(text)), layout)


@pytest.mark.parametrize("text", [b"", b"[]", b"{}", b'{"result":[]}', b'{"result":{}}', b'{"result":null}'])
def test_a_reply_without_its_list_is_refused(text: bytes) -> None:
    with pytest.raises(ValueError, match=r"no |object"):
        array_of(text, pinecone_rest_request.RECORDS_LAYOUT.path)


@pytest.mark.parametrize(
    "text",
    [
        b"{}",
        b"[1]",
        b"[null]",
        b'[{"id":"x"}]',
        b'[{"score":1}]',
        b'[{"id":1,"score":1}]',
        b'[{"id":null,"score":1}]',
        b'[{"id":"x","score":"NaN"}]',
        b'[{"id":"x","score":true}]',
        b'[{"id":"x","score":[1]}]',
        b'[{"id":"x","id":"x","score":1}]',
        b'[{"id":"x","score":1,"metadata":[]}]',
        b'[{"id":"x","score":1,"metadata":{"a":1,"a":1}}]',
    ],
)
def test_anything_but_matches_is_refused(text: bytes) -> None:
    with pytest.raises(ValueError, match=r"."):
        matches(text)


def test_ids_are_compared_as_texts() -> None:
    text = b'[{"id":"\\u00e9\\"","score":1},{"id":"\\ud800","score":1}]'
    first, second = matches(text.replace(b"\\ud800", b"\\u0041"))
    assert has_id(text, first, QUERY, 'é"')
    assert not has_id(text, first, QUERY, "é")
    assert not has_id(text, second, QUERY, "A")


@given(text=st.binary(max_size=60))
def test_arbitrary_bytes_are_matches_or_a_value_error(text: bytes) -> None:
    """Invariant: nothing but ValueError is raised."""
    for read in (lambda: matches(text), lambda: array_of(text, QUERY.path)):
        with pytest.raises(ValueError, match=r"."):
            read()
