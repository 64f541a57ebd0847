"""Strategies for whole conversations with both servers: documents, searches of every kind, and what answers them."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from support.exchanges.conversation import Conversation, spelled
from support.opensearch.model import VECTOR, Server, Stored
from support.qdrant.bodies import PAYLOAD_TEXTS, number_lists

PATHS = ("/docs/_search", "/a%20b,logs-*/_search", "/_all/_search", "/_search")
BATCH = "/docs/_msearch"
KEYS = ("text", "doc", "größe", "a.b", "vector", "hits", '"vec":[0.5', "_source", "id", "about")
TEXTS = (
    *PAYLOAD_TEXTS,
    '"\\"vec\\":[1,2]"',
    '"a]b[c"',
    '"\\ud83d"',
    '""',
    '{"vec":[0.5,1],"page":3}',
    '{"page":{"vec":[2]}}',
)
IDS = ('"a"', '"\\u00e9"', '"a\\"b"', '"0"', '"_id"')
SCORES = ("0.863594", "1.0", "12.5", "5.9604645E-8", "null")
MORE = ("", '"highlight":{"text":["<em>_id</em>"]}', '"_ignored":["hits"],"sort":[1]')
QUERY = [0.25, 1, -3.5]
KNN = {"field": VECTOR, "query_vector": QUERY, "k": 20, "num_candidates": 30}
SEARCHES: tuple[dict[str, Any], ...] = (
    {"query": {"knn": {VECTOR: {"vector": QUERY, "k": 20}}}},
    {"query": {"knn": {VECTOR: {"vector": QUERY * 9, "k": 20}}}},
    {"query": {"knn": {VECTOR: {"vector": QUERY, "k": 2, "filter": {"term": {"size": 1}}}}}},
    {"query": {"knn": {VECTOR: {"vector": QUERY, "min_score": 0.5}}}},
    {"query": {"bool": {"must": [{"knn": {VECTOR: {"vector": QUERY, "k": 20}}}], "filter": {"term": {"from": 0}}}}},
    {"query": {"neural": {VECTOR: {"query_text": '"size":1', "model_id": "m"}}}},
    {"query": {"hybrid": {"queries": [{"match": {"text": "x"}}, {"knn": {VECTOR: {"vector": QUERY, "k": 9}}}], "pagination_depth": 50}}},
    {"knn": KNN},
    {"knn": [KNN], "query": {"match": {"text": "x"}}},
    {"retriever": {"knn": KNN}},
    {"retriever": {"rrf": {"retrievers": [{"standard": {"query": {"match_all": {}}}}, {"knn": KNN}], "rank_window_size": 60}}},
    {"query": {"script_score": {
        "query": {"match_all": {}},
        "script": {"source": f"cosineSimilarity(params.query_vector, '{VECTOR}') + 1.0", "params": {"query_vector": QUERY}},
    }}},
)  # fmt: skip
SELECTIONS: tuple[Any, ...] = (
    "absent", True, False, "text", [], ["id"], ["doc", "d*"], ["about.page"], ["*"], ["*.page"], {"excludes": ["doc"]},
    {"includes": ["text", "doc"], "excludes": ["about.*"]}, {"includes": "größe"}, {"excludes": [VECTOR]},
)  # fmt: skip
FIELDS: tuple[Any, ...] = (
    "absent",
    "absent",
    [],
    ["text"],
    ["v*"],
    [{"field": VECTOR}],
    [{"field": "doc", "format": "x"}],
)
# Made once, as in support/qdrant/bodies.py.
SOME_KEYS = st.lists(st.sampled_from(KEYS), unique=True, max_size=4)
SOME_TEXT = st.sampled_from(TEXTS)
VECTORS = st.one_of(number_lists(3), number_lists(3), st.none())


@st.composite
def stored_documents(draw: st.DrawFn) -> Stored:
    keys = draw(SOME_KEYS)
    return Stored(
        id=draw(st.sampled_from(IDS)),
        score=draw(st.sampled_from(SCORES)),
        vector=draw(VECTORS),
        source=tuple((key, draw(SOME_TEXT)) for key in keys),
        index=draw(st.sampled_from(('"docs"', '"docs"', '"logs-1"'))),
        more=draw(st.sampled_from(MORE)),
    )


@st.composite
def searches(draw: st.DrawFn) -> dict[str, Any]:
    members = {
        **draw(st.sampled_from(SEARCHES)),
        "size": draw(st.sampled_from(["absent", 2, 3, 5])),
        "from": draw(st.sampled_from(["absent", "absent", 0, 2])),
        "_source": draw(st.sampled_from(SELECTIONS)),
        "fields": draw(st.sampled_from(FIELDS)),
        "track_total_hits": draw(st.sampled_from(["absent", False, 100])),
        "stored_fields": draw(st.sampled_from(["absent", "absent", "absent", ["text"]])),
    }
    return present(members)


HITS = st.lists(stored_documents(), max_size=7).map(tuple)


def present(members: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in members.items() if value != "absent"}


@st.composite
def conversations(
    draw: st.DrawFn, *, operation: str | None = None, extra: dict[str, Any] | None = None, is_opensearch: bool = False
) -> Conversation:
    """A search and the server's answers. ``extra`` is laid over it."""
    server = Server(
        hits=draw(HITS),
        has_vectors=is_opensearch or draw(st.booleans()),
        is_opensearch=is_opensearch,
        space=draw(st.sampled_from(["", "", "\n  "])),
    )
    document = present({**draw(searches()), **(extra or {})})
    document = {key: document[key] for key in draw(st.permutations(sorted(document)))}
    body = draw(spelled(document))
    return Conversation(draw(st.sampled_from(PATHS)), body, server.answer)
