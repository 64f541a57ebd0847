"""The vector a job reads: named, unnamed or the only one; what cannot be read is told with what can."""

from __future__ import annotations

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from qdrant_client import models
from qdrant_client.common.client_exceptions import ResourceExhaustedResponse
from qdrant_client.http.exceptions import ResponseHandlingException, UnexpectedResponse

from vecsieve.proxy.jobs.qdrant import explained, known_errors, shape_of
from vecsieve.proxy.jobs.source import SourceError

LATE = models.MultiVectorConfig(comparator=models.MultiVectorComparator.MAX_SIM)


def dense(size: int = 4) -> models.VectorParams:
    return models.VectorParams(size=size, distance=models.Distance.DOT)


def late() -> models.VectorParams:
    return models.VectorParams(size=2, distance=models.Distance.COSINE, multivector_config=LATE)


def test_the_unnamed_vector_is_chosen_without_a_word() -> None:
    found = shape_of(dense(), requested=None, collection="docs", points=9)
    assert (found.vector_name, found.dimension, found.distance) == ("", 4, "Dot")
    assert shape_of(dense(), requested="", collection="docs", points=9) == found


def test_the_only_dense_one_is_chosen_beside_multivectors() -> None:
    assert shape_of({"late": late(), "body": dense(7)}, requested=None, collection="docs", points=9).dimension == 7


def test_of_several_the_unnamed_one_is_the_default_and_any_can_be_asked_for() -> None:
    declared = {"title": dense(3), "": dense(5)}
    assert shape_of(declared, requested=None, collection="docs", points=9).dimension == 5
    assert shape_of(declared, requested="title", collection="docs", points=9).dimension == 3


@pytest.mark.parametrize(
    ("vectors", "wanted", "said"),
    [
        (None, None, "only sparse vectors"),
        ({}, None, "only sparse vectors"),
        ({"late": late()}, None, "only multivectors"),
        ({"b": dense(), "a": dense()}, None, "say which with --vector: a, b"),
        ({"b": dense(), "late": late()}, "late", "holds several vectors a point; wanted one of: b"),
        ({"b": dense()}, "c", "no dense vector 'c'; it has: b"),
        (dense(), "c", "no dense vector 'c'; it has: \"\" (unnamed)"),
    ],
)
def test_what_cannot_be_read_is_told(
    vectors: dict[str, models.VectorParams] | models.VectorParams | None, wanted: str | None, said: str
) -> None:
    with pytest.raises(SourceError) as caught:
        shape_of(vectors, requested=wanted, collection="docs", points=9)
    assert said in str(caught.value)


# What the client raised, in words an operator can act on; keys never among them.


URL = "http://db:6333"


def said(error: Exception, names: tuple[str, ...] = ("docs", "news")) -> str:
    assert isinstance(error, known_errors())
    return str(explained(error, url=URL, collection="dosc", names=lambda: names))


def answered(status: int, content: bytes = b"") -> UnexpectedResponse:
    return UnexpectedResponse(status, "", content, httpx.Headers({"api-key": "sesame"}))


def test_an_unknown_collection_names_those_there_are() -> None:
    assert said(answered(404)) == f"{URL} has no collection 'dosc'; it has: docs, news"
    assert "none that this key may see" in said(answered(404), ())


@pytest.mark.parametrize("status", [401, 403])
def test_a_refusal_says_where_a_key_goes(status: int) -> None:
    text = said(answered(status, b'{"status":{"error":"forbidden"}}'))
    assert str(status) in text
    assert "--api-key-env" in text


def test_other_answers_are_quoted_in_the_databases_own_words() -> None:
    assert said(answered(400, b'{"status":{"error":"Limit exceeded"}}')).endswith("status 400: Limit exceeded")
    assert said(answered(502, b"<html>\nbad gateway")).endswith("status 502: <html>\\u000abad gateway")


def test_what_cannot_be_reached_is_named_with_the_reason() -> None:
    text = said(ResponseHandlingException(httpx.ConnectTimeout("timed out")))
    assert text == f"Cannot reach {URL} (no answer in time). Is the URL right? (--backend says which database it is.)"
    text = said(ResponseHandlingException(httpx.ConnectError("[Errno 111] Connection refused")))
    assert text == f"Cannot reach {URL} (connection refused). Is the URL right? (--backend says which database it is.)"
    text = said(ResponseHandlingException(httpx.ConnectError("[Errno -2] Name or service not known")))
    assert "(the name is unknown)" in text


def test_an_answer_that_is_no_http_is_quoted() -> None:
    text = said(ResponseHandlingException(httpx.RemoteProtocolError("illegal status line")))
    seen = "does not answer as Qdrant does: RemoteProtocolError: illegal status line"
    assert text == f"{URL} {seen}. (--backend says which database it is.)"


def test_a_database_that_wants_less_is_understood() -> None:
    assert "--rate" in said(ResourceExhaustedResponse("slow down", 3))


@given(st.integers(300, 599), st.binary(max_size=300))
def test_any_answer_is_one_line_without_headers(status: int, content: bytes) -> None:
    """Whatever an error's body holds, the message is one bounded line and shows no header."""
    text = said(answered(status, content))
    assert "\n" not in text
    assert len(text) < 300
    assert "sesame" not in text
