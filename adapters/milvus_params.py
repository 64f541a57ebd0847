"""The parameters of a Milvus search: what they say of how it is ranked, and how many candidates it may be asked for.

The same for gRPC and REST. What is not known exactly leaves the search alone.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from vecsieve.adapters.contract import Reason, Unsupported
from vecsieve.adapters.json_spans import Members, RepeatedKey, Span, members, whole

# The server's limit on topk, and on offset and topk together.
LARGEST_WINDOW = 16_384
# A reply of more vectors than this is neither needed nor wanted; it bounds many queries times many candidates.
REPLY_BYTES = 64 * 1024 * 1024

# Parameters of the index that must not be smaller than topk: HNSW, DiskANN, SCANN and its kin, CAGRA. Widening ends there.
_BOUNDS = ("ef", "search_list", "reorder_k", "itopk_size")
# A range has its own end; groups, iterators and orders are the client's own choice of rows.
_RANGES = frozenset({"radius", "range_filter"})
_CHOSEN = re.compile(r"group_by.*|group_size|strict_group_size|search_iter.*|iterator|order_by.*")
_NUMBER = re.compile(r"0|[1-9][0-9]{0,8}")
_INNER_LIMITS = frozenset({"topk", "limit"})
OFFSET = "offset"


def check_chosen(names: Iterable[str]) -> None:
    """Raises Unsupported where a parameter makes an order or a selection of the client's own."""
    if any(_CHOSEN.fullmatch(name) for name in names):
        raise Unsupported(Reason.ORDERING_CHOSEN)


def number(text: str) -> int:
    """A plain whole number. Raises Unsupported."""
    if not _NUMBER.fullmatch(text):
        raise Unsupported(Reason.AMBIGUOUS_FIELD)
    return int(text)


def read_inner(text: bytes, span: Span | None = None) -> Members:
    """The members of the JSON object of index parameters; none of "". Raises Unsupported."""
    if not text.strip():
        return {}
    try:
        found = members(text, whole(text) if span is None else span)
    except RepeatedKey:
        raise Unsupported(Reason.AMBIGUOUS_FIELD) from None
    except ValueError:
        raise Unsupported(Reason.UNSUPPORTED_FIELD) from None
    check_chosen(found)
    if not found.keys().isdisjoint(_RANGES | _INNER_LIMITS):
        raise Unsupported(Reason.UNSUPPORTED_FIELD)
    return found


def bound(text: bytes, inner: Members) -> int:
    """How many candidates the index parameters allow."""
    return min((number_at(text, inner, name) or LARGEST_WINDOW for name in _BOUNDS), default=LARGEST_WINDOW)


def number_at(text: bytes, inner: Members, name: str) -> int | None:
    """The whole number of a member, which may be spelled as text; None where it is absent. Raises Unsupported."""
    member = inner.get(name)
    if member is None:
        return None
    return number(text[member.value : member.end].decode(errors="replace").strip('"'))


def most(inner_bound: int, *, dimension: int, queries: int) -> int:
    """How many candidates of each query may be asked for, from rank 0."""
    return min(inner_bound, LARGEST_WINDOW, REPLY_BYTES // (4 * max(dimension, 1) * queries))


def check_page(top_k: int, offset: int) -> None:
    """Raises Unsupported for a page that has nothing to choose among, or that upstream refuses."""
    if not top_k:
        raise Unsupported(Reason.AMBIGUOUS_FIELD)
    if top_k + offset == 1:
        raise Unsupported(Reason.SINGLE_RESULT)
