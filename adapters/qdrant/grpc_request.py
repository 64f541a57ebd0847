"""Parses and widens a search over gRPC.

Additions are appended to the client's bytes, where the last number counts and selections are merged. A field that the schema does not name
makes a search unsupported: a newer server may know it, as MMR once was. What is set twice is merged as the server merges it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import chain
from typing import Any

from ..base import check_page
from ..contract import Needs, Operation, Reason, Search, SearchCall, UnsupportedError
from ..wire.schema import known, parsed, read, serialized, text_of
from ..wire.vectors import row, usable
from .grpc_schema import proto
from .ranking import Kind, Payload, Ranking, compared, decided, plan_payload, without_known
from .rest_request import QUERY_LIMIT

# Query.variant. Not supported: a text query, which names a payload field where others name a vector.
_VARIANTS = {
    "recommend": Kind.REFERENCE,
    "discover": Kind.REFERENCE,
    "context": Kind.REFERENCE,
    "order_by": Kind.CHOSEN,
    "fusion": Kind.FUSED,
    "sample": Kind.CHOSEN,
    "formula": Kind.FUSED,
    "nearest_with_mmr": Kind.CHOSEN,
    "rrf": Kind.FUSED,
    "relevance_feedback": Kind.REFERENCE,
}
# Rankings that only feed the ranking above them, except MMR, which requests diversity.
_PLAIN_ORDERS = {"order_by", "sample"}

# VectorInput.variant.
_INPUTS = {
    "id": Kind.REFERENCE,
    "dense": Kind.DENSE,
    "sparse": Kind.SPARSE,
    "multi_dense": Kind.MULTI,
    "document": Kind.REFERENCE,
    "image": Kind.REFERENCE,
    "object": Kind.REFERENCE,
}
# Those that refer to no stored point.
INFERRED = ("document", "image", "object")


def choice(message: Any) -> tuple[str, Any]:
    """The name and the value of the only field that is set, of a message that is a oneof; "" for none. Raises UnsupportedError."""
    fields = known(message).ListFields()
    if len(fields) > 1:
        raise UnsupportedError(Reason.AMBIGUOUS_FIELD)
    return (fields[0][0].name, fields[0][1]) if fields else ("", None)


def of_query(message: Any, nesting: int) -> Ranking:
    """Of QueryPoints. ``nesting``: the greatest depth of its prefetches. Raises UnsupportedError."""
    leaves = list(_prefetched(message.prefetch, nesting))
    if not message.HasField("query"):
        raise UnsupportedError(Reason.ORDERING_CHOSEN)
    return decided(Ranking(_kind(message.query), text_of(message.using)), leaves)


def of_search(message: Any, _nesting: int) -> Ranking:
    """Of SearchPoints: its vector is dense, or the values of a sparse one. Raises UnsupportedError."""
    if not any(message.vector):
        raise UnsupportedError(Reason.UNSUPPORTED_FIELD)
    return Ranking(Kind.SPARSE if message.sparse_indices else Kind.DENSE, text_of(message.vector_name))


def of_reference(message: Any, _nesting: int) -> Ranking:
    """Of RecommendPoints and DiscoverPoints. Raises UnsupportedError."""
    return Ranking(Kind.REFERENCE, text_of(message.using))


def _kind(query: Any) -> Kind:
    """The kind of a Query. Raises UnsupportedError."""
    name, value = choice(query)
    if name == "nearest":
        name, value = choice(value)
        if name == "dense":
            known(value)
        if name:
            return _INPUTS[name]
    if not name:
        raise UnsupportedError(Reason.UNSUPPORTED_FIELD)
    return _VARIANTS[name]


def _prefetched(prefetches: Sequence[Any], nesting: int) -> Iterator[Ranking]:
    """The rankings of all prefetches, depth first, each before its own. Raises UnsupportedError."""
    if prefetches and not nesting:
        raise UnsupportedError(Reason.TOO_DEEP)
    return chain.from_iterable(_with_nested(prefetch, nesting) for prefetch in prefetches)


def _with_nested(prefetch: Any, nesting: int) -> Iterator[Ranking]:
    if known(prefetch).HasField("query"):
        kind = _kind(prefetch.query)
        if choice(prefetch.query)[0] not in _PLAIN_ORDERS:
            yield Ranking(kind, text_of(prefetch.using))
    yield from _prefetched(prefetch.prefetch, nesting - 1)


# Selectors. The server merges an appended selector with the client's: a second ``include`` adds names, and replaces ``enable: false``.
# Nothing is added to ``enable: true``.


def read_vectors(selector: Any) -> bool | tuple[str, ...]:
    """The client's selection: nothing, everything, or these names. Raises UnsupportedError."""
    name, value = choice(selector)
    return _names(value) if name == "include" else bool(value)


