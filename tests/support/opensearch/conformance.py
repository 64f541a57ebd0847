"""Requests by which the server of the tests is compared with the real ones, and what of their answers is compared.

They are sent in their order to an empty server; an index is written, searched in every way, and deleted.
"""

from __future__ import annotations

import json
import math
import random
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from operator import itemgetter
from pathlib import Path
from typing import Any

from servers.opensearch.store import Product

from support.process.stack import exchange

Json = dict[str, Any]
GOLDEN = Path(__file__).resolve().parents[2] / "golden" / "opensearch"
NAME = "compared"
PAGE = "/compared/_search"
ONE_SHARD = {"number_of_shards": 1, "number_of_replicas": 0}
QUERY = [0.9, -0.4, 0.7]
NDJSON = "application/x-ndjson"
# Each time another, or of a part that is not modelled: where in the text a refusal is, and what the server's code was doing.
_UNLIKE = frozenset(
    {"took", "index_uuid", "node", "pit_id", "id", "_scroll_id", "line", "col", "script_stack", "creation_time"}
)
_UNLIKE_TEXTS = re.compile(r"^\[\d+:\d+\] |(?<=\[compared)/[^]]+|, allowed: .*")
TOLERANCE = 1e-6


@dataclass(frozen=True, slots=True)
class Case:
    """One request. ``body``: JSON, lines of it, or bytes as they are."""

    name: str
    method: str
    path: str
    body: Any = None

    @property
    def raw(self) -> bytes | None:
        if self.body is None or isinstance(self.body, bytes):
            return self.body
        if isinstance(self.body, list):
            return "".join(json.dumps(line) + "\n" for line in self.body).encode()
        return json.dumps(self.body).encode()


def documents() -> list[tuple[str, Json]]:
    """Fourteen, every third one thrice: almost the same vector each time, the same words."""
    rng = random.Random(5)
    made = []
    for base in range(8):
        vector = [round(rng.gauss(0, 1), 3) for _ in QUERY]
        for copy in range(3 if base % 3 == 0 else 1):
            near = [round(value + copy * 0.002, 4) for value in vector]
            words = " ".join(["é", "lorem", f"w{base}", *["ipsum"] * (base % 3)])
            about = {"title": f"T{base}", "deep": {"text": f"D{base}", "n": base / 4}}
            made.append((f"d{base}-{copy}", {"text": words, "tag": f"t{base % 3}", "n": base * 10 + copy, "v": near, "meta": about}))  # fmt: skip
    return made


def mapping(product: Product, space: str = "cosine") -> Json:
    """The body that makes the index."""
    if product is Product.OPENSEARCH:
        kind = {"cosine": "cosinesimil", "l2": "l2", "inner": "innerproduct"}[space]
        method = {"name": "hnsw", "space_type": kind, "engine": "lucene"}
        vector: Json = {"type": "knn_vector", "dimension": len(QUERY), "method": method}
        settings: Json = {"index": {"knn": True, **ONE_SHARD}}
    else:
        kind = {"cosine": "cosine", "l2": "l2_norm", "inner": "max_inner_product"}[space]
        vector = {"type": "dense_vector", "dims": len(QUERY), "similarity": kind, "index_options": {"type": "hnsw"}}
        settings = dict(ONE_SHARD)
    title = {"properties": {"title": {"type": "text", "store": True}}}
    fields = {"v": vector, "text": {"type": "text"}, "tag": {"type": "keyword"}, "n": {"type": "integer"}, "meta": title}  # fmt: skip
    return {"settings": settings, "mappings": {"properties": fields}}


def nearest(product: Product, k: int = 3, **more: Any) -> Json:
    """A query by vector."""
    if product is Product.OPENSEARCH:
        return {"knn": {"v": {"vector": QUERY, "k": k, **more}}}
    return {"knn": {"field": "v", "query_vector": QUERY, "k": k, "num_candidates": 50, **more}}


