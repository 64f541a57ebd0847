"""The world of the write gate's model: its clients, processes and database, and what may happen at a step; after each the model is asked."""

from __future__ import annotations

import asyncio
import json
import random
import sqlite3
from collections.abc import Collection, Mapping, Sequence
from contextlib import ExitStack, closing, redirect_stdout, suppress
from dataclasses import dataclass
from io import StringIO
from pathlib import Path

from prometheus_client import CollectorRegistry

from prove.model_databases import TEXTS, WIRES, OpenSearch, Point, Points, Request
from prove.model_parts import CLIENT, LAG, TICK, Database, FoundError, Inline, Model, Op, OutsideError, Stored, mark
from support.backends.toy_exchange import toys
from support.process.clocks import ManualClock
from vecsieve.adapters.backends import BACKENDS
from vecsieve.adapters.contract import Operation, Question, RequestHead
from vecsieve.adapters.opensearch.schema import SourceForm
from vecsieve.adapters.writes import Deletion
from vecsieve.config.schema import Settings
from vecsieve.proxy.jobs import undo
from vecsieve.proxy.jobs.pairs.store import Removal
from vecsieve.proxy.jobs.source import Points as RestorablePoints
from vecsieve.proxy.jobs.sweep import applying
from vecsieve.proxy.runtime.loop import Owner
from vecsieve.proxy.search.errors import LostReplyError, RefusedReplyError, UpstreamExchangeError
from vecsieve.proxy.search.limits import Breaker
from vecsieve.proxy.search.policy import Policies, Rules, RulesInForce
from vecsieve.proxy.telemetry.labels import FailOpen
from vecsieve.proxy.telemetry.metrics import Metrics
from vecsieve.proxy.writes.book import Book
from vecsieve.proxy.writes.events import Feed
from vecsieve.proxy.writes.gate import WriteGate
from vecsieve.proxy.writes.journal import Journal
from vecsieve.proxy.writes.lock import locked
from vecsieve.proxy.writes.rows import UNSEEN_SECONDS, JournalError, Kind
from vecsieve.proxy.writes.settling import Change, Room, Shared

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
OPS = ("upsert", "delete", "filter", "all", "change")
DAY, HOUR = 86_400.0, 3_600.0
# How often a request goes on at a step: alone for a while, or by turns with another.
TURNS = (1, 1, 2, 4, 8, 16)


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
            return await self.world.asked(request, exchange=self)
        return await self.world.asked(request, seen=self.seen)

    async def again(self, body: bytes, *, seconds: float) -> bytes:
        return await self.world.asked(self.request._replace(body=body), self.op)


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
            "chroma": (f"t/d/{_CHROMA}", b""),
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
        self.told: list[str] = []
        self.moment = 0
        self.parked: list[asyncio.Future[None]] = []
        self.owners: dict[asyncio.Future[None], int] = {}
        self.asking: set[asyncio.Future[None]] = set()
        self.clients: dict[int, asyncio.Task[None] | None] = {1: None, 2: None}
        self.swept: Removal | None = None
        self.was_killed = self.is_outside = self.is_broken = False
        self.database.clear()
        self.services.governor.learned.descriptions.clear() if hasattr(
            self.services.governor.learned.descriptions, "clear"
        ) else None
        with suppress(sqlite3.OperationalError), closing(sqlite3.connect(self.path, isolation_level=None)) as file:
            file.execute("DELETE FROM points")
            file.execute("DELETE FROM unseen")
            file.execute("DELETE FROM going")

    # What a step may be.

    async def turn(self, *, is_asking: bool = False) -> None:
        """Wait until it is this one's turn. ``is_asking``: the database, which may break off; else the journal, which may be late."""
        if self.is_killed:
            raise asyncio.CancelledError
        parked: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.parked.append(parked)
        self.owners[parked] = CLIENT.get()
        if is_asking:
            self.asking.add(parked)
        await parked

    async def asked(
        self, request: Request, op: Op | None = None, *, seen: Points | None = None, exchange: Exchange | None = None
    ) -> bytes:
        """``seen``: by the gate, before it removes points. ``exchange``: sees what a read does."""
        try:
            await self.turn(is_asking=True)
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
        await self.turn(is_asking=True)
        return body

    def _victims(self, request: Request, seen: Points) -> Points:
        """What a request removes, as it was seen."""
        found, after = self.wire.answer(request, self.database.points), self.database.at_last
        if isinstance(found, bytes):
            return {}
        found[1](after)
        return {each: point for each, point in seen.items() if each not in after}

    async def step(self) -> None:  # noqa: PLR0912 - one for each event
        self.moment += 1
        self.clock.advance(TICK)
        idle = [each for each, task in self.clients.items() if task is None]
        self.parked = [each for each in self.parked if not each.done()]
        asking = [each for each in self.parked if each in self.asking]
        steps = [each for each in self.parked if each not in self.asking]
        events: dict[str, bool] = {
            "kill": True, "undo": not self.journal.unguarded, "sweep": not self.database.queue, "break": bool(asking),
            "late": bool(steps), "full": bool(steps), "leave": len(idle) < len(self.clients),
            "work": bool(self.database.queue), "begin": bool(idle), "go on": bool(self.parked), "clock": True,
            "later": len(idle) == len(self.clients) and not self.parked,
        }  # fmt: skip
        names = [name for name, is_possible in events.items() if is_possible]
        match self.chance.choices(names, [self.rates[name] for name in names])[0]:
            case "kill":
                await self._kill()
            case "undo":
                self._undo()
            case "sweep":
                self._sweep()
            case "clock":
                self._correction = DAY + self.chance.choice((-HOUR, 0.0, HOUR))
                self.told.append(f"the time of day is {self._correction:+.0f} s off")
            case "later":
                self._later()
            case "break":
                self.told.append("the database breaks off")
                cut = self.chance.choice(asking)
                self.parked.remove(cut)
                cut.set_exception(LostReplyError(FailOpen.OVERFETCH_RESET))
            case "late":
                self.told.append("the journal is late")
                late = self.chance.choice(steps)
                self.parked.remove(late)
                late.set_exception(TimeoutError())
            case "full":
                self.told.append("the journal's disk is full")
                self.is_broken = True
                full = self.chance.choice(steps)
                self.parked.remove(full)
                full.set_exception(JournalError("full"))
            case "leave":
                self._leave(self.chance.choice([each for each in self.clients if each not in idle]))
            case "work":
                self.told.append("the database works on")
                self.database.step()
            case "begin":
                self._start(self.chance.choice(idle))
            case "go on":
                await self._resumed(self.owners[self.chance.choice(self.parked)])
        await self._settled()
        if self.is_outside:
            raise OutsideError
        self.check()

    def _later(self) -> None:
        """All that was stored shows in reads by now."""
        while self.database.queue:
            self.database.step()
        self.clock.now += UNSEEN_SECONDS + LAG
        self._now += UNSEEN_SECONDS + LAG
        self.told.append("ten minutes pass")

    def _leave(self, client: int) -> None:
        """A client disconnects, perhaps for the second time."""
        self.told.append(f"client {client} disconnects")
        task = self.clients[client]
        assert task is not None
        task.cancel()

    async def _resumed(self, client: int) -> None:
        for _ in range(self.chance.choice(TURNS)):
            own = [each for each in self.parked if self.owners[each] == client and not each.done()]
            if not own:
                return
            parked = self.chance.choice(own)
            self.parked.remove(parked)
            parked.set_result(None)
            await self._settled()

    async def _settled(self) -> None:
        ready = asyncio.get_running_loop()._ready  # type: ignore[attr-defined]  # - until all wait
        while ready:
            await asyncio.sleep(0)
        for client, task in self.clients.items():
            if task is not None and task.done():
                self.clients[client] = None
                with suppress(asyncio.CancelledError):
                    task.result()

    async def _kill(self) -> None:
        if self.journal.unguarded:
            raise OutsideError
        self.told.append("the proxy is killed")
        self.was_killed = True
        await self._ended()
        for op in self.model.ops:
            op.end = self.moment if op.end is None else op.end
        self._begin()

    async def _ended(self) -> None:
        self.is_killed = True  # nothing more comes into the file
        running = [task for task in self.clients.values() if task is not None]
        for each in running:
            each.cancel()
        await self.owner.close()  # of work that goes on without its client
        await asyncio.gather(*running, return_exceptions=True)
        self.parked.clear()
        self.work.late.clear()
        self.is_killed = False
        self.clients = dict.fromkeys(self.clients)
        if self.journal._book is not None:
            self.journal._book.close()
        self.process.close()

    def _undo(self) -> None:
        if not self.path.exists():
            return
        form = self.gate.adapter.form  # type: ignore[attr-defined]  # - of all adapters
        if self.wire.name == "milvus":
            from vecsieve.adapters.milvus.fields import Row

            form = Row(key="id", types={})
        if isinstance(self.wire, OpenSearch):
            form = SourceForm(paths=("vec",))
        stored = Stored(self.database, form, self.place[1])

        class Arguments(undo.Arguments):
            def points(self, _collection: str) -> RestorablePoints:
                return stored

        with redirect_stdout(StringIO()):
            undo.run(Arguments(journal=self.path, url="http://x", apply=True), steady=self._tick)
        self.told.append(f"undo: {self._shown()}")

    def _sweep(self) -> None:
        """Compare, or delete what was compared before. A write at the very moment would be lost (docs/writes.md)."""
        if self.database.queue:
            return
        stored = Stored(self.database, None, self.place[1])
        if self.swept is None:
            each = sorted(self.database.points.values(), key=lambda one: one.id)
            pairs = [(one, other) for one in each for other in each if one.id < other.id and one.text == other.text]
            if pairs:
                one, other = self.chance.choice(pairs)
                self.swept = Removal(
                    id=stored._id(other),
                    survivor=stored._id(one),
                    evidence="exact",
                    similarity=None,
                    mark=mark(other),
                    survivor_mark=mark(one),
                )
                self.told.append(f"sweep compares {other.id} with {one.id}")
            return
        with closing(Book(self.path)) as book:
            by = applying.Deletion(points=stored, book=book, collection=self.place[0], now=self._wall)
            outcomes = applying._deleted([self.swept], by)
        self.told.append(f"sweep deletes {self.swept.id}: {outcomes[0]}")
        self.swept = None

    # What clients do.

    def _start(self, client: int) -> None:
        chance = self.chance
        (kind,) = chance.choices(list(OPS), [self.rates[each] for each in OPS])
        if kind == "upsert":
            # Mostly of ids that are free: copies are left out only under these.
            free = [each for each in self.ids if each not in self.database.points]
            ids = free if free and chance.random() < 0.7 else self.ids
            count = min(len(ids), 1 if chance.random() < 0.6 else 2)
            points = [self._point(each) for each in chance.sample(ids, count)]
            op = Op(kind, self.moment, points={each.id: each for each in points})
            work = self._upsert(client, op, self.wire.upsert(points, waits=chance.random() < self.rates["waits"]))
        elif kind == "delete":
            op = Op(kind, self.moment, ids=[chance.choice(self.ids)])
            work = self._follow(client, op, self._waited(self.wire.delete(op.ids or ())))
        elif kind == "filter":
            op = Op(kind, self.moment, number=chance.choice(NUMBERS))
            work = self._follow(client, op, self._waited(self.wire.delete_where(op.number or 0)))
        elif kind == "all":
            op = Op(kind, self.moment)
            work = self._follow(client, op, self.wire.recreate())
        elif self.wire.is_partial:
            point, member = (
                self._point(chance.choice(self.ids)),
                chance.choice(("axis", "axis", "axis", "number", "text")),
            )
            value = {"axis": chance.randrange(4), "text": chance.choice(TEXTS), "number": point.number}[member]
            op = Op(kind, self.moment, ids=[point.id], member=(member, value))
            work = self._follow(client, op, self._waited(self.wire.change(point.id, member, value)))
        else:
            return
        self.model.ops.append(op)
        CLIENT.set(client)
        self.clients[client] = asyncio.create_task(work)

    def _waited(self, request: Request) -> Request:
        """A deletion or a partial update."""
        return request if self.chance.random() < self.rates["waits after"] else self.wire.unwaited(request)

    def _point(self, identifier: int) -> Point:
        said = [TEXTS.index(each.text) for each in self.database.points.values()]
        text = self.chance.choice(said) if said and self.chance.random() < 0.6 else self.chance.randrange(2)
        if self.mode == "united" and self.chance.random() < 0.8:
            # Less than what is stored: the merged number is another than its own.
            number = int(all(each.text != TEXTS[text] for each in self.database.points.values()))
            return Point(identifier, TEXTS[text], number, text)
        return Point(identifier, TEXTS[text], self.chance.choice(NUMBERS), text)

    def _head(self, request: Request) -> RequestHead:
        return RequestHead(
            method=request.method, path=request.path, content_type="application/json", host=self.wire.host
        )

    def _over(self, client: int, op: Op, said: str, *, is_done: bool = False) -> None:
        op.end, op.is_done = self.moment, is_done
        self.told.append(f"client {client}: {said} of {_words(op)}: {self._shown()}")

    async def _upsert(self, client: int, op: Op, request: Request) -> None:
        self.told.append(f"client {client} begins {_words(op)}{'' if request.is_waited else ', not waited'}")
        write = self.gate.adapter.classify(self._head(request))
        assert write is not None
        exchange = Exchange(world=self, request=request, operation=write, op=op)
        gate, policy = self.gate, self.policy
        try:
            change = await gate.changed(exchange, policy, query=request.target[len(request.path) :])
            op.sent = len(self.database.texts) - 1
            body = b""
            if change is None:
                body = await self.asked(request, op)
            elif change.answer is not None and not change.left_out:
                self.model.ops.remove(op)
                self._over(client, op, "refusal")
                return
            else:
                async with gate.settling.ending(change):
                    change, body = await self._sent(change, exchange)
        except (LostReplyError, UpstreamExchangeError):
            self._over(client, op, "failure")
            return
        except asyncio.CancelledError:
            self._over(client, op, "end")
            raise
        op.points = self.wire.acknowledged(op.points, body) if body else op.points
        self._over(client, op, "answer" if change is not None else "answer without a verdict", is_done=bool(op.points))
        left_out = [self.wire.id_of(row.id) for row in change.left_out if row.kind == Kind.LEFT_OUT] if change else []
        for point in [op.points[each] for each in left_out if each in op.points]:
            if point.text not in self.database.said(op.sent):
                raise FoundError(f"{_one(point)} was acknowledged, and no point says so: {self._shown()}")

    async def _sent(self, change: Change, exchange: Exchange) -> tuple[Change, bytes]:
        """As a transport sends the rest of a write. Also the client's answer; nothing where the gate makes it."""
        settling, receipt, answer = self.gate.settling, None, b""
        if change.answer is None:
            body = exchange.plain if change.body is None else change.body
            answer = await self.asked(exchange.request._replace(body=body), exchange.op)
            receipt = settling.answer(change, answer)
            answer = answer if receipt is None else receipt.body
            exchange.seen = None
        is_success = change.answer is not None or receipt is not None
        settled = await settling.settle(change, exchange, self.policy, is_success=is_success, receipt=receipt)
        return settled, answer

    async def _follow(self, client: int, op: Op, request: Request) -> None:
        """A deletion or a partial update, as far as the gate follows it."""
        self.told.append(f"client {client} begins {_words(op)}{'' if request.is_waited else ', not waited'}")
        deletions = self.gate.deletions
        assert deletions is not None
        deletion, query = deletions.classify(self._head(request)), request.target[len(request.path) :]
        status, answer = 502, None
        try:
            exchange = None if deletion is None else Exchange(world=self, request=request, operation=deletion, op=op)
            if exchange is None or deletion is None or not await deletions.follows(exchange, deletion, query):
                status, answer = await self._answered(request, op)
            else:
                async with deletions.followed(exchange, request.body, query=query, now=self.clock()) as pending:
                    status, answer = await self._answered(request, op)
                    is_checked = self.backend.refuses_in_success
                    pending.is_done = deletions.is_done(status, is_grpc=False, body=answer if is_checked else None)
        finally:
            is_refused = answer is not None and self.wire.is_refusal(answer)
            self._over(client, op, f"status {status}", is_done=status != 502 and not is_refused)

    async def _answered(self, request: Request, op: Op) -> tuple[int, bytes | None]:
        try:
            return 200, await self.asked(request, op)
        except RefusedReplyError as refused:
            return refused.status, None
        except LostReplyError:
            return 502, None

    # What must hold.

    def _rows(self) -> list[tuple[int, str, Point]]:
        found = self.journal._opened()._queried("SELECT id, state, point FROM points", ())
        return [(self.wire.id_of(key), state, self.wire.read(json.loads(point))) for key, state, point in found]

    def _shown(self) -> str:
        stored = ", ".join(_one(each) for _, each in sorted(self.database.at_last.items()))
        rows = ", ".join(f"{_one(point)} {state}" for _, state, point in self._rows())
        return f"stored {stored or 'nothing'}; journal {rows or 'empty'}"

    def _check_ends(self, states: Collection[str]) -> None:
        """While nothing is under way, the journal says so. A write that was killed is pending for ever."""
        if self.is_broken or any(self.clients.values()) or self.parked or self.work.late or len(self.owner):
            return
        if going := self.journal._opened()._queried("SELECT id FROM going", ()):
            raise FoundError(f"nothing is under way, and the journal has a deletion of {going}: {self._shown()}")
        if "pending" in states and not self.was_killed:
            raise FoundError(f"nothing is under way, and a row is pending: {self._shown()}")

    def check(self) -> None:
        stored, rows = self.database.at_last, self._rows()
        self._check_ends({state for _, state, _ in rows})
        held = [(key, point) for key, state, point in rows if state in {"done", "doubted"}]
        for identifier in IDS:
            wanted, found = self.model.definite(identifier), stored.get(identifier)
            if wanted is not None and not self.model.is_kept(wanted, found):
                is_held = any(key == identifier and self.model.is_kept(wanted, point) for key, point in held)
                if not is_held:
                    raise FoundError(f"{_one(wanted)} is neither stored nor in the journal: {self._shown()}")
            if found is not None and found.text not in self.model.may_say(identifier):
                raise FoundError(f"{_one(found)} is stored, which was deleted or replaced: {self._shown()}")


_CHROMA = "00000000-0000-0000-0000-00000000000c"


def _one(point: Point) -> str:
    return f"{point.id}={point.text[0]}{point.number}/{point.axis}"


def _words(op: Op) -> str:
    if op.kind == "upsert":
        return f"upsert {', '.join(map(_one, op.points.values()))}"
    if op.kind == "change":
        return f"change of {op.ids} to {op.member}"
    return {"delete": f"deletion of {op.ids}", "filter": f"deletion where n = {op.number}", "all": "deletion of all"}[
        op.kind
    ]
