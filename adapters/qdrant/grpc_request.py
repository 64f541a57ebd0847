"""Parses and widens a search over gRPC.

Additions are appended to the client's bytes, where the last number counts and selections are merged. Of a batch only the items that
change get a new frame.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import chain

import numpy as np
import numpy.typing as npt

from ..base import check_page
from ..contract import Needs, Operation, Reason, Search, SearchCall, UnsupportedError
from ..wire.protobuf import (
    Field,
    Found,
    Messages,
    Shape,
    Span,
    fields,
    length_field,
    message,
    messages,
    number_field,
    number_of,
    read,
    text_of,
    value_at,
)
from ..wire.vectors import packed_floats, row, usable
from .ranking import (
    Kind,
    Ranking,
    askable,
    check_shown,
    compared,
    decided,
    forced,
    is_touched,
    missing,
    without_known,
)
from .rest_request import QUERY_LIMIT

# The span of a dense ranking is the span of the message with the numbers.

# Query.variant. 9 is nearest with MMR. Not supported: 12, a text query, which names a payload field where others name a vector.
_NEAREST = 1
_VARIANTS = {
    2: Kind.REFERENCE,  # recommend
    3: Kind.REFERENCE,  # discover
    4: Kind.REFERENCE,  # context
    5: Kind.CHOSEN,  # order_by
    6: Kind.FUSED,  # fusion
    7: Kind.CHOSEN,  # sample
    8: Kind.FUSED,  # formula
    9: Kind.CHOSEN,
    10: Kind.FUSED,  # rrf
    11: Kind.REFERENCE,  # relevance_feedback
}
QUERY = Shape(frozenset({_NEAREST, *_VARIANTS}), is_choice=True)
# Rankings that only feed the ranking above them, except MMR, which requests diversity.
_PLAIN_ORDERS = {5, 7}

# VectorInput.variant.
_INPUTS = {
    1: Kind.REFERENCE,  # id
    2: Kind.DENSE,
    3: Kind.SPARSE,
    4: Kind.MULTI,
    5: Kind.REFERENCE,  # document
    6: Kind.REFERENCE,  # image
    7: Kind.REFERENCE,  # object
}
INPUT = Shape(frozenset(_INPUTS), is_choice=True)

# PrefetchQuery, and the same fields of QueryPoints where the numbers agree.
_PREFETCH, _PREFETCH_QUERY, _PREFETCH_USING = 1, 2, 3
PREFETCH = Shape(frozenset(range(2, 9)), frozenset({_PREFETCH}))

_ROOT_PREFETCH, _ROOT_QUERY, _ROOT_USING = 2, 3, 4
_SEARCH_VECTOR, _SEARCH_NAME, _SEARCH_INDICES = 2, 10, 15
_RECOMMEND_USING = 11
_DISCOVER_USING = 9


def of_query(data: bytes, _span: Span, found: Found, nesting: int) -> Ranking:
    """Of QueryPoints. ``nesting``: the greatest depth of its prefetches. Raises UnsupportedError."""
    leaves = list(_prefetched(data, messages(found, _ROOT_PREFETCH), nesting))
    root = message(found, _ROOT_QUERY)
    if root is None:
        raise UnsupportedError(Reason.ORDERING_CHOSEN)
    kind, dense = _query(data, read(data, root.span, QUERY))
    return decided(Ranking(kind, text_of(data, message(found, _ROOT_USING)), dense), leaves)


def of_search(data: bytes, span: Span, found: Found, _nesting: int) -> Ranking:
    """Of SearchPoints: its vector is dense, or the values of a sparse one. Raises UnsupportedError."""
    if _SEARCH_VECTOR not in found:
        raise UnsupportedError(Reason.UNSUPPORTED_FIELD)
    name = text_of(data, message(found, _SEARCH_NAME))
    if _SEARCH_INDICES in found:
        return Ranking(Kind.SPARSE, name)
    return Ranking(Kind.DENSE, name, span)


def of_recommend(data: bytes, _span: Span, found: Found, _nesting: int) -> Ranking:
    """Of RecommendPoints. Raises UnsupportedError."""
    return Ranking(Kind.REFERENCE, text_of(data, message(found, _RECOMMEND_USING)))


def of_discover(data: bytes, _span: Span, found: Found, _nesting: int) -> Ranking:
    """Of DiscoverPoints. Raises UnsupportedError."""
    return Ranking(Kind.REFERENCE, text_of(data, message(found, _DISCOVER_USING)))


def _query(data: bytes, found: Found) -> tuple[Kind, Span | None]:
    """The kind of a Query, and the span of its dense vector. Raises UnsupportedError."""
    if not found:
        raise UnsupportedError(Reason.UNSUPPORTED_FIELD)
    nearest = message(found, _NEAREST)
    if nearest is None:
        return _VARIANTS[next(iter(found))], None
    inputs = read(data, nearest.span, INPUT)
    if not inputs:
        raise UnsupportedError(Reason.UNSUPPORTED_FIELD)
    number = next(iter(inputs))
    inner = message(inputs, number)
    kind = _INPUTS[number]
    return kind, inner.span if inner is not None and kind is Kind.DENSE else None


def _prefetched(data: bytes, prefetches: list[Field], nesting: int) -> Iterator[Ranking]:
    """The rankings of all prefetches, depth first, each before its own. Raises UnsupportedError."""
    if prefetches and not nesting:
        raise UnsupportedError(Reason.TOO_DEEP)
    return chain.from_iterable(_with_its_own(data, prefetch, nesting) for prefetch in prefetches)


def _with_its_own(data: bytes, prefetch: Field, nesting: int) -> Iterator[Ranking]:
    found = read(data, prefetch.span, PREFETCH)
    root = message(found, _PREFETCH_QUERY)
    if root is not None:
        variant = read(data, root.span, QUERY)
        kind, _ = _query(data, variant)
        if not variant.keys() & _PLAIN_ORDERS:
            yield Ranking(kind, text_of(data, message(found, _PREFETCH_USING)))
    yield from _prefetched(data, messages(found, _PREFETCH), nesting - 1)


# Selectors. The server merges an appended selector with the client's: a second ``include`` adds names, and replaces ``enable: false``.
# Nothing is added to ``enable: true``.

_ENABLE, _INCLUDE, _EXCLUDE = 1, 2, 3
VECTORS = Shape(frozenset({_ENABLE, _INCLUDE}), is_choice=True)
PAYLOAD = Shape(frozenset({_ENABLE, _INCLUDE, _EXCLUDE}), is_choice=True)

# VectorsSelector.names, PayloadIncludeSelector.fields, PayloadExcludeSelector.fields.
_NAMES = 1
NAMES = Shape(frozenset(), frozenset({_NAMES}))


@dataclass(frozen=True, slots=True)
class Payload:
    """``asked``: the keys added to the payload selection. ``is_forced``: the client wants no payload; ``is_whole``: all of it is requested
    then. ``is_cut``: whether some optional
    keys are not returned completely.
    """

    asked: tuple[str, ...] = ()
    is_forced: bool = False
    is_whole: bool = False
    is_cut: bool = False


def read_vectors(data: bytes, field: Field | None) -> bool | tuple[str, ...]:
    """The client's selection: nothing, everything, or these names. Raises UnsupportedError."""
    if field is None:
        return False
    found = read(data, field.span, VECTORS)
    named = message(found, _INCLUDE)
    return bool(number_of(data, found, _ENABLE)) if named is None else _names(data, named)


