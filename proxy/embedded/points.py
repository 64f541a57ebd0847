"""The unranked reads: points by id, page by page, counted, and the values of a payload key."""

from __future__ import annotations

from vecsieve.proxy.embedded.core import Call
from vecsieve.proxy.embedded.engine import Translated, edge
from vecsieve.proxy.embedded.errors import bad_request, not_found
from vecsieve.proxy.embedded.fields import (
    Json,
    boolean,
    limit_of,
    optional_boolean,
    point_id,
    point_ids,
    read,
    required,
    text,
)
from vecsieve.proxy.embedded.filters import read_filter
from vecsieve.proxy.embedded.queries import read_order
from vecsieve.proxy.embedded.registry import Registry
from vecsieve.proxy.embedded.replies import record, shown_id
from vecsieve.proxy.embedded.requests import DEFAULT_LIMIT
from vecsieve.proxy.embedded.selectors import read_payload_selector, read_vector_selector
from vecsieve.proxy.embedded.strict import check_limit


def retrieve(registry: Registry, call: Call) -> Json:
    """Records of the ids that exist, in the order asked."""
    body = call.object()
    payload = read_payload_selector(read(body, "with_payload"), default=True)
    vectors = read_vector_selector(read(body, "with_vector", "with_vectors"))
    ids = point_ids(required(body, "ids"))
    collection = call.collection(registry)
    collection.read(len(ids))
    return [record(found) for found in collection.shard.retrieve(ids, payload, vectors)]


def get(registry: Registry, call: Call) -> Json:
    """One record with its payload and its vectors."""
    given = call.path["id"]
    identifier = point_id(int(given) if given.isdecimal() else given)
    collection = call.collection(registry)
    collection.read()
    found = collection.shard.retrieve([identifier], True, True)
    if not found:
        raise not_found(f"Point with id {identifier} does not exist!")
    return record(found[0])


def scroll(registry: Registry, call: Call) -> Json:
    """`{"points": [Record], "next_page_offset": id or null}`, by id, or by a payload key that has an index."""
    body, collection = call.object(), call.collection(registry)
    limit = limit_of(body, "limit", default=DEFAULT_LIMIT)
    check_limit(collection, limit)
    offset, order = read(body, "offset"), read(body, "order_by")
    if offset is not None and order is not None:
        raise bad_request(
            "Cannot use an `offset` when using `order_by`. The alternative for paging is to use `order_by.start_from` "
            "and a filter to exclude the IDs that you've already seen for the `order_by.start_from` value"
        )
    with Translated():
        request = edge().ScrollRequest(
            offset=None if offset is None else point_id(offset),
            limit=limit,
            filter=read_filter(read(body, "filter")),
            with_payload=read_payload_selector(read(body, "with_payload"), default=True),
            with_vector=read_vector_selector(read(body, "with_vector", "with_vectors")),
            order_by=None if order is None else read_order(order),
        )
    collection.read()
    records, following = collection.shard.scroll(request)
    next_page = None if following is None or order is not None else shown_id(following)
    return {"points": [record(found) for found in records], "next_page_offset": next_page}


def count(registry: Registry, call: Call) -> Json:
    """`{"count": n}`; exact unless told otherwise."""
    body = call.object()
    exact = read(body, "exact")
    with Translated():
        request = edge().CountRequest(
            exact=True if exact is None else boolean(exact), filter=read_filter(read(body, "filter"))
        )
    collection = call.collection(registry)
    collection.read()
    return {"count": collection.shard.count(request)}


def facet(registry: Registry, call: Call) -> Json:
    """`{"hits": [{"value", "count"}]}`, the most frequent first; the key needs an index."""
    body = call.object()
    optional_boolean(body, "exact")
    with Translated():
        request = edge().FacetRequest(
            key=text(required(body, "key")),
            limit=limit_of(body, "limit", default=DEFAULT_LIMIT),
            # Always exact: of equal counts qdrant-edge-py 0.9.0 shows others each time when it need not be.
            exact=True,
            filter=read_filter(read(body, "filter")),
        )
    collection = call.collection(registry)
    collection.read()
    hits = collection.shard.facet(request)
    return {"hits": [{"value": hit.value, "count": hit.count} for hit in hits]}
