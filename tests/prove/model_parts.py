"""What the model of the write gate is played with: what clients did, a database in this process, and what stands between it and the gate."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from prove.model_databases import Weaviate
from prove.model_wire import Answer, Apply, Point, Points, Request, Wire, dropping, storing
from support.process.clocks import ManualClock
from vecsieve.proxy.jobs.source import Points as RestorablePoints
from vecsieve.proxy.jobs.source import Whole, mark_of
from vecsieve.proxy.writes.rows import JournalError

TICK, LAG = 0.05, 1.0
CLIENT: ContextVar[int] = ContextVar("client")
T = TypeVar("T")


class ViolationError(AssertionError):
    """What the model does not allow."""


class OutsideError(BaseException):
    """A point was changed in the moment in which the gate removes it, and the database does not compare it: a change may be lost (docs/writes.md)."""


@dataclass(slots=True, eq=False)
class Op:
    """What a client asked for. ``points``: of an upsert by id. ``ids``, ``number``: of a deletion; neither: of all. ``member``: of a partial update, with
    its new value. ``end``: when it was answered, or its process killed; ``is_done``: whether it was acknowledged. ``hit``: whether a partial update found
    its point. ``sent``: when it reached the database, a place in its `texts`.
    """

    kind: str
    start: int
    points: Mapping[int, Point] = field(default_factory=dict)
    ids: Sequence[int] | None = None
    number: int | None = None
    member: tuple[str, Any] | None = None
    end: int | None = None
    is_done: bool = False
    hit: bool = False
    sent: int = 0

    def concerns(self, identifier: int) -> bool:
        if self.kind == "upsert":
            return identifier in self.points
        return self.ids is None or identifier in self.ids

    def is_before(self, other: Op) -> bool:
        return self.end is not None and self.end < other.start


class Model:
    """What clients did, and what follows from it."""

    def __init__(self, *, is_united: bool) -> None:
        self.ops: list[Op] = []
        self._is_united = is_united

    def _covers(self, op: Op, upsert: Op, identifier: int, *, surely: bool) -> bool:
        """Whether an operation takes the place of what an upsert or a change stored, or removes it."""
        if op is upsert or op.kind == "change" or not op.concerns(identifier):
            return False
        if op.kind == "filter":
            is_changed = self._is_united or any(op.kind == "change" and identifier in (op.ids or ()) for op in self.ops)
            return not surely if is_changed else upsert.points[identifier].number == op.number
        return True

    def definite(self, identifier: int) -> Point | None:
        """What must be stored, or in the journal; None where operations at the same time leave that open."""
        for upsert in self.ops:
            if upsert.kind != "upsert" or not upsert.is_done or identifier not in upsert.points:
                continue
            if any(not op.is_before(upsert) and self._covers(op, upsert, identifier, surely=False) for op in self.ops):
                continue
            point = upsert.points[identifier]
            changes = [
                op for op in self.ops if op.kind == "change" and op.concerns(identifier) and not op.is_before(upsert)
            ]
            if any(not op.is_done or op.start <= (upsert.end or 0) for op in changes):
                return None
            if any(
                not (one.is_before(other) or other.is_before(one))
                for one in changes
                for other in changes
                if one is not other
            ):
                return None
            for op in changes:
                if op.hit and op.member is not None:
                    point = replace(point, **dict([op.member]))
            return point
        return None

    def may_say(self, identifier: int) -> set[str]:
        """The texts that may be stored under an id: of upserts and changes after which nobody deleted or replaced them."""
        texts = {
            op: op.points[identifier].text if op.member is None else op.member[1]
            for op in self.ops
            if op.concerns(identifier)
            and (op.kind == "upsert" or (op.hit and op.member is not None and op.member[0] == "text"))
        }
        return {
            text
            for op, text in texts.items()
            if not any(
                other.is_done
                and op.is_before(other)
                and (other in texts or self._covers(other, op, identifier, surely=True))
                for other in self.ops
            )
        }

    def is_kept(self, expected: Point, stored: Point | None) -> bool:
        if stored is None:
            return False
        return (stored.text, stored.axis) == (expected.text, expected.axis) and (
            self._is_united or stored.number == expected.number
        )


class Database:
    """``queue``: what was acknowledged, and will be done. ``texts``: what was acknowledged says, from a moment on. Reads of one that lags show the past."""

    def __init__(self, wire: Wire, clock: ManualClock) -> None:
        self.wire, self._clock = wire, clock
        self.points: Points = {}
        self.queue: list[Apply] = []
        self.texts: list[set[str]] = [set()]
        self._past: list[tuple[float, Points]] = []

    @property
    def seen(self) -> Points:
        """By a read."""
        return self._lagging() if self.wire.lags else self.points

    def _lagging(self) -> Points:
        until = self._clock() - LAG
        while len(self._past) > 1 and self._past[1][0] <= until:
            self._past.pop(0)
        return self._past[0][1] if self._past and self._past[0][0] <= until else {}

    @property
    def at_last(self) -> Points:
        """When the queue is done."""
        points = dict(self.points)
        for apply in self.queue:
            apply(points)
        return points

    def do(self, apply: Apply, *, is_waited: bool = True) -> None:
        self.queue.append(apply)
        self.texts.append({point.text for point in self.at_last.values()})
        while is_waited and self.queue:
            self.step()

    def step(self) -> None:
        self.queue.pop(0)(self.points)
        if self.wire.lags or self.wire.searches_lag:
            self._past.append((self._clock(), dict(self.points)))

    def answer(self, request: Request, op: Op | None = None) -> bytes:
        """Raises LookupError for what is not there."""
        is_lagging = self.wire.searches_lag and self.wire.is_search(request)
        result: Answer = self.wire.answer(request, self._lagging() if is_lagging else self.seen)
        if isinstance(result, bytes):
            return result
        body, apply = result
        if op is not None:
            op.sent = len(self.texts) - 1
        if op is not None and op.ids:
            op.hit = op.ids[0] in self.at_last
        self.do(apply, is_waited=request.is_waited)
        if (
            op is not None and op.kind == "all" and isinstance(self.wire, Weaviate)
        ):  # its replicas agree on which collections there are
            self._past = [(self._clock() - LAG, dict(self.points))]
        return body

    def clear(self) -> None:
        self.points, self.queue, self._past, self.texts = {}, [], [(-LAG, {})], [set()]

    def stated(self, since: int) -> set[str]:
        """The texts of a moment since then, a place in ``texts``."""
        return set[str]().union(*self.texts[since:])


class Stored(RestorablePoints):
    """The points for `undo` and `sweep`."""

    def __init__(self, database: Database, form: Any, partition: bytes) -> None:
        self.form = form
        self._database, self._wire, self._partition = database, database.wire, partition

    def whole(self, ids: Sequence[Any]) -> list[Whole]:
        matches = [point for point in self._database.points.values() if self._id(point) in ids]
        return [
            Whole(
                id=self._id(match),
                key=json.dumps(self._id(match)).encode(),
                partition=self._partition,
                body=self._wire.single(match),
                mark=mark(match),
            )
            for match in matches
        ]

    def _id(self, point: Point) -> Any:
        single = json.loads(self._wire.single(point))
        return next(single[name] for name in ("id", "ids", "_id") if name in single)

    def delete(self, points: Sequence[Whole]) -> None:
        gone = {self._wire.id_of(point.key) for point in points}
        self._database.do(dropping(lambda candidate: candidate.id in gone))

    def present(self, partition: bytes, keys: Sequence[bytes]) -> frozenset[bytes]:
        return frozenset(key for key in keys if self._wire.id_of(key) in self._database.seen)

    def put(self, partition: bytes, bodies: Sequence[bytes]) -> None:
        points = [self._wire.read(json.loads(body)) for body in bodies]
        self._database.do(storing(points))

    def stored(self, partition: bytes, identifier: Any) -> bytes | None:
        return next((point.body for point in self.whole([identifier])), None)


def mark(point: Point) -> int:
    return mark_of(None, {"text": point.text, "axis": point.axis, "n": point.number})


class Inline:
    """Work in turn, not in a thread. ``late``: work whose waiter is gone; it is done before any other. ``begins``: whether work was begun when its waiter left."""

    def __init__(
        self, turn: Callable[[], Awaitable[None]] | None = None, begins: Callable[[], bool] = lambda: True
    ) -> None:
        self._turn, self._begins = turn, begins
        self.late: list[Callable[[], object]] = []

    async def run(self, work: Callable[[], T], *, is_kept: bool = False) -> T:
        if self._turn is not None:
            try:
                await self._turn()
            except (TimeoutError, asyncio.CancelledError):
                if is_kept or self._begins():
                    self.late.append(work)
                raise
        self.catch_up()
        return work()

    def begin(self, work: Callable[[], object]) -> None:
        self.late.append(work)

    def catch_up(self) -> None:
        while self.late:
            with suppress(JournalError):
                self.late.pop(0)()

    async def done(self, work: Callable[[], T], *, is_long: bool) -> T:
        return work()

    async def finished(self, steps: Iterator[Any], *, is_long: bool) -> Any:
        while True:
            try:
                next(steps)
            except StopIteration as over:
                return over.value

    def close(self) -> None: ...
