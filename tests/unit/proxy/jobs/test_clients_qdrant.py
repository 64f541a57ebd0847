"""The vector a job reads: named, unnamed or the only one; what cannot be read is told with what can."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import pytest

from support.network.http_scripts import Script, in_a_thread
from vecsieve.proxy.jobs.clients.qdrant import Qdrant, shape_of, with_port
from vecsieve.proxy.jobs.source import Access, SourceError

KEY = "sesame"


def dense(size: int = 4) -> dict[str, Any]:
    return {"size": size, "distance": "Dot"}


def late() -> dict[str, Any]:
    return {"size": 2, "distance": "Cosine", "multivector_config": {"comparator": "max_sim"}}


def test_the_unnamed_vector_is_chosen_without_a_word() -> None:
    shape = shape_of(dense(), requested=None, collection="docs", points=9)
    assert (shape.vector_name, shape.dimension, shape.distance) == ("", 4, "Dot")
    assert shape_of(dense(), requested="", collection="docs", points=9) == shape


def test_the_only_dense_one_is_chosen_beside_multivectors() -> None:
    assert shape_of({"late": late(), "body": dense(7)}, requested=None, collection="docs", points=9).dimension == 7


def test_of_several_the_unnamed_one_is_the_default_and_any_can_be_asked_for() -> None:
    declared = {"title": dense(3), "": dense(5)}
    assert shape_of(declared, requested=None, collection="docs", points=9).dimension == 5
    assert shape_of(declared, requested="title", collection="docs", points=9).dimension == 3


@pytest.mark.parametrize(
    ("vectors", "requested", "message"),
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
def test_what_cannot_be_read_is_told(vectors: dict[str, Any] | None, requested: str | None, message: str) -> None:
    with pytest.raises(SourceError) as caught:
        shape_of(vectors, requested=requested, collection="docs", points=9)
    assert message in str(caught.value)


# What the database answered, in words an operator can act on; keys never among them.


Answers = Mapping[str, tuple[int, bytes]]
NAMES = json.dumps({"result": {"collections": [{"name": "news"}, {"name": "docs"}]}}).encode()


@contextmanager
def server(answers: Answers) -> Iterator[str]:
    """The URL of a server with these answers by path; an empty status line for any other path."""

    class Database(Script):
        def do_GET(self) -> None:
            status, content = answers.get(self.path, (0, b""))
            if not status:
                self.wfile.write(b"\r\n\r\n")
                return
            self.answer(content, status)

    with in_a_thread(Database) as url:
        yield url


def message_of(answers: Answers) -> str:
    with server(answers) as url, pytest.raises(SourceError) as caught:
        Qdrant(Access(url=url, collection="dosc", api_key=KEY, timeout_seconds=5)).shape()
    text = str(caught.value)
    assert KEY not in text
    assert "\n" not in text
    assert len(text) < 300
    assert url in text
    return text.replace(url, "URL")


def test_an_unknown_collection_names_those_there_are() -> None:
    gone = {"/collections/dosc": (404, b"")}
    assert message_of({**gone, "/collections": (200, NAMES)}) == "URL has no collection 'dosc'; it has: docs, news"
    for listed in ((404, b""), (403, b""), (200, b"[]"), (200, b"{")):
        assert "none that this key may see" in message_of({**gone, "/collections": listed})


def test_a_collection_that_is_listed_is_not_said_to_be_missing() -> None:
    """As where a path is not served: by a proxy in between, or an older version."""
    names = b'{"result":{"collections":[{"name":"dosc"}]}}'
    gone = (404, b'{"status":{"error":"Not found: no such path"}}')
    assert message_of({"/collections/dosc": gone, "/collections": (200, names)}) == (
        "URL answered with status 404: Not found: no such path"
    )


@pytest.mark.parametrize("status", [401, 403])
def test_a_refusal_says_where_a_key_goes(status: int) -> None:
    text = message_of({"/collections/dosc": (status, b'{"status":{"error":"write access is required"}}')})
    assert f"refused a request for collection 'dosc' (status {status}: write access is required)" in text
    assert "may read it, and write to it for --apply" in text, "a key for reading alone is refused, too"
    assert "--api-key-env" in text


@pytest.mark.parametrize(
    ("status", "content", "words"),
    [
        (400, b'{"status":{"error":"Limit exceeded"}}', "Limit exceeded"),
        (502, b"<html>\nbad gateway", "<html>\\u000abad gateway"),
        (500, b"\xff" * 3000, "..."),
    ],
)
def test_other_answers_are_quoted_in_the_databases_own_words(status: int, content: bytes, words: str) -> None:
    text = message_of({"/collections/dosc": (status, content)})
    assert text.startswith(f"URL answered with status {status}: ")
    assert words == "..." or text.endswith(words)


@pytest.mark.parametrize(
    ("answers", "seen"),
    [
        ({}, "BadStatusLine"),
        ({"/collections/dosc": (200, b"<html>")}, "JSON is malformed"),
        ({"/collections/dosc": (200, b'{"result":{}}')}, "missing required field `config`"),
    ],
)
def test_an_answer_that_is_none_of_qdrants_is_quoted(answers: Answers, seen: str) -> None:
    text = message_of(answers)
    assert text.startswith("URL does not answer as expected: ")
    assert seen in text
    assert text.endswith("(--backend says which database it is.)")


@pytest.mark.parametrize(
    ("url", "why"),
    [("http://127.0.0.1:1", "connection refused"), ("http://no.such.host.invalid", "the name is unknown")],
)
def test_what_cannot_be_reached_is_named_with_the_reason(url: str, why: str) -> None:
    with pytest.raises(SourceError) as caught:
        Qdrant(Access(url=url, collection="docs")).shape()
    hint = "Is the URL right? (--backend says which database it is.)"
    assert str(caught.value) == f"Cannot reach {url} ({why}). {hint}"


def test_a_database_that_wants_less_is_understood(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("vecsieve.proxy.jobs.rest.sleep", lambda _: None)
    assert "--rate" in message_of({"/collections/dosc": (429, b"")})


@pytest.mark.parametrize(
    ("url", "server_of"),
    [
        ("http://db", "http://db:6333"),
        ("https://db.example/qdrant/", "https://db.example:6333/qdrant"),
        ("http://db:80", "http://db:80"),
        ("http://[::1]", "http://[::1]:6333"),
    ],
)
def test_a_url_without_a_port_means_qdrants(url: str, server_of: str) -> None:
    assert with_port(url) == server_of
