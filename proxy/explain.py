"""Why one search came to its results: who was left out, who stands for it, by which rule.

Identifiers only. No payload, no vector, no query and no credential enters a record, so that whoever may see the admin
port learns nothing of the texts.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
import orjson

from vecsieve.adapters.contract import Operation, Pool, Search
from vecsieve.proxy.labels import Collapse, Guard
from vecsieve.proxy.selection.values import Fate, Link, Selection

DIGITS = 4  # of a similarity: more says nothing about embeddings, and would differ between machines

Id = int | str | None
"""As the database names it; None where the adapter cannot tell or the identifier is neither text nor number."""


class LeftOutBy(StrEnum):
    """Why a candidate that no other stands for is not in the answer."""

    CAPPED = "capped"  # its document or its source has as many results as the policy allows
    NOT_CHOSEN = "not_chosen"  # beyond what was asked for, or passed over by the diversifier


@dataclass(frozen=True, slots=True, kw_only=True)
class Copy:
    """Whose copy a candidate is, and what says so. ``similarity``: by that rule, None where the two never met."""

    of: Id
    reason: Collapse
    rule: str
    similarity: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """A result. ``rank``: its place in the database's own order, 0 the best. ``collapsed_ids``: whom it stands for.

    ``copy``: given where another result stands for its cluster. ``kept_apart_by``: the guard to which it owes its place.
    """

    id: Id
    rank: int
    collapsed_ids: tuple[Id, ...]
    copy: Copy | None
    kept_apart_by: Guard | None


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftOut:
    """A candidate that is no result. ``copy``: given exactly where it was collapsed; its reason is then ``reason``."""

    id: Id
    rank: int
    reason: Collapse | LeftOutBy
    copy: Copy | None
    kept_apart_by: Guard | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """One search. ``acted``: False where the database's own results were left as they are."""

    backend: str
    operation: str
    collection: str
    top_k: int
    offset: int
    candidates: int
    clusters: int
    acted: bool
    threshold: float
    kept: tuple[Kept, ...]
    left_out: tuple[LeftOut, ...]

    def as_json(self) -> bytes:
        """The record as one JSON object."""
        return orjson.dumps(self)


def explain(operation: Operation, search: Search, pool: Pool, selection: Selection) -> Record:
    """What became of every candidate of ``pool``: results in answer order, the others by rank."""
    reading = _Reading(tuple(map(_id, pool.ids)) or (None,) * pool.size, selection)
    kept = selection.keep.tolist()
    return Record(
        backend=operation.backend,
        operation=operation.name,
        collection=operation.collection,
        top_k=search.top_k,
        offset=search.offset,
        candidates=pool.size,
        clusters=selection.distinct,
        acted=selection.acted,
        threshold=round(selection.threshold, DIGITS),
        kept=tuple(reading.kept(row) for row in kept),
        left_out=tuple(reading.left_out(row) for row in sorted(set(range(pool.size)) - set(kept))),
    )


class _Reading:
    """One selection, candidate by candidate."""

    __slots__ = ("_collapsed", "_fates", "_ids", "_links", "_similarities", "_standing", "_vetoes")

    def __init__(self, ids: tuple[Id, ...], selection: Selection) -> None:
        self._ids = ids
        self._fates: list[int] = selection.fates.tolist()
        self._links: list[int] = selection.links.tolist()
        self._similarities: list[float] = selection.similarities.tolist()
        self._standing: list[int] = selection.representative.tolist()
        self._vetoes: list[int] = selection.vetoes.tolist()
        self._collapsed: dict[int, list[Id]] = {}
        for row in np.flatnonzero(selection.fates == Fate.COLLAPSED).tolist():
            self._collapsed.setdefault(self._standing[row], []).append(ids[row])

    def kept(self, row: int) -> Kept:
        """A result."""
        return Kept(
            id=self._ids[row],
            rank=row,
            collapsed_ids=tuple(self._collapsed.get(row, ())),
            copy=None if self._standing[row] == row else self._copy(row),
            kept_apart_by=Guard.of(self._vetoes[row]),
        )

    def left_out(self, row: int) -> LeftOut:
        """A candidate that is no result."""
        fate = self._fates[row]
        copy = self._copy(row) if fate == Fate.COLLAPSED else None
        other = LeftOutBy.CAPPED if fate == Fate.CAPPED else LeftOutBy.NOT_CHOSEN
        return LeftOut(
            id=self._ids[row],
            rank=row,
            reason=other if copy is None else copy.reason,
            copy=copy,
            kept_apart_by=Guard.of(self._vetoes[row]),
        )

    def _copy(self, row: int) -> Copy:
        link, similarity = Link(self._links[row]), self._similarities[row]
        return Copy(
            of=self._ids[self._standing[row]],
            reason=Collapse.of(link),
            rule=link.name.lower(),
            similarity=None if math.isnan(similarity) else round(similarity, DIGITS),
        )


def _id(raw: bytes) -> Id:
    try:
        value = orjson.loads(raw)
    except orjson.JSONDecodeError:
        return None
    return value if isinstance(value, int | str) and not isinstance(value, bool) else None
