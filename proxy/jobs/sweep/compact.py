"""``vecsieve compact``: a sweep whose survivors get the payload values of their copies that they lack.

The pipeline, the plan and the journal are those of ``vecsieve sweep``. Arrays, and values that one of two points lacks, are no difference here,
because the survivor has both afterwards. A survivor keeps its vectors, its text and every value of its own;
arrays are united, the larger of two numbers is kept, and missing members are added. The survivor is stored before its copies are deleted,
with a row in the journal of its previous state: ``vecsieve undo`` restores its own payload.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from vecsieve.config.problems import Problem, SettingsError

from ...writes.merging import united
from ...writes.rows import Kind, LeftOut
from ..pairs.store import Removal
from ..source import PointId, Whole
from . import command
from .applying import Survivors

BUILT_FOR = "qdrant"  # undo compares payloads as Qdrant shows them


@dataclass(frozen=True, slots=True, kw_only=True)
class Arguments(command.Arguments):
    """As of ``vecsieve sweep``."""

    unites: ClassVar[bool] = True


def run(arguments: Arguments) -> int:
    """As of ``vecsieve sweep``."""
    if arguments.backend != BUILT_FOR:
        raise SettingsError(
            [Problem("--backend", repr(arguments.backend), f"{BUILT_FOR}: compact is built for it alone")]
        )
    return command.run(arguments, United, name="compact")


@dataclass(frozen=True, slots=True)
class United(Survivors):
    """Survivors get the values that they lack."""

    def is_as_compared(self, survivor: Whole, mark: int) -> bool:
        """Or as an earlier batch changed it: families may have more than two members, and a run may have been killed."""
        if survivor.mark == mark:
            return True
        heads = self.book.heads(collection=self.collection, ids=[survivor.key])
        rows = self.book.rows([head.number for head in heads if head.kind == Kind.CHANGED])
        now = json.loads(survivor.body)
        return any(row.became is not None and json.loads(row.became) == now for row in rows)

    def changes(self, removals: Sequence[tuple[Removal, Whole]], stored: Mapping[PointId, Whole]) -> list[LeftOut]:
        families: defaultdict[PointId, list[Whole]] = defaultdict(list)
        for removal, point in removals:
            families[removal.survivor].append(point)
        rows = []
        for id_, members in families.items():
            survivor = stored[id_]
            point = json.loads(survivor.body)
            before = point["payload"] or {}
            payload = before
            for member in members:
                payload = with_what_it_lacks(payload, json.loads(member.body)["payload"] or {})
            if payload != before:
                became = json.dumps({**point, "payload": payload}, separators=(",", ":")).encode()
                rows.append(self._row(survivor, members[0], became))
        return rows

    def _row(self, survivor: Whole, member: Whole, became: bytes) -> LeftOut:
        return LeftOut(
            collection=self.collection,
            partition=survivor.partition,
            id=survivor.key,
            survivor=member.key,
            tier="united",
            similarity=0.0,
            point=survivor.body,
            kind=Kind.CHANGED,
            became=became,
        )


def with_what_it_lacks(survivor: Mapping[str, object], other: Mapping[str, object]) -> dict[str, object]:
    """Idempotent, because a killed run may have done it already."""
    both = united(survivor, other, ())
    for name, value in survivor.items():
        if not isinstance(value, list | int | float) or isinstance(value, bool) or not _is_like(value, other.get(name)):
            both[name] = value
    return both


def _is_like(value: object, other: object) -> bool:
    return (
        isinstance(other, list)
        if isinstance(value, list)
        else isinstance(other, int | float) and not isinstance(other, bool)
    )
