"""The kind of a query, the vector to compare by, and the payload keys to add, for both transports; the ranking of a request over REST.

Dense, sparse and multivector queries differ in their JSON type, so no schema is needed. Requests with an order of the client's choice
(MMR, a sample, order_by, no query) are unsupported.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import Enum, auto

from ..contract import Needs, Reason, UnsupportedError
from ..wire.json import Members, Span, elements, members_of, string
from ..wire.json_requests import present


class Kind(Enum):
    DENSE = auto()  # one list of numbers
    SPARSE = auto()  # indices and values
    MULTI = auto()  # a list of lists
    REFERENCE = auto()  # points, texts or images, whose vectors are not in the request
    FUSED = auto()  # combines the prefetches' results
    CHOSEN = auto()  # an order chosen by the client


@dataclass(frozen=True, slots=True)
class Ranking:
    """The kind of the deciding query, the name of its vector ("" is the unnamed one), and the span of a dense one."""

    kind: Kind
    name: str
    dense: Span | None = None


def decided(root: Ranking, leaves: Sequence[Ranking]) -> Ranking:
    """The ranking of a query over prefetches, whose rankings are ``leaves``, depth first; a fusion has that of one of them.

    Raises UnsupportedError where the client chose the order of any.
    """
    if root.kind is Kind.CHOSEN or any(leaf.kind is Kind.CHOSEN for leaf in leaves):
        raise UnsupportedError(Reason.ORDERING_CHOSEN)
    if root.kind is not Kind.FUSED:
        return root
    for kind in (Kind.DENSE, Kind.REFERENCE, Kind.SPARSE, Kind.MULTI):
        for leaf in leaves:
            if leaf.kind is kind:
                return leaf
    return Ranking(Kind.REFERENCE, "")


def compared(ranking: Ranking, needs: Needs, selection: bool | tuple[str, ...]) -> str | None:
    """The vector to compare by; None if all must be fetched to choose one. ``selection``: the client's own selection."""
    if needs.vector_name is not None:
        return needs.vector_name
    if ranking.kind in {Kind.DENSE, Kind.REFERENCE}:
        return ranking.name
    # Fetching all instead of a list would hide the server's error about an unknown name.
    is_list = not isinstance(selection, bool)
    return ranking.name if needs.vector_hint is None and is_list else needs.vector_hint


@dataclass(frozen=True, slots=True)
class Shape:
    """A vector in a reply: its kind (dense, sparse or multi), and a number that grows with a dense one's dimensions."""

    kind: Kind
    size: int = 0


def best(first: dict[str, Shape], prefers: str) -> str | None:
    """The name to compare by, when all vectors were fetched. ``first``: each name's first vector. ``prefers``: the query's vector.

    The unnamed if dense, else the dense one with the fewest dimensions, else ``prefers``, else the first sparse, else the first
    multivector, names in order.
    """
    dense = {name: shape.size for name, shape in first.items() if shape.kind is Kind.DENSE}
    if "" in dense:
        return ""
    if dense:
        return min(dense, key=lambda name: (dense[name], name))
    if prefers in first:
        return prefers
    return min(first, key=lambda name: (first[name].kind is not Kind.SPARSE, name), default=None)


# The first key of a payload path (Qdrant's JsonPath) without quotes.
_FIRST_KEY = re.compile(r"[A-Za-z0-9_-]+")


def without_known(needs: Needs) -> Needs:
    """The needs of a call whose optional values may already be known: it neither adds nor reads them."""
    return needs if needs.values else replace(needs, optional_fields=())


@dataclass(frozen=True, slots=True)
class Payload:
    """``added``: the keys added to the client's payload selection. ``is_forced``: the client wants no payload; ``is_whole``: all of it is
    requested then. ``is_cut``: whether some optional keys are not returned completely.
    """

    added: tuple[str, ...] = ()
    is_forced: bool = False
    is_whole: bool = False
    is_cut: bool = False