def cases(product: Product) -> list[Case]:
    """All of them."""
    is_open = product is Product.OPENSEARCH
    searches = [
        *_searches(product),
        *_source_filters(product),
        *_refused(product),
        *(_opensearch() if is_open else _elasticsearch()),
    ]
    pages = [Case(name, "POST", PAGE, body) for name, body in searches]
    return [*_writes(product), *pages, *_by_url(product), *_lists(product), *_endings(product)]


def _writes(product: Product) -> Iterator[Case]:
    made = documents()
    yield Case("create", "PUT", f"/{NAME}", mapping(product))
    yield Case("create again", "PUT", f"/{NAME}", mapping(product))
    yield Case("alias", "POST", "/_aliases", {"actions": [{"add": {"index": NAME, "alias": "renamed"}}]})
    lines = [line for name, source in made[:-2] for line in ({"index": {"_index": NAME, "_id": name}}, source)]
    yield Case("bulk", "POST", "/_bulk?refresh=true", lines)
    name, source = made[-2]
    yield Case("put", "PUT", f"/{NAME}/_doc/{name}?refresh=true", source)
    name, source = made[-1]
    yield Case("create document", "PUT", f"/{NAME}/_create/{name}?refresh=true", source)
    yield Case("create document again", "PUT", f"/{NAME}/_create/{name}", source)
    yield Case("get", "GET", f"/{NAME}/_doc/{name}")
    yield Case("get nothing", "GET", f"/{NAME}/_doc/ghost")
    yield Case("mget", "POST", f"/{NAME}/_mget?_source=text", {"ids": [name, "ghost"]})
    yield Case("plain", "PUT", "/plain", {"settings": ONE_SHARD})
    text = b'{ "b" : 1e-5, "a":[1.0, 2.50],"s":"a\\/b \\u001f \\u00e9", "f": 1e3}'
    yield Case("plain document", "PUT", "/plain/_doc/1?refresh=true", text)
    yield Case("count", "POST", f"/{NAME}/_count", {"query": {"term": {"tag": "t1"}}})


def _searches(product: Product) -> Iterator[tuple[str, Json]]:
    near = nearest(product)
    yield "near", {"query": near}
    yield "k above size", {"size": 2, "query": nearest(product, 8)}
    yield "from", {"from": 2, "size": 2, "query": nearest(product, 6), "_source": False}
    yield "no results", {"size": 0, "query": near}
    yield "boosted", {"size": 2, "query": nearest(product, boost=2.5), "_source": False}
    yield "filter", {"query": nearest(product, filter={"term": {"tag": "t0"}}), "_source": "tag"}
    within = {"bool": {"must": [{"range": {"n": {"gte": 10, "lt": 60}}}], "must_not": [{"terms": {"tag": ["t1"]}}]}}
    yield "filter of several", {"query": nearest(product, 5, filter=within), "_source": "n"}
    yield (
        "in bool",
        {"query": {"bool": {"must": [nearest(product, 9)], "filter": [{"term": {"tag": "t0"}}]}}, "_source": False},
    )
    yield "should", {"query": {"bool": {"should": [near, {"match": {"text": "w3 ipsum"}}]}}, "_source": False}
    yield (
        "named",
        {
            "query": {"bool": {"must": [near], "should": [{"term": {"tag": {"value": "t0", "_name": "zero"}}}]}},
            "_source": False,
        },
    )
    yield "least score", {"min_score": 0.9, "query": nearest(product, 9), "_source": False}
    yield "post filter", {"query": nearest(product, 9), "post_filter": {"term": {"tag": "t0"}}, "_source": False}
    yield (
        "aggregation",
        {"size": 1, "query": nearest(product, 9), "aggs": {"tags": {"terms": {"field": "tag"}}}, "_source": False},
    )
    yield "collapse", {"query": nearest(product, 9), "collapse": {"field": "tag"}, "_source": False}
    yield "by score", {"size": 2, "query": near, "sort": ["_score"], "_source": False}
    yield "by number", {"size": 2, "query": nearest(product, 5), "sort": [{"n": "desc"}], "_source": False}
    yield (
        "by score and number",
        {"size": 2, "query": near, "sort": [{"_score": "desc"}, {"n": "asc"}], "_source": False},
    )
    yield (
        "after",
        {"size": 2, "query": {"match_all": {}}, "sort": [{"n": "asc"}], "search_after": [20], "_source": False},
    )
    yield "uncounted", {"size": 1, "query": near, "track_total_hits": False, "_source": False}
    yield "counted to three", {"size": 1, "query": {"match_all": {}}, "track_total_hits": 3, "_source": False}
    yield "words", {"size": 4, "query": {"match": {"text": "lorem ipsum"}}, "_source": "text"}
    yield "ids", {"query": {"ids": {"values": ["d1-0", "d3-1"]}}, "_source": False}
    yield (
        "constant",
        {
            "size": 1,
            "query": {"constant_score": {"filter": {"exists": {"field": "n"}}, "boost": 1.5}},
            "_source": False,
        },
    )
    yield "everything", {"size": 1}
    yield "a text for a size", {"size": "2", "query": near, "_source": False}
    yield "a fraction for a size", {"size": 2.5, "query": near, "_source": False}


