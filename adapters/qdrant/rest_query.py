"""The ranking of a request: the kind of its query, and the vector that it names.

Dense, sparse and multivector queries differ in their JSON type, so no schema is needed. Requests with an order of the client's choice
(MMR, a sample, order_by, no query) are unsupported.
"""

from __future__ import annotations

from collections.abc import Iterator

from vecsieve.adapters.contract import Reason, UnsupportedError
from vecsieve.adapters.qdrant.ranking import Kind, Ranking, decided
from vecsieve.adapters.wire.json import Members, Span, elements, members, string
from vecsieve.adapters.wire.json_requests import present

# The tags of a query object, and the other members allowed beside each.
_TAGS = {
    "nearest": {"mmr"},
    "recommend": set[str](),
    "discover": set[str](),
    "context": set[str](),
    "relevance_feedback": set[str](),
    "fusion": set[str](),
    "rrf": set[str](),
    "formula": {"defaults"},
    "order_by": set[str](),
    "sample": set[str](),
}
_FUSED = {"fusion", "rrf", "formula"}
_CHOSEN = {"order_by", "sample"}
_INFERRED = {"text", "image", "object"}


def of_query(text: bytes, found: Members, nesting: int) -> Ranking:
    """Of a ``query`` body. ``nesting``: the greatest depth of its prefetches. Raises UnsupportedError."""
    leaves = list(_prefetched(text, found, nesting))
    root = present(text, found, "query")
    if root is None:
        raise UnsupportedError(Reason.ORDERING_CHOSEN)
    kind, dense = _query(text, root)
    return decided(Ranking(kind, name_of(text, found, "using"), dense), leaves)


def of_search(text: bytes, found: Members, _nesting: int) -> Ranking:
    """Of a legacy ``search`` body: a bare list, or a named dense or sparse vector. Raises UnsupportedError."""
    span = present(text, found, "vector")
    if span is None:
        raise UnsupportedError(Reason.UNSUPPORTED_FIELD)
    if text[span[0] : span[0] + 1] != b"{":
        return _legacy(text, span, "")
    named = members(text, span)
    inner = present(text, named, "vector")
    if inner is None:
        raise UnsupportedError(Reason.UNSUPPORTED_FIELD)
    return _legacy(text, inner, name_of(text, named, "name"))


def of_reference(text: bytes, found: Members, _nesting: int) -> Ranking:
    """Of a legacy ``recommend`` or ``discover`` body. Raises UnsupportedError."""
    return Ranking(Kind.REFERENCE, name_of(text, found, "using"))


def name_of(text: bytes, found: Members, name: str) -> str:
    """The name in a member; "" where it is absent. Raises UnsupportedError."""
    span = present(text, found, name)
    if span is None:
        return ""
    try:
        return string(text[span[0] : span[1]])
    except ValueError:
        raise UnsupportedError(Reason.UNSUPPORTED_FIELD) from None


def _legacy(text: bytes, span: Span, name: str) -> Ranking:
    kind = _input(text, span)
    if kind not in {Kind.DENSE, Kind.SPARSE}:
        raise UnsupportedError(Reason.UNSUPPORTED_FIELD)
    return Ranking(kind, name, span if kind is Kind.DENSE else None)


def _query(text: bytes, span: Span) -> tuple[Kind, Span | None]:
    """The kind of a ``query`` value, and the span of its dense vector. Raises UnsupportedError."""
    found = members(text, span) if text[span[0] : span[0] + 1] == b"{" else {}
    tags = [tag for tag in _TAGS if tag in found]
    if not tags:
        kind = _input(text, span)
        return kind, span if kind is Kind.DENSE else None
    if len(tags) > 1:
        raise UnsupportedError(Reason.AMBIGUOUS_FIELD)
    tag = tags[0]
    if not found.keys() <= _TAGS[tag] | {tag}:
        raise UnsupportedError(Reason.UNSUPPORTED_FIELD)
    if tag in _CHOSEN or present(text, found, "mmr") is not None:
        return Kind.CHOSEN, None
    if tag in _FUSED:
        return Kind.FUSED, None
    if tag != "nearest":
        return Kind.REFERENCE, None
    inner = found[tag].value, found[tag].end
    kind = _input(text, inner)
    return kind, inner if kind is Kind.DENSE else None


def _input(text: bytes, span: Span) -> Kind:
    """The kind of a vector input. Raises UnsupportedError."""
    first = text[span[0] : span[0] + 1]
    if first == b"[":
        return Kind.MULTI if text[span[0] + 1 : span[1]].lstrip()[:1] == b"[" else Kind.DENSE
    if first == b'"' or first.isdigit():
        return Kind.REFERENCE
    if first != b"{":
        raise UnsupportedError(Reason.UNSUPPORTED_FIELD)
    found = members(text, span)
    if found.keys() == {"indices", "values"}:
        return Kind.SPARSE
    if len(found.keys() & _INFERRED) == 1:
        return Kind.REFERENCE
    raise UnsupportedError(Reason.UNSUPPORTED_FIELD)


def _prefetched(text: bytes, root: Members, nesting: int) -> Iterator[Ranking]:
    """The rankings of all prefetches, depth first, each before its own. Raises UnsupportedError."""
    waiting = [(span, 1) for span in reversed(listed(text, root))]
    while waiting:
        span, depth = waiting.pop()
        if depth > nesting:  # each level takes one more pass over its text
            raise UnsupportedError(Reason.TOO_DEEP)
        if text[span[0] : span[0] + 1] != b"{":
            raise UnsupportedError(Reason.UNSUPPORTED_FIELD)
        found = members(text, span)
        query = present(text, found, "query")
        if query is not None:
            kind, _ = _query(text, query)
            if not (kind is Kind.CHOSEN and _is_plain_order(text, query)):
                yield Ranking(kind, name_of(text, found, "using"))
        waiting += [(inner, depth + 1) for inner in reversed(listed(text, found))]


def is_inferred(text: bytes, query: Span) -> bool:
    """Whether a ``query`` value of the kind REFERENCE is a text, an image or an object, which no stored point stands for."""
    found = members(text, query) if text[query[0] : query[0] + 1] == b"{" else {}
    nearest = found.get("nearest")
    if nearest is not None:
        query = nearest.value, nearest.end
        found = members(text, query) if text[query[0] : query[0] + 1] == b"{" else {}
    return len(found.keys() & _INFERRED) == 1 and not found.keys() & _TAGS.keys()


def _is_plain_order(text: bytes, query: Span) -> bool:
    """A sample or order_by only feeds the ranking above it; MMR asks for diversity."""
    return bool(members(text, query).keys() & _CHOSEN)


def listed(text: bytes, found: Members) -> list[Span]:
    """``prefetch`` is one object or an array of them."""
    span = present(text, found, "prefetch")
    if span is None:
        return []
    return elements(text, span) if text[span[0] : span[0] + 1] == b"[" else [span]