def widen_vectors(selection: bool | tuple[str, ...], name: str | None) -> dict[str, Any]:
    """The selector of ``name`` (None: of every vector), to be merged with the client's; empty if that includes it already."""
    if selection is True or (name is not None and selection is not False and name in selection):
        return {}
    return {"with_vectors": {"enable": True} if name is None else _include((name,))}


def read_payload(search: Any, needs: Needs) -> Payload:
    """The additions to a search. Raises UnsupportedError if one could not be removed again exactly."""
    name, value = choice(search.with_payload)
    if not name and search.HasField("with_payload"):  # an empty selector, which the server refuses
        raise UnsupportedError(Reason.PAYLOAD_SELECTOR)
    selected = bool(value) if name in {"", "enable"} else None
    return plan_payload(selected, lambda: (name == "include", _names(value)), needs)


def widen_payload(payload: Payload) -> dict[str, Any]:
    """The addition; empty for none."""
    if payload.is_whole:
        return {"with_payload": {"enable": True}}
    return {"with_payload": _include(payload.added)} if payload.added else {}


def _names(selected: Any) -> tuple[str, ...]:
    return tuple(map(text_of, known(selected).names))


def _include(names: Iterable[str]) -> dict[str, Any]:
    return {"include": {"names": [name.encode() for name in names]}}


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """One search message: its type, and the reader of its ranking. ``numbers``: those of a dense ranking, packed."""

    kind: Any
    ranking: Callable[[Any, int], Ranking]
    numbers: Callable[[Any], Any] = lambda _: ()
    default_limit: int | None = None


