"""Requests of the `_search` dialect, drawn: every way to rank, to page and to show, what is refused, and lists of searches."""

from __future__ import annotations

import json
import random
from dataclasses import dataclass
from typing import Any

import numpy as np
from servers.opensearch.store import Product

from support.backends import families
from support.backends.families import Families

Json = dict[str, Any]
BASES, COPIES, DIMENSION = 24, 4, 32
COPIED, CLEAN, PLAIN, ALIAS = "copied", "clean", "plain", "renamed"
NDJSON, JSON = "application/x-ndjson", "application/json"
EVERYTHING = 200  # more than any index holds
SEED = 20
FAMILIES = Families(SEED, BASES, DIMENSION)
bases = FAMILIES.bases


@dataclass(frozen=True, slots=True)
class Drawn:
    """One request. ``searches``: of it, each with the names of its indices."""

    method: str
    target: str
    body: bytes
    kind: str
    searches: tuple[tuple[str, Json], ...]

    @property
    def is_list(self) -> bool:
        return self.kind == NDJSON


def documents(copies: int) -> list[tuple[str, Json]]:
    """Every base so many times, almost the same vector each time; its text in the same words."""
    rng, words = np.random.default_rng(SEED + copies), np.random.default_rng(SEED)
    made = []
    for base, vector in enumerate(bases()):
        text = families.text(words)
        for copy in range(copies):
            near = vector + rng.normal(scale=0.0003, size=DIMENSION)
            about = {
                "title": f"T{base}",
                "deep": {"text": f"{text[:20]}", "n": base / 4},
                "list": [{"a": base}, {"index": copy}],
            }
            source = {"text": f"é {text}", "v": [_rounded(value) for value in near], "tag": f"t{base % 3}", "n": base * 10, "meta": about}  # fmt: skip
            made.append((f"f{base}-{copy}", source))
    return made


def family(identifier: str) -> str:
    """Whose copy a document is."""
    return identifier.rpartition("-")[0]


def near(rng: random.Random) -> list[float]:
    """A query near several bases, and less near each of the others in turn."""
    return [_rounded(value) for value in FAMILIES.query(rng.randrange(1 << 30))]


def _rounded(value: float) -> float:
    """With five decimals, and without an exponent."""
    return 0.0 if abs(value) < 1e-3 else round(float(value), 5)


FILTERS: tuple[Json, ...] = (
    {"term": {"tag": "t0"}},
    {"terms": {"tag": ["t1", "t2"]}},
    {"range": {"n": {"gte": 40, "lt": 190}}},
    {"bool": {"must_not": [{"term": {"tag": "t1"}}], "filter": [{"exists": {"field": "text"}}]}},
    {"match_all": {}},
)
SOURCES: tuple[Any, ...] = (
    True, False, "text", "n", ["n"], ["text", "n"], ["n", "tag", "meta"], ["meta.deep.*"], ["meta.title", "tag"], [], "*", ["ghost"],
    {"includes": ["n", "tag"]}, {"excludes": ["text"]}, {"excludes": ["v"]}, {"excludes": ["meta.*", "v", "text"]},
    {"includes": ["meta"], "excludes": ["meta.deep"]}, ["v", "n"], {"includes": ["*"], "excludes": ["te*"]}, "meta.deep.text",
)  # fmt: skip
WRONG: tuple[Json, ...] = (
    {"size": -1}, {"from": -5}, {"size": 10_001}, {"from": 9_995, "size": 10}, {"size": "many"}, {"ghost": 1}, {"query": {"ghost": {}}},
    {"_source": None}, {"from": None}, {"size": None}, {"query": []},
)  # fmt: skip


def drawn(rng: random.Random, product: Product, *, is_whole: bool = True) -> Drawn:
    """A request. ``is_whole``: with what only real servers have: explanations, highlights and the like."""
    if rng.random() < 0.12:
        return _list(rng, product, is_whole=is_whole)
    names, body = _names(rng), _body(rng, product, is_whole=is_whole)
    method = rng.choice(["POST"] * 5 + ["GET"])
    return Drawn(
        method,
        f"/{names}/_search{_url(rng, is_whole=is_whole)}",
        _text(rng, body, is_whole=is_whole),
        JSON,
        ((names, body),),
    )


def _list(rng: random.Random, product: Product, *, is_whole: bool) -> Drawn:
    searches, lines, default = [], [], rng.choice([COPIED, CLEAN])
    for _ in range(rng.randint(1, 4)):
        names = _names(rng)
        header: Json = rng.choice(
            [{}, {"index": names}, {"index": names.split(",")}, {"index": names, "ignore_unavailable": True}]
        )
        body = _body(rng, product, is_whole=is_whole)
        searches.append((names if header else default, body))
        lines += [
            json.dumps(header),
            json.dumps(body, separators=rng.choice([(",", ":"), (", ", ": ")]), ensure_ascii=False),
        ]
    text = ("\n".join(lines) + "\n").encode()
    return Drawn(
        "POST", f"/{default}/_msearch{rng.choice(['', '', '?typed_keys=true'])}", text, NDJSON, tuple(searches)
    )


