"""What may happen at a step of the write gate's model: turns, ends and failures of the process, the journal and the database, `undo` and `sweep`."""

from __future__ import annotations

from contextlib import closing, redirect_stdout
from io import StringIO

from prove.model_clients import Clients
from prove.model_parts import LAG, TICK, OutsideError, Stored, mark
from prove.model_search_engines import OpenSearch
from prove.model_world import DAY
from vecsieve.adapters.milvus.fields import FIRST_VECTOR, FieldType, Row
from vecsieve.adapters.opensearch.schema import SourceForm
from vecsieve.proxy.jobs import undo
from vecsieve.proxy.jobs.pairs.store import Removal
from vecsieve.proxy.jobs.source import Points as RestorablePoints
from vecsieve.proxy.jobs.sweep import applying
from vecsieve.proxy.search.errors import LostReplyError
from vecsieve.proxy.telemetry.labels import FailOpen
from vecsieve.proxy.writes.book import Book
from vecsieve.proxy.writes.rows import UNSEEN_SECONDS, JournalError

HOUR = 3_600.0
# How often a request goes on at a step: alone for a while, or by turns with another.
TURNS = (1, 1, 2, 4, 8, 16)


class Episode(Clients):
    """Steps by chance."""

    async def step(self) -> None:  # noqa: PLR0912 - one for each event
        self.moment += 1
        self.clock.advance(TICK)
        idle = [client for client, task in self.clients.items() if task is None]
        self.parked = [turn for turn in self.parked if not turn.done()]
        breakable = [turn for turn in self.parked if turn in self.requesting]
        steps = [turn for turn in self.parked if turn not in self.requesting]
        events: dict[str, bool] = {
            "kill": True, "undo": not self.journal.unguarded, "sweep": not self.database.queue, "break": bool(breakable),
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
                self.messages.append(f"the time of day is {self._correction:+.0f} s off")
            case "later":
                self._later()
            case "break":
                self.messages.append("the database breaks off")
                cut = self.chance.choice(breakable)
                self.parked.remove(cut)
                cut.set_exception(LostReplyError(FailOpen.OVERFETCH_RESET))
            case "late":
                self.messages.append("the journal is late")
                late = self.chance.choice(steps)
                self.parked.remove(late)
                late.set_exception(TimeoutError())
            case "full":
                self.messages.append("the journal's disk is full")
                self.is_broken = True
                full = self.chance.choice(steps)
                self.parked.remove(full)
                full.set_exception(JournalError("full"))
            case "leave":
                self._leave(self.chance.choice([client for client in self.clients if client not in idle]))
            case "work":
                self.messages.append("the database works on")
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
        self.messages.append("ten minutes pass")

    def _leave(self, client: int) -> None:
        """A client disconnects, perhaps for the second time."""
        self.messages.append(f"client {client} disconnects")
        task = self.clients[client]
        assert task is not None
        task.cancel()

    async def _resumed(self, client: int) -> None:
        for _ in range(self.chance.choice(TURNS)):
            turns = [turn for turn in self.parked if self.owners[turn] == client and not turn.done()]
            if not turns:
                return
            parked = self.chance.choice(turns)
            self.parked.remove(parked)
            parked.set_result(None)
            await self._settled()

    async def _kill(self) -> None:
        if self.journal.unguarded:
            raise OutsideError
        self.messages.append("the proxy is killed")
        self.was_killed = True
        await self._ended()
        for op in self.model.ops:
            op.end = self.moment if op.end is None else op.end
        self._begin()

    def _undo(self) -> None:
        if not self.path.exists():
            return
        form = self.gate.adapter.form  # type: ignore[attr-defined]  # - of all adapters
        if self.wire.name == "milvus":
            form = Row(key="id", types={"vec": FieldType(kind=FIRST_VECTOR)})
        if isinstance(self.wire, OpenSearch):
            form = SourceForm(paths=("vec",))
        stored = Stored(self.database, form, self.place[1])

        class Arguments(undo.Arguments):
            def points(self, _collection: str) -> RestorablePoints:
                return stored

        with redirect_stdout(StringIO()):
            undo.run(Arguments(journal=self.path, url="http://x", apply=True), steady=self._tick)
        self.messages.append(f"undo: {self._visible()}")

    def _sweep(self) -> None:
        """Compare, or delete what was compared before. A write at the very moment would be lost (docs/writes.md)."""
        if self.database.queue:
            return
        stored = Stored(self.database, None, self.place[1])
        if self.swept is None:
            points = sorted(self.database.points.values(), key=lambda one: one.id)
            pairs = [(one, other) for one in points for other in points if one.id < other.id and one.text == other.text]
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
                self.messages.append(f"sweep compares {other.id} with {one.id}")
            return
        with closing(Book(self.path)) as book:
            by = applying.Deletion(points=stored, survivors=applying.Survivors(book, self.place[0]), now=self._wall)
            outcomes = applying._deleted([self.swept], by)
        self.messages.append(f"sweep deletes {self.swept.id}: {outcomes[0]}")
        self.swept = None
