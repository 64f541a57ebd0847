"""The world of the write gate's model: its process and database, the turns of requests and of the journal, and what must hold."""

from __future__ import annotations

import asyncio
import json
import random
import sqlite3
from collections.abc import Collection, Mapping, Sequence
from contextlib import ExitStack, closing, suppress
from dataclasses import dataclass
from pathlib import Path

from prometheus_client import CollectorRegistry

from prove.model_databases import WIRES
from prove.model_parts import CLIENT, TICK, Database, Inline, Model, Op, OutsideError, ViolationError
from prove.model_wire import COLLECTION, Point, Points, Request
from support.backends.toy_exchange import toys
from support.process.clocks import ManualClock
from vecsieve.adapters.backends import BACKENDS
from vecsieve.adapters.contract import Operation, Question
from vecsieve.adapters.writes import Deletion
from vecsieve.config.schema import Settings
from vecsieve.proxy.jobs.pairs.store import Removal
from vecsieve.proxy.runtime.loop import Owner
from vecsieve.proxy.search.errors import RefusedReplyError
from vecsieve.proxy.search.limits import Breaker
from vecsieve.proxy.search.policy import Policies, Rules, RulesInForce
from vecsieve.proxy.telemetry.metrics import Metrics
from vecsieve.proxy.writes.events import Feed
from vecsieve.proxy.writes.gate import WriteGate
from vecsieve.proxy.writes.journal import Journal
from vecsieve.proxy.writes.lock import locked
from vecsieve.proxy.writes.rows import JournalError
from vecsieve.proxy.writes.settling import Room, Shared

MODES: Mapping[str, Mapping[str, str]] = {
    "skip": {"mode": "skip"},
    "merge": {"mode": "merge"},
    "oldest": {"mode": "merge", "merge": "keep-oldest"},
    "united": {"mode": "merge", "merge": "merge"},
    "reject": {"mode": "reject"},
}
IDS, NUMBERS = (1, 2, 3), (0, 1)
# How often each happens at a step, and of what clients begin.
RATES = {
    "kill": 0.015, "undo": 0.05, "sweep": 0.015, "break": 0.015, "work": 0.02, "begin": 0.3, "go on": 0.6,
    "clock": 0.01, "later": 0.03, "late": 0.01, "leave": 0.015,
    "full": 0.005, "fails": 0.05,
    "upsert": 0.55, "delete": 0.17, "filter": 0.05, "all": 0.03, "change": 0.2,
}  # fmt: skip
DAY = 86_400.0


@dataclass(slots=True, kw_only=True)
class Exchange:
    """One request of a client, at the gate. ``seen``: by its last read since the write was answered."""

    world: World
    request: Request
    operation: Operation
    op: Op
    client_timeout_seconds: float | None = None
    seen: Points | None = None

    @property
    def plain(self) -> bytes:
        return self.request.body

    async def ask(self, question: Question, *, seconds: float) -> bytes:
        request = Request(question.method, question.target, question.body)
        if not self.world.wire.is_deletion(request):
            return await self.world.requested(request, exchange=self)
        return await self.world.requested(request, seen=self.seen)

    async def again(self, body: bytes, *, seconds: float) -> bytes:
        return await self.world.requested(self.request._replace(body=body), self.op)


class Guarding(Journal):
    """``unguarded``: deletions under way whose beginning it could not take in time. Until their end `undo` does not know of them (docs/writes.md)."""

    unguarded = 0

    async def deletions_begun(self, number: int, deletions: Sequence[Deletion]) -> float:
        try:
            return await super().deletions_begun(number, deletions)
        except (TimeoutError, JournalError):
            self.unguarded += 1
            raise

    async def deletions_ended(
        self, number: int, deletions: Sequence[Deletion], *, is_done: bool | None, place: float | None
    ) -> None:
        await super().deletions_ended(number, deletions, is_done=is_done, place=place)
        self.unguarded -= place is None


