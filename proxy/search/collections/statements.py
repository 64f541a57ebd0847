"""What the strings of a payload say, besides the text by which a result is judged. Pure and deterministic.

A page shows whole payloads. A text that another result says is no reason to remove a result whose payload says something more: the question of an
answer, a summary, the sentences around a chunk. Numbers, dates, identifiers, names of files and titles tell which copy a payload is, not what it
says.
"""

from __future__ import annotations

import re
import sys
from collections import deque
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import orjson

from vecsieve.adapters.contract import Allowance, Pool
from vecsieve.config.backends import DOCUMENT_TEXT, KNOWN_TEXTS

from ...selection.values import Indices

ALL = "*"  # as a name that is ignored: copies may differ in every field

# Parsing takes 2 to 4 ns per byte.
ROW_BYTES = 1 << 18
# What is read of one pool: bytes, strings and their containers, and characters that are searched for a value. Together some 30 ms.
POOL_BYTES, POOL_NODES, POOL_SEARCHED = 1 << 22, 1 << 14, 1 << 24
MOST_DEPTH = 6
LONGEST_PATH = 200

_PROSE_LENGTH, _PROSE_WORDS = 16, 3
_LOOKED_AT = 2000  # characters of a value
_LONGEST_DATE = 40
_UNSPACED_LETTERS = 8

# File names, paths, links, media types, numbers, identifiers, digests and encoded bytes. Not marks alone: 🟢.
_NAME = re.compile(
    r"(?i)[^\n]{0,250}\.(?!\d+\Z)[a-z][a-z0-9]{0,4}|[a-z][a-z0-9+.-]*://\S*|[^\s/\\]*[/\\]\S*|[\W_]*+\d[\d\W_]*|[0-9a-f-]{16,}|\S{64,}"
)
# What looks like a name, but may be a statement: Never run setup.exe, and/or, km/h.
_STATEMENT = re.compile(r"\S+\s.*|[^\W\d_]+/[^\W\d_]+", re.DOTALL)
# Thai, Lao, Khmer, kana, Han: scripts without blanks between words.
_UNSPACED = re.compile("[\u0e00-\u0eff\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\U00020000-\U0003ffff]")
# Keys whose values tell which copy a payload is, not what it says.
_NAMES_A_COPY = re.compile(
    r"(?i)(?:.*[_-])?(?:id|uuid|hash|digest|checksum|etag|url|uri|path|file|file_?name|source|author)|.*[a-z]Id"
)
# Keys of titles tell where a text stands: copies have the titles of their pages.
_TITLES = frozenset({"title", "name", "heading"})
_LAST_NAMES = frozenset((DOCUMENT_TEXT, *(path.rpartition(".")[2] for path in KNOWN_TEXTS)))


class Leaf(NamedTuple):
    """A string or boolean of a payload."""

    path: str  # of keys, with dots between them
    value: str | bool
    spells: bool  # whether it is an object or a list in JSON
    is_inside: bool  # whether it is in one


def leaves(payload: Mapping[str, object], nodes: Allowance, *, named_only: bool = False) -> list[Leaf]:
    """The strings and booleans at any depth, and those of objects that are spelled as strings: first those that a path leads to, outer ones first; a path
    leads neither into a list nor through a key with a dot. As far as the allowance covers them: ``nodes`` are values of any kind.
    """
    found: list[Leaf] = []
    named, others = deque([("", payload, True, False)]), deque[tuple[str, object, bool, bool]]()
    while named or (others and not named_only):
        path, value, is_named, is_inside = named.popleft() if named else others.popleft()
        if not nodes.covers(1):
            break
        spelled = _spelled(value)
        if isinstance(value, bool) or (isinstance(value, str) and value.strip()):
            found.append(Leaf(path, value, spelled is not None, is_inside))
        inside, is_inside = (value, is_inside) if spelled is None else (spelled, True)
        if isinstance(inside, list):
            others += [(path, member, False, is_inside) for member in inside]
        elif isinstance(inside, dict):
            is_shallow = is_named and path.count(".") < MOST_DEPTH - 1
            for key, member in inside.items():
                below = f"{path}.{key}" if path else key
                has_path = is_shallow and bool(key) and "." not in key and len(below) <= LONGEST_PATH
                (named if has_path else others).append((below[-LONGEST_PATH:], member, has_path, is_inside))
    return found