def _source_filters(product: Product) -> Iterator[tuple[str, Json]]:
    page = {"size": 1, "query": nearest(product, 1)}
    filters: Mapping[str, Any] = {
        "false": False, "true": True, "text": "text", "list": ["text", "meta.*"], "none": [], "nothing": ["ghost"], "wildcard": "*.text",
        "everything": "*", "vector": ["text", "v"], "all but": {"excludes": ["n", "meta.deep.n"]},
        "both": {"includes": ["meta", "n"], "excludes": ["meta.deep"]}, "null": None,
    }  # fmt: skip
    for name, selection in filters.items():
        yield f"source {name}", {**page, "_source": selection}
    yield "fields", {**page, "_source": False, "fields": ["text", "n", {"field": "tag"}]}
    yield "fields beside", {**page, "_source": ["n"], "fields": ["te*", "meta.deep.text", "ghost"]}
    yield "fields beside the source", {**page, "fields": ["n"]}
    yield "a vector beside the source", {**page, "fields": ["v"]}
    yield "a vector alone", {**page, "fields": ["v"], "_source": False}
    yield "a vector beside a number", {**page, "fields": ["v", "n"], "_source": ["n"]}
    yield "a vector beside its exclusion", {**page, "fields": ["v"], "_source": {"excludes": ["v"]}}
    yield "every field", {**page, "fields": ["*"], "_source": False}
    yield "fields beside a filter", {**page, "fields": ["n"], "_source": {"excludes": ["text"]}}
    yield "stored", {**page, "stored_fields": ["meta.title"]}
    yield "stored and source", {**page, "stored_fields": ["meta.title"], "_source": ["n"]}
    yield "nothing stored", {**page, "stored_fields": "_none_"}
    yield "columns", {**page, "docvalue_fields": ["n", "tag"], "_source": False}
    yield "version", {**page, "version": True, "seq_no_primary_term": True, "_source": False}


def _refused(product: Product) -> Iterator[tuple[str, Json]]:
    near = nearest(product)
    yield "too many", {"size": 10_001, "query": near}
    yield "too deep", {"from": 9_999, "size": 2, "query": near}
    yield "negative size", {"size": -1, "query": near}
    yield "negative from", {"from": -1, "query": near}
    yield "a word for a size", {"size": "two", "query": near}
    yield "nothing stored, and source", {"stored_fields": "_none_", "_source": ["n"], "query": near}
    yield "after, from", {"from": 2, "sort": [{"n": "asc"}], "search_after": [20]}
    yield "unknown member", {"size": 1, "queri": near}
    yield "unknown query", {"query": {"ghost": {}}}


