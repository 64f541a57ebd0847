"""What a Qdrant gRPC request ranks by: the kind of its query, and the vector it names.

Where a ranking is dense, its span is that of the message that holds the numbers.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain

from vecsieve.adapters.contract import Reason, Unsupported
from vecsieve.adapters.proto_request import Found, Shape, message, messages, read, text_of
from vecsieve.adapters.proto_wire import Field, Span
from vecsieve.adapters.qdrant_ranking import Kind, Ranking, decided

# Query.variant. 9 is the nearest with MMR; 12, a text query, names a payload field where others name a vector.
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
# An order that only feeds the ranking above it, unlike MMR, which is a wish for diversity.
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
    """The ranking of QueryPoints. ``nesting``: how deep its prefetches may be. Raises Unsupported."""
    leaves = list(_prefetched(data, messages(found, _ROOT_PREFETCH), nesting))
    root = message(found, _ROOT_QUERY)
    if root is None:
        raise Unsupported(Reason.ORDERING_CHOSEN)
    kind, dense = _query(data, read(data, root.span, QUERY))
    return decided(Ranking(kind, text_of(data, message(found, _ROOT_USING)), dense), leaves)


def of_search(data: bytes, span: Span, found: Found, _nesting: int) -> Ranking:
    """The ranking of SearchPoints: its vector is dense, or the values of a sparse one. Raises Unsupported."""
    if _SEARCH_VECTOR not in found:
        raise Unsupported(Reason.UNSUPPORTED_FIELD)
    name = text_of(data, message(found, _SEARCH_NAME))
    if _SEARCH_INDICES in found:
        return Ranking(Kind.SPARSE, name)
    return Ranking(Kind.DENSE, name, span)


def of_recommend(data: bytes, _span: Span, found: Found, _nesting: int) -> Ranking:
    """The ranking of RecommendPoints. Raises Unsupported."""
    return Ranking(Kind.REFERENCE, text_of(data, message(found, _RECOMMEND_USING)))


def of_discover(data: bytes, _span: Span, found: Found, _nesting: int) -> Ranking:
    """The ranking of DiscoverPoints. Raises Unsupported."""
    return Ranking(Kind.REFERENCE, text_of(data, message(found, _DISCOVER_USING)))


def _query(data: bytes, found: Found) -> tuple[Kind, Span | None]:
    """The kind of a Query, and where a dense vector stands in it. Raises Unsupported."""
    if not found:
        raise Unsupported(Reason.UNSUPPORTED_FIELD)
    nearest = message(found, _NEAREST)
    if nearest is None:
        return _VARIANTS[next(iter(found))], None
    inputs = read(data, nearest.span, INPUT)
    if not inputs:
        raise Unsupported(Reason.UNSUPPORTED_FIELD)
    number = next(iter(inputs))
    inner = message(inputs, number)
    kind = _INPUTS[number]
    return kind, inner.span if inner is not None and kind is Kind.DENSE else None


def _prefetched(data: bytes, prefetches: list[Field], nesting: int) -> Iterator[Ranking]:
    """The rankings of all prefetches, depth first, each before what it prefetches itself. Raises Unsupported."""
    if prefetches and not nesting:
        raise Unsupported(Reason.TOO_DEEP)
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
