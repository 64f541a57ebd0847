"""What is under way ends in the journal, whoever leaves or is late: a client, the process that ends, the journal's own thread."""

from __future__ import annotations

import asyncio
import sqlite3
import time
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from support.backends.toy_exchange import toys
from support.backends.writes import samples
from support.process.clocks import ManualClock
from vecsieve.adapters.contract import Question
from vecsieve.adapters.writes import MergesPoints, Receipt, WriteNeeds
from vecsieve.proxy.runtime import loop
from vecsieve.proxy.runtime.loop import Owner
from vecsieve.proxy.writes.book import Book
from vecsieve.proxy.writes.journal import Journal
from vecsieve.proxy.writes.rows import UNSEEN_SECONDS, JournalError, Kind, LeftOut, State
from vecsieve.proxy.writes.settling import Change, ChangedWrite, Removal, Settling

SAMPLE = next(sample for sample in samples() if sample.name == "weaviate REST")
POLICY: Any = SimpleNamespace(write=SimpleNamespace(deadline_seconds=2.0))
REMOVED = LeftOut(
    collection="Docs", partition=b"", id=b'"1"', survivor=b'"s"', tier="exact", similarity=1.0, point=b"{}", kind=Kind.REMOVED
)  # fmt: skip
LEFT_OUT = replace(REMOVED, kind=Kind.LEFT_OUT)
VICTIMS = {REMOVED.id: b"{}"}


@dataclass
class Exchange:
    """A database that does not answer before ``goes``."""

    requested: asyncio.Event
    goes: asyncio.Event
    operation: Any = SAMPLE.write

    async def ask(self, _: Question, *, seconds: float) -> bytes:
        self.requested.set()
        await self.goes.wait()
        return b""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "j.db"


@pytest.fixture(autouse=True)
def _unchanged(monkeypatch: pytest.MonkeyPatch) -> None:
    async def unchanged(_: Settling, removal: Removal, *__: object) -> Mapping[bytes, bytes]:
        return removal.victims

    monkeypatch.setattr(Settling, "_unchanged", unchanged)


def under_way(path: Path) -> int:
    with closing(sqlite3.connect(path)) as file:
        ((count,),) = file.execute("SELECT count(*) FROM going")
    return int(count)


def settling(journal: Journal, owner: Owner, failed: list[Exception]) -> Settling:
    shared: Any = SimpleNamespace(journal=journal, owner=owner, feed=SimpleNamespace(is_heard=False))
    services, unused = toys(clock=ManualClock()).services, cast("Any", None)
    return Settling(SAMPLE.adapter, services, shared, reads=unused, fell=failed.append)


async def entered(journal: Journal) -> Change:
    verbs = SAMPLE.adapter
    assert isinstance(verbs, MergesPoints)
    points = verbs.parse(SAMPLE.write, SAMPLE.body, WriteNeeds(vector_name=None, keys=(), most=9, known=SAMPLE.known))
    await journal.enter([REMOVED], State.PENDING)
    return Change(removal=Removal(verbs, points, VICTIMS), left_out=(REMOVED,))


