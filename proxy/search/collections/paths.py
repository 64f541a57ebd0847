"""Which string of a payload is the text, as far as one pool shows it. Pure and deterministic.

A candidate is any string at any depth of an object, by its dotted path; a string that is a JSON object is read as one. Names are a hint,
never a proof: a path is a text only if it behaves like one. Equal values under clearly different vectors prove that it is none.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter
from statistics import median

import numpy as np
import numpy.typing as npt

from vecsieve.adapters.contract import Allowance, Pool

from .statements import is_known_name, is_name, is_place_name, is_prose, leaves, read_json

Matrix = npt.NDArray[np.float32]
Strings = Mapping[str, str]
"""The strings of one payload, by path."""

# What is read of one pool: 64 candidates show as much as a thousand. Parsing takes 2 to 4 ns per byte.
MOST_ROWS = 64
POOL_BYTES = 1 << 20
MOST_PATHS = 64
# Keys of a payload that are looked at, with those inside: a payload of a thousand keys is no document.
MOST_KEYS = 256
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


def read_pool(pool: Pool, keys: Sequence[str]) -> Reading:
    """``keys``: those of the pool's fields, for a pool without whole payloads."""
    if not pool.size:
        return NOTHING
    payloads = [strings_of(payload) for payload in _objects(pool, keys)]
    return judged(payloads, distances_of(pool, len(payloads)))


def _objects(pool: Pool, keys: Sequence[str]) -> Iterator[Mapping[str, object]]:
    """The payloads of the first candidates, within bounds; an unreadable one is empty."""
    allowance = Allowance(POOL_BYTES)
    if pool.payloads is not None:
        for raw in pool.payloads(range(min(MOST_ROWS, pool.size))):  # the reply may have more than the pool was cut to
            yield _object(raw, allowance)
        return
    for row in pool.fields[:MOST_ROWS]:
        yield {key: _value(raw, allowance) for key, raw in zip(keys, row, strict=True) if raw is not None}


def _object(raw: bytes | None, allowance: Allowance) -> Mapping[str, object]:
    value = None if raw is None else _value(raw, allowance)
    return value if isinstance(value, dict) else {}


def _value(raw: bytes, allowance: Allowance) -> object:
    return read_json(raw) if allowance.covers(len(raw)) else None


def strings_of(payload: Mapping[str, object]) -> Strings:
    """The strings to which paths lead."""
    strings, _ = leaves(payload, MOST_KEYS, named_only=True)
    return {leaf.path: leaf.value for leaf in strings if isinstance(leaf.value, str) and not leaf.spells}


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
        if is_place_name(self.name) or median(map(len, self.values)) < LEAST_UNKNOWN:
            return False
        return sum(map(is_prose, self.values)) >= _PROSE_SHARE * len(self.values)


def judged(payloads: Sequence[Strings], distances: Distances | None) -> Reading:
    """``distances``: between the candidates of these payloads, as from ``distances_of``."""
    paths = _paths(payloads)
    against = frozenset(path.name for path in paths if _is_disproven(path, distances))
    left = [path for path in paths if path.name not in against and path.looks_like_text()]
    chosen: list[str] = []
    rows = frozenset(row for row, payload in enumerate(payloads) if payload)
    while left and len(chosen) < MOST_LAYOUTS:
        best = _best([_within(path, rows) for path in left], len(rows), distances)
        if best is None:
            break
        chosen.append(best.name)
        left = [path for path in left if path.name != best.name]
        rows -= frozenset(best.rows)
        if len(rows) < 2:
            break
    return Reading(tuple(chosen), against, tuple(path.name for path in paths), sum(map(bool, payloads)))


def is_doubtful(values: Sequence[bytes | None], scores: npt.NDArray[np.float64]) -> bool:
    """Whether equal values of a learned path may be no copies here: other points, perhaps of another tenant, showed that it is the text. Copies have
    equal vectors, and so equal scores. ``values``: JSON, one a candidate; ``scores``: (n,).
    """
    best: dict[bytes | None, float] = {}
    for raw, score in zip(values, scores.tolist(), strict=True):
        if raw is not None and not abs(best.setdefault(raw, score) - score) <= SAME_SCORE * abs(score):
            return True
    return False


def _paths(payloads: Sequence[Strings]) -> list[_Path]:
    """The most frequent paths, in the order in which they appear."""
    counts = Counter(path for payload in payloads for path in payload)
    names = [name for name, _ in counts.most_common(MOST_PATHS)]
    paths: list[_Path] = []
    for name in names:
        rows = tuple([row for row, payload in enumerate(payloads) if name in payload])
        paths.append(_Path(name, rows, tuple([payloads[row][name] for row in rows])))
    return paths


def _within(path: _Path, rows: frozenset[int]) -> _Path:
    kept = [(row, value) for row, value in zip(path.rows, path.values, strict=True) if row in rows]
    return _Path(path.name, tuple(row for row, _ in kept), tuple(value for _, value in kept))


def _best(paths: Sequence[_Path], size: int, distances: Distances | None) -> _Path | None:
    """The longest of the paths that at least half of the payloads have, and whose values are not constant where the candidates differ."""
    usual = [path for path in paths if path.values and 2 * len(path.rows) >= size and _varies(path, distances)]
    return max(usual, key=attrgetter("weight"), default=None)


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
