"""Which string of a payload is the text, as far as one pool shows it. Pure and deterministic.

A candidate is any string at any depth of an object, by its dotted path; a string that is a JSON object is read as one. Names are a hint,
never a proof: a path is a text only if it behaves like one. Equal values under clearly different vectors prove that it is none.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from statistics import median

import numpy as np
import numpy.typing as npt
import orjson

from vecsieve.adapters.contract import Allowance, Pool
from vecsieve.config.backends import DOCUMENT_TEXT, KNOWN_TEXTS

Matrix = npt.NDArray[np.float32]

# What is read of one pool: 64 candidates show as much as a thousand. Parsing takes 2 to 4 ns per byte.
MOST_ROWS = 64
ROW_BYTES = 1 << 18
POOL_BYTES = 1 << 20
MOST_PATHS = 64
MOST_DEPTH = 6
# Keys of a payload that are looked at, with those inside: a payload of a thousand keys is no document.
MOST_KEYS = 256
LONGEST_PATH = 200
# Points of one collection may have several layouts: older and newer loaders, say.
MOST_LAYOUTS = 3

# Copies that a database stores in few bits, or that a model embeds in other batches, differ by less.
SAME_DISTANCE = 0.002
# Equal texts embedded with other metadata are nearer than this share of the usual distance between different texts. A file has parts that
# are farther apart.
CLEAR_SHARE = 0.8
# Relative: scores of equal vectors that a database compares in few bits, or in parts.
SAME_SCORE = 1e-3
# Without vectors, so many pairs of equal values are needed to prove anything.
LEAST_SCORED = 3
# An unknown path needs longer values than a title has: a title is no text, and one that another contains would leave with it.
LEAST_UNKNOWN = 60
# A known name counts for this factor in length: `text` of 100 characters is preferred to a note of 200.
KNOWN_FACTOR = 3
_PROSE_SHARE = 0.8
_PROSE_LENGTH, _PROSE_WORDS = 16, 3
_LOOKED_AT = 2000  # characters of a value
_LONGEST_DATE = 40
_UNREAD = -1
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
# Never a text, however long: what other settings read.
_NO_TEXT_NAMES = frozenset(
    {"title", "name", "heading", "file_name", "filename", "url", "uri", "path", "source", "author"}
)
_LAST_NAMES = frozenset((DOCUMENT_TEXT, *(path.rpartition(".")[2] for path in KNOWN_TEXTS)))


@dataclass(frozen=True, slots=True)
class Reading:
    """What one pool shows. ``paths``: where its texts are, best first; () for nowhere. ``against``: paths that are proven to be no text.
    ``keys``: the paths of its strings, without their values. ``size``: payloads that were read.
    """

    paths: tuple[str, ...] = ()
    against: frozenset[str] = frozenset()
    keys: tuple[str, ...] = ()
    size: int = 0


NOTHING = Reading()


@dataclass(slots=True)
class Payload:
    """The strings of one payload by path, and the length of its longest prose in a list or under a key that no path can name."""

    strings: dict[str, str] = field(default_factory=dict)
    unnamed: int = 0


def read_pool(pool: Pool, keys: Sequence[str]) -> Reading:
    """``keys``: those of the pool's fields, for a pool without whole payloads."""
    if not pool.size:
        return NOTHING
    payloads = [strings_of(each) for each in _objects(pool, keys)]
    return judged(payloads, distances_of(pool, len(payloads)))


def _objects(pool: Pool, keys: Sequence[str]) -> Iterator[Mapping[str, object]]:
    """The payloads of the first candidates, within bounds; an unreadable one is empty."""
    allowance = Allowance(POOL_BYTES)
    if pool.payloads is not None:
        for raw in pool.payloads(min(MOST_ROWS, pool.size)):  # the reply may have more than the pool was cut to
            yield _object(raw, allowance)
        return
    for row in pool.fields[:MOST_ROWS]:
        yield {key: _value(raw, allowance) for key, raw in zip(keys, row, strict=True) if raw is not None}


