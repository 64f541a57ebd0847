"""Strategies for whole conversations with Chroma: collections, queries of every kind, and what answers them."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from support.chroma.model import Server, Stored
from support.exchanges.conversation import Conversation, spelled
from support.qdrant.bodies import PAYLOAD_TEXTS, number_lists

ID = "97050cbe-bbb2-4d9f-b12c-d0f2ce854b7e"
PATHS = (
    f"/api/v2/tenants/default_tenant/databases/default_database/collections/{ID}/query",
    f"/api/v2/tenants/a%2Fb/databases/d%20b/collections/{ID.upper()}/query",
    f"/api/v1/collections/{ID}/query",
)
COLUMNS = ("distances", "documents", "embeddings", "metadatas", "uris")
KEYS = ("text", "embeddings", 'x"embeddings', "ids", "größe", "doc", '"embeddings":[[[', "vector", "#odd")
TEXTS = (*PAYLOAD_TEXTS, '"\\"embeddings\\":[[[1,2]]]"', '"[[0.5,1]]"', '"a]b[c"', '"\\ud83d"', '""')
IDS = ('"a"', '"rec#1"', '"\\u00e9"', '"a\\"b"', '"0"', '"embeddings"')
DISTANCES = ("0.863594", "1", "-3.5", "5.9604645e-8", "0.0", "null")
# Made once, as in support/qdrant/bodies.py.
SOME_KEYS = st.lists(st.sampled_from(KEYS), unique=True, max_size=4)
SOME_TEXT = st.sampled_from(TEXTS)
STRING = st.sampled_from([text for text in TEXTS if text.startswith('"')])
DOCUMENT, URI = st.one_of(STRING, STRING, st.just("null")), st.one_of(STRING, st.just("null"))
EMBEDDING = st.one_of(number_lists(3), number_lists(3), number_lists(3), st.just("null"))
INCLUDED = st.one_of(st.just("absent"), st.lists(st.sampled_from(COLUMNS), max_size=6))


@st.composite
def stored_records(draw: st.DrawFn) -> Stored:
    keys = draw(SOME_KEYS)
    return Stored(
        id=draw(st.sampled_from(IDS)),
        distance=draw(st.sampled_from(DISTANCES)),
        embedding=draw(EMBEDDING),
        document=draw(DOCUMENT),
        uri=draw(URI),
        metadata=draw(st.one_of(st.just(None), st.just(tuple((key, draw(SOME_TEXT)) for key in keys)))),
    )


LISTED = st.lists(stored_records(), max_size=7).map(tuple)


@st.composite
def queries(draw: st.DrawFn, searches: int) -> dict[str, Any]:
    members = {
        "query_embeddings": [[0.25, 1, -3.5]] * searches,
        "n_results": draw(st.sampled_from(["absent", None, 2, 3, 5])),
        "include": draw(INCLUDED),
        "ids": draw(st.sampled_from(["absent", None, [f"r{number}" for number in range(40)]])),
        "where": draw(st.sampled_from(["absent", None, {"n_results": {"$eq": "include"}}])),
        "where_document": draw(st.sampled_from(["absent", {"$contains": '"include":[]'}])),
    }
    return {key: value for key, value in members.items() if value != "absent"}


@st.composite
def conversations(
    draw: st.DrawFn, *, operation: str | None = None, extra: dict[str, Any] | None = None
) -> Conversation:
    """A query and the server's answers; with one query embedding where the operation is named. ``extra`` is laid over it."""
    searches = 1 if operation is not None else draw(st.integers(1, 3))
    server = Server(lists=tuple(draw(LISTED) for _ in range(searches)), is_old=draw(st.booleans()))
    document = {**draw(queries(searches)), **(extra or {})}
    document = {key: document[key] for key in draw(st.permutations(sorted(document)))}
    body = draw(spelled(document))
    return Conversation(draw(st.sampled_from(PATHS)), body, server.answer)