def widen_vectors(number: int, wanted: bool | tuple[str, ...], name: str | None) -> bytes:
    """The selector of ``name`` (None: of every vector) as field ``number``; b"" if the client's includes it already."""
    if wanted is True:
        return b""
    if name is None:
        return length_field(number, number_field(_ENABLE, 1))
    return b"" if wanted is not False and name in wanted else _include(number, (name,))


def plan_payload(
    data: bytes, field: Field | None, fields: Sequence[str], optional: Sequence[str], *, whole: bool = False
) -> Payload:
    """The additions for the top-level keys ``fields``. Raises UnsupportedError if one could not be removed again exactly. ``optional`` keys
    are added if possible. ``whole``: all of the payload if the client wants none.
    """
    plain = askable(optional, fields)
    is_cut = not {*plain, *fields}.issuperset(optional)
    found = {} if field is None else read(data, field.span, PAYLOAD)
    if field is not None and not found:  # an empty selector, which the server refuses
        raise UnsupportedError(Reason.PAYLOAD_SELECTOR)
    if number_of(data, found, _ENABLE):
        return Payload()
    if not found or _ENABLE in found:
        asked = forced(fields, plain)
        is_whole = whole and bool(asked)
        return Payload(asked, is_forced=bool(asked), is_whole=is_whole, is_cut=is_cut and not is_whole)
    if not (fields or plain):
        return Payload(is_cut=is_cut)
    try:
        planned = _plan_chosen(data, found, fields, plain)
    except UnsupportedError:
        if fields:
            raise
        return Payload(is_cut=True)
    return replace(planned, is_cut=planned.is_cut or is_cut)


