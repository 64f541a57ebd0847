"""Ranked points grouped by a payload value: the best `limit` groups, the best `group_size` points of each.

The server collects groups with at most ten sub-queries and calls that best effort. Here the pool grows until every group is
full or the ranking is exhausted, so the answer is the one the server aims at.
"""

from __future__ import annotations

from typing import Any

from vecsieve.proxy.embedded.core import Call
from vecsieve.proxy.embedded.engine import Translated
from vecsieve.proxy.embedded.errors import Refusal
from vecsieve.proxy.embedded.fields import Body, Json, limit_of, mapping, point_id, read, required, text
from vecsieve.proxy.embedded.legacy import from_recommend, from_search
from vecsieve.proxy.embedded.registry import Collection, Registry
from vecsieve.proxy.embedded.replies import record, scored
from vecsieve.proxy.embedded.requests import DEFAULT_LIMIT, Find, read_search
from vecsieve.proxy.embedded.selectors import read_payload_selector, read_vector_selector
from vecsieve.proxy.embedded.strict import check_limit

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
    return _legacy(registry, call, from_search(call.object()))


def recommend_groups(registry: Registry, call: Call) -> Json:
    """As `query_groups`, from the body of `recommend`; both counts are required."""
    return _legacy(registry, call, from_recommend(call.object()))


def _legacy(registry: Registry, call: Call, said: Body) -> Json:
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
        ranked = _ranked(collection, find, search, key, pool)
        groups: dict[Value, list[Any]] = {}
        for point in ranked:
            for value in _values(point.payload, key):
                if value in groups or len(groups) < count:
                    groups.setdefault(value, []).append(point)
        is_full = len(groups) == count and all(len(points) >= size for points in groups.values())
        if is_full or len(ranked) < pool:
            return {value: points[:size] for value, points in groups.items()}
        pool *= _GROWTH


def _ranked(collection: Collection, find: Find, search: Body, key: str, pool: int) -> list[Any]:
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