def _opensearch() -> Iterator[tuple[str, Json]]:
    def knn(**clause: Any) -> Json:
        return {"query": {"knn": {"v": {"vector": QUERY, **clause}}}, "_source": False}

    def script(source: str, lang: str = "painless", **params: Any) -> Json:
        inner = {"bool": {"filter": {"term": {"tag": "t0"}}}}
        made = {"lang": lang, "source": source, "params": {"q": QUERY, **params}}
        return {"size": 3, "query": {"script_score": {"query": inner, "script": made}}, "_source": False}

    yield "radius by score", knn(min_score=0.6)
    yield "radius by distance", knn(max_distance=0.5)
    yield "k and radius", knn(k=3, min_score=0.6)
    yield "k as text", knn(k="3")
    yield "k of a fraction", knn(k=2.7)
    yield "huge k", knn(k=10_001)
    yield "k of nothing", knn(k=0)
    yield "source singular", {**knn(k=1), "_source": {"include": "text", "exclude": "n"}}
    yield "parameters", knn(k=2, method_parameters={"ef_search": 40})
    yield "another dimension", knn(k=2, vector=[1, 2])
    yield "no such field", {"query": {"knn": {"ghost": {"vector": QUERY, "k": 2}}}}
    yield "top-level knn", {"knn": {"field": "v", "query_vector": QUERY, "k": 2}}
    yield "script of cosine", script("1.0 + cosineSimilarity(params.q, doc['v'])")
    yield "script of distance", script("1 / (1 + l2Squared(params.q, doc['v']))")
    yield "script of a number", script("_score + doc['n'].value")
    yield "script of k-NN", script("knn_score", "knn", field="v", query_value=QUERY, space_type="l2")
    yield (
        "script of inner products",
        script("knn_score", "knn", field="v", query_value=QUERY, space_type="innerproduct"),
    )


def _elasticsearch() -> Iterator[tuple[str, Json]]:
    clause = nearest(Product.ELASTICSEARCH)["knn"]
    one = nearest(Product.ELASTICSEARCH, 1)["knn"]
    yield "top level", {"size": 5, "knn": clause, "_source": False}
    yield "top level, from", {"from": 1, "size": 1, "knn": clause, "_source": False}
    yield "top level alone", {"size": 2, "knn": {"field": "v", "query_vector": QUERY}, "_source": False}
    yield (
        "top level, no candidates",
        {"size": 2, "knn": {"field": "v", "query_vector": QUERY, "k": 4}, "_source": False},
    )
    yield "a vector's column", {"size": 1, "knn": one, "docvalue_fields": ["v", "n"], "_source": ["n", "text"]}
    yield "two clauses", {"size": 4, "knn": [clause, {**one, "boost": 0.5}], "_source": False}
    yield "beside a query", {"size": 4, "knn": {**clause, "boost": 0.7}, "query": {"match": {"text": {"query": "w3", "boost": 0.3}}}, "_source": False}  # fmt: skip
    yield (
        "filters",
        {
            "size": 4,
            "knn": {**clause, "filter": [{"term": {"tag": "t0"}}, {"range": {"n": {"gte": 2}}}]},
            "_source": False,
        },
    )
    yield "least similarity", {"knn": {**clause, "k": 9, "similarity": 0.5}, "_source": False}
    yield (
        "no k",
        {"size": 4, "query": {"knn": {"field": "v", "query_vector": QUERY, "num_candidates": 20}}, "_source": False},
    )
    yield "retriever", {"size": 2, "retriever": {"knn": clause}, "_source": False}
    yield "retriever, from", {"from": 1, "size": 2, "retriever": {"knn": clause}, "_source": False}
    yield (
        "retriever of a query",
        {"size": 2, "retriever": {"standard": {"query": {"match": {"text": "ipsum"}}}}, "_source": False},
    )
    yield "retriever with a filter", {"size": 3, "retriever": {"standard": {"query": {"knn": {**clause, "k": 9}}, "filter": {"term": {"tag": "t0"}}}}, "_source": False}  # fmt: skip
    yield "retriever with a least score", {"retriever": {"knn": {**clause, "k": 9, "min_score": 0.9}}, "_source": False}
    yield "retriever and query", {"retriever": {"knn": clause}, "query": {"match_all": {}}}
    yield "retriever and knn", {"retriever": {"knn": clause}, "knn": clause}
    yield "retriever, query and sort", {"retriever": {"knn": clause}, "query": {"match_all": {}}, "sort": ["n"]}
    yield "unknown retriever", {"retriever": {"ghost": {}}}
    yield "another dimension", {"knn": {**clause, "query_vector": [1, 2]}}
    yield "no such field", {"knn": {**clause, "field": "ghost"}}
    yield "k of nothing", {"knn": {**clause, "k": 0}}
    yield "k over candidates", {"knn": {**clause, "k": 9, "num_candidates": 5}}
    yield "huge candidates", {"knn": {**clause, "num_candidates": 10_001}}
    yield "the other's clause", {"query": {"knn": {"v": {"vector": QUERY, "k": 5}}}}
    for name, selection in (
        ("shown", {"exclude_vectors": False}), ("named", {"exclude_vectors": True, "includes": ["v", "n"]}),
        ("not named", {"exclude_vectors": False, "includes": ["text"]}), ("hidden", {"exclude_vectors": True}),
    ):  # fmt: skip
        yield f"vectors {name}", {"size": 1, "knn": one, "_source": selection}


