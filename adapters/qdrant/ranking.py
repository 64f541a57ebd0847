"""What kind of query a Qdrant search ranks by, and the vector its candidates are compared by.

The same for both of Qdrant's interfaces: a request is read elsewhere, what is decided from it is decided here.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum, auto

from vecsieve.adapters.contract import Needs, Reason, UnsupportedError

Span = tuple[int, int]


class Kind(Enum):
    """What a query is."""

    DENSE = auto()  # one list of numbers
    SPARSE = auto()  # indices and values
    MULTI = auto()  # a list of lists
    REFERENCE = auto()  # points, texts or images: the server knows their vectors, the request does not show them
    FUSED = auto()  # made of the prefetches' results
    CHOSEN = auto()  # an order the client chose


@dataclass(frozen=True, slots=True)
class Ranking:
    """The kind of the deciding query, the name of its vector ("" is the unnamed one), and where a dense one stands."""

    kind: Kind
    name: str
    dense: Span | None = None


def decided(root: Ranking, leaves: Sequence[Ranking]) -> Ranking:
    """The ranking of a query over prefetches. Raises UnsupportedError where any of them is an order the client chose.

    ``leaves``: the prefetches' rankings, depth first. A query that fuses them is compared by the vector of one of them.
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
    """The vector to compare by; None where all must be asked for to find one. ``wanted``: the client's own selection."""
    if needs.vector_name is not None:
        return needs.vector_name
    if ranking.kind in {Kind.DENSE, Kind.REFERENCE}:
        return ranking.name
    # Asking for all in place of a list would hide the server's error about a name it does not know.
    is_list = not isinstance(wanted, bool)
    return ranking.name if needs.vector_hint is None and is_list else needs.vector_hint


@dataclass(frozen=True, slots=True)
class Shape:
    """A vector in a reply: its kind (dense, sparse or multi), and of a dense one its dimensions, more or less."""

    kind: Kind
    size: int = 0


def best(first: dict[str, Shape], prefers: str) -> str | None:
    """The name to compare by when all vectors were asked for. ``first``: each name's first vector.

    The only dense one, else the unnamed if dense, else the dense one with the fewest dimensions, else ``prefers`` (what
    the query itself searches), else the first sparse, else the first multivector, names in order.
    """
    dense = {name: shape.size for name, shape in first.items() if shape.kind is Kind.DENSE}
    if "" in dense:
        return ""
    if dense:
        return min(dense, key=lambda name: (dense[name], name))
    if prefers in first:
        return prefers
    return min(first, key=lambda name: (first[name].kind is not Kind.SPARSE, name), default=None)


# Which payload keys a Qdrant client's selection must be widened by, and what can be taken out again exactly.
#
# The same for both of Qdrant's interfaces. Paths are Qdrant's JsonPaths; only their first keys matter here.

# The first key of a payload path that needs no quoting, as Qdrant's JsonPath reads it.
_FIRST_KEY = re.compile(r"[A-Za-z0-9_-]+")


def askable(optional: Sequence[str], fields: Sequence[str]) -> tuple[str, ...]:
    """Those of ``optional`` that can be asked for by name and are not among ``fields``."""
    return tuple(field for field in optional if _FIRST_KEY.fullmatch(field) and field not in fields)


def forced(fields: Sequence[str], optional: Sequence[str]) -> tuple[str, ...]:
    """What to ask for where the client wants no payload: all that comes is ours. Raises UnsupportedError."""
    if not all(_FIRST_KEY.fullmatch(field) for field in fields):
        raise UnsupportedError(Reason.PAYLOAD_SELECTOR)
    return (*fields, *optional)


def missing(chosen: Sequence[str], fields: Sequence[str], optional: Sequence[str]) -> tuple[str, ...]:
    """What to ask for beside the paths that the client chose; these keys are then ours. Raises UnsupportedError."""
    first = _first_keys(chosen, (*fields, *optional))
    if any(not first.get(field, True) for field in fields):  # a part of it is chosen: the rest could not be told apart
        raise UnsupportedError(Reason.PAYLOAD_SELECTOR)
    added = tuple(field for field in (*fields, *optional) if field not in first)
    if not all(_FIRST_KEY.fullmatch(field) for field in added):
        raise UnsupportedError(Reason.PAYLOAD_SELECTOR)
    return added


def check_shown(hidden: Sequence[str], fields: Sequence[str]) -> None:
    """Raises UnsupportedError where the paths that the client hides touch one of ``fields``."""
    if _first_keys(hidden, fields).keys() & set(fields):
        raise UnsupportedError(Reason.PAYLOAD_SELECTOR)


def _first_keys(paths: Sequence[str], fields: Sequence[str]) -> dict[str, bool]:
    """The first key of each path -> whether the path is that key and nothing more. Raises UnsupportedError."""
    found: dict[str, bool] = {}
    for path in paths:
        first = _FIRST_KEY.match(path)
        if first is None or (path in fields and first[0] != path):  # quoted, or a key that reads like a path
            raise UnsupportedError(Reason.PAYLOAD_SELECTOR)
        found[first[0]] = found.get(first[0], False) or first[0] == path
    return found
