"""Parses and widens a search over gRPC.

In the client's bytes only the parameters of limit and offset change; names of fields are appended. The parts of a hybrid search are
unchanged, so that its candidates and scores are those of the client's search: only the limit of the fused list is raised, up to its end.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ..base import check_page
from ..contract import Needs, Operation, Reason, Search, SearchCall, UnsupportedError
from ..wire.json import Members, splice
from ..wire.protobuf import (
    Field,
    Found,
    Messages,
    Shape,
    Span,
    length_field,
    message,
    messages,
    number_of,
    read,
    text_of,
)
from .calls import HYBRID_SEARCH, SEARCH
from .search import (
    COMPARABLE,
    LARGEST_WINDOW,
    OFFSET,
    Chosen,
    as_query,
    bound,
    check_chosen,
    choose,
    compared,
    most,
    number,
    number_at,
    read_inner,
)

# Search parameters: a list of keys and values, all text. If a key is repeated, servers differ in which value counts, so different values
# make the search unsupported.

_KEY, _VALUE = 1, 2
_PAIR = Shape(frozenset({_KEY, _VALUE}))


@dataclass(frozen=True, slots=True)
class Pairs:
    """The fields of a list, the key of each, and key -> value."""

    fields: tuple[Field, ...]
    keys: tuple[str, ...]
    values: Mapping[str, str]


def read_pairs(data: bytes, found: Sequence[Field]) -> Pairs:
    """Raises UnsupportedError."""
    keys: list[str] = []
    values: dict[str, str] = {}
    for field in found:
        pair = read(data, field.span, _PAIR)
        key, value = text_of(data, message(pair, _KEY)), text_of(data, message(pair, _VALUE))
        if values.setdefault(key, value) != value:
            raise UnsupportedError(Reason.AMBIGUOUS_FIELD)
        keys.append(key)
    return Pairs(tuple(found), tuple(keys), values)


def changed(pairs: Pairs, values: Mapping[str, str]) -> list[tuple[Field, bytes]]:
    """The fields whose values differ from ``values``, each with its new bytes, in the order of the wire."""
    return [
        (field, length_field(field.number, pair(key, values[key])))
        for field, key in zip(pairs.fields, pairs.keys, strict=True)
        if key in values and values[key] != pairs.values[key]
    ]


def pair(key: str, value: str) -> bytes:
    return length_field(_KEY, key.encode()) + length_field(_VALUE, value.encode())


# PlaceholderGroup: the queries.

_PLACEHOLDERS = 1
_GROUP = Shape(frozenset(), frozenset({_PLACEHOLDERS}))
_TAG, _TYPE, _VALUES = 1, 2, 3
# Not supported: 4, the level of an embedding list.
_PLACEHOLDER = Shape(frozenset({_TAG, _TYPE}), frozenset({_VALUES}))


@dataclass(frozen=True, slots=True, eq=False)
class Queries:
    """The queries of one request, and their DataType."""

    kind: int
    packed: tuple[bytes, ...]

    @property
    def is_comparable(self) -> bool:
        """Whether they are dense vectors of numbers."""
        return self.kind in COMPARABLE

    def vectors(self) -> list[npt.NDArray[np.float32] | None]:
        """(d,) each, None for one that is empty or not finite. Raises UnsupportedError."""
        try:
            return [as_query(each, self.kind) for each in self.packed]
        except ValueError:
            raise UnsupportedError(Reason.UNSUPPORTED_FIELD) from None


def read_queries(data: bytes) -> Queries:
    """Raises UnsupportedError for several placeholders, or none."""
    placeholders = messages(read(data, (0, len(data)), _GROUP), _PLACEHOLDERS)
    if len(placeholders) != 1:
        raise UnsupportedError(Reason.UNSUPPORTED_FIELD)
    found = read(data, placeholders[0].span, _PLACEHOLDER)
    values = messages(found, _VALUES)
    if not values:
        raise UnsupportedError(Reason.UNSUPPORTED_FIELD)
    return Queries(number_of(data, found, _TYPE) or 0, tuple(data[slice(*value.span)] for value in values))


# SearchRequest. Not supported: ids, scoring functions, highlights, aggregations.
PARTITIONS, _QUERIES, OUTPUT, PARAMS, _NQ, _BY_KEYS = 4, 6, 8, 9, 12, 16
_SEARCH = Shape(
    frozenset({1, 2, 3, 5, 6, 7, 10, 11, 12, 13, 14, 15, 16, 20}), frozenset({PARTITIONS, OUTPUT, PARAMS, 18})
)
_PARAMETERS = frozenset(
    {"topk", "round_decimal", "ignore_growing", OFFSET, "metric_type", "anns_field", "hints", "params"}
)

# HybridSearchRequest.
PARTS, RANKS, HYBRID_OUTPUT = 5, 6, 10
_HYBRID = Shape(frozenset({1, 2, 3, 7, 8, 9, 11, 12, 14}), frozenset({4, PARTS, RANKS, HYBRID_OUTPUT}))
_RANK_PARAMETERS = frozenset({"strategy", "params", "limit", "round_decimal", OFFSET})


MESSAGES: Messages = {
    SEARCH: {_QUERIES: "group", PARAMS: "pair"},
    HYBRID_SEARCH: {PARTS: SEARCH, RANKS: "pair"},
    "group": {1: "placeholder"},
    "placeholder": {},
    "pair": {},
}
# Bytes of the index parameters, a JSON text; the known ones take a hundred.
_LONGEST_PARAMETERS = 16 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """A parsed request. ``limit``: the key of the limit. ``inner``: the changed index parameters; None: unchanged. ``output``: the number
    of the fields with output names. ``vector``: the field to compare by.
    """

    body: bytes
    pairs: Pairs
    limit: str
    inner: str | None
    output: int
    top_k: int
    queries: int
    vector: str
    chosen: Chosen


@dataclass(frozen=True, slots=True)
class Part:
    """One SearchRequest. ``page``: topk and offset. ``most``: the most candidates that its index parameters allow."""

    found: Found
    pairs: Pairs
    queries: Queries
    page: tuple[int, int]
    inner: str | None
    most: int


def parse_request(operation: Operation, body: bytes, needs: Needs) -> SearchCall:
    """Raises UnsupportedError, nothing else."""
    hybrid = operation.name == HYBRID_SEARCH
    searches, document = (_hybrid if hybrid else _search)(body, needs)
    return SearchCall(operation=operation, searches=searches, needs=needs, document=document)


def widen(document: Document, fetch_k: Sequence[int]) -> bytes:
    """The request for the largest of ``fetch_k`` for each query, with the fields that were chosen."""
    count = max(fetch_k)
    body = document.body
    if not count:
        return body
    values = {document.limit: str(count), OFFSET: "0"}
    if document.inner is not None:
        values["params"] = document.inner
    edits = [(field.start, field.end, said) for field, said in changed(document.pairs, values)]
    return splice(body, edits) + b"".join(
        length_field(document.output, name.encode()) for name in document.chosen.added
    )


def _search(body: bytes, needs: Needs) -> tuple[tuple[Search, ...], Document]:
    part = read_part(body, (0, len(body)))
    if not part.queries.is_comparable:
        raise UnsupportedError(Reason.NOTHING_TO_DO)
    ranked_by = part.pairs.values.get("anns_field") or None
    _check_searches(len(part.queries.packed), needs)
    vector = compared(ranked_by, needs)
    top_k, offset = part.page
    check_page(top_k, offset)
    queries = part.queries.vectors() if vector == (ranked_by or vector) else [None] * len(part.queries.packed)
    limit = most(part.most, dimension=_dimension(queries), queries=len(queries))
    pages = OFFSET in part.pairs.values
    partition = b"\0".join(body[slice(*name.span)] for name in messages(part.found, PARTITIONS))
    searches = tuple(
        Search(top_k=top_k, offset=offset, pages=pages, query=query, most=limit, partition=partition)
        for query in queries
    )
    document = Document(
        body=body, pairs=part.pairs, limit="topk", inner=part.inner, output=OUTPUT, top_k=top_k,
        queries=len(searches), vector=vector, chosen=choose(_names(body, part.found, OUTPUT), vector, needs),
    )  # fmt: skip
    return searches, document


def _hybrid(body: bytes, needs: Needs) -> tuple[tuple[Search, ...], Document]:
    found = read(body, (0, len(body)), _HYBRID)
    pairs = read_pairs(body, messages(found, RANKS))
    check_chosen(pairs.values)
    if not pairs.values.keys() <= _RANK_PARAMETERS or "limit" not in pairs.values:
        raise UnsupportedError(Reason.UNSUPPORTED_FIELD)
    parts = [read_part(body, field.span) for field in messages(found, PARTS)]
    counts = {len(part.queries.packed) for part in parts}
    fields = [part.pairs.values.get("anns_field", "") for part in parts if part.queries.is_comparable]
    top_k, offset = number(pairs.values["limit"]), number(pairs.values.get(OFFSET, "0"))
    # For a page pymilvus repeats the offset in each part, where servers ignore it.
    if len(counts) != 1 or not fields or any(part.page[1] not in {0, offset} for part in parts):
        raise UnsupportedError(Reason.UNSUPPORTED_FIELD)
    (count,) = counts
    _check_searches(count, needs)
    vector = needs.vector_name or fields[0] or compared(None, needs)
    check_page(top_k, offset)
    # A limit beyond the candidates of all parts is allowed; fewer results show that the list has ended.
    limit = most(LARGEST_WINDOW, dimension=0, queries=count)
    search = Search(top_k=top_k, offset=offset, pages=OFFSET in pairs.values, query=None, most=limit)
    document = Document(
        body=body, pairs=pairs, limit="limit", inner=None, output=HYBRID_OUTPUT, top_k=top_k,
        queries=count, vector=vector, chosen=choose(_names(body, found, HYBRID_OUTPUT), vector, needs),
    )  # fmt: skip
    return (search,) * count, document


def _check_searches(count: int, needs: Needs) -> None:
    if count > needs.bounds.searches:
        raise UnsupportedError(Reason.TOO_MANY_SEARCHES)


def read_part(body: bytes, span: Span) -> Part:
    """A search, or a part of a hybrid one. Raises UnsupportedError."""
    found = read(body, span, _SEARCH)
    pairs = read_pairs(body, messages(found, PARAMS))
    check_chosen(pairs.values)
    if not pairs.values.keys() <= _PARAMETERS or number_of(body, found, _BY_KEYS):
        raise UnsupportedError(Reason.UNSUPPORTED_FIELD)
    group = message(found, _QUERIES)
    if group is None or "topk" not in pairs.values:
        raise UnsupportedError(Reason.UNSUPPORTED_FIELD)
    queries = read_queries(body[slice(*group.span)])
    if number_of(body, found, _NQ) not in {None, len(queries.packed)}:
        raise UnsupportedError(Reason.AMBIGUOUS_FIELD)
    offset = number(pairs.values.get(OFFSET, "0"))
    text = pairs.values.get("params", "").encode()
    if len(text) > _LONGEST_PARAMETERS:
        raise UnsupportedError(Reason.TOO_MANY_PARTS)
    inner = read_inner(text)
    return Part(
        found=found,
        pairs=pairs,
        queries=queries,
        page=(number(pairs.values["topk"]), offset),
        inner=_without_offset(text, inner, offset),
        most=bound(text, inner),
    )


def _without_offset(text: bytes, inner: Members, offset: int) -> str | None:
    """The index parameters with an offset of 0; None if they have none. Some clients repeat the offset there."""
    said = number_at(text, inner, OFFSET)
    if said is None:
        return None
    if said != offset:
        raise UnsupportedError(Reason.AMBIGUOUS_FIELD)
    member = inner[OFFSET]
    return splice(text, [(member.value, member.end, b"0")]).decode()


def _dimension(queries: Sequence[npt.NDArray[np.float32] | None]) -> int:
    return max((len(query) for query in queries if query is not None), default=0)


def _names(body: bytes, found: Found, number: int) -> tuple[str, ...]:
    names: list[Field] = messages(found, number)
    return tuple(text_of(body, name) for name in names)
