from __future__ import annotations

import pytest

from vecsieve.adapters.pinecone.rest_request import Document, Layout, widen

LAYOUT = Layout(path=("matches",), id="id", score="score", payload="metadata")
BODY = b'{"topK": 10, "vector":[1]}'
DOCUMENT = Document(body=BODY, layout=LAYOUT, top_k=10, limit=(9, 11), edits=((1, 1, b'"includeValues":true,'),))


def test_only_the_number_and_what_else_is_asked_for_change() -> None:
    assert widen(DOCUMENT, [50]) == b'{"includeValues":true,"topK": 50, "vector":[1]}'


def test_the_clients_own_number_stays_as_it_is_written() -> None:
    assert widen(DOCUMENT, [10]) == b'{"includeValues":true,"topK": 10, "vector":[1]}'


def test_a_count_of_zero_leaves_the_request_as_it_came() -> None:
    assert widen(DOCUMENT, [0]) is BODY


def test_one_request_holds_one_search() -> None:
    with pytest.raises(ValueError, match="unpack"):
        widen(DOCUMENT, [50, 50])
