"""Bodies of any shape from the words of Qdrant's API, and a collection that they are tried on."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st
from servers.embedded import collections, points
from servers.embedded.collections import Call, Registry, Verb
from servers.embedded.replies import dumps

from support.qdrant.refusals import refusal_of

# The words of the API, so that random bodies get past the first check.
FIELDS = st.sampled_from(
    [
        "limit",
        "top",
        "offset",
        "query",
        "nearest",
        "recommend",
        "positive",
        "negative",
        "strategy",
        "discover",
        "target",
        "context",
        "mmr",
        "diversity",
        "candidates_limit",
        "fusion",
        "rrf",
        "k",
        "weights",
        "order_by",
        "key",
        "direction",
        "start_from",
        "formula",
        "sum",
        "mult",
        "sample",
        "prefetch",
        "using",
        "filter",
        "must",
        "should",
        "must_not",
        "min_should",
        "conditions",
        "min_count",
        "match",
        "value",
        "any",
        "except",
        "text",
        "range",
        "gte",
        "lt",
        "has_id",
        "has_vector",
        "is_empty",
        "is_null",
        "nested",
        "values_count",
        "geo_radius",
        "center",
        "lon",
        "lat",
        "radius",
        "geo_polygon",
        "exterior",
        "points",
        "with_vector",
        "with_vectors",
        "with_payload",
        "include",
        "exclude",
        "score_threshold",
        "params",
        "exact",
        "hnsw_ef",
        "quantization",
        "acorn",
        "idf",
        "lookup_from",
        "collection",
        "vector",
        "indices",
        "values",
        "ids",
        "payload",
        "payloads",
        "batch",
        "operations",
        "upsert",
        "delete",
        "set_payload",
        "keys",
        "group_by",
        "group_size",
        "with_lookup",
        "searches",
        "id",
        "name",
        "relevance_feedback",
        "feedback",
        "example",
        "score",
        "naive",
        "a",
        "b",
        "c",
        "update_mode",
        "update_filter",
        "field_name",
        "field_schema",
        "type",
    ]
)
LEAVES = (
    st.none()
    | st.booleans()
    | st.integers(-2, 12)
    | st.sampled_from([2**63, 2**64, -(2**63) - 1, 0.5, -1.5, 1e308])
    | st.sampled_from(
        [
            "",
            "sp",
            "rows",
            "c",
            "n",
            "n[]",
            "$score",
            "rrf",
            "random",
            "best_score",
            "integer",
            "5c56c793-69f3-4fbf-87e6-c4bf54c28c26",
        ]
    )
    | st.lists(st.floats(-1, 1, width=32), max_size=3)
)
VALUES = st.recursive(
    LEAVES, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(FIELDS, inner, max_size=4), max_leaves=12
)
BODIES = st.dictionaries(FIELDS, VALUES, max_size=5)
TAGS = (
    "nearest",
    "recommend",
    "discover",
    "context",
    "relevance_feedback",
    "order_by",
    "fusion",
    "rrf",
    "formula",
    "sample",
)


def fill(made: Registry) -> None:
    """Make the collection `c`, with vectors of every form."""
    settings = {
        "vectors": {
            "": {"size": 2, "distance": "Cosine"},
            "rows": {"size": 2, "distance": "Dot", "multivector_config": {"comparator": "max_sim"}},
        },
        "sparse_vectors": {"sp": {}},
    }
    collections.create(made, Call({"collection": "c"}, body=settings))
    filled = [
        {
            "id": number,
            "vector": {"": [1, number], "rows": [[number, 1]], "sp": {"indices": [number], "values": [1]}},
            "payload": {"n": [number, number % 3]},
        }
        for number in range(1, 9)
    ]
    points.upsert(made, Call({"collection": "c"}, body={"points": filled}))


def check(registry: Registry, verb: Verb, body: Any) -> None:
    def work() -> bytes:
        return dumps(verb(registry, Call({"collection": "c"}, body=body)))

    refused = refusal_of(work)
    assert refused is None or refused.status in {400, 404, 422, 501}, refused