class Statements:
    """What the payloads of a pool say besides numbers, dates, identifiers and names of files, as far as the reply has it. Payloads are read when
    they are needed; one that cannot be read says what no other one says.
    """

    __slots__ = ("_left", "_numbers", "_pool", "_rows", "_said")

    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        self._rows = np.full(pool.size, _UNREAD, np.intp)
        self._numbers: dict[frozenset[tuple[str, str]], int] = {}
        self._said: list[frozenset[tuple[str, str]]] = []
        self._left = Allowance(POOL_BYTES)

    def __call__(self, rows: npt.NDArray[np.intp], others: npt.NDArray[np.intp]) -> npt.NDArray[np.bool_]:
        """(n,) whether each of ``rows`` (n,) says something that the other candidate beside it in ``others`` (n,) does not."""
        more, less = self._read(rows), self._read(others)
        answers = {(a, b): a != b and not self._said[a] <= self._said[b] for a, b in set(zip(more, less, strict=True))}
        return np.array([answers[pair] for pair in zip(more, less, strict=True)], np.bool_)

    @property
    def is_read(self) -> bool:
        """Whether any payload was read, so that a selection depends on them."""
        return bool(self._said)

    def _read(self, rows: npt.NDArray[np.intp]) -> list[int]:
        """The numbers in ``_said`` of these candidates."""
        unread = np.unique(rows[self._rows[rows] == _UNREAD])
        if len(unread):
            payloads = None if self._pool.payloads is None else self._pool.payloads(int(unread[-1]) + 1)
            for row in unread.tolist():
                said = frozenset() if payloads is None else _said(payloads[row], self._left)
                if said is None:
                    said = frozenset({(f"unreadable {row}", "")})
                if said not in self._numbers:
                    self._numbers[said] = len(self._said)
                    self._said.append(said)
                self._rows[row] = self._numbers[said]
        found: list[int] = self._rows[rows].tolist()
        return found


def _said(raw: bytes | None, allowance: Allowance) -> frozenset[tuple[str, str]] | None:
    """The strings of a payload by path, without those that only tell which copy it is. None for one that cannot be read."""
    if raw is None:
        return frozenset()
    value = _value(raw, allowance)
    if not isinstance(value, dict):
        return None
    said: set[tuple[str, str]] = set()
    waiting: list[tuple[str, object]] = [(key, each) for key, each in value.items()]
    while waiting:
        path, each = waiting.pop()
        if isinstance(each, dict):
            waiting.extend((f"{path}.{key}", inside) for key, inside in each.items())
        elif isinstance(each, list):
            waiting.extend((path, inside) for inside in each)
        elif isinstance(each, bool):
            said.add((path, str(each)))
        elif isinstance(each, str) and each.strip() and not _names_a_copy(path, each):
            said.add((path, each))
    return frozenset(said)


def _names_a_copy(path: str, value: str) -> bool:
    if _NAMES_A_COPY.fullmatch(path.rpartition(".")[2]) is not None:
        return True
    if is_name(value) and _STATEMENT.fullmatch(value.strip()) is None:
        return True
    try:
        return len(value) <= _LONGEST_DATE and datetime.fromisoformat(value) is not None
    except ValueError:
        return False


def _object(raw: bytes | None, allowance: Allowance) -> Mapping[str, object]:
    value = None if raw is None else _value(raw, allowance)
    return value if isinstance(value, dict) else {}


def _value(raw: bytes | str, allowance: Allowance) -> object:
    if len(raw) > ROW_BYTES or not allowance.covers(len(raw)):
        return None
    try:
        return orjson.loads(raw)
    except (orjson.JSONDecodeError, RecursionError):
        return None  # a lone surrogate, say


def strings_of(payload: Mapping[str, object]) -> Payload:
    """The strings at any depth of objects, and of objects that are spelled as strings."""
    found, allowance, left = Payload(), Allowance(ROW_BYTES), MOST_KEYS
    waiting: list[tuple[str, Mapping[str, object], bool]] = [("", payload, True)]
    depth = 0
    while waiting and depth < MOST_DEPTH:
        inner: list[tuple[str, Mapping[str, object], bool]] = []
        for prefix, each, is_named in waiting:
            for key, value in each.items():
                if (left := left - 1) < 0:
                    return found
                path = f"{prefix}{key}"
                is_plain = is_named and bool(key) and "." not in key and len(path) <= LONGEST_PATH
                read = _inside(value, allowance)
                if isinstance(read, dict):
                    inner.append((f"{path}.", read, is_plain))
                elif isinstance(read, list):
                    found.unnamed = max(found.unnamed, _longest(read))
                elif not isinstance(read, str) or not read.strip():
                    continue
                elif is_plain:
                    found.strings[path] = read
                elif is_prose(read):
                    found.unnamed = max(found.unnamed, len(read))
        waiting, depth = inner, depth + 1
    return found


