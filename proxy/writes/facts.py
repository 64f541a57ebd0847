"""The facts of a point: the values of its payload other than the text. Points with equal texts and different facts (file, date or tenant) are not
copies, unless the settings name the fields that may differ.

A fact is a value of the payload by its dotted path, as JSON. The text's field, the write gate's note and nulls are no facts.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from hashlib import blake2b

from vecsieve.adapters.base import NOTE

from ..search.collections.statements import is_ignored

LONGEST = 40  # characters of a value that is kept as it is

Facts = Mapping[str, str]


def facts_of(payload: Mapping[str, object], text_path: str | None) -> dict[str, str]:
    """The facts of a payload, by path. ``text_path``: of its text, as in ``value_at`` of jobs/source.py; None without one."""
    facts: dict[str, str] = {}
    for path, value in _leaves(payload, "", text_path):
        # A key with dots can equal the path of another value: both count.
        facts[path] = f"{facts[path]} {value}" if path in facts else value
    return facts


def _leaves(value: Mapping[str, object], above: str, text_path: str | None) -> Iterator[tuple[str, str]]:
    for key, member in value.items():
        path = above + key
        if member is None or path == text_path or (path == NOTE and not above):
            continue
        if isinstance(member, Mapping) and member:
            yield from _leaves(member, f"{path}.", text_path)
        else:
            yield path, json.dumps(member, sort_keys=True, default=str)


def packed(facts: Facts) -> dict[str, str]:
    """The facts with digests for long values, for comparison and union."""
    return {path: value if len(value) <= LONGEST else value[0] + _digest(value) for path, value in facts.items()}


def _digest(value: str) -> str:
    return blake2b(value.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


def differing(one: Facts, other: Facts, ignored: Sequence[str]) -> tuple[str, ...]:
    """The paths whose values differ or are missing in one point, sorted. ``ignored``: names of fields; they include all paths below them."""
    names = [name for name in one.keys() | other.keys() if one.get(name) != other.get(name)]
    return tuple(sorted([name for name in names if not is_ignored(name, ignored)] if ignored else names))


def unites(one: Facts, other: Facts, path: str) -> bool:
    """Whether a survivor can take the other point's value of a path: its own is missing, or both are arrays."""
    mine, theirs = one.get(path), other.get(path)
    return mine is None or theirs is None or (mine.startswith("[") and theirs.startswith("["))