def widen_payload(number: int, payload: Payload) -> bytes:
    """The addition as field ``number``; b"" for none."""
    if payload.is_whole:
        return length_field(number, number_field(_ENABLE, 1))
    return _include(number, payload.asked) if payload.asked else b""


def _plan_chosen(data: bytes, found: Found, fields: Sequence[str], optional: Sequence[str]) -> Payload:
    included = message(found, _INCLUDE)
    if included is not None:
        names = _names(data, included)
        return Payload(missing(names, fields, optional), is_cut=is_touched(names, optional, may_be_whole=True))
    excluded = message(found, _EXCLUDE)
    hidden = () if excluded is None else _names(data, excluded)
    check_shown(hidden, fields)
    # Optional keys that are not excluded are returned in any case.
    return Payload(is_cut=is_touched(hidden, optional, may_be_whole=False))


def _names(data: bytes, field: Field) -> tuple[str, ...]:
    return tuple(text_of(data, name) for name in messages(read(data, field.span, NAMES), _NAMES))


def _include(number: int, names: Sequence[str]) -> bytes:
    inside = b"".join(length_field(_NAMES, name.encode()) for name in names)
    return length_field(number, length_field(_INCLUDE, inside))


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """One search message: its fields, the numbers of those that change, and the parser of its ranking. ``dense``: the number of the
    floats in the message of a dense ranking; ``way``: the fields that lead from the search to them.
    """

    shape: Shape
    limit: int
    offset: int
    filter: int
    vectors: int
    payload: int
    ranking: Callable[[bytes, Span, Found, int], Ranking]
    shard_key: int
    default_limit: int | None = None
    dense: int = 1
    way: tuple[int, ...] = ()


def _numbers(last: int, *, repeated: frozenset[int], unused: frozenset[int] = frozenset()) -> Shape:
    return Shape(frozenset(range(1, last + 1)) - repeated - unused, repeated)


LAYOUTS: Mapping[str, Layout] = {
    "query": Layout(
        shape=_numbers(15, repeated=frozenset({2})),
        limit=8, offset=9, filter=5, vectors=10, payload=11, shard_key=13, ranking=of_query, default_limit=QUERY_LIMIT,
        way=(_ROOT_QUERY, _NEAREST, 2, 1),
    ),
    "search": Layout(
        shape=_numbers(15, repeated=frozenset({2}), unused=frozenset({5})),
        limit=4, offset=9, filter=3, vectors=11, payload=6, shard_key=14, ranking=of_search, dense=2,
        way=(_SEARCH_VECTOR,),
    ),
    "recommend": Layout(
        shape=_numbers(20, repeated=frozenset({2, 3, 17, 18}), unused=frozenset({6, 15})),
        limit=5, offset=10, filter=4, vectors=12, payload=7, shard_key=20, ranking=of_recommend,
    ),
    "discover": Layout(
        shape=_numbers(14, repeated=frozenset({3})),
        limit=5, offset=8, filter=4, vectors=10, payload=6, shard_key=14, ranking=of_discover,
    ),
}  # fmt: skip

MESSAGES: Messages = {
    "query_batch": {2: "query"},
    "search_batch": {2: "search"},
    "recommend_batch": {2: "recommend"},
    "discover_batch": {2: "discover"},
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
    """One supported search, and its additions. ``index``: in the batch, else 0. ``wanted``: the client's selection of vectors.

    ``name``: the vector to compare by; None fetches all, and ``prefers`` is the query's. ``fetches``: whether vectors are added.
    """

    index: int
    layout: Layout
    top_k: int
    offset: int
    wanted: bool | tuple[str, ...]
    payload: Payload
    name: str | None
    prefers: str
    fetches: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """A parsed request. ``items``: those of the batch, None if it is no batch."""

    body: bytes
    plans: tuple[Plan, ...]
    items: tuple[Field, ...] | None


def parse_request(operation: Operation, body: bytes, needs: Needs) -> SearchCall:
    """Raises UnsupportedError, nothing else."""
    name, _, is_batch = operation.name.partition("_")
    layout = LAYOUTS[name]
    whole = 0, len(body)
    items = tuple(messages(read(body, whole, BATCH), _SEARCHES)) if is_batch else None
    if items is None:
        supported = [_remembered(body, name, needs) or _read(body, whole, layout, needs, 0)]
    elif len(items) > needs.bounds.searches:
        raise UnsupportedError(Reason.TOO_MANY_SEARCHES)
    else:
        parsed = [_read_item(body, item, layout, needs, index) for index, item in enumerate(items)]
        supported = [each for each in parsed if each is not None]
    if not supported:
        raise UnsupportedError(Reason.NOTHING_TO_DO)
    searches, plans = zip(*supported, strict=True)
    document = Document(body=body, plans=plans, items=items)
    return SearchCall(operation=operation, searches=searches, needs=without_known(needs), document=document)


def widen(document: Document, fetch_k: Sequence[int]) -> bytes:
    """The request for ``fetch_k[i]`` candidates of plan i, with vectors and payload keys added; 0 leaves that search unchanged."""
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
        + (widen_vectors(layout.vectors, plan.wanted, plan.name) if plan.fetches else b"")
        + widen_payload(layout.payload, plan.payload)
    )


