"""Parses and widens a search over gRPC.

Only the parameters of limit and offset change, and names of fields are added. The parts of a hybrid search are unchanged, so that its
candidates and scores are those of the client's search: only the limit of the fused list is raised, up to its end. A field that the schema
does not name makes a search unsupported: a newer server may know it. What is set twice is merged as the server merges it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from ..base import check_page
from ..contract import Needs, Operation, Reason, Search, UnsupportedError
from ..wire.json import Members, splice
from ..wire.schema import known, parsed, read, serialized, text_of
from .calls import HYBRID_SEARCH
from .grpc_schema import proto
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


def once(message: Any, *names: str) -> Any:
    """A message with one text of these fields each, and of its database and collection. Raises UnsupportedError."""
    if any(len(getattr(message, name)) > 1 for name in ("db_name", "collection_name", *names)):
        raise UnsupportedError(Reason.AMBIGUOUS_FIELD)
    return message


def pairs_of(pairs: Iterable[Any]) -> dict[str, str]:
    """Search parameters: a list of keys and values, all text. If a key is repeated, servers differ in which value counts, so different
    values make the search unsupported. Raises UnsupportedError.
    """
    values: dict[str, str] = {}
    for pair in pairs:
        value = text_of(known(pair).value)
        if values.setdefault(text_of(pair.key), value) != value:
            raise UnsupportedError(Reason.AMBIGUOUS_FIELD)
    return values


def put(pairs: Iterable[Any], values: Mapping[str, str]) -> None:
    """Change the values of these keys, where they are."""
    for pair in pairs:
        if (value := values.get(text_of(pair.key))) is not None:
            pair.value = value.encode()


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
            return [as_query(vector, self.kind) for vector in self.packed]
        except ValueError:
            raise UnsupportedError(Reason.UNSUPPORTED_FIELD) from None


def _queries(group: bytes) -> Queries:
    """Raises UnsupportedError for several placeholders, or none."""
    placeholders = read(proto.Group, group).placeholders
    if len(placeholders) != 1 or not known(placeholders[0]).values:
        raise UnsupportedError(Reason.UNSUPPORTED_FIELD)
    return Queries(placeholders[0].type, tuple(placeholders[0].values))


_PARAMETERS = frozenset(
    {"topk", "round_decimal", "ignore_growing", OFFSET, "metric_type", "anns_field", "hints", "params"}
)
_RANK_PARAMETERS = frozenset({"strategy", "params", "limit", "round_decimal", OFFSET})

# Bytes of the index parameters, a JSON text; the known ones take a hundred.
_LONGEST_PARAMETERS = 16 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """A parsed request. ``is_hybrid``: it is a hybrid search. ``inner``: the changed index parameters; None: unchanged. ``vector``: the field
    to compare by.
    """

    body: bytes
    is_hybrid: bool = False
    inner: str | None = None
    top_k: int
    queries: int
    vector: str
    chosen: Chosen


@dataclass(frozen=True, slots=True)
class Part:
    """One SearchRequest. ``page``: topk and offset. ``most``: the most candidates that its index parameters allow."""

    pairs: Mapping[str, str]
    queries: Queries
    page: tuple[int, int]
    inner: str | None
    most: int


def read_request(operation: Operation, body: bytes, needs: Needs) -> tuple[tuple[Search, ...], Document]:
    return (_hybrid if operation.name == HYBRID_SEARCH else _search)(body, needs)


def widen(document: Document, fetch_k: Sequence[int]) -> bytes:
    """The request for the largest of ``fetch_k`` for each query, with the fields that were chosen."""
    count = max(fetch_k)
    if not count:
        return document.body
    values = {"limit" if document.is_hybrid else "topk": str(count), OFFSET: "0"}
    if document.inner is not None:
        values["params"] = document.inner
    message = parsed(proto.HybridSearch if document.is_hybrid else proto.Search, document.body)
    put(message.rank_params if document.is_hybrid else message.search_params, values)
    message.output_fields.extend([name.encode() for name in document.chosen.added])
    return serialized(message)


def _search(body: bytes, needs: Needs) -> tuple[tuple[Search, ...], Document]:
    message = read(proto.Search, body)
    part = read_part(message)
    if not part.queries.is_comparable:
        raise UnsupportedError(Reason.NOTHING_TO_DO)
    ranked_by = part.pairs.get("anns_field") or None
    _check_searches(len(part.queries.packed), needs)
    vector = compared(ranked_by, needs)
    top_k, offset = part.page
    check_page(top_k, offset)
    queries = part.queries.vectors() if vector == (ranked_by or vector) else [None] * len(part.queries.packed)
    limit = most(part.most, dimension=_dimension(queries), queries=len(queries))
    pages = OFFSET in part.pairs
    partition = b"\0".join(message.partition_names)
    searches = tuple(
        Search(top_k=top_k, offset=offset, pages=pages, query=query, most=limit, partition=partition)
        for query in queries
    )
    document = Document(
        body=body, inner=part.inner, top_k=top_k, queries=len(searches), vector=vector,
        chosen=choose(_outputs(message), vector, needs),
    )  # fmt: skip
    return searches, document


def _hybrid(body: bytes, needs: Needs) -> tuple[tuple[Search, ...], Document]:
    message = once(read(proto.HybridSearch, body))
    pairs = pairs_of(message.rank_params)
    check_chosen(pairs)
    if not pairs.keys() <= _RANK_PARAMETERS or "limit" not in pairs:
        raise UnsupportedError(Reason.UNSUPPORTED_FIELD)
    parts = [read_part(request) for request in message.requests]
    counts = {len(part.queries.packed) for part in parts}
    fields = [part.pairs.get("anns_field", "") for part in parts if part.queries.is_comparable]
    top_k, offset = number(pairs["limit"]), number(pairs.get(OFFSET, "0"))
    # For a page pymilvus repeats the offset in each part, where servers ignore it.
    if len(counts) != 1 or not fields or any(part.page[1] not in {0, offset} for part in parts):
        raise UnsupportedError(Reason.UNSUPPORTED_FIELD)
    (count,) = counts
    _check_searches(count, needs)
    vector = needs.vector_name or fields[0] or compared(None, needs)
    check_page(top_k, offset)
    # A limit beyond the candidates of all parts is allowed; fewer results show that the list has ended.
    limit = most(LARGEST_WINDOW, dimension=0, queries=count)
    search = Search(top_k=top_k, offset=offset, pages=OFFSET in pairs, query=None, most=limit)
    document = Document(
        body=body, is_hybrid=True, top_k=top_k, queries=count, vector=vector,
        chosen=choose(_outputs(message), vector, needs),
    )  # fmt: skip
    return (search,) * count, document


def _check_searches(count: int, needs: Needs) -> None:
    if count > needs.bounds.searches:
        raise UnsupportedError(Reason.TOO_MANY_SEARCHES)


def read_part(message: Any) -> Part:
    """A search, or a part of a hybrid one. Raises UnsupportedError."""
    pairs = pairs_of(once(known(message), "placeholder_group").search_params)
    check_chosen(pairs)
    if not pairs.keys() <= _PARAMETERS or message.search_by_primary_keys:
        raise UnsupportedError(Reason.UNSUPPORTED_FIELD)
    if not message.placeholder_group or "topk" not in pairs:
        raise UnsupportedError(Reason.UNSUPPORTED_FIELD)
    queries = _queries(message.placeholder_group[0])
    if message.HasField("nq") and message.nq != len(queries.packed):
        raise UnsupportedError(Reason.AMBIGUOUS_FIELD)
    offset = number(pairs.get(OFFSET, "0"))
    text = pairs.get("params", "").encode()
    if len(text) > _LONGEST_PARAMETERS:
        raise UnsupportedError(Reason.TOO_MANY_PARTS)
    inner = read_inner(text)
    return Part(
        pairs=pairs,
        queries=queries,
        page=(number(pairs["topk"]), offset),
        inner=_without_offset(text, inner, offset),
        most=bound(text, inner),
    )


def _without_offset(text: bytes, inner: Members, offset: int) -> str | None:
    """The index parameters with an offset of 0; None if they have none. Some clients repeat the offset there."""
    number = number_at(text, inner, OFFSET)
    if number is None:
        return None
    if number != offset:
        raise UnsupportedError(Reason.AMBIGUOUS_FIELD)
    member = inner[OFFSET]
    return splice(text, [(member.value, member.end, b"0")]).decode()


def _dimension(queries: Sequence[npt.NDArray[np.float32] | None]) -> int:
    return max((len(query) for query in queries if query is not None), default=0)


def _outputs(message: Any) -> tuple[str, ...]:
    return tuple(map(text_of, message.output_fields))
