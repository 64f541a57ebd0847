"""The kind of a query, the vector to compare by, and the payload keys to add: decisions that both transports share."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import Enum, auto

from vecsieve.adapters.contract import Needs, Reason, UnsupportedError

Span = tuple[int, int]


class Kind(Enum):
    """The kind of a query."""

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
    """The ranking of a query over prefetches, whose rankings are ``leaves``, depth first; a fusion takes that of one of them.

    Raises UnsupportedError where the client chose the order of any.
    """
    if root.kind is Kind.CHOSEN or any(leaf.kind is Kind.CHOSEN for leaf in leaves):
        raise UnsupportedError(Reason.ORDERING_CHOSEN)
    if root.kind is not Kind.FUSED:
        return root
    for wanted in (Kind.DENSE, Kind.REFERENCE, Kind.SPARSE, Kind.MULTI):
        for leaf in leaves:
            if leaf.kind is wanted:
                return leaf
    return Ranking(Kind.REFERENCE, "")


def compared(ranking: Ranking, needs: Needs, wanted: bool | tuple[str, ...]) -> str | None:
    """The vector to compare by; None where all must be fetched to choose one. ``wanted``: the client's own selection."""
    if needs.vector_name is not None:
        return needs.vector_name
    if ranking.kind in {Kind.DENSE, Kind.REFERENCE}:
        return ranking.name
    # Fetching all in place of a list would hide the server's error about an unknown name.
    is_list = not isinstance(wanted, bool)
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
    """The needs of a call whose optional values may be known already: it neither adds nor reads them."""
    return needs if needs.values else replace(needs, optional_fields=())


def askable(optional: Sequence[str], fields: Sequence[str]) -> tuple[str, ...]:
    """Those of ``optional`` that need no quotes and are not among ``fields``."""
    return tuple(field for field in optional if _FIRST_KEY.fullmatch(field) and field not in fields)


def forced(fields: Sequence[str], optional: Sequence[str]) -> tuple[str, ...]:
    """The keys to request where the client wants no payload. Raises UnsupportedError."""
    if not all(_FIRST_KEY.fullmatch(field) for field in fields):
        raise UnsupportedError(Reason.PAYLOAD_SELECTOR)
    return (*fields, *optional)


def missing(chosen: Sequence[str], fields: Sequence[str], optional: Sequence[str]) -> tuple[str, ...]:
    """The keys to request beside the client's paths. Raises UnsupportedError."""
    first = _first_keys(chosen, (*fields, *optional))
    if any(not first.get(field, True) for field in fields):  # a part of it is chosen: the rest could not be removed
        raise UnsupportedError(Reason.PAYLOAD_SELECTOR)
    added = tuple(field for field in (*fields, *optional) if field not in first)
    if not all(_FIRST_KEY.fullmatch(field) for field in added):
        raise UnsupportedError(Reason.PAYLOAD_SELECTOR)
    return added


def is_touched(paths: Sequence[str], optional: Sequence[str], *, may_be_whole: bool) -> bool:
    """Whether these paths choose a part of one of ``optional``; or all of it, unless ``may_be_whole``."""
    first = _first_keys(paths, optional)
    return any(not (may_be_whole and first[field]) for field in optional if field in first)


def check_shown(hidden: Sequence[str], fields: Sequence[str]) -> None:
    """Raises UnsupportedError where the paths excluded by the client touch one of ``fields``."""
    if _first_keys(hidden, fields).keys() & set(fields):
        raise UnsupportedError(Reason.PAYLOAD_SELECTOR)


def _first_keys(paths: Sequence[str], fields: Sequence[str]) -> dict[str, bool]:
    """First key of each path -> whether a path is that key alone. Raises UnsupportedError."""
    found: dict[str, bool] = {}
    for path in paths:
        first = _FIRST_KEY.match(path)
        if first is None or (path in fields and first[0] != path):  # quoted, or a key that reads like a path
            raise UnsupportedError(Reason.PAYLOAD_SELECTOR)
        found[first[0]] = found.get(first[0], False) or first[0] == path
    return found
