"""The ranked verbs: query, search, recommend, discover, each alone and in a batch."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from vecsieve.proxy.demo.embedded.engine import Translated, edge
from vecsieve.proxy.demo.embedded.errors import Refusal, bad_request
from vecsieve.proxy.demo.embedded.fields import (
    Body,
    Json,
    items,
    limit_of,
    mapping,
    offset_of,
    one_or_many,
    optional_number,
    point_id,
    read,
    required,
    required_limit,
    text,
)
from vecsieve.proxy.demo.embedded.filters import excluding, read_filter
from vecsieve.proxy.demo.embedded.queries import read_query, read_source, referenced_ids, tag_of, vector_name
from vecsieve.proxy.demo.embedded.registry import Call, Collection, Registry, check_limit
from vecsieve.proxy.demo.embedded.replies import (
    read_params,
    read_payload_selector,
    read_vector_selector,
    record,
    scored,
    shown_vector,
)

# The ranked endpoints from before `query`: their bodies said as a query body. Their `limit` is required and may be called `top`.

_SHARED = ("filter", "params", "limit", "top", "offset", "with_payload", "with_vector", "shard_key")


def from_search(body: Body) -> dict[str, Json]:
    """`search`: a bare vector, or `{"name", "vector"}` with a dense or sparse vector."""
    vector = required(body, "vector")
    said = _shared(body, "with_vectors", "score_threshold")
    if isinstance(vector, dict):
        return said | {"query": {"nearest": required(vector, "vector")}, "using": text(required(vector, "name"))}
    return said | {"query": {"nearest": vector}}


def from_recommend(body: Body) -> dict[str, Json]:
    """`recommend`: examples and a strategy."""
    examples = {name: body[name] for name in ("positive", "negative", "strategy") if body.get(name) is not None}
    said = _shared(body, "with_vectors", "score_threshold", "using", "lookup_from")
    return said | {"query": {"recommend": examples}}


def from_discover(body: Body) -> dict[str, Json]:
    """`discover`: a target, a context or both. It has no `with_vectors` alias: that spelling is ignored."""
    target, context = read(body, "target"), one_or_many(read(body, "context"))
    if target is None and not context:
        raise bad_request("Either target or context should be specified")
    said = _shared(body, "using", "lookup_from")
    if target is None:
        return said | {"query": {"context": context}}
    return said | {"query": {"discover": {"target": target, "context": context}}}


def _shared(body: Body, *more: str) -> dict[str, Json]:
    return {name: body[name] for name in (*_SHARED, *more) if name in body}


# A whole query request: prefetches level by level, ids resolved and left out of the answer, checks as the server makes them.

DEFAULT_LIMIT = 10
_MOST_LEVELS = 64

Find = Callable[[str], Collection]


@dataclass(frozen=True, slots=True)
class Search:
    """One ranked search, ready for the engine. `brings_vectors`: the engine returns vectors whatever was selected (MMR)."""

    collection: Collection
    request: Any
    with_vector: bool | list[str]
    brings_vectors: bool


def read_search(
    body: Body, collection: Collection, find: Find, *, is_legacy: bool = False, is_capped: bool = True
) -> Search:
    """The engine's request for a query body. Raises a Refusal for what the server would refuse.

    A legacy body must have its `limit` and may call it `top`. Groups count their cap and their read
    themselves: `is_capped` is False there.
    """
    limit = required_limit(body, "limit", "top") if is_legacy else limit_of(body, "limit", default=DEFAULT_LIMIT)
    if is_capped:
        check_limit(collection, limit)
        collection.read()
    _check_level(body)
    with_vector = read_vector_selector(read(body, "with_vector", "with_vectors"))
    query = read(body, "query")
    with Translated():
        request = edge().QueryRequest(
            limit=limit,
            offset=0 if tag_of(query) == "sample" and not one_or_many(body.get("prefetch")) else offset_of(body),
            query=_level_query(body, collection, find, limit),
            prefetches=_prefetches(body, collection, find, level=1),
            with_vector=with_vector,
            with_payload=read_payload_selector(read(body, "with_payload"), default=False),
            filter=excluding(_named_ids(body, collection), read(body, "filter")),
            score_threshold=optional_number(body, "score_threshold"),
            params=read_params(read(body, "params")),
        )
    return Search(collection, request, with_vector, isinstance(query, dict) and query.get("mmr") is not None)


def _prefetches(body: Body, collection: Collection, find: Find, *, level: int) -> list[Any]:
    if level > _MOST_LEVELS:
        raise bad_request(f"prefetches depth {level} exceeds max depth {_MOST_LEVELS}")
    return [_prefetch(mapping(item), collection, find, level=level) for item in one_or_many(body.get("prefetch"))]


def _prefetch(body: Body, collection: Collection, find: Find, *, level: int) -> Any:
    limit = limit_of(body, "limit", default=DEFAULT_LIMIT)
    check_limit(collection, limit)
    _check_level(body)
    return edge().Prefetch(
        limit=limit,
        query=_level_query(body, collection, find, limit),
        prefetches=_prefetches(body, collection, find, level=level + 1),
        params=read_params(read(body, "params")),
        filter=read_filter(read(body, "filter")),
        score_threshold=optional_number(body, "score_threshold"),
    )


def _level_query(body: Body, collection: Collection, find: Find, limit: int) -> Any:
    source = read_source(body, collection, find)
    return read_query(read(body, "query"), source, vector_name(body), limit)


def _named_ids(body: Body, collection: Collection) -> list[int | str]:
    """Ids named at any level, unless they were looked up in another collection: all left out at the root."""
    lookup = read(body, "lookup_from")
    is_elsewhere = lookup is not None and text(mapping(lookup).get("collection")) != collection.name
    own = [] if is_elsewhere else referenced_ids(read(body, "query"))
    nested = [_named_ids(mapping(item), collection) for item in one_or_many(body.get("prefetch"))]
    return [*own, *(identifier for ids in nested for identifier in ids)]


def _check_level(body: Body) -> None:
    tag = tag_of(read(body, "query"))
    if tag is None and one_or_many(body.get("prefetch")):
        raise bad_request("A query is needed to merge the prefetches. Can't have prefetches without defining a query.")
    if read(body, "score_threshold") is not None:
        if tag == "order_by":
            raise bad_request("Can't use score_threshold with an order_by query.")
        if tag is None:
            raise bad_request(
                "A query is needed to use the score_threshold. Can't have score_threshold without defining a query."
            )
    if tag in {"fusion", "rrf"} and vector_name(body):
        raise bad_request("Fusion queries cannot be combined with the 'using' field.")
    if read(body, "shard_key") is not None:
        raise bad_request(f"cannot specify shard key {body['shard_key']} on collection with auto sharding")


Said = Callable[[Body], Body]


def query(registry: Registry, call: Call) -> Json:
    """`{"points": [ScoredPoint]}`."""
    return {"points": _ranked(read_search(call.object(), call.collection(registry), registry.find))}


def query_batch(registry: Registry, call: Call) -> Json:
    """A list of what `query` answers, in the order asked."""
    collection = call.collection(registry)
    searches = [read_search(body, collection, registry.find) for body in batch(call)]
    return [{"points": _ranked(search)} for search in searches]


def search(registry: Registry, call: Call) -> Json:
    """A bare list of ScoredPoint."""
    return _legacy(registry, call, from_search)


def search_batch(registry: Registry, call: Call) -> Json:
    """A list of bare lists."""
    return _legacy_batch(registry, call, from_search)


def recommend(registry: Registry, call: Call) -> Json:
    """A bare list of ScoredPoint."""
    return _legacy(registry, call, from_recommend)


def recommend_batch(registry: Registry, call: Call) -> Json:
    """A list of bare lists."""
    return _legacy_batch(registry, call, from_recommend)


def discover(registry: Registry, call: Call) -> Json:
    """A bare list of ScoredPoint."""
    return _legacy(registry, call, from_discover)


def discover_batch(registry: Registry, call: Call) -> Json:
    """A list of bare lists."""
    return _legacy_batch(registry, call, from_discover)


def batch(call: Call) -> list[Body]:
    """The requests of a batch."""
    return [mapping(item) for item in items(required(call.object(), "searches"))]


def _legacy(registry: Registry, call: Call, said: Said) -> Json:
    body = said(call.object())
    return _ranked(read_search(body, call.collection(registry), registry.find, is_legacy=True))


def _legacy_batch(registry: Registry, call: Call, said: Said) -> Json:
    collection = call.collection(registry)
    bodies = [said(body) for body in batch(call)]
    searches = [read_search(body, collection, registry.find, is_legacy=True) for body in bodies]
    return [_ranked(search) for search in searches]


def _ranked(search: Search) -> list[dict[str, Json]]:
    points = search.collection.shard.query(search.request)
    if not search.brings_vectors:
        return [scored(point) for point in points]
    return _with_selected_vectors(search, points)


def _with_selected_vectors(search: Search, points: list[Any]) -> list[dict[str, Json]]:
    """Points whose vectors the engine added for its own use: those are dropped, the selected ones fetched."""
    shown = [scored(point, with_vector=False) for point in points]
    if search.with_vector is False:
        return shown
    records = search.collection.shard.retrieve([point.id for point in points], False, search.with_vector)
    return [point | {"vector": shown_vector(record.vector)} for point, record in zip(shown, records, strict=True)]


# Ranked points grouped by a payload value: the best `limit` groups, the best `group_size` points of each.
#
# The server collects groups with at most ten sub-queries and calls that best effort. Here the pool grows until every group is
# full or the ranking is exhausted, so the answer is the one the server aims at.

_GROUP_SIZE = 3
_GROWTH = 4
"""How much larger each further pool is: three rounds reach 64 times the first one."""

Value = int | str


def query_groups(registry: Registry, call: Call) -> Json:
    """`{"groups": [{"hits", "id", "lookup"?}]}`. There is no `with_vectors` alias here: that spelling is ignored."""
    body = {name: value for name, value in call.object().items() if name != "with_vectors"}
    return _groups(registry, call, body, body)


def search_groups(registry: Registry, call: Call) -> Json:
    """As `query_groups`, from the body of `search`; both counts are required."""
    return _legacy_groups(registry, call, from_search(call.object()))


def recommend_groups(registry: Registry, call: Call) -> Json:
    """As `query_groups`, from the body of `recommend`; both counts are required."""
    return _legacy_groups(registry, call, from_recommend(call.object()))


def _legacy_groups(registry: Registry, call: Call, said: Body) -> Json:
    required(call.object(), "group_size")
    required(call.object(), "limit")
    return _groups(registry, call, said, call.object())


def _groups(registry: Registry, call: Call, search: Body, body: Body) -> Json:
    collection = call.collection(registry)
    key = text(required(body, "group_by"))
    count = limit_of(body, "limit", default=DEFAULT_LIMIT)
    size = limit_of(body, "group_size", default=_GROUP_SIZE)
    check_limit(collection, count * size)
    collection.read()
    groups = _collect(collection, registry.find, search, (key, count, size))
    shown = _shown_hits(collection, search, groups)
    lookup = read(body, "with_lookup")
    answer: list[dict[str, Json]] = [
        {"hits": [shown[str(point.id)] for point in points], "id": value} for value, points in groups.items()
    ]
    if lookup is not None:
        answer = [group | _lookup(registry, lookup, group["id"]) for group in answer]
    return {"groups": answer}


def _collect(collection: Collection, find: Find, search: Body, wanted: tuple[str, int, int]) -> dict[Value, list[Any]]:
    key, count, size = wanted
    pool = count * size * _GROWTH
    while True:
        ranked = _ranked_groups(collection, find, search, key, pool)
        groups: dict[Value, list[Any]] = {}
        for point in ranked:
            for value in _values(point.payload, key):
                if value in groups or len(groups) < count:
                    groups.setdefault(value, []).append(point)
        is_full = len(groups) == count and all(len(points) >= size for points in groups.values())
        if is_full or len(ranked) < pool:
            return {value: points[:size] for value, points in groups.items()}
        pool *= _GROWTH


def _ranked_groups(collection: Collection, find: Find, search: Body, key: str, pool: int) -> list[Any]:
    asked = {
        **{name: value for name, value in search.items() if name not in {"top", "offset", "with_vectors"}},
        "limit": pool,
        "with_payload": [key],
        "with_vector": False,
    }
    return collection.shard.query(read_search(asked, collection, find, is_capped=False).request)


def _values(payload: Any, key: str) -> list[Value]:
    """The group ids at a payload path: strings and whole numbers, each element of an array once."""
    found: list[Any] = [payload]
    for step in key.split("."):
        name = step.removesuffix("[]")
        found = [item[name] for item in found if isinstance(item, dict) and name in item]
        found = [part for item in found for part in (item if isinstance(item, list) else [item])]
    usable = [item for item in found if isinstance(item, str | int) and not isinstance(item, bool)]
    return list(dict.fromkeys(usable))


def _shown_hits(collection: Collection, search: Body, groups: dict[Value, list[Any]]) -> dict[str, dict[str, Json]]:
    points = {str(point.id): point for members in groups.values() for point in members}
    payload = read_payload_selector(read(search, "with_payload"), default=False)
    vectors = read_vector_selector(read(search, "with_vector", "with_vectors"))
    records = collection.shard.retrieve([point.id for point in points.values()], payload, vectors)
    shown = {}
    for found in records:
        ranked = scored(points[str(found.id)], with_vector=False)
        ranked.pop("payload", None)
        shown[str(found.id)] = ranked | {name: value for name, value in record(found).items() if name != "id"}
    return shown


def _lookup(registry: Registry, lookup: Json, value: Value) -> dict[str, Json]:
    body = {"collection": lookup} if isinstance(lookup, str) else mapping(lookup)
    other = registry.find(text(required(body, "collection")))
    payload = read_payload_selector(read(body, "with_payload"), default=True)
    vectors = read_vector_selector(read(body, "with_vectors", "with_vector"))
    try:
        identifier = point_id(value)
    except Refusal:  # a group value that cannot be an id names no point
        return {}
    with Translated():
        found = other.shard.retrieve([identifier], payload, vectors)
    return {"lookup": record(found[0])} if found else {}