def _inside(value: object, allowance: Allowance) -> object:
    """The object that a string spells; else the value."""
    if not isinstance(value, str) or value[:1] not in ("{", "["):
        return value
    read = _value(value, allowance)
    return read if isinstance(read, dict | list) else value


def _longest(values: list[object]) -> int:
    """The length of the longest prose in a list, one object deep."""
    longest = 0
    for value in values[:MOST_KEYS]:
        inside: Iterable[object] = value.values() if isinstance(value, dict) else (value,)
        longest = max([longest, *(len(each) for each in inside if isinstance(each, str) and is_prose(each))])
    return longest


def is_prose(value: str) -> bool:
    """Several words, or a sentence in a script without blanks."""
    begin = value[:_LOOKED_AT]
    if len(_UNSPACED.findall(begin)) >= _UNSPACED_LETTERS:
        return True
    return len(value) >= _PROSE_LENGTH and len(begin.split(None, _PROSE_WORDS)) >= _PROSE_WORDS and not is_name(value)


def is_name(value: str) -> bool:
    """Whether a value looks like a file name, a link, a media type, a number or an identifier."""
    return len(value) <= _LOOKED_AT and _UNSPACED.search(value) is None and _NAME.fullmatch(value.strip()) is not None


@dataclass(frozen=True, slots=True)
class Distances:
    """``between``: (n, n), NaN where a candidate has none."""

    between: Matrix
    is_of_vectors: bool


def distances_of(pool: Pool, size: int) -> Distances | None:
    """How different the first candidates are: their vectors, or else their scores, because equal vectors have equal scores. None if neither
    shows anything.
    """
    rows = pool.vectors[:size]
    if rows.shape[1] and len(rows):
        with np.errstate(all="ignore"):
            unit = rows / np.linalg.norm(rows, axis=1, keepdims=True)
            unit[~np.isfinite(unit).all(axis=1)] = np.nan
        if int(np.isfinite(unit[:, 0]).sum()) > 1:
            return Distances(np.asarray(1.0 - unit @ unit.T, np.float32), is_of_vectors=True)
    scores = pool.scores[:size]
    known = scores[np.isfinite(scores)]
    spread = float(np.ptp(known)) if len(known) > 1 else 0.0
    if not spread > 0.0 or not np.isfinite(spread):
        return None
    return Distances(np.asarray(np.abs(scores[:, None] - scores[None, :]) / spread, np.float32), is_of_vectors=False)


@dataclass(frozen=True, slots=True)
class _Path:
    """``rows``: of the payloads that have a value."""

    name: str
    rows: tuple[int, ...]
    values: tuple[str, ...]

    @property
    def is_known(self) -> bool:
        return is_known_name(self.name)

    @property
    def weight(self) -> float:
        return sum(map(len, self.values)) * (KNOWN_FACTOR if self.is_known else 1)

    def looks_like_text(self) -> bool:
        """By its values alone. Of a known name short values count, too, unless most look like names of something."""
        half = len(self.values) / 2
        if self.is_known:
            return sum(map(is_name, self.values)) <= half
        if self.name.rpartition(".")[2].lower() in _NO_TEXT_NAMES or median(map(len, self.values)) < LEAST_UNKNOWN:
            return False
        return sum(map(is_prose, self.values)) >= _PROSE_SHARE * len(self.values)


def judged(payloads: Sequence[Payload], distances: Distances | None) -> Reading:
    """``distances``: between the candidates of these payloads, as from ``distances_of``."""
    paths = _paths(payloads)
    against = frozenset(path.name for path in paths if _is_disproven(path, distances))
    left = [path for path in paths if path.name not in against and path.looks_like_text()]
    chosen: list[str] = []
    rows = frozenset(row for row, payload in enumerate(payloads) if payload.strings)
    while left and len(chosen) < MOST_LAYOUTS:
        best = _best([_within(path, rows) for path in left], payloads, len(rows), distances)
        if best is None:
            break
        chosen.append(best.name)
        left = [path for path in left if path.name != best.name]
        rows -= frozenset(best.rows)
        if len(rows) < 2:
            break
    return Reading(
        tuple(chosen), against, tuple(path.name for path in paths), sum(1 for each in payloads if each.strings)
    )