LAYOUTS: Mapping[str, Layout] = {
    "query": Layout(
        kind=proto.Query,
        ranking=of_query,
        numbers=lambda message: message.query.nearest.dense.data,
        default_limit=QUERY_LIMIT,
    ),
    "search": Layout(
        kind=proto.Search,
        ranking=of_search,
        numbers=lambda message: message.vector,
    ),
    "recommend": Layout(kind=proto.Recommend, ranking=of_reference),
    "discover": Layout(kind=proto.Discover, ranking=of_reference),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """One supported search, and its additions. ``index``: in the batch, else 0. ``selection``: the client's selection of vectors.

    ``name``: the vector to compare by; None fetches all, and ``prefers`` is the query's. ``fetches``: whether vectors are added.
    """

    index: int
    layout: Layout
    top_k: int
    offset: int
    selection: bool | tuple[str, ...]
    payload: Payload
    name: str | None
    prefers: str
    fetches: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """A parsed request. ``items``: how many the batch has, None if it is no batch."""

    body: bytes
    plans: tuple[Plan, ...]
    items: int | None


def parse_request(operation: Operation, body: bytes, needs: Needs) -> SearchCall:
    name, _, is_batch = operation.name.partition("_")
    items = list(once(read(proto.Batch, body)).searches) if is_batch else None
    if items is None:
        supported = [_read(body, name, needs, 0)]
    elif len(items) > needs.bounds.searches:
        raise UnsupportedError(Reason.TOO_MANY_SEARCHES)
    else:
        plans_read = [_read_item(item, name, needs, index) for index, item in enumerate(items)]
        supported = [item for item in plans_read if item is not None]
    if not supported:
        raise UnsupportedError(Reason.NOTHING_TO_DO)
    searches, plans = zip(*supported, strict=True)
    document = Document(body=body, plans=plans, items=None if items is None else len(items))
    return SearchCall(operation=operation, searches=searches, needs=without_known(needs), document=document)


def once(message: Any) -> Any:
    """A message with one collection, which is the one whose policy was chosen. Raises UnsupportedError."""
    if len(message.collection_name) > 1:
        raise UnsupportedError(Reason.AMBIGUOUS_FIELD)
    return message


def widen(document: Document, fetch_k: Sequence[int]) -> bytes:
    """The request for ``fetch_k[i]`` candidates of plan i, with vectors and payload keys added; 0 leaves that search unchanged."""
    body = document.body
    added = {plan.index: _added(plan, count) for plan, count in zip(document.plans, fetch_k, strict=True) if count}
    if document.items is None:
        return body + added.get(0, b"")
    if not any(added.values()):
        return body
    batch = parsed(proto.Batch, body)
    for index, more in added.items():
        batch.searches[index] += more
    return serialized(batch)


def _added(plan: Plan, count: int) -> bytes:
    return serialized(
        plan.layout.kind(
            **({"limit": count} if count != plan.top_k else {}),
            **({"offset": 0} if plan.offset else {}),
            **(widen_vectors(plan.selection, plan.name) if plan.fetches else {}),
            **widen_payload(plan.payload),
        )
    )


def _read_item(body: bytes, name: str, needs: Needs, index: int) -> tuple[Search, Plan] | None:
    """One item of a batch; None for an unsupported one, which stays unchanged."""
    try:
        return _read(body, name, needs, index)
    except UnsupportedError:
        return None


# A client's searches differ in the numbers of their vectors: what is beside them is read once.
_SKELETONS, _SKELETON_BYTES = 256, 4096
_ANY_NUMBERS = b"\0\0\0\0"


def _read(body: bytes, name: str, needs: Needs, index: int) -> tuple[Search, Plan]:
    layout = LAYOUTS[name]
    try:
        message = parsed(layout.kind, body)
        numbers = layout.numbers(message)
        vector = row(b"".join(numbers))
    except ValueError:
        raise UnsupportedError(Reason.UNSUPPORTED_FIELD) from None
    if len(vector):
        numbers[:] = [_ANY_NUMBERS]
    rest = serialized(message)
    skeleton = _skeleton if len(rest) <= _SKELETON_BYTES else _skeleton.__wrapped__
    search, plan, is_dense = skeleton(rest, name, needs, index)
    return (replace(search, query=usable(vector)) if is_dense and needs.query else search), plan


@lru_cache(_SKELETONS)
def _skeleton(body: bytes, name: str, needs: Needs, index: int) -> tuple[Search, Plan, bool]:
    """A search without its query, and whether that is the dense vector. Raises UnsupportedError."""
    layout = LAYOUTS[name]
    message = once(read(layout.kind, body))
    ranking = layout.ranking(message, needs.bounds.nesting)
    top_k, skipped = message.limit if message.HasField("limit") else layout.default_limit or 0, message.offset
    selection = read_vectors(message.with_vectors)
    payload = read_payload(message, needs)
    if not needs.values:
        payload = Payload(is_cut=payload.is_cut)
    check_page(top_k, skipped)
    vector_name = compared(ranking, needs, selection)
    plan = Plan(
        index=index, layout=layout, top_k=top_k, offset=skipped,
        selection=selection, payload=payload, name=vector_name, prefers=ranking.name, fetches=needs.vectors,
    )  # fmt: skip
    search = Search(
        top_k=top_k,
        offset=skipped,
        pages=message.HasField("offset"),
        query=None,
        partition=b"".join(message.shard_key_selector),
        is_cut=payload.is_cut,
    )
    # Another vector is in another space.
    return search, plan, ranking.kind is Kind.DENSE and vector_name == ranking.name
