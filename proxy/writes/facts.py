"""What a point says beside its text. Equal texts with other facts (another file, date or tenant) are two facts, and none is a copy of the other
unless the user names the fields that may differ.

A fact is a value of the payload by its dotted path, as JSON. The text's own field is none, nor is the note of the write gate, nor a null.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from hashlib import blake2b

from vecsieve.adapters.base import NOTE

LONGEST = 40  # characters of a value that is kept as it is
ALL = "*"  # as a name that is ignored: every field may differ

Facts = Mapping[str, str]


def facts_of(payload: Mapping[str, object], text_path: str | None) -> dict[str, str]:
    """The facts of a payload, by path. ``text_path``: of its text, as in ``value_at`` of jobs/source.py; None without one."""
    found: dict[str, str] = {}
    for path, value in _leaves(payload, "", text_path):
        # A key with dots may have the path of another value: then both count.
        found[path] = f"{found[path]} {value}" if path in found else value
    return found


def _leaves(value: Mapping[str, object], above: str, text_path: str | None) -> Iterator[tuple[str, str]]:
    for key, each in value.items():
        path = above + key
        if each is None or path == text_path or (path == NOTE and not above):
            continue
        if isinstance(each, Mapping) and each:
            yield from _leaves(each, f"{path}.", text_path)
        else:
            yield path, json.dumps(each, sort_keys=True, default=str)


def packed(facts: Facts) -> dict[str, str]:
    """The same with long values as digests: to be compared, and to be united."""
    return {path: value if len(value) <= LONGEST else value[0] + _digest(value) for path, value in facts.items()}


def _digest(value: str) -> str:
    return blake2b(value.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


def differing(one: Facts, other: Facts, ignored: Sequence[str]) -> tuple[str, ...]:
    """The paths in which two points differ, or which one of them lacks; in order. ``ignored``: names of fields, which stand for all below them."""
    names = [name for name in one.keys() | other.keys() if one.get(name) != other.get(name)]
    return tuple(sorted(name for name in names if not is_ignored(name, ignored)))


def is_ignored(path: str, ignored: Sequence[str]) -> bool:
    return any(name in (ALL, path) or path.startswith(f"{name}.") for name in ignored)


def unites(one: Facts, other: Facts, path: str) -> bool:
    """Whether a survivor can take what the other says under a path: it lacks it, or both have an array."""
    mine, theirs = one.get(path), other.get(path)
    return mine is None or theirs is None or (mine.startswith("[") and theirs.startswith("["))