def is_known_name(path: str) -> bool:
    """Whether the last key of a path is a usual name of texts."""
    return path.rpartition(".")[2] in _LAST_NAMES


def is_doubtful(values: Sequence[bytes | None], scores: npt.NDArray[np.float64]) -> bool:
    """Whether equal values of a learned path may be no copies here: other points, perhaps of another tenant, showed that it is the text. Copies have
    equal vectors, and so equal scores. ``values``: JSON, one a candidate; ``scores``: (n,).
    """
    best: dict[bytes | None, float] = {}
    for raw, score in zip(values, scores.tolist(), strict=True):
        if raw is not None and not abs(best.setdefault(raw, score) - score) <= SAME_SCORE * abs(score):
            return True
    return False


def _paths(payloads: Sequence[Payload]) -> list[_Path]:
    """The most frequent paths, in the order in which they appear."""
    counts = Counter(path for payload in payloads for path in payload.strings)
    names = [name for name, _ in counts.most_common(MOST_PATHS)]
    found: list[_Path] = []
    for name in names:
        rows = tuple([row for row, payload in enumerate(payloads) if name in payload.strings])
        found.append(_Path(name, rows, tuple([payloads[row].strings[name] for row in rows])))
    return found


def _within(path: _Path, rows: frozenset[int]) -> _Path:
    kept = [(row, value) for row, value in zip(path.rows, path.values, strict=True) if row in rows]
    return _Path(path.name, tuple(row for row, _ in kept), tuple(value for _, value in kept))


def _best(paths: Sequence[_Path], payloads: Sequence[Payload], size: int, distances: Distances | None) -> _Path | None:
    """The longest of the paths that at least half of the payloads have, and whose values are not constant where the candidates differ. None
    in doubt: if longer prose is where no path leads.
    """
    usual = [path for path in paths if path.values and 2 * len(path.rows) >= size and _varies(path, distances)]
    best = max(usual, key=lambda path: path.weight, default=None)
    if best is None or median(payloads[row].unnamed for row in best.rows) > median(map(len, best.values)):
        return None
    return best


def _varies(path: _Path, distances: Distances | None) -> bool:
    """Whether values differ, or need not: because the candidates are the same, or because a known name has several words."""
    count = len(set(path.values))
    if count == 1 and len(path.values) > 1:
        if distances is None or not distances.is_of_vectors:
            return path.is_known and is_prose(path.values[0])
        between = distances.between[np.ix_(path.rows, path.rows)][np.triu_indices(len(path.rows), 1)]
        between = between[np.isfinite(between)]
        return not (between > SAME_DISTANCE).any() if len(between) else path.is_known and is_prose(path.values[0])
    return distances is not None or path.is_known or 2 * count >= len(path.values)


def _is_disproven(path: _Path, distances: Distances | None) -> bool:
    """Whether equal values have clearly different vectors: as far apart as different values have them."""
    numbers: dict[str, int] = {}
    labels = np.array([numbers.setdefault(value, len(numbers)) for value in path.values])
    if distances is None or not 1 < len(numbers) < len(labels):
        return False
    between = distances.between[np.ix_(path.rows, path.rows)]
    is_same = labels[:, None] == labels[None, :]
    np.fill_diagonal(is_same, val=False)
    same, other = between[is_same], between[labels[:, None] != labels[None, :]]
    same, other = same[np.isfinite(same)], other[np.isfinite(other)]
    if len(same) < (2 if distances.is_of_vectors else 2 * LEAST_SCORED) or not len(other):
        return False
    # One pair of vectors is a proof. Scores also depend on more than the text, such as a rank or a boost: most pairs must differ.
    apart = same.max() if distances.is_of_vectors else np.median(same)
    return bool(apart > max(SAME_DISTANCE, CLEAR_SHARE * float(np.median(other))))