def plan_payload(
    selected: bool | None,
    chosen: Callable[[], tuple[bool, Sequence[str]]],
    needs: Needs,
    *,
    may_force: bool = True,
) -> Payload:
    """The additions for the needs' top-level keys. Raises UnsupportedError, or ValueError of ``chosen``, if a required one could not be
    removed again exactly. Optional keys are added if possible.

    ``selected``: everything, nothing, or None for what ``chosen`` reads: whether paths are included, or excluded, and the paths.
    ``may_force``: whether optional keys are added if the client wants no payload.
    """
    if selected:
        return Payload()
    fields, optional = needs.payload_fields, needs.optional_fields
    plain = askable(optional, fields)
    is_cut = not {*plain, *fields}.issuperset(optional)
    if selected is False:
        added = forced(fields, plain if may_force else ())
        is_whole = needs.whole and bool(added)
        is_cut = (is_cut or (bool(plain) and not may_force)) and not is_whole
        return Payload(added, is_forced=bool(added), is_whole=is_whole, is_cut=is_cut)
    if not (fields or plain):
        return Payload(is_cut=is_cut)
    try:
        is_included, paths = chosen()
        if not is_included:
            check_excluded(paths, fields)
        # Optional keys that are not excluded are returned in any case.
        added = missing(paths, fields, plain) if is_included else ()
        return Payload(added, is_cut=is_cut or is_touched(paths, plain, may_be_whole=is_included))
    except (UnsupportedError, ValueError):  # ValueError: a repeated key, or one that is no text
        if fields:
            raise
        return Payload(is_cut=True)


def askable(optional: Sequence[str], fields: Sequence[str]) -> tuple[str, ...]:
    """The ``optional`` keys that need no quotes and are not among ``fields``."""
    return tuple(field for field in optional if _FIRST_KEY.fullmatch(field) and field not in fields)


def forced(fields: Sequence[str], optional: Sequence[str]) -> tuple[str, ...]:
    """The keys to request if the client wants no payload. Raises UnsupportedError."""
    if not all(_FIRST_KEY.fullmatch(field) for field in fields):
        raise UnsupportedError(Reason.PAYLOAD_SELECTOR)
    return (*fields, *optional)


def missing(chosen: Sequence[str], fields: Sequence[str], optional: Sequence[str]) -> tuple[str, ...]:
    """The keys to request in addition to the client's paths. Raises UnsupportedError."""
    first = _first_keys(chosen, (*fields, *optional))
    if any(not first.get(field, True) for field in fields):  # a part of it is selected: the rest could not be removed
        raise UnsupportedError(Reason.PAYLOAD_SELECTOR)
    added = tuple(field for field in (*fields, *optional) if field not in first)
    if not all(_FIRST_KEY.fullmatch(field) for field in added):
        raise UnsupportedError(Reason.PAYLOAD_SELECTOR)
    return added


def is_touched(paths: Sequence[str], optional: Sequence[str], *, may_be_whole: bool) -> bool:
    """Whether these paths select a part of one of ``optional``; or all of it, unless ``may_be_whole``."""
    first = _first_keys(paths, optional)
    return any(not (may_be_whole and first[field]) for field in optional if field in first)


def check_excluded(hidden: Sequence[str], fields: Sequence[str]) -> None:
    """Raises UnsupportedError if the paths excluded by the client affect one of ``fields``."""
    if _first_keys(hidden, fields).keys() & set(fields):
        raise UnsupportedError(Reason.PAYLOAD_SELECTOR)


def _first_keys(paths: Sequence[str], fields: Sequence[str]) -> dict[str, bool]:
    """First key of each path -> whether a path is that key alone. Raises UnsupportedError."""
    keys: dict[str, bool] = {}
    for path in paths:
        first = _FIRST_KEY.match(path)
        if first is None or (path in fields and first[0] != path):  # quoted, or a key that looks like a path
            raise UnsupportedError(Reason.PAYLOAD_SELECTOR)
        keys[first[0]] = keys.get(first[0], False) or first[0] == path
    return keys


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


