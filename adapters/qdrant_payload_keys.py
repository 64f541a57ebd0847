"""Which payload keys a Qdrant client's selection must be widened by, and what can be taken out again exactly.

The same for both of Qdrant's interfaces. Paths are Qdrant's JsonPaths; only their first keys matter here.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from vecsieve.adapters.contract import Reason, Unsupported

# The first key of a payload path that needs no quoting, as Qdrant's JsonPath reads it.
_FIRST_KEY = re.compile(r"[A-Za-z0-9_-]+")


def askable(optional: Sequence[str], fields: Sequence[str]) -> tuple[str, ...]:
    """Those of ``optional`` that can be asked for by name and are not among ``fields``."""
    return tuple(field for field in optional if _FIRST_KEY.fullmatch(field) and field not in fields)


def forced(fields: Sequence[str], optional: Sequence[str]) -> tuple[str, ...]:
    """What to ask for where the client wants no payload: all that comes is ours. Raises Unsupported."""
    if not all(_FIRST_KEY.fullmatch(field) for field in fields):
        raise Unsupported(Reason.PAYLOAD_SELECTOR)
    return (*fields, *optional)


def missing(chosen: Sequence[str], fields: Sequence[str], optional: Sequence[str]) -> tuple[str, ...]:
    """What to ask for beside the paths that the client chose; these keys are then ours. Raises Unsupported."""
    first = _first_keys(chosen, (*fields, *optional))
    if any(not first.get(field, True) for field in fields):  # a part of it is chosen: the rest could not be told apart
        raise Unsupported(Reason.PAYLOAD_SELECTOR)
    added = tuple(field for field in (*fields, *optional) if field not in first)
    if not all(_FIRST_KEY.fullmatch(field) for field in added):
        raise Unsupported(Reason.PAYLOAD_SELECTOR)
    return added


def check_shown(hidden: Sequence[str], fields: Sequence[str]) -> None:
    """Raises Unsupported where the paths that the client hides touch one of ``fields``."""
    if _first_keys(hidden, fields).keys() & set(fields):
        raise Unsupported(Reason.PAYLOAD_SELECTOR)


def _first_keys(paths: Sequence[str], fields: Sequence[str]) -> dict[str, bool]:
    """The first key of each path -> whether the path is that key and nothing more. Raises Unsupported."""
    found: dict[str, bool] = {}
    for path in paths:
        first = _FIRST_KEY.match(path)
        if first is None or (path in fields and first[0] != path):  # quoted, or a key that reads like a path
            raise Unsupported(Reason.PAYLOAD_SELECTOR)
        found[first[0]] = found.get(first[0], False) or first[0] == path
    return found