async def test_a_removal_whose_row_comes_late_is_no_longer_under_way(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The journal's thread goes on after its time is over. Else `undo` would leave the point out for ten minutes."""
    removing = Book.removing

    def slow(*arguments: Any, **named: Any) -> Any:
        time.sleep(0.2)
        return removing(*arguments, **named)

    journal, failed = Journal(path, now=ManualClock(1.0)), list[Exception]()
    change, exchange = await entered(journal), Exchange(asyncio.Event(), asyncio.Event())
    monkeypatch.setattr(Book, "removing", slow)
    monkeypatch.setattr(loop, "WAIT_SECONDS", 0.05)
    await settling(journal, Owner(), failed).settle(change, cast("Any", exchange), POLICY, is_success=True)
    assert not exchange.requested.is_set()
    assert [type(error) for error in failed] == [TimeoutError, TimeoutError]
    monkeypatch.setattr(loop, "WAIT_SECONDS", 5.0)
    await journal.close()
    assert under_way(path) == 0


@pytest.mark.parametrize("times", [1, 2])
async def test_a_removal_goes_on_without_its_client_and_ends_with_the_process(path: Path, times: int) -> None:
    """A client disconnects, and then its handler is cancelled again."""
    journal, owner = Journal(path, now=ManualClock(1.0)), Owner()
    change, exchange = await entered(journal), Exchange(asyncio.Event(), asyncio.Event())
    before = asyncio.all_tasks()
    work = settling(journal, owner, []).settle(change, cast("Any", exchange), POLICY, is_success=True)
    client = asyncio.create_task(work)
    await exchange.requested.wait()
    for _ in range(times):
        client.cancel()
        await asyncio.sleep(0)
    assert (client.done(), len(owner)) == (times == 2, 1)
    await owner.close(grace_seconds=0.01)
    with pytest.raises(asyncio.CancelledError):
        await client
    assert asyncio.all_tasks() == before
    await journal.close()
    assert under_way(path) == 0


async def test_a_write_that_is_late_is_not_entered(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It goes out whole. Else its points would be in doubt for ever."""
    enter, journal = Book.enter, Journal(path, now=ManualClock(1.0))

    def slow(*arguments: Any, **named: Any) -> float:
        time.sleep(0.2)
        return enter(*arguments, **named)

    monkeypatch.setattr(Book, "enter", slow)
    monkeypatch.setattr(loop, "WAIT_SECONDS", 0.05)
    with pytest.raises(TimeoutError):
        await journal.enter([REMOVED], State.PENDING)
    monkeypatch.setattr(loop, "WAIT_SECONDS", 5.0)
    await journal.close()
    with closing(sqlite3.connect(path)) as file:
        assert file.execute("SELECT state FROM points").fetchall() == [("refused",)]


async def test_a_write_that_breaks_off_is_not_pending(path: Path) -> None:
    journal = Journal(path, now=ManualClock(1.0))
    change = await entered(journal)
    with pytest.raises(asyncio.CancelledError):
        async with settling(journal, Owner(), []).ending(change):
            raise asyncio.CancelledError
    await journal.close()
    with closing(sqlite3.connect(path)) as file:
        assert file.execute("SELECT state FROM points").fetchall() == [("refused",)]


async def test_ids_that_cannot_be_noted_leave_nothing_to_be_left_out(path: Path) -> None:
    """For as long as reads may not show them: another copy of them would be left out because of what is gone."""
    steady = ManualClock(1.0)
    journal = Journal(path, now=ManualClock(1.0), steady=steady)
    assert await journal.unseen("Docs", b"", [b"1"]) == frozenset()
    with closing(sqlite3.connect(path)) as file:
        file.execute("ALTER TABLE unseen RENAME TO gone")
        with pytest.raises(JournalError):
            await journal.note("Docs", b"", [b"2"])
        file.execute("ALTER TABLE gone RENAME TO unseen")
    assert await journal.unseen("Docs", b"", [b"1"]) == {b"1"}
    steady.now += UNSEEN_SECONDS
    assert await journal.unseen("Docs", b"", [b"1"]) == frozenset()
    await journal.close()


async def test_a_note_that_is_late_comes_before_the_next_question(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    journal, opened = Journal(path, now=ManualClock(1.0)), Journal._opened

    def slow(self: Journal) -> Book:
        time.sleep(0.1)
        return opened(self)

    monkeypatch.setattr(loop, "WAIT_SECONDS", 0.05)
    monkeypatch.setattr(Journal, "_opened", slow)
    for identifier in (b"1", b"2"):  # the second has not been begun when its time is over
        with pytest.raises(TimeoutError):
            await journal.note("Docs", b"", [identifier])
    monkeypatch.undo()
    assert await journal.unseen("Docs", b"", [b"1", b"2"]) == {b"1", b"2"}
    await journal.close()


@pytest.mark.parametrize("is_read", [True, False])
async def test_an_answer_that_was_not_read_supersedes_nothing(path: Path, is_read: bool) -> None:
    """It was too large, or coded: the database may have refused the write in it."""
    journal = Journal(path, now=ManualClock(1.0))
    await journal.enter([LEFT_OUT], State.DONE)
    change = Change(
        stored=(LEFT_OUT.id,), place=("Docs", b""), since=await journal.before("Docs", b"", [LEFT_OUT.id]),
        receipt_of=lambda body: Receipt(body=body),
    )  # fmt: skip
    exchange: Any = SimpleNamespace(operation=SAMPLE.write)
    write = ChangedWrite(settling(journal, Owner(), []), change, exchange, POLICY)
    if is_read:
        assert write.edited(b"[]") == b"[]"
    await write.settle(is_success=True)
    await journal.close()
    with closing(sqlite3.connect(path)) as file:
        assert file.execute("SELECT state FROM points").fetchall() == [("superseded" if is_read else "done",)]