def of_query(text: bytes, search: Members, nesting: int) -> Ranking:
    """Of a ``query`` body. ``nesting``: the greatest depth of its prefetches. Raises UnsupportedError."""
    leaves = list(_prefetched(text, search, nesting))
    root = present(text, search, "query")
    if root is None:
        raise UnsupportedError(Reason.ORDERING_CHOSEN)
    kind, dense = _query(text, root)
    return decided(Ranking(kind, name_of(text, search, "using"), dense), leaves)


def of_search(text: bytes, search: Members, _nesting: int) -> Ranking:
    """Of a legacy ``search`` body: a bare list, or a named dense or sparse vector. Raises UnsupportedError."""
    span = present(text, search, "vector")
    if span is None:
        raise UnsupportedError(Reason.UNSUPPORTED_FIELD)
    if text[span[0] : span[0] + 1] != b"{":
        return _legacy(text, span, "")
    named = members_of(text, span)
    inner = present(text, named, "vector")
    if inner is None:
        raise UnsupportedError(Reason.UNSUPPORTED_FIELD)
    return _legacy(text, inner, name_of(text, named, "name"))


def of_reference(text: bytes, search: Members, _nesting: int) -> Ranking:
    """Of a legacy ``recommend`` or ``discover`` body. Raises UnsupportedError."""
    return Ranking(Kind.REFERENCE, name_of(text, search, "using"))


def name_of(text: bytes, members: Members, name: str) -> str:
    """The name in a member; "" if absent. Raises UnsupportedError."""
    span = present(text, members, name)
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
    query = members_of(text, span) if text[span[0] : span[0] + 1] == b"{" else {}
    tags = [tag for tag in _TAGS if tag in query]
    if not tags:
        kind = _input(text, span)
        return kind, span if kind is Kind.DENSE else None
    if len(tags) > 1:
        raise UnsupportedError(Reason.AMBIGUOUS_FIELD)
    tag = tags[0]
    if not query.keys() <= _TAGS[tag] | {tag}:
        raise UnsupportedError(Reason.UNSUPPORTED_FIELD)
    if tag in _CHOSEN or present(text, query, "mmr") is not None:
        return Kind.CHOSEN, None
    if tag in _FUSED:
        return Kind.FUSED, None
    if tag != "nearest":
        return Kind.REFERENCE, None
    inner = query[tag].value, query[tag].end
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
    vector = members_of(text, span)
    if vector.keys() == {"indices", "values"}:
        return Kind.SPARSE
    if len(vector.keys() & _INFERRED) == 1:
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
        prefetch = members_of(text, span)
        query = present(text, prefetch, "query")
        if query is not None:
            kind, _ = _query(text, query)
            # A sample or order_by only feeds the ranking above it; MMR requests diversity.
            if kind is not Kind.CHOSEN or not members_of(text, query).keys() & _CHOSEN:
                yield Ranking(kind, name_of(text, prefetch, "using"))
        waiting += [(inner, depth + 1) for inner in reversed(listed(text, prefetch))]


def is_inferred(text: bytes, query: Span) -> bool:
    """Whether a ``query`` value of the kind REFERENCE is a text, an image or an object, which refers to no stored point."""
    members = members_of(text, query) if text[query[0] : query[0] + 1] == b"{" else {}
    nearest = members.get("nearest")
    if nearest is not None:
        query = nearest.value, nearest.end
        members = members_of(text, query) if text[query[0] : query[0] + 1] == b"{" else {}
    return len(members.keys() & _INFERRED) == 1 and not members.keys() & _TAGS.keys()


def listed(text: bytes, search: Members) -> list[Span]:
    """``prefetch`` is one object or an array of them."""
    span = present(text, search, "prefetch")
    if span is None:
        return []
    return elements(text, span) if text[span[0] : span[0] + 1] == b"[" else [span]