def _spelled(value: object) -> object:
    """The object or list that a string spells; None if it spells none."""
    if not isinstance(value, str) or value[:1] not in ("{", "["):
        return None
    read = read_json(value)
    return read if isinstance(read, dict | list) else None


def read_json(raw: bytes | str) -> object:
    """None for what is too large or no JSON."""
    try:
        return None if len(raw) > ROW_BYTES else orjson.loads(raw)
    except (orjson.JSONDecodeError, RecursionError):
        return None  # a lone surrogate, say


class _Said:
    """What one payload says, computed when it is needed. ``alone``: what nobody else says, for a payload that cannot be read; else ""."""

    __slots__ = ("_leaves", "_prose", "_strict", "_strings", "alone")

    def __init__(self, found: list[Leaf], *, alone: str = "") -> None:
        self._leaves, self.alone = found, alone
        self._strict: frozenset[tuple[str, str]] | None = None
        self._prose: tuple[str, ...] | None = None
        self._strings: frozenset[str] | None = None

    @property
    def strict(self) -> frozenset[tuple[str, str]]:
        """Strings and booleans by path, without those that tell which copy it is."""
        if self._strict is None:
            counted = [leaf for leaf in self._leaves if not leaf.is_inside and not _names_a_copy(leaf)]
            self._strict = frozenset(
                [("", self.alone)] if self.alone else [(path, str(value)) for path, value, *_ in counted]
            )
        return self._strict

    @property
    def prose(self) -> tuple[str, ...]:
        """Sentences, and what usual names of texts have; without titles."""
        if self._prose is None:
            stated = dict.fromkeys(str(leaf.value) for leaf in self._leaves if _is_statement(leaf))
            self._prose = (self.alone,) if self.alone else tuple(stated)
        return self._prose

    @property
    def strings(self) -> frozenset[str]:
        """All of its strings."""
        if self._strings is None:
            self._strings = frozenset(leaf.value for leaf in self._leaves if isinstance(leaf.value, str))
        return self._strings

    def size_bytes(self) -> int:
        """Approximate memory."""
        return sum(120 + sys.getsizeof(leaf.value) + sys.getsizeof(leaf.path) for leaf in self._leaves)


