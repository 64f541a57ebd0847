"""The ranked verbs with every variant of `query`, the endpoints from before it, and groups."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from servers.embedded import searches
from servers.embedded.collections import Call, Collection, Registry
from servers.embedded.engine import Translated
from servers.embedded.fields import (
    Body,
    Json,
    RefusalError,
    bad_request,
    limit_of,
    mapping,
    one_or_many,
    point_id,
    read,
    required,
    required_limit,
    text,
)
from servers.embedded.replies import read_payload_selector, read_vector_selector, record, scored
from servers.embedded.searches import (
    DEFAULT_LIMIT,
    SHARED,
    Find,
    batch,
    from_search,
    ranked,
    read_search,
    tag_of,
)
from servers.qdrant.limits import capped, check_limit, take_read
from servers.qdrant.queries import ALL_KINDS


def query(registry: Registry, call: Call) -> Json:
    """`{"points": [ScoredPoint]}`."""
    body = call.object()
    _admit(call.collection(registry), body, limit_of(body, "limit", default=DEFAULT_LIMIT))
    return searches.query(registry, replace(call, body=_without_offset(body)), kinds=ALL_KINDS)


def query_batch(registry: Registry, call: Call) -> Json:
    """A list of what `query` answers, in the order asked."""
    collection, bodies = call.collection(registry), batch(call)
    for body in bodies:
        _admit(collection, body, limit_of(body, "limit", default=DEFAULT_LIMIT))
    bodies_of_batch = {"searches": [_without_offset(body) for body in bodies]}
    return searches.query_batch(registry, replace(call, body=bodies_of_batch), kinds=ALL_KINDS)


def _without_offset(body: Body) -> Body:
    """A sample ignores its offset."""
    is_sample = tag_of(read(body, "query")) == "sample" and not one_or_many(body.get("prefetch"))
    return {name: value for name, value in body.items() if name != "offset"} if is_sample else body


def _admit(collection: Collection, body: Body, limit: int) -> None:
    """Strict mode's word on one search. Raises RefusalError."""
    check_limit(collection, limit)
    capped(collection, body)
    take_read(collection)


# The endpoints from before `query`: their bodies said as a query body. Their `limit` is required and may be called `top`.

Translation = Callable[[Body], Body]
_UNKNOWN_TO_DISCOVER = ("with_vectors", "score_threshold")


def from_recommend(body: Body) -> dict[str, Json]:
    """`recommend`: examples and a strategy."""
    examples = {name: body[name] for name in ("positive", "negative", "strategy") if body.get(name) is not None}
    shared = _shared(body, *SHARED, "using", "lookup_from")
    return shared | {"query": {"recommend": examples}}


def from_discover(body: Body) -> dict[str, Json]:
    """`discover`: a target, a context or both. It has no `with_vectors` alias: that spelling is ignored."""
    target, context = read(body, "target"), one_or_many(read(body, "context"))
    if target is None and not context:
        raise bad_request("Either target or context should be specified")
    shared = _shared(body, *(name for name in SHARED if name not in _UNKNOWN_TO_DISCOVER), "using", "lookup_from")
    if target is None:
        return shared | {"query": {"context": context}}
    return shared | {"query": {"discover": {"target": target, "context": context}}}


def _shared(body: Body, *names: str) -> dict[str, Json]:
    return {name: body[name] for name in names if name in body}


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


def _legacy(registry: Registry, call: Call, translate: Translation) -> Json:
    body = translate(call.object())
    return _ranked(call.collection(registry), registry.find, body)


def _legacy_batch(registry: Registry, call: Call, translate: Translation) -> Json:
    collection = call.collection(registry)
    bodies = [translate(body) for body in batch(call)]
    return [_ranked(collection, registry.find, body) for body in bodies]


def _ranked(collection: Collection, find: Find, body: Body) -> Json:
    _admit(collection, body, required_limit(body, "limit", "top"))
    return ranked(read_search(body, collection, find, kinds=ALL_KINDS, is_legacy=True))


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


def _legacy_groups(registry: Registry, call: Call, body: Body) -> Json:
    required(call.object(), "group_size")
    required(call.object(), "limit")
    return _groups(registry, call, body, call.object())


def _groups(registry: Registry, call: Call, search: Body, body: Body) -> Json:
    collection = call.collection(registry)
    key = text(required(body, "group_by"))
    count = limit_of(body, "limit", default=DEFAULT_LIMIT)
    size = limit_of(body, "group_size", default=_GROUP_SIZE)
    check_limit(collection, count * size)
    capped(collection, search)
    take_read(collection)
    groups = _collect(collection, registry.find, search, (key, count, size))
    hits = _hits_json(collection, search, groups)
    lookup = read(body, "with_lookup")
    answer: list[dict[str, Json]] = [
        {"hits": [hits[str(point.id)] for point in points], "id": value} for value, points in groups.items()
    ]
    if lookup is not None:
        answer = [group | _lookup(registry, lookup, group["id"]) for group in answer]
    return {"groups": answer}


def _collect(collection: Collection, find: Find, search: Body, bounds: tuple[str, int, int]) -> dict[Value, list[Any]]:
    key, count, size = bounds
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
    widened = {
        **{name: value for name, value in search.items() if name not in {"top", "offset", "with_vectors"}},
        "limit": pool,
        "with_payload": [key],
        "with_vector": False,
    }
    return collection.shard.query(read_search(widened, collection, find, kinds=ALL_KINDS).request)


def _values(payload: Any, key: str) -> list[Value]:
    """The group ids at a payload path: strings and whole numbers, each element of an array once."""
    values: list[Any] = [payload]
    for step in key.split("."):
        name = step.removesuffix("[]")
        values = [item[name] for item in values if isinstance(item, dict) and name in item]
        values = [part for item in values for part in (item if isinstance(item, list) else [item])]
    usable = [item for item in values if isinstance(item, str | int) and not isinstance(item, bool)]
    return list(dict.fromkeys(usable))


def _hits_json(collection: Collection, search: Body, groups: dict[Value, list[Any]]) -> dict[str, dict[str, Json]]:
    points = {str(point.id): point for members in groups.values() for point in members}
    payload = read_payload_selector(read(search, "with_payload"), default=False)
    vectors = read_vector_selector(read(search, "with_vector", "with_vectors"))
    records = collection.shard.retrieve([point.id for point in points.values()], payload, vectors)
    hits = {}
    for point in records:
        ranked = scored(points[str(point.id)], with_vector=False)
        ranked.pop("payload", None)
        hits[str(point.id)] = ranked | {name: value for name, value in record(point).items() if name != "id"}
    return hits


def _lookup(registry: Registry, lookup: Json, value: Value) -> dict[str, Json]:
    body = {"collection": lookup} if isinstance(lookup, str) else mapping(lookup)
    other = registry.find(text(required(body, "collection")))
    payload = read_payload_selector(read(body, "with_payload"), default=True)
    vectors = read_vector_selector(read(body, "with_vectors", "with_vector"))
    try:
        identifier = point_id(value)
    except RefusalError:  # a group value that cannot be an id names no point
        return {}
    with Translated():
        records = other.shard.retrieve([identifier], payload, vectors)
    return {"lookup": record(records[0])} if records else {}