def _read_item(body: bytes, item: Field, layout: Layout, needs: Needs, index: int) -> tuple[Search, Plan] | None:
    """One item of a batch; None for an unsupported one, which stays unchanged."""
    try:
        return _read(body, item.span, layout, needs, index)
    except UnsupportedError:
        return None


def _read(body: bytes, span: Span, layout: Layout, needs: Needs, index: int) -> tuple[Search, Plan]:
    found = read(body, span, layout.shape)
    ranking = layout.ranking(body, span, found, needs.bounds.nesting)
    limit, offset = number_of(body, found, layout.limit), number_of(body, found, layout.offset)
    top_k, skipped = (layout.default_limit if limit is None else limit) or 0, offset or 0
    wanted = read_vectors(body, message(found, layout.vectors))
    payload = plan_payload(
        body, message(found, layout.payload), needs.payload_fields, needs.optional_fields, whole=needs.whole
    )
    if not needs.values:
        payload = Payload(is_cut=payload.is_cut)
    check_page(top_k, skipped)
    name = compared(ranking, needs, wanted)
    plan = Plan(
        index=index, layout=layout, top_k=top_k, offset=skipped,
        wanted=wanted, payload=payload, name=name, prefers=ranking.name, fetches=needs.vectors,
    )  # fmt: skip
    query = dense_at(body, ranking, layout)
    if name != ranking.name:
        query = None  # another vector is in another space
    selector = message(found, layout.shard_key)
    partition = b"" if selector is None else body[selector.value : selector.end]
    search = Search(
        top_k=top_k, offset=skipped, pages=offset is not None, query=query, partition=partition, is_cut=payload.is_cut
    )
    return search, plan


# A client's searches differ in the numbers of their vectors: the fields around them are read once.
_SKELETONS, _SKELETON_BYTES = 256, 4096


def _remembered(body: bytes, name: str, needs: Needs) -> tuple[Search, Plan] | None:
    """The same as `_read`, in a sixth of the time; None for a search without a vector, or with many other fields. Raises UnsupportedError."""
    way = LAYOUTS[name].way
    try:
        place = value_at(body, way) if way else None
    except ValueError:
        return None
    if place is None or len(body) - (size := place[1] - place[0]) > _SKELETON_BYTES:
        return None
    read = _skeleton(name, needs, body[: place[0]], size, body[place[1] :])
    if read is None:
        return None
    search, plan = read
    return (replace(search, query=usable(row(body[place[0] : place[1]]))), plan) if needs.query else read


@lru_cache(_SKELETONS)
def _skeleton(name: str, needs: Needs, before: bytes, size: int, behind: bytes) -> tuple[Search, Plan] | None:
    """A search with zeros as numbers: only its query depends on them. None if they are not its whole query."""
    body = before + bytes(size) + behind
    search, plan = _read(body, (0, len(body)), LAYOUTS[name], needs, 0)
    if search.query is None or search.query.nbytes != size:
        return None
    return (search, plan) if needs.query else (replace(search, query=None), plan)


def dense_at(body: bytes, ranking: Ranking, layout: Layout) -> npt.NDArray[np.float32] | None:
    """The usable dense vector of a ranking; None if there is none. Raises UnsupportedError."""
    if ranking.dense is None:
        return None
    try:
        return usable(row(packed_floats(body, fields(body, ranking.dense), layout.dense)))
    except ValueError:
        raise UnsupportedError(Reason.UNSUPPORTED_FIELD) from None