def _names(rng: random.Random) -> str:
    usual = [COPIED] * 10 + [CLEAN] * 4
    return rng.choice(
        [*usual, ALIAS, f"{CLEAN},{COPIED}", f"{ALIAS},{COPIED}", "c*", "nowhere", "zz*", PLAIN, f"{COPIED},{PLAIN}"]
    )


def _url(rng: random.Random, *, is_whole: bool) -> str:
    if rng.random() < 0.75:
        return ""
    return "?" + rng.choice(
        ["size=3", "size=4&from=2", "_source=n,tag", "_source=false", "_source_includes=n,text", "_source_excludes=text,v", "pretty",
         "filter_path=hits.hits._id,hits.hits._score", "rest_total_hits_as_int=true", "typed_keys=true", "ghost=1", "track_total_hits=false",
         "preference=_local", "search_type=dfs_query_then_fetch", "request_cache=false", "ignore_unavailable=true", "stored_fields=_none_",
         "filter_path=-_shards", "version=true", "human", *(["format=yaml", "scroll=1m&size=2"] if is_whole else [])]
    )  # fmt: skip


def _text(rng: random.Random, body: Json, *, is_whole: bool) -> bytes:
    members = list(body.items())
    rng.shuffle(members)
    style: Json = rng.choice([{"separators": (",", ":")}, {}, {"indent": 1}, {"separators": (" ,\t", " :\n")}])
    text = json.dumps(dict(members), ensure_ascii=rng.random() < 0.5, **style)
    if is_whole and rng.random() < 0.01:
        return text[: len(text) // 2].encode()
    if is_whole and rng.random() < 0.01 and members:
        text = f'{text.rstrip()[:-1]},"{members[0][0]}":{json.dumps(members[0][1])}}}'
    return (rng.choice(["", "", " ", "\r\n"]) + text + rng.choice(["", "", "\n"])).encode()


def _body(rng: random.Random, product: Product, *, is_whole: bool) -> Json:
    body = _page(rng) | _ranking(rng, product, is_whole=is_whole)
    if rng.random() < 0.7:
        body["_source"] = rng.choice(SOURCES)
    if rng.random() < 0.15:
        body |= rng.choice(
            [{"fields": ["n", "tag"]}, {"fields": ["te*"]}, {"fields": ["text", "meta.title"]}, {"docvalue_fields": ["n"]}, {"stored_fields": ["meta.title"]},
             {"stored_fields": "_none_"}, {"fields": [{"field": "n"}, "text"], "_source": False}]
        )  # fmt: skip
    if rng.random() < 0.25:
        body |= rng.choice(_options(product, is_whole=is_whole))
    return body | rng.choice(WRONG) if rng.random() < 0.03 else body


def _options(product: Product, *, is_whole: bool) -> list[Json]:
    """Members beside the ranking: some change it."""
    made: list[Json] = [
        {"min_score": 0.5}, {"post_filter": {"term": {"tag": "t0"}}}, {"aggs": {"tags": {"terms": {"field": "tag"}}}},
        {"sort": ["_score"]}, {"sort": [{"n": "asc"}]}, {"sort": [{"_score": "desc"}, {"n": "asc"}]}, {"sort": [{"n": "desc"}], "track_scores": True},
        {"sort": [{"n": "asc"}], "search_after": [50]}, {"track_total_hits": False}, {"track_total_hits": 5}, {"track_total_hits": True},
        {"version": True}, {"seq_no_primary_term": True}, {"collapse": {"field": "tag"}}, {"timeout": "10s"},
    ]  # fmt: skip
    if is_whole:
        made += [
            {"explain": True}, {"highlight": {"fields": {"text": {}}}}, {"terminate_after": 3}, {"indices_boost": [{COPIED: 1.5}]},
            {"rescore": {"window_size": 20, "query": {"rescore_query": {"term": {"tag": "t0"}}}}}, {"suggest": {"s": {"text": "abc", "term": {"field": "text"}}}},
            {"stats": ["s"]},
        ]  # fmt: skip
        made += (
            [{"script_fields": {"twice": {"script": "doc['n'].value * 2"}}}, {"ext": {}}]
            if product is Product.OPENSEARCH
            else []
        )
    return made


def _page(rng: random.Random) -> Json:
    page: Json = {}
    if rng.random() < 0.9:
        page["size"] = rng.choice([0, 1, 2, 3, 5, 8, 10, 20, 24, 30, 60, "4", 5.0])
    if rng.random() < 0.25:
        page["from"] = rng.choice([0, 0, 1, 3, 5, 10, 20, 90])
    return page


def _ranking(rng: random.Random, product: Product, *, is_whole: bool) -> Json:
    makers = _opensearch if product is Product.OPENSEARCH else _elasticsearch
    if rng.random() < 0.08:
        return rng.choice(
            [
                {"query": {"match": {"text": _word(rng)}}},
                {"query": {"match_all": {}}},
                {},
                {"query": {"ids": {"values": ["f1-0", "f3-0"]}}},
            ]
        )
    return makers(rng, is_whole)


def _word(rng: random.Random) -> str:
    return " ".join(rng.choice(rng.choice(documents(1))[1]["text"].split()) for _ in range(3))


def _k(rng: random.Random) -> Any:
    return (
        rng.choice([1, 2, 3, 5, 5, 8, 10, 10, 20, 30, 50, 50, 100, "5", 4.0])
        if rng.random() < 0.97
        else rng.choice([0, -1, 10_001])
    )


def _opensearch(rng: random.Random, is_whole: bool) -> Json:
    clause: Json = {"vector": near(rng), "k": _k(rng)}
    if rng.random() < 0.3:
        clause["filter"] = rng.choice(FILTERS)
    if rng.random() < 0.15:
        clause |= rng.choice(
            [
                {"method_parameters": {"ef_search": 60}},
                {"boost": 1.5},
                {"boost": 0.25},
                {"rescore": True},
                {"_name": "near"},
            ]
        )
    if is_whole and rng.random() < 0.06:
        clause = {"vector": clause["vector"], **rng.choice([{"min_score": 0.6}, {"max_distance": 0.7}])}
    query: Json = {"knn": {rng.choice(["v"] * 30 + ["ghost", "n"]): clause}}
    if rng.random() < 0.02:
        clause["vector"] = [1.0]
    if rng.random() < 0.2:
        query = rng.choice([
            {"bool": {"must": [query], "filter": [rng.choice(FILTERS)]}},
            {"bool": {"must": query}},
            {"bool": {"should": [query, {"match": {"text": _word(rng)}}]}},
            {"bool": {"must": [query], "must_not": [rng.choice(FILTERS)]}},
        ])  # fmt: skip
    elif rng.random() < 0.2:
        query = {"script_score": {"query": rng.choice(FILTERS), "script": _script(rng, clause["vector"])}}
    return {"query": query}


def _script(rng: random.Random, vector: list[float]) -> Json:
    return rng.choice([
        {"lang": "knn", "source": "knn_score", "params": {"field": "v", "query_value": vector, "space_type": rng.choice(["cosinesimil", "l2"])}},
        {"source": "1.0 + cosineSimilarity(params.query_value, doc['v'])", "params": {"query_value": vector}},
        {"source": "1.0 + cosineSimilarity(params.q, doc[params.field])", "params": {"q": vector, "field": "v"}, "lang": "painless"},
        {"source": "1 / (1 + l2Squared(params.q, doc['v']))", "params": {"q": vector}},
        {"source": "_score + doc['n'].value"},
    ])  # fmt: skip


def _elasticsearch(rng: random.Random, is_whole: bool) -> Json:
    clause: Json = {"field": rng.choice(["v"] * 30 + ["ghost"]), "query_vector": near(rng)}
    if not is_whole or rng.random() < 0.85:  # without candidates the real one finds some of the nearest
        clause["k"] = _k(rng)
        clause["num_candidates"] = rng.choice([100, 100, 200, 120, "150"])
    if is_whole and rng.random() < 0.05:
        clause["num_candidates"] = rng.choice([3, 10_001, None])
    if rng.random() < 0.3:
        clause["filter"] = rng.choice([*FILTERS, [FILTERS[0], FILTERS[2]]])
    if rng.random() < 0.15:
        clause |= rng.choice(
            [{"boost": 1.5}, {"similarity": 0.3}, {"_name": "near"}, {"rescore_vector": {"oversample": 2.0}}]
        )
    if rng.random() < 0.02:
        clause["query_vector"] = [1.0]
    other = {**clause, "query_vector": near(rng), "boost": 0.5}
    words = {"match": {"text": {"query": _word(rng), "boost": 0.2}}}
    return rng.choice([
        {"knn": clause}, {"knn": clause}, {"knn": clause}, {"knn": [clause]}, {"knn": [clause, other]}, {"knn": clause, "query": words},
        {"query": {"knn": clause}}, {"query": {"bool": {"must": [{"knn": clause}], "filter": [rng.choice(FILTERS)]}}},
        {"query": {"bool": {"should": [{"knn": clause}, words]}}},
        {"retriever": {"knn": clause}}, {"retriever": {"standard": {"query": {"knn": clause}}}},
        {"retriever": {"standard": {"query": {"knn": clause}, "filter": rng.choice(FILTERS)}}},
        {"retriever": {"knn": clause}, "query": words},
    ])  # fmt: skip
