"""The official clients of OpenSearch and Elasticsearch in front of a server that knows nothing, and every call of theirs."""

from __future__ import annotations

from contextlib import closing
from typing import Any

from elasticsearch import Elasticsearch
from opensearchpy import OpenSearch

from calls.exercise import Calls, Requests, requests
from calls.servers import over_http

VECTOR = [1.0, 0.0]
Json = dict[str, Any]
_NEAREST: Json = {"query": {"knn": {"v": {"vector": VECTOR, "k": 50}}}}
_SCRIPT: Json = {
    "query": {
        "script_score": {
            "query": {"match_all": {}},
            "script": {"lang": "knn", "source": "knn_score", "params": {"field": "v", "query_value": VECTOR, "space_type": "l2"}},
        }
    }
}  # fmt: skip
_HYBRID: Json = {"query": {"hybrid": {"queries": [{"match": {"text": "t"}}, _NEAREST["query"]]}}}
_LINES: list[Json] = [{}, _NEAREST, {}, _NEAREST]
OPENSEARCH = Calls(
    arguments={"body": {"query": {"match_all": {}}}, "id": "1", "index": "i", "task_id": "t"},
    more={
        "bulk": {"body": [{"delete": {"_id": "1"}}], "index": "i"},
        "bulk_stream": {"body": [{"delete": {"_id": "1"}}], "index": "i"},
        "clear_scroll": {"scroll_id": "s"},
        "delete_pit": {"body": {"pit_id": ["p"]}},
        "create_pit": {"params": {"keep_alive": "1m"}},
        "msearch": {"body": _LINES, "index": "i"},
        "scroll": {"scroll_id": "s"},
        "search": {"body": _NEAREST, "index": "i"},
    },
    cases={
        "script_score": ("search", {"body": _SCRIPT, "index": "i"}),
        "hybrid": ("search", {"body": _HYBRID, "index": "i"}),
        "from": ("search", {"body": {**_NEAREST, "from": 10}, "index": "i"}),
        "_source=False": ("search", {"body": {**_NEAREST, "_source": False}, "index": "i"}),
        "size=1": ("search", {"body": {**_NEAREST, "size": 1}, "index": "i"}),
        "match": ("search", {"body": {"query": {"match": {"text": "t"}}}, "index": "i"}),
        "sort": ("search", {"body": {**_NEAREST, "sort": [{"n": "asc"}]}, "index": "i"}),
        "ext.mmr": ("search", {"body": {**_NEAREST, "ext": {"mmr": {"diversity": 0.5}}}, "index": "i"}),
        "pit, search_after": ("search", {"body": {"pit": {"id": "p"}, "sort": ["_shard_doc"], "search_after": [1]}}),
    },
    local=frozenset({"close"}),
)
_CLAUSE: Json = {"field": "v", "query_vector": VECTOR, "k": 50, "num_candidates": 100}
_RRF: Json = {
    "rrf": {
        "retrievers": [{"knn": _CLAUSE}, {"standard": {"query": {"match": {"text": "t"}}}}],
        "rank_window_size": 100,
    }
}
_MMR: Json = {"diversify": {"type": "mmr", "field": "v", "query_vector": VECTOR, "retriever": {"knn": _CLAUSE}}}
_ELASTIC_LINES: list[Json] = [{}, {"knn": _CLAUSE}, {}, {"knn": _CLAUSE}]
ELASTICSEARCH = Calls(
    arguments={
        "field": "f",
        "fields": ["f"],
        "id": "1",
        "index": "i",
        "requests_per_second": 1.0,
        "task_id": "t",
        "x": 0,
        "y": 0,
        "zoom": 0,
    },
    more={
        "bulk": {"operations": [{"delete": {"_id": "1", "_index": "i"}}]},
        "clear_scroll": {"scroll_id": "s"},
        "close_point_in_time": {"id": "p"},
        "create": {"document": {"n": 1}},
        "delete_by_query": {"query": {"match_all": {}}},
        "index": {"document": {"n": 1}},
        "msearch": {"index": "i", "searches": _ELASTIC_LINES},
        "msearch_template": {"search_templates": [{}, {"source": "{}"}]},
        "open_point_in_time": {"index": "i", "keep_alive": "1m"},
        "put_script": {"script": {"lang": "painless", "source": "1"}},
        "rank_eval": {"requests": [{"id": "q", "ratings": [], "request": {}}]},
        "reindex": {"dest": {"index": "j"}, "source": {"index": "i"}},
        "scroll": {"scroll_id": "s"},
        "search": {"index": "i", "knn": _CLAUSE},
        "terms_enum": {"field": "f"},
        "render_search_template": {"source": "{}"},
        "mtermvectors": {"index": "i", "ids": ["1"]},
        "mget": {"index": "i", "ids": ["1"]},
    },
    cases={
        "query.knn": ("search", {"index": "i", "query": {"knn": _CLAUSE}}),
        "knn and query": ("search", {"index": "i", "knn": _CLAUSE, "query": {"match": {"text": "t"}}}),
        "retriever knn": ("search", {"index": "i", "retriever": {"knn": _CLAUSE}}),
        "retriever rrf": ("search", {"index": "i", "retriever": _RRF}),
        "retriever diversify": ("search", {"index": "i", "retriever": _MMR}),
        "from_": ("search", {"index": "i", "knn": _CLAUSE, "from_": 10}),
        "source=False": ("search", {"index": "i", "knn": _CLAUSE, "source": False}),
        "size=1": ("search", {"index": "i", "knn": _CLAUSE, "size": 1}),
        "match": ("search", {"index": "i", "query": {"match": {"text": "t"}}}),
        "sort": ("search", {"index": "i", "knn": _CLAUSE, "sort": [{"n": "asc"}]}),
        "pit, search_after": ("search", {"pit": {"id": "p"}, "sort": ["_shard_doc"], "search_after": [1]}),
    },
    local=frozenset({"close", "options"}),
    administration=frozenset({"perform_request"}),  # any request
)


def opensearch_rest() -> Requests:
    with (
        over_http(lambda *_: {}) as server,
        closing(OpenSearch(f"http://127.0.0.1:{server.port}", max_retries=0)) as client,
    ):
        return requests(server, client, OPENSEARCH)


def elasticsearch_rest() -> Requests:
    with (
        over_http(lambda *_: {}) as server,
        closing(Elasticsearch(f"http://127.0.0.1:{server.port}", max_retries=0)) as client,
    ):
        return requests(server, client, ELASTICSEARCH)
