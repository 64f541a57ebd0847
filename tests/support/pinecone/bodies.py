"""Strategies for whole conversations with Pinecone: namespaces, requests of every kind, and what answers them."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from support.exchanges.conversation import Conversation, spelled
from support.pinecone.model import Service, Stored
from support.qdrant.bodies import PAYLOAD_TEXTS, number_lists

PATHS = {
    "query": ("/query", "//query"),
    "records_search": (
        "/records/namespaces/ns/search",
        "/records/namespaces//search",
        "//records/namespaces/a%2Fb/search",
    ),
    "documents_search": ("/namespaces/ns/documents/search",),
}
# What a hand-written request may call the members of a query.
SPELLINGS = {
    "topK": "top_k",
    "sparseVector": "sparse_vector",
    "includeValues": "include_values",
    "includeMetadata": "include_metadata",
}
FIELD_KEYS = ("text", "values", "sparseValues", 'x"values', "matches", "hits", "id", "größe", "doc", '"values":[')
FIELD_TEXTS = (*PAYLOAD_TEXTS, '{"values":[0.5,1]}', '"\\"values\\":[1,2]"', '{"indices":[1],"values":[0.5]}')
VECTOR_FIELDS = ("_values", 'a"b', "vektor ß")
IDS = ('"a"', '"rec#1"', '"\\u00e9"', '"a\\"b"', '"0"')
SCORES = ("0.863594", "1", "-3.5", "1e-7", "0")
SPARSE = {"indices": [1, 5], "values": [0.5, 0.25]}

# Made once, as in support/qdrant/bodies.py.
SOME_KEYS = st.lists(st.sampled_from(FIELD_KEYS), unique=True, max_size=4)
SOME_TEXT = st.sampled_from(FIELD_TEXTS)
TWO_NUMBERS, THREE_NUMBERS = number_lists(2), number_lists(3)


@st.composite
def stored_records(draw: st.DrawFn, kind: str) -> Stored:
    keys = draw(SOME_KEYS)
    sparse = None if kind == "dense" else f'{{"indices":[3,70000],"values":{draw(TWO_NUMBERS)}}}'
    return Stored(
        id=draw(st.sampled_from(IDS)),
        score=draw(st.sampled_from(SCORES)),
        fields=tuple((key, draw(SOME_TEXT)) for key in keys),
        values="[]" if kind == "sparse" else draw(THREE_NUMBERS),
        sparse=sparse if draw(st.integers(0, 4)) else None,
    )


@st.composite
def services(draw: st.DrawFn) -> Service:
    kind = draw(st.sampled_from(["dense", "dense", "hybrid", "sparse"]))
    return Service(
        records=tuple(draw(st.lists(stored_records(kind), max_size=7))),
        vector_field=draw(st.sampled_from(VECTOR_FIELDS)),
        namespace=draw(st.sampled_from(["", "ns"])),
    )


@st.composite
def queries(draw: st.DrawFn) -> dict[str, Any]:
    ranking: dict[str, Any] = draw(
        st.sampled_from(
            [
                {"vector": [0.25, 1, -3.5]},
                {"id": "a"},
                {"id": "é", "vector": []},
                {"sparseVector": SPARSE},
                {"vector": [0.5], "sparseVector": SPARSE},
            ]
        )
    )
    switches = st.sampled_from(["absent", None, False, True])
    members = {
        **ranking,
        "topK": draw(st.sampled_from([2, 3, 5])),
        "includeValues": draw(switches),
        "includeMetadata": draw(st.sampled_from(["absent", False, True, True, True])),
        "namespace": draw(st.sampled_from(["absent", "", "__default__"])),
        "filter": draw(st.sampled_from(["absent", {"topK": {"$eq": "includeValues"}}])),
        "scanFactor": draw(st.sampled_from(["absent", 2.0])),
        "maxCandidates": draw(st.sampled_from(["absent", None, 500])),
    }
    return {key: value for key, value in members.items() if value != "absent"}


@st.composite
def records_searches(draw: st.DrawFn) -> dict[str, Any]:
    top_k = draw(st.sampled_from([4, 5, 6]))
    ranking: list[dict[str, Any]] = [{"inputs": {"text": "top_k"}}, {"id": "a"}, {"filter": {}}]
    query = {"top_k": top_k, **draw(st.sampled_from(ranking))}
    names = st.lists(st.sampled_from(["text", "doc", "größe", "*"]), min_size=1, max_size=3)
    rerank = {"model": "m", "rank_fields": ["text"], "top_n": draw(st.sampled_from([2, 3]))}
    members = {
        "query": query,
        "fields": draw(st.one_of(st.sampled_from(["absent", None, ["*"]]), names)),
        "rerank": draw(st.sampled_from(["absent", "absent", rerank])),
    }
    return {key: value for key, value in members.items() if value != "absent"}


@st.composite
def documents_searches(draw: st.DrawFn, vector_field: str) -> dict[str, Any]:
    named: dict[str, Any] = draw(st.sampled_from([{"field": vector_field}, {"fields": [vector_field]}]))
    dense = {"type": "dense_vector", **named, "values": [0.5, 1.0, 2]}
    words = {"type": "text", "fields": ["text"], "query": "top_k"}
    names = st.lists(st.sampled_from(["text", "doc", "größe", "*", vector_field]), max_size=3)
    members = {
        "score_by": draw(st.sampled_from([[dense], [dense], [words], [words, {"type": "query_string", "query": "a"}]])),
        "top_k": draw(st.sampled_from([2, 3, 5])),
        "include_fields": draw(st.one_of(st.sampled_from(["absent", None, []]), names)),
        "filter": draw(st.sampled_from(["absent", {}])),
    }
    return {key: value for key, value in members.items() if value != "absent"}


@st.composite
def conversations(
    draw: st.DrawFn, *, operation: str | None = None, extra: dict[str, Any] | None = None
) -> Conversation:
    """A request of a kind that is ours, and the service's answers. ``extra`` is laid over it."""
    if operation is None:
        operation = draw(st.sampled_from(["query", "query", "records_search", "documents_search"]))
    service = draw(services())
    kinds = {
        "query": queries(),
        "records_search": records_searches(),
        "documents_search": documents_searches(service.vector_field),
    }
    document = {**draw(kinds[operation]), **(extra or {})}
    if operation == "query" and draw(st.booleans()):
        document = {SPELLINGS.get(key, key): value for key, value in document.items()}
    document = {key: document[key] for key in draw(st.permutations(sorted(document)))}
    body = draw(spelled(document))
    path = draw(st.sampled_from(PATHS[operation]))
    return Conversation(path, body, lambda wide: service.answer(operation, wide))
