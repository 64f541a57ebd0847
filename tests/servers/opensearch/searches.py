"""A request of `_search`, `_msearch` or `_count`, and its answer."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import orjson
from servers.opensearch.errors import WINDOW as MOST_COUNTED
from servers.opensearch.errors import AllShardsError, RefusedError, ShardError, failure, invalid, too_deep, unparsed
from servers.opensearch.hits import SourceFilter, fields, source_filter, source_json
from servers.opensearch.matching import Matching
from servers.opensearch.retrievers import ranked
from servers.opensearch.store import Document, Index, Node, Product
from servers.opensearch.vectors import Scores, whole

Json = dict[str, Any]
_MEMBERS = {
    "query", "size", "from", "_source", "fields", "stored_fields", "docvalue_fields", "sort", "search_after", "pit", "min_score",
    "post_filter", "aggs", "aggregations", "collapse", "track_total_hits", "track_scores", "version", "seq_no_primary_term", "timeout",
    "ext", "indices_boost", "stats",
}  # fmt: skip
_ELASTIC_MEMBERS = {"knn", "retriever"}
_UNMODELLED = {
    "highlight",
    "explain",
    "profile",
    "suggest",
    "rescore",
    "script_fields",
    "terminate_after",
    "runtime_mappings",
}
_TOKENS = {dict: "START_OBJECT", list: "START_ARRAY", str: "VALUE_STRING", bool: "VALUE_BOOLEAN", int: "VALUE_NUMBER", float: "VALUE_NUMBER", type(None): "VALUE_NULL"}  # fmt: skip
_HEADERS = {"index", "indices", "search_type", "preference", "routing", "ignore_unavailable", "allow_no_indices", "expand_wildcards", "request_cache", "ccs_minimize_roundtrips", "ignore_throttled", "max_concurrent_shard_requests", "allow_partial_search_results"}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Hit:
    """``score``: of the ranking; ``key``: what it is sorted by."""

    index: Index
    document: Document
    score: np.float32
    key: tuple[Any, ...]
    names: tuple[str, ...]


def search(node: Node, expression: str, body: Json, url: Mapping[str, str]) -> Json:
    """The answer. Raises RefusedError."""
    started = time.monotonic()
    body = _with_url(body, url)
    selection, first, size = parsed(node.product, body, url)
    pit = body.get("pit")
    if pit is not None and pit["id"] not in node.pits:
        raise RefusedError(404, "search_context_missing_exception", "No search context found for id [1]")
    ignores = url.get("ignore_unavailable") == "true"
    indices = node.pits[pit["id"]] if pit else node.resolved(expression, ignores_missing=ignores)
    hits, failures = _results(node.product, indices, body, size or 1, first + size)
    page = _after(_collapsed(hits, body) if "collapse" in body else hits, body)[first : first + size]
    page_hits = [_hit_json(hit, body, selection) for hit in page]
    if scroll := url.get("scroll"):
        identifier = f"scroll{len(node.scrolls)}-{scroll}"
        node.scrolls[identifier] = (hits[first + size :], body, selection, len(hits), size)
        lead: Json = {"_scroll_id": identifier}
    else:
        lead = {"pit_id": pit["id"]} if pit else {}
    took = round(1000 * (time.monotonic() - started))
    answer = {**lead, "took": took, "timed_out": False, "_shards": _shards(indices, failures)}
    answer["hits"] = {
        **_total(hits, body, url),
        "max_score": _greatest(node.product, hits, body, indices),
        "hits": page_hits,
    }
    aggregations = body.get("aggs", body.get("aggregations"))
    if aggregations:
        answer["aggregations"] = _aggregated(hits, aggregations, is_typed=url.get("typed_keys") in {"", "true"})
    return answer


def parsed(product: Product, body: Json, url: Mapping[str, str]) -> tuple[SourceFilter, int, int]:
    """The source filter, `from` and `size`. Raises RefusedError for what is wrong whatever the indices are."""
    _check(product, body)
    selection, (first, size) = source_filter(body, url), _page(product, body)
    try:
        ranked(body, [Matching(Index("", product, {}, {}), max(size, 1))])
    except ShardError:
        return selection, first, size
    return selection, first, size


def scrolled(node: Node, identifier: str) -> Json:
    """The next page of a scroll."""
    if identifier not in node.scrolls:
        raise RefusedError(404, "search_context_missing_exception", "No search context found for id [1]")
    rest, body, selection, count, size = node.scrolls[identifier]
    node.scrolls[identifier] = (rest[size:], body, selection, count, size)
    page_hits = [_hit_json(hit, body, selection) for hit in rest[:size]]
    shards = {"total": 1, "successful": 1, "skipped": 0, "failed": 0}
    total = {"total": {"value": count, "relation": "eq"}, "max_score": None}
    return {
        "_scroll_id": identifier,
        "took": 0,
        "timed_out": False,
        "_shards": shards,
        "hits": {**total, "hits": page_hits},
    }


def count(node: Node, expression: str, body: Json) -> Json:
    indices = node.resolved(expression)
    if unknown := sorted(body.keys() - {"query"}):
        raise unparsed(f"request does not support [{unknown[0]}]")
    matches = sum(int((~np.isnan(Matching(index, 10).scores(body.get("query")))).sum()) for index in indices)
    return {"count": matches, "_shards": _shards(indices, [])}


def msearch(node: Node, default: str, raw: bytes, url: Mapping[str, str]) -> Json:
    """The answers to all of its searches. Raises RefusedError for what is no list of searches."""
    if not raw:
        raise RefusedError(400, "parse_exception", "request body or source parameter is required")
    if not raw.endswith(b"\n"):
        raise invalid("The msearch request must be terminated by a newline [\n]")
    started, lines = time.monotonic(), raw.split(b"\n")[:-1]
    pairs = []
    for place in range(0, len(lines) - 1, 2):
        header = orjson.loads(lines[place] or b"{}")
        if unknown := sorted(header.keys() - _HEADERS):
            raise invalid(f"key [{unknown[0]}] is not supported in the metadata section")
        body = orjson.loads(lines[place + 1])
        parsed(node.product, body, {})
        pairs.append((header, body))
    responses = []
    for header, body in pairs:
        name = header.get("index", header.get("indices", default))
        parameters = {
            **url,
            **({"ignore_unavailable": "true"} if header.get("ignore_unavailable") in {True, "true"} else {}),
        }
        try:
            expression = ",".join(name) if isinstance(name, list) else name
            responses.append({**search(node, expression or "", body, parameters), "status": 200})
        except RefusedError as refused:
            responses.append(refused.body)
    return {"took": round(1000 * (time.monotonic() - started)), "responses": responses}


def _check(product: Product, body: Json) -> None:
    known = _MEMBERS | (_ELASTIC_MEMBERS if product is Product.ELASTICSEARCH else set())
    for name, value in body.items():
        if name in _UNMODELLED:
            raise RefusedError(501, "tests_exception", f"the server of the tests has no [{name}]")
        if name not in known or value is None or (name == "query" and not isinstance(value, dict)):
            raise unparsed(f"Unknown key for a {_TOKENS[type(value)]} in [{name}].")
    if product is Product.OPENSEARCH:
        return
    faults = []
    if body.get("stored_fields") == "_none_" and body.get("_source", False) is not False:
        faults.append("[stored_fields] cannot be disabled if [_source] is requested")
    if "search_after" in body and whole(body.get("from"), 0):
        faults.append("[from] parameter must be set to 0 when [search_after] is used")
    if faults:
        reason = "".join(f"{place}: {fault};" for place, fault in enumerate(faults, 1))
        raise RefusedError(400, "action_request_validation_exception", f"Validation Failed: {reason}")


def _with_url(body: Json, url: Mapping[str, str]) -> Json:
    """The body with what the URL says, which stands before it."""
    given: Json = {name: url[name] for name in ("size", "from") if name in url}
    given |= {name: url[name].split(",") for name in ("stored_fields", "docvalue_fields") if name in url}
    given |= {name: url[name] != "false" for name in ("version", "seq_no_primary_term", "track_scores") if name in url}
    if "track_total_hits" in url:
        text = url["track_total_hits"]
        given["track_total_hits"] = text == "true" if text in {"true", "false"} else int(text)
    return {**body, **given}


def _page(product: Product, body: Json) -> tuple[int, int]:
    numbers = []
    for name, default in (("from", 0), ("size", 10)):
        try:
            number = whole(body.get(name), default)
        except ValueError:
            raise RefusedError(400, "number_format_exception", f'For input string: "{body[name]}"') from None
        assert number is not None
        if number < 0:
            is_other = product is Product.ELASTICSEARCH and name == "from"
            raise invalid(f"[{name}] parameter cannot be negative{' but was' if is_other else ', found'} [{number}]")
        numbers.append(number)
    return numbers[0], numbers[1]


def _results(product: Product, indices: list[Index], body: Json, size: int, end: int) -> tuple[list[Hit], list[Json]]:
    """All hits in order, and the failures of shards. Raises AllShardsError where all failed."""
    is_dfs = product is Product.ELASTICSEARCH and ("knn" in body or "retriever" in body)
    matchings, failures = [], []
    for index in indices:
        matching = Matching(index, size)
        try:
            _check_page(product, body)
            if end > MOST_COUNTED:
                raise too_deep(end)
            ranked(body, [matching])
            matchings.append(matching)
        except ShardError as error:
            status = error.status
            failures.append(failure(index.name, error.of_index(index.name, index.uuid)))
    if failures and not matchings:
        raise AllShardsError(status, "dfs" if is_dfs else "query", failures, has_cause=product is Product.OPENSEARCH)
    least, hits = body.get("min_score"), []
    for matching, scores in zip(matchings, ranked(body, matchings) if matchings else [], strict=True):
        kept = scores if least is None else np.where(scores >= least, scores, np.nan)
        allowed = matching.filtered(body.get("post_filter"))
        kept = kept if allowed is None else np.where(np.isnan(allowed), np.nan, kept)
        hits += _hits(matching, kept, body)
    return sorted(hits, key=lambda hit: hit.key), failures


def _check_page(product: Product, body: Json) -> None:
    """Refuse what a shard refuses of a page."""
    if (
        product is Product.OPENSEARCH
        and body.get("stored_fields") in ("_none_", ["_none_"])
        and body.get("_source", False) is not False
    ):
        raise ShardError("[stored_fields] cannot be disabled if [_source] is requested", is_wrapped=False, status=500)
    if product is Product.OPENSEARCH and "search_after" in body and whole(body.get("from"), 0):
        raise ShardError("`from` parameter must be set to 0 when `search_after` is used.", is_wrapped=False, status=500)


def _hits(matching: Matching, scores: Scores, body: Json) -> list[Hit]:
    documents = list(matching.index.documents.values())
    made = []
    for place in np.flatnonzero(~np.isnan(scores)):
        names = tuple(name for name, named in matching.named.items() if not np.isnan(named[place]))
        score = np.float32(scores[place])
        key = tuple(_Key(*pair) for pair in _keys(body, matching.index, documents[place], score, int(place)))
        made.append(Hit(matching.index, documents[place], score, key, names))
    return made


@dataclass(frozen=True, slots=True)
class _Key:
    value: Any
    is_falling: bool

    def __lt__(self, other: _Key) -> bool:
        if self.value is None or other.value is None:
            return self.value is not None and other.value is None
        return bool(self.value > other.value if self.is_falling else self.value < other.value)


def _sorts(body: Json) -> list[tuple[str, bool]]:
    """The fields of the order, each with whether it falls; none where the score alone decides."""
    given = body.get("sort", [])
    made = []
    for sort in given if isinstance(given, list) else [given]:
        name, spec = (sort, {}) if isinstance(sort, str) else next(iter(sort.items()))
        order = (spec if isinstance(spec, str) else spec.get("order")) or ("desc" if name == "_score" else "asc")
        made.append((name, order == "desc"))
    return [] if made == [("_score", True)] else made


def _keys(body: Json, index: Index, document: Document, score: np.float32, place: int) -> list[tuple[Any, bool]]:
    sorts = _sorts(body)
    if not sorts:
        return [(score, True)]
    made: list[tuple[Any, bool]] = []
    for name, is_falling in sorts:
        match name:
            case "_score":
                value: Any = score
            case "_doc" | "_shard_doc":
                value = place
            case "_id":
                value = document.id
            case _:
                values = sorted(index.column(name)[place])
                value = (values[-1] if is_falling else values[0]) if values else None
        made.append((value, is_falling))
    return made


def _after(hits: list[Hit], body: Json) -> list[Hit]:
    """Those behind `search_after`."""
    if "search_after" not in body:
        return hits
    marks = tuple(_Key(value, sort[1]) for value, sort in zip(body["search_after"], _sorts(body), strict=True))
    return [hit for hit in hits if marks < hit.key]


def _collapsed(hits: list[Hit], body: Json) -> list[Hit]:
    field, seen, kept = body["collapse"]["field"], set(), []
    for hit in hits:
        values = hit.document.source.get(field)
        if values not in seen:
            seen.add(values)
            kept.append(hit)
    return kept


def _hit_json(hit: Hit, body: Json, selection: SourceFilter) -> Json:
    sorts, stored = _sorts(body), body.get("stored_fields")
    is_scored = not sorts or any(name == "_score" for name, _ in sorts) or body.get("track_scores")
    made: Json = {"_index": hit.index.name, "_id": hit.document.id}
    if stored == "_none_":
        return {"_index": hit.index.name, "_score": hit.score if is_scored else None}
    if body.get("version"):
        made["_version"] = hit.document.version
    if body.get("seq_no_primary_term"):
        made |= {"_seq_no": hit.document.sequence, "_primary_term": 1}
    made["_score"] = hit.score if is_scored else None
    if selection.has_source and (stored is None or "_source" in body):
        made["_source"] = source_json(hit.index, hit.document, selection, body.get("fields", ()))
    values = fields(hit.index, hit.document, body, selection)
    if "collapse" in body:
        values[body["collapse"]["field"]] = [hit.document.source.get(body["collapse"]["field"])]
    made |= {"fields": values} if values else {}
    made |= {"sort": [key.value for key in hit.key]} if sorts else {}
    return {**made, **({"matched_queries": list(hit.names)} if hit.names else {})}


def _shards(indices: list[Index], failures: list[Json]) -> Json:
    count = len(indices)
    made: Json = {"total": count, "successful": count - len(failures), "skipped": 0, "failed": len(failures)}
    return {**made, **({"failures": failures} if failures else {})}


def _total(hits: list[Hit], body: Json, url: Mapping[str, str]) -> Json:
    tracked = body.get("track_total_hits", MOST_COUNTED)
    if tracked is False:
        return {}
    most = len(hits) if tracked is True else int(tracked)
    if url.get("rest_total_hits_as_int") in {"", "true"}:
        return {"total": len(hits)}
    if len(hits) > most:
        return {"total": {"value": most, "relation": "gte"}}
    return {"total": {"value": len(hits), "relation": "eq"}}


def _greatest(product: Product, hits: list[Hit], body: Json, indices: list[Index]) -> Any:
    """`max_score`."""
    sorts, is_open = _sorts(body), product is Product.OPENSEARCH
    is_scored = not sorts or body.get("track_scores") or (is_open and any(name == "_score" for name, _ in sorts))
    if not indices:
        return np.float32(0)
    return max(hit.score for hit in hits) if hits and is_scored and _page(product, body)[1] else None


def _aggregated(hits: list[Hit], aggregations: Json, *, is_typed: bool) -> Json:
    made: Json = {}
    for name, spec in aggregations.items():
        if "sampler" in spec:
            of = Counter(hit.index.name for hit in hits)
            count = sum(min(spec["sampler"]["shard_size"], bucket) for bucket in of.values())
            made[("sampler#" if is_typed else "") + name] = {"doc_count": count}
            continue
        if set(spec) != {"terms"}:
            raise RefusedError(501, "tests_exception", f"the server of the tests has no aggregation {sorted(spec)}")
        field, size = spec["terms"]["field"].removesuffix(".keyword"), spec["terms"].get("size", 10)
        counts = Counter(value for hit in hits if (value := hit.document.source.get(field)) is not None)
        best = sorted(counts.items(), key=lambda pair: (-pair[1], pair[0]))
        buckets = [{"key": key, "doc_count": times} for key, times in best[:size]]
        rest = sum(times for _, times in best[size:])
        kind = "sterms#" if is_typed else ""
        made[kind + name] = {"doc_count_error_upper_bound": 0, "sum_other_doc_count": rest, "buckets": buckets}
    return made
