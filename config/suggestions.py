"""What a user may have meant by a name that does not exist."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence

from vecsieve.config.fields import leaves
from vecsieve.config.problems import dotted

_ALIKE = 0.6  # difflib's own measure and default: a slip of one or two letters in a short word
LONGEST_GUESSED = 100  # characters: difflib is quadratic


def closest(name: str, known: Iterable[str]) -> str | None:
    """The known name most like this one, if any is like it at all."""
    found = difflib.get_close_matches(name[:LONGEST_GUESSED], list(known), n=1, cutoff=_ALIKE)
    return found[0] if found else None


def suggestion(key: str, siblings: Sequence[str]) -> str | None:
    """A sibling that is spelled alike, else the one setting of that very name elsewhere."""
    found = closest(key, siblings)
    if found is not None:
        return found
    elsewhere = [dotted(leaf.path) for leaf in leaves() if leaf.path[-1] == key]
    return elsewhere[0] if len(elsewhere) == 1 else None