class PoolStatements:
    """The statements of a pool, as far as the reply has its payloads. A payload is read when it is needed; one that cannot be read says what no other one
    says.
    """

    __slots__ = ("_bytes", "_ignored", "_nodes", "_pool", "_raws", "_said", "_searched")

    def __init__(self, pool: Pool, ignored: Sequence[str] = ()) -> None:
        """``ignored``: the fields in which copies may differ."""
        self._pool: Pool | None = pool
        self._ignored = ignored
        self._raws: Sequence[bytes | None] = ()
        self._said: dict[int, _Said] = {}
        self._bytes, self._nodes, self._searched = map(Allowance, (POOL_BYTES, POOL_NODES, POOL_SEARCHED))

    def differ(self, rows: Indices, others: Indices) -> npt.NDArray[np.bool_]:
        """As in ``selection.values.Statements``."""
        pairs = list(zip(rows.tolist(), others.tolist(), strict=True))
        answers = {
            (row, other): row != other and not self._of(row).strict <= self._of(other).strict
            for row, other in set(pairs)
        }
        return np.array([answers[pair] for pair in pairs], np.bool_)

    def unsaid(self, row: int, other: int, text: str) -> str | None:
        """As in ``selection.values.Statements``."""
        said, others = self._of(row), self._of(other).strings
        for value in said.prose:
            if value != text and value not in others and not self._is_in(value, text):
                return value
        return None

    def _is_in(self, value: str, text: str) -> bool:
        """Whether a value is a part of the text, such as a preview."""
        return self._searched.covers(len(text)) and value.rstrip(" .…") in text

    @property
    def evidence(self) -> tuple[tuple[int, int], ...]:
        """The payloads on which the answers depended, as (row, digest)."""
        return tuple(sorted((row, hash(self._raw(row))) for row in self._said))

    def confirms(self, evidence: Sequence[tuple[int, int]]) -> bool:
        """Whether this pool has the same payloads."""
        return all(hash(self._raw(row)) == digest for row, digest in reversed(evidence))

    def detach(self) -> int:
        """Read all payloads and let go of the reply. The bytes that are kept."""
        if self._pool is not None:
            for row in range(self._pool.size):
                self._of(row)
        self._pool, self._raws = None, ()
        return sum(said.size_bytes() for said in self._said.values())

    def _raw(self, row: int) -> bytes | None:
        if row >= len(self._raws):
            pool = self._pool
            if pool is not None and pool.payloads is not None:
                self._raws = pool.payloads(min(max(row + 1, 2 * len(self._raws)), pool.size))
        return self._raws[row] if row < len(self._raws) else None

    def _of(self, row: int) -> _Said:
        known = self._said.get(row)
        if known is None:
            known = self._said[row] = self._read(row, self._raw(row))
        return known

    def _read(self, row: int, raw: bytes | None) -> _Said:
        if raw is None:
            return _Said([])
        payload = read_json(raw) if self._bytes.covers(len(raw)) else None
        found = leaves(payload, self._nodes) if isinstance(payload, dict) else []
        if not isinstance(payload, dict) or self._nodes.left_bytes < 0:
            return _Said([], alone=f"unreadable payload {row}")
        if self._ignored:
            found = [leaf for leaf in found if not is_ignored(leaf.path, self._ignored)]
        return _Said(found)


def is_ignored(path: str, ignored: Sequence[str]) -> bool:
    """``ignored``: names of fields; they include all paths below them."""
    return any(name in (ALL, path) or path.startswith(f"{name}.") for name in ignored)


def _names_a_copy(leaf: Leaf) -> bool:
    value = leaf.value
    if isinstance(value, bool):
        return False
    if _NAMES_A_COPY.fullmatch(last_name(leaf.path)) is not None:
        return True
    if is_name(value) and _STATEMENT.fullmatch(value.strip()) is None:
        return True
    try:
        return len(value) <= _LONGEST_DATE and datetime.fromisoformat(value) is not None
    except ValueError:
        return False


def _is_statement(leaf: Leaf) -> bool:
    """Whether a string says something by itself: a sentence, not a title; and what a usual name of texts has, if it is more than one word."""
    if isinstance(leaf.value, bool) or leaf.spells or is_place_name(leaf.path):
        return False
    return is_prose(leaf.value) or (
        is_known_name(leaf.path) and len(leaf.value.split(None, 1)) > 1 and not is_name(leaf.value)
    )


def last_name(path: str) -> str:
    """The last key of a path."""
    return path.rpartition(".")[2]


def is_known_name(path: str) -> bool:
    """Whether the last key of a path is a usual name of texts."""
    return last_name(path) in _LAST_NAMES


def is_place_name(path: str) -> bool:
    """Whether the last key of a path is a usual name of titles, files, authors and identifiers."""
    key = last_name(path)
    return key.lower() in _TITLES or _NAMES_A_COPY.fullmatch(key) is not None


def is_prose(value: str) -> bool:
    """Several words, or a sentence in a script without blanks."""
    begin = value[:_LOOKED_AT]
    if len(_UNSPACED.findall(begin)) >= _UNSPACED_LETTERS:
        return True
    return len(value) >= _PROSE_LENGTH and len(begin.split(None, _PROSE_WORDS)) >= _PROSE_WORDS and not is_name(value)


def is_name(value: str) -> bool:
    """Whether a value looks like a file name, a link, a media type, a number or an identifier."""
    return len(value) <= _LOOKED_AT and _UNSPACED.search(value) is None and _NAME.fullmatch(value.strip()) is not None