def _by_url(product: Product) -> Iterator[Case]:
    body = {"query": nearest(product, 2)}
    for name, path in {
        "source in the URL": f"{PAGE}?_source=text,n&size=1", "excludes in the URL": f"{PAGE}?_source_excludes=meta,n&size=1",
        "no source in the URL": f"{PAGE}?_source=false", "page in the URL": f"{PAGE}?size=1&from=1&_source=false",
        "total as a number": f"{PAGE}?rest_total_hits_as_int=true&_source=false", "pretty": f"{PAGE}?pretty&size=1",
        "a part": f"{PAGE}?filter_path=hits.hits._id,hits.hits._score", "unknown parameter": f"{PAGE}?ghost=1",
        "by alias": "/renamed/_search?size=1&_source=false", "by list": f"/{NAME},renamed/_search?size=1&_source=false",
        "by wildcard": "/comp*/_search?size=1&_source=false", "no index": "/nowhere/_search", "no match": "/zz*/_search",
        "missing ignored": f"/{NAME},nowhere/_search?ignore_unavailable=true&size=1&_source=false",
        "two indices": f"/{NAME},plain/_search?size=1&_source=false",
    }.items():  # fmt: skip
        yield Case(name, "POST", path, body)
    yield Case("by GET", "GET", f"{PAGE}?_source=false", body)
    yield Case("plain source", "GET", "/plain/_search")
    yield Case("plain source, filtered", "POST", "/plain/_search", {"_source": ["a", "b", "s", "f"]})
    typed = {"size": 0, **body, "aggs": {"tags": {"terms": {"field": "tag"}}}}
    yield Case("typed keys", "POST", f"{PAGE}?typed_keys=true", typed)
    yield Case("array", "POST", PAGE, b"[]")
    yield Case("another method", "PUT", PAGE, body)


def _lists(product: Product) -> Iterator[Case]:
    body = {"size": 1, "query": nearest(product, 2), "_source": False}
    wrong = nearest(product, 2)
    (wrong["knn"]["v"] if product is Product.OPENSEARCH else wrong["knn"])[
        "vector" if product is Product.OPENSEARCH else "query_vector"
    ] = [1]
    lines: list[Any] = [{"index": NAME}, body, {"index": "nowhere"}, body, {"index": [NAME, "renamed"]}, body, {"index": NAME}, {"query": wrong}]  # fmt: skip
    yield Case("searches", "POST", "/_msearch", lines)
    yield Case("searches of an index", "POST", f"/{NAME}/_msearch", [{}, body])
    yield Case("searches without an end", "POST", f"/{NAME}/_msearch", b'{}\n{"size":1}')
    yield Case("searches with a wrong header", "POST", f"/{NAME}/_msearch", [{"ghost": 1}, body])
    yield Case("no searches", "POST", f"/{NAME}/_msearch", b"")


