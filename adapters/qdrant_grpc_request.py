"""A Qdrant gRPC search request: what it asks for, and the same bytes asking for more.

Rule of this file: what is asked for in addition stands behind the client's bytes, where the last number counts and
selections are merged; nothing is written anew. Of a batch only the items that change are framed anew.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from vecsieve.adapters import proto_size
from vecsieve.adapters.contract import Bounds, Needs, Operation, Reason, Search, SearchCall, Unsupported
from vecsieve.adapters.proto_floats import packed_floats, row
from vecsieve.adapters.proto_request import Found, Shape, message, messages, number_of, read
from vecsieve.adapters.proto_size import Messages
from vecsieve.adapters.proto_wire import Field, Span, fields, length_field, number_field
from vecsieve.adapters.qdrant_grpc_query import of_discover, of_query, of_recommend, of_search
from vecsieve.adapters.qdrant_grpc_selectors import Payload, plan_payload, read_vectors, widen_payload, widen_vectors
from vecsieve.adapters.qdrant_ranking import Ranking, compared
from vecsieve.adapters.qdrant_request import QUERY_LIMIT


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """One search message: its fields, the numbers of those that change, and how its ranking is read.

    ``dense``: the number of the floats in the message that a dense ranking points at.
    """

    shape: Shape
    limit: int
    offset: int
    vectors: int
    payload: int
    ranking: Callable[[bytes, Span, Found, int], Ranking]
    default_limit: int | None = None
    dense: int = 1


def _numbers(last: int, *, repeated: frozenset[int], unused: frozenset[int] = frozenset()) -> Shape:
    return Shape(frozenset(range(1, last + 1)) - repeated - unused, repeated)


LAYOUTS: Mapping[str, Layout] = {
    "query": Layout(
        shape=_numbers(15, repeated=frozenset({2})),
        limit=8, offset=9, vectors=10, payload=11, ranking=of_query, default_limit=QUERY_LIMIT,
    ),
    "search": Layout(
        shape=_numbers(15, repeated=frozenset({2}), unused=frozenset({5})),
        limit=4, offset=9, vectors=11, payload=6, ranking=of_search, dense=2,
    ),
    "recommend": Layout(
        shape=_numbers(20, repeated=frozenset({2, 3, 17, 18}), unused=frozenset({6, 15})),
        limit=5, offset=10, vectors=12, payload=7, ranking=of_recommend,
    ),
    "discover": Layout(
        shape=_numbers(14, repeated=frozenset({3})),
        limit=5, offset=8, vectors=10, payload=6, ranking=of_discover,
    ),
}  # fmt: skip

# What is entered of a request, for the count of its fields.
MESSAGES: Messages = {
    "batch of query": {2: "query"},
    "batch of search": {2: "search"},
    "batch of recommend": {2: "recommend"},
    "batch of discover": {2: "discover"},
    "query": {2: "prefetch", 3: "variant", 10: "selector", 11: "selector"},
    "search": {6: "selector", 11: "selector"},
    "recommend": {7: "selector", 12: "selector"},
    "discover": {6: "selector", 10: "selector"},
    "prefetch": {1: "prefetch", 2: "variant"},
    "variant": {1: "input"},
    "input": {2: "names"},  # a dense vector, whose numbers need not be packed
    "selector": {2: "names", 3: "names"},
    "names": {},
}

# The batch of each: collection, searches, consistency, timeout.
_SEARCHES = 2
BATCH = Shape(frozenset({1, 3, 4}), frozenset({_SEARCHES}))


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """One search that is ours: what it says, and what will be added.

    ``index``: which item of the batch it is (0 without a batch). ``wanted``: the vectors the client selected.
    ``name``: the vector to compare; None asks for all, then ``prefers`` is the one the query searches.
    """

    index: int
    layout: Layout
    top_k: int
    offset: int
    wanted: bool | tuple[str, ...]
    payload: Payload
    name: str | None
    prefers: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """A parsed request. ``items``: those of the batch, None when it is no batch."""

    body: bytes
    plans: tuple[Plan, ...]
    items: tuple[Field, ...] | None


def check_size(operation: Operation, body: bytes, bounds: Bounds) -> None:
    """Raises Unsupported for a message with more fields than the bounds allow."""
    name, _, is_batch = operation.name.partition("_")
    proto_size.check_size(body, f"batch of {name}" if is_batch else name, MESSAGES, bounds)


def parse_request(operation: Operation, body: bytes, needs: Needs) -> SearchCall:
    """Read what the client wants. Raises Unsupported, nothing else."""
    name, _, is_batch = operation.name.partition("_")
    layout = LAYOUTS[name]
    whole = 0, len(body)
    if not is_batch:
        search, plan = _read(body, whole, layout, needs, 0)
        document = Document(body=body, plans=(plan,), items=None)
        return SearchCall(operation=operation, searches=(search,), needs=needs, document=document)
    items = tuple(messages(read(body, whole, BATCH), _SEARCHES))
    if len(items) > needs.bounds.searches:
        raise Unsupported(Reason.TOO_MANY_SEARCHES)
    ours = [found for index, item in enumerate(items) if (found := _read_item(body, item, layout, needs, index))]
    if not ours:
        raise Unsupported(Reason.NOTHING_TO_DO)
    return SearchCall(
        operation=operation,
        searches=tuple(search for search, _ in ours),
        needs=needs,
        document=Document(body=body, plans=tuple(plan for _, plan in ours), items=items),
    )


def widen(document: Document, fetch_k: Sequence[int]) -> bytes:
    """The request that asks for ``fetch_k[i]`` candidates from rank 0 for plan i, with vectors and payload keys added.

    A count of 0 leaves that search as the client sent it.
    """
    body = document.body
    added = {plan.index: _added(plan, count) for plan, count in zip(document.plans, fetch_k, strict=True) if count}
    if document.items is None:
        return body + added.get(0, b"")
    pieces: list[bytes] = []
    at = 0
    for index, more in added.items():
        item = document.items[index]
        if more:
            pieces += (body[at : item.start], length_field(_SEARCHES, body[item.value : item.end] + more))
            at = item.end
    return b"".join(pieces) + body[at:]


def _added(plan: Plan, count: int) -> bytes:
    layout = plan.layout
    return (
        (number_field(layout.limit, count) if count != plan.top_k else b"")
        + (number_field(layout.offset, 0) if plan.offset else b"")
        + widen_vectors(layout.vectors, plan.wanted, plan.name)
        + widen_payload(layout.payload, plan.payload)
    )


def _read_item(body: bytes, item: Field, layout: Layout, needs: Needs, index: int) -> tuple[Search, Plan] | None:
    """One item of a batch; None when it is not ours and stays as it is."""
    try:
        return _read(body, item.span, layout, needs, index)
    except Unsupported:
        return None


def _read(body: bytes, span: Span, layout: Layout, needs: Needs, index: int) -> tuple[Search, Plan]:
    found = read(body, span, layout.shape)
    ranking = layout.ranking(body, span, found, needs.bounds.nesting)
    limit, offset = number_of(body, found, layout.limit), number_of(body, found, layout.offset)
    top_k, skipped = layout.default_limit if limit is None else limit, offset or 0
    wanted = read_vectors(body, message(found, layout.vectors))
    payload = plan_payload(body, message(found, layout.payload), needs.payload_fields, needs.optional_fields)
    if not top_k:
        raise Unsupported(Reason.AMBIGUOUS_FIELD)
    if top_k + skipped == 1:
        raise Unsupported(Reason.SINGLE_RESULT)
    name = compared(ranking, needs, wanted)
    plan = Plan(
        index=index, layout=layout, top_k=top_k, offset=skipped,
        wanted=wanted, payload=payload, name=name, prefers=ranking.name,
    )  # fmt: skip
    query = _dense(body, ranking, layout)
    if name != ranking.name:
        query = None  # another vector lives in another space
    return Search(top_k=top_k, offset=skipped, pages=offset is not None, query=query), plan


def _dense(body: bytes, ranking: Ranking, layout: Layout) -> npt.NDArray[np.float32] | None:
    if ranking.dense is None:
        return None
    try:
        query = row(packed_floats(body, fields(body, ranking.dense), layout.dense))
    except ValueError:
        raise Unsupported(Reason.UNSUPPORTED_FIELD) from None
    return query if len(query) and bool(np.isfinite(query).all()) else None
