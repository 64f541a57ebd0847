"""A whole query request: prefetches level by level, ids resolved and left out of the answer, checks as the server makes them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from vecsieve.proxy.embedded.engine import Translated, edge
from vecsieve.proxy.embedded.errors import bad_request
from vecsieve.proxy.embedded.fields import (
    Body,
    limit_of,
    mapping,
    offset_of,
    one_or_many,
    optional_number,
    read,
    required_limit,
    text,
)
from vecsieve.proxy.embedded.filters import excluding, read_filter
from vecsieve.proxy.embedded.inputs import read_source, vector_name
from vecsieve.proxy.embedded.queries import read_query, referenced_ids, tag_of
from vecsieve.proxy.embedded.registry import Collection
from vecsieve.proxy.embedded.selectors import read_params, read_payload_selector, read_vector_selector
from vecsieve.proxy.embedded.strict import check_limit

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