def _endings(product: Product) -> Iterator[Case]:
    mixed: list[Any] = [{"create": {"_id": "d0-0"}}, {"n": 1}, {"update": {"_id": "d1-0"}}, {"doc": {"n": 11}}, {"delete": {"_id": "ghost"}}, {"delete": {"_id": "d2-0"}}]  # fmt: skip
    yield Case("mixed bulk", "POST", f"/{NAME}/_bulk?refresh=true", mixed)
    yield Case("update", "POST", f"/{NAME}/_update/d4-0?refresh=true", {"doc": {"n": 41}})
    yield Case("delete", "DELETE", f"/{NAME}/_doc/d0-1?refresh=true")
    yield Case("delete again", "DELETE", f"/{NAME}/_doc/d0-1?refresh=true")
    yield Case("near after writes", "POST", PAGE, {"query": nearest(product, 4), "_source": ["n"]})
    yield Case("refresh", "POST", f"/{NAME}/_refresh")
    for name in (NAME, "plain", "nowhere"):
        yield Case(f"delete {name}", "DELETE", f"/{name}")


@dataclass(frozen=True, slots=True)
class Reply:
    """What of an answer is compared: the status, and its JSON without what is another each time."""

    status: int
    body: Any


def replies(url: str, product: Product) -> dict[str, Reply]:
    """What a server says to every case, by its name. Leaves no index."""
    for name in (NAME, "plain"):
        exchange(url, "DELETE", f"/{name}")
    return {case.name: reply(url, case) for case in cases(product)}


def recorded(product: Product) -> dict[str, Reply]:
    """What the real server said."""
    return {name: Reply(*pair) for name, pair in json.loads((GOLDEN / f"{product.value}.json").read_bytes()).items()}


def record(product: Product, by_name: Mapping[str, Reply]) -> None:
    lines = [
        f"{json.dumps(name)}:{json.dumps([answer.status, answer.body], separators=(',', ':'))}"
        for name, answer in by_name.items()
    ]
    (GOLDEN / f"{product.value}.json").write_text("{" + ",\n".join(lines) + "}\n")


def differences(one: Mapping[str, Reply], other: Mapping[str, Reply]) -> list[str]:
    """The names of the cases that came to something else."""
    return [
        name
        for name in one
        if name not in other or not is_same([one[name].status, one[name].body], [other[name].status, other[name].body])
    ]


def reply(url: str, case: Case) -> Reply:
    kind = NDJSON if isinstance(case.body, list) or "_msearch" in case.path else "application/json"
    answer = exchange(url, case.method, case.path, case.raw, {"Content-Type": kind} if case.raw is not None else None)
    return Reply(answer.status, settled(json.loads(answer.body)))


def settled(value: Any) -> Any:
    """The JSON without what is another each time. Its members keep their order, as lists of pairs, but for those of a refusal, and of the fields of a hit."""
    if isinstance(value, dict):
        pairs = [[name, settled(item)] for name, item in value.items() if name not in _UNLIKE]
        pairs = [[name, sorted(inside) if name == "fields" else inside] for name, inside in pairs]
        return sorted(pairs, key=itemgetter(0)) if "reason" in value else pairs
    if isinstance(value, list):
        return [settled(item) for item in value]
    return _UNLIKE_TEXTS.sub("", value) if isinstance(value, str) else value


def is_same(one: Any, other: Any) -> bool:
    """Whether two settled values are equal, scores to a millionth."""
    if isinstance(one, float) and isinstance(other, float):
        return math.isclose(one, other, rel_tol=TOLERANCE, abs_tol=TOLERANCE)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(is_same, one, other))
    return bool(one == other) and type(one) is type(other)