class World:
    """One database behind one gate, and two clients. ``chance``: decides all."""

    def __init__(self, name: str, mode: str, folder: Path) -> None:
        self.wire = WIRES[name]()
        self.backend = BACKENDS[self.wire.name]
        self.path = folder / "j.db"
        self.clock = ManualClock(1000.0)
        policy = {"ignore": ("n",), "write": {**MODES[mode], "deadline_seconds": 30.0}}
        settings = Settings.model_validate(
            {"policy": policy, "backend": self.wire.name, "journal": {"path": str(self.path)}}
        )
        rules = RulesInForce(Rules.of(settings))
        metrics = Metrics(CollectorRegistry(), backend=self.wire.name)
        self.services = toys(backend=self.wire.name, rules=rules, clock=self.clock, metrics=metrics).services
        self.policy = Policies(settings).resolve(self.wire.name, "c")
        self.database = Database(self.wire, self.clock)
        self.mode = mode
        self.chance = random.Random()
        self._now, self._correction, self.is_killed = 0.0, DAY, False
        self._begin()
        self.place = self._place()

    def _tick(self) -> float:
        self._now += 1.0
        return self._now

    def _wall(self) -> float:
        """The time of day, which is corrected now and then."""
        return self._tick() + self._correction

    def _begin(self) -> None:
        """A process, which holds the journal's lock until it ends."""
        self.process = ExitStack()
        self.process.enter_context(locked(self.path))
        journal = Guarding(self.path, now=self._wall, steady=self._tick)
        self.work = Inline(self.turn, lambda: self.chance.random() < 0.5)
        journal._work = self.work  # type: ignore[assignment]  # - in turn instead of in a thread
        feed = Feed(now=self.clock, dropped=lambda _sink, _count: None)
        self.owner = Owner()
        shared = Shared(Room(1 << 30), Inline(), journal, feed, self.owner)  # type: ignore[arg-type]  # - the same
        rest = self.backend.rest
        assert rest.writes is not None
        self.journal = journal
        breaker = Breaker(self.clock, jitter=lambda _: 0.0, open_seconds=TICK)
        self.gate = WriteGate(
            rest.writes(), rest.dialect(), self.services, breaker=breaker, shared=shared, deletes=rest.deletes
        )

    def _place(self) -> tuple[str, bytes]:
        """Collection and partition, as in the journal."""
        return {
            "qdrant": ("c", b""),
            "pinecone": ("docs-1", b'"n"'),
            "chroma": (f"t/d/{COLLECTION}", b""),
            "milvus": ("default/c", b""),
            "weaviate": ("Docs", b""),
            "opensearch": ("docs", b""),
            "elasticsearch": ("docs", b""),
        }[self.wire.name]

    def reset(self, seed: str) -> None:
        self.chance = random.Random(seed)
        # Each episode has its own habits: what one does often leads to what another never sees.
        often = {name: rate * self.chance.choice((0.1, 1.0, 1.0, 3.0)) for name, rate in RATES.items()}
        self.rates = {
            **often,
            "begin": RATES["begin"],
            "go on": RATES["go on"],
            "fails": self.chance.choice((0.0, 0.0, RATES["fails"], 3 * RATES["fails"])),
            "waits": self.chance.choice((0.2, 0.8, 1.0)),
            "waits after": self.chance.choice((0.2, 0.8, 1.0)),
        }
        self.ids = self.chance.choice((IDS, IDS[:2], IDS[:2]))
        self.model = Model(is_united=self.mode == "united")
        self.messages: list[str] = []
        self.moment = 0
        self.parked: list[asyncio.Future[None]] = []
        self.owners: dict[asyncio.Future[None], int] = {}
        self.requesting: set[asyncio.Future[None]] = set()
        self.clients: dict[int, asyncio.Task[None] | None] = {1: None, 2: None}
        self.swept: Removal | None = None
        self.was_killed = self.is_outside = self.is_broken = False
        self.database.clear()
        self.services.governor.learned.descriptions.drop(lambda _name: True)
        with suppress(sqlite3.OperationalError), closing(sqlite3.connect(self.path, isolation_level=None)) as file:
            file.execute("DELETE FROM points")
            file.execute("DELETE FROM unseen")
            file.execute("DELETE FROM going")

    # What a step may be.

    async def turn(self, *, is_request: bool = False) -> None:
        """Wait until it is this one's turn. ``is_request``: the database, which may break off; else the journal, which may be late."""
        if self.is_killed:
            raise asyncio.CancelledError
        parked: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.parked.append(parked)
        self.owners[parked] = CLIENT.get()
        if is_request:
            self.requesting.add(parked)
        await parked

    async def requested(
        self, request: Request, op: Op | None = None, *, seen: Points | None = None, exchange: Exchange | None = None
    ) -> bytes:
        """``seen``: by the gate, before it removes points. ``exchange``: sees what a read does."""
        try:
            await self.turn(is_request=True)
        except asyncio.CancelledError:
            if op is not None and not self.is_killed and self.chance.random() < 0.5:
                with suppress(LookupError):
                    self.database.answer(request, op)  # it was sent, and goes on without its client
            raise
        if seen is not None and not self.wire.compares(self._victims(request, seen), self.database.at_last):
            self.is_outside = True
            raise OutsideError
        if exchange is not None:
            exchange.seen = dict(self.database.seen)
        is_failing = exchange is None and self.chance.random() < self.rates["fails"]
        self.wire.failing = self.chance.sample(self.ids, 1) if is_failing else ()
        try:
            body = self.database.answer(request, op)
        except LookupError:
            raise RefusedReplyError(404, b"", is_server_error=False, may_be_size=False) from None
        await self.turn(is_request=True)
        return body

    def _victims(self, request: Request, seen: Points) -> Points:
        """What a request removes, as it was seen."""
        result, after = self.wire.answer(request, self.database.points), self.database.at_last
        if isinstance(result, bytes):
            return {}
        result[1](after)
        return {identifier: point for identifier, point in seen.items() if identifier not in after}

    async def _settled(self) -> None:
        ready = asyncio.get_running_loop()._ready  # type: ignore[attr-defined]  # - until all wait
        while ready:
            await asyncio.sleep(0)
        for client, task in self.clients.items():
            if task is not None and task.done():
                self.clients[client] = None
                with suppress(asyncio.CancelledError):
                    task.result()

    async def _ended(self) -> None:
        self.is_killed = True  # nothing more comes into the file
        running = [task for task in self.clients.values() if task is not None]
        for op in running:
            op.cancel()
        await self.owner.close()  # of work that goes on without its client
        await asyncio.gather(*running, return_exceptions=True)
        self.parked.clear()
        self.work.late.clear()
        self.is_killed = False
        self.clients = dict.fromkeys(self.clients)
        if self.journal._book is not None:
            self.journal._book.close()
        self.process.close()

    # What must hold.

    def _rows(self) -> list[tuple[int, str, Point]]:
        rows = self.journal._opened()._queried("SELECT id, state, point FROM points", ())
        return [(self.wire.id_of(key), state, self.wire.read(json.loads(point))) for key, state, point in rows]

    def _visible(self) -> str:
        stored = ", ".join(one(kept) for _, kept in sorted(self.database.at_last.items()))
        rows = ", ".join(f"{one(point)} {state}" for _, state, point in self._rows())
        return f"stored {stored or 'nothing'}; journal {rows or 'empty'}"

    def _check_ends(self, states: Collection[str]) -> None:
        """While nothing is under way, the journal says so. A write that was killed is pending for ever."""
        if self.is_broken or any(self.clients.values()) or self.parked or self.work.late or len(self.owner):
            return
        if removed := self.journal._opened()._queried("SELECT id FROM going", ()):
            raise ViolationError(
                f"nothing is under way, and the journal has a deletion of {removed}: {self._visible()}"
            )
        if "pending" in states and not self.was_killed:
            raise ViolationError(f"nothing is under way, and a row is pending: {self._visible()}")

    def check(self) -> None:
        stored, rows = self.database.at_last, self._rows()
        self._check_ends({state for _, state, _ in rows})
        journaled = [(key, point) for key, state, point in rows if state in {"done", "doubted"}]
        for identifier in IDS:
            expected, actual = self.model.definite(identifier), stored.get(identifier)
            if expected is not None and not self.model.is_kept(expected, actual):
                is_journaled = any(
                    key == identifier and self.model.is_kept(expected, point) for key, point in journaled
                )
                if not is_journaled:
                    raise ViolationError(f"{one(expected)} is neither stored nor in the journal: {self._visible()}")
            if actual is not None and actual.text not in self.model.may_say(identifier):
                raise ViolationError(f"{one(actual)} is stored, which was deleted or replaced: {self._visible()}")


def one(point: Point) -> str:
    return f"{point.id}={point.text[0]}{point.number}/{point.axis}"
