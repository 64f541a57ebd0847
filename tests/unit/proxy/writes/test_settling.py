"""The removal of replaced points, which the client waits for."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import Any, cast

import pytest

from support.backends.toy_exchange import toys
from support.backends.writes import samples
from support.process.clocks import ManualClock
from vecsieve.adapters.contract import Question
from vecsieve.adapters.writes import MergesPoints, WriteNeeds
from vecsieve.proxy.runtime.loop import Owner
from vecsieve.proxy.search.errors import LostReplyError
from vecsieve.proxy.telemetry.labels import FailOpen
from vecsieve.proxy.writes.rows import Kind, LeftOut
from vecsieve.proxy.writes.settling import Change, Removal, Settling

SAMPLE = next(sample for sample in samples() if sample.name == "weaviate REST")
SECONDS = 2.0
VICTIMS = {b'"%d"' % number: b"{}" for number in range(5)}
ROWS = [
    LeftOut(
        collection="Docs", partition=b"", id=victim, survivor=b'"s"', tier="exact", similarity=1.0, point=b"{}", kind=Kind.REMOVED
    )
    for victim in VICTIMS
]  # fmt: skip


@dataclass
class Exchange:
    """A database that takes the same time for each deletion, and a client that gives up in time. ``sent``: the seconds that each may take."""

    clock: ManualClock
    takes: float
    operation: Any = SAMPLE.write
    sent: list[float] = field(default_factory=list)

    async def ask(self, _: Question, *, seconds: float) -> bytes:
        self.sent.append(seconds)
        self.clock.advance(min(self.takes, seconds))
        if self.takes > seconds:
            raise TimeoutError
        return b""


@dataclass
class Rows:
    """A journal that lets everything be removed. ``ended``: the ids of removals that have ended."""

    ended: set[bytes] = field(default_factory=set)

    async def settle(self, *_: object) -> None: ...

    async def reading(self, _: Sequence[LeftOut]) -> None: ...

    async def unseen(self, *_: object) -> frozenset[bytes]:
        return frozenset()

    async def removing(self, rows: Mapping[int, LeftOut]) -> frozenset[bytes]:
        return frozenset(row.id for row in rows.values())

    async def removed(self, rows: Mapping[int, LeftOut]) -> None:
        self.ended.update(row.id for row in rows.values())


POLICY: Any = SimpleNamespace(write=SimpleNamespace(deadline_seconds=SECONDS))


def removal() -> Removal:
    verbs = SAMPLE.adapter
    assert isinstance(verbs, MergesPoints)
    needs = WriteNeeds(vector_name=None, keys=(), most=9, known=SAMPLE.known)
    return Removal(verbs, verbs.parse(SAMPLE.write, SAMPLE.body, needs), VICTIMS)


def settling(rows: Rows, clock: ManualClock, failed: list[Exception]) -> Settling:
    shared: Any = SimpleNamespace(journal=rows, owner=Owner(), feed=SimpleNamespace(is_heard=False))
    reads: Any = None
    services = toys(clock=clock).services
    return Settling(SAMPLE.adapter, services, shared, reads=reads, fell=failed.append)


@pytest.mark.parametrize(("takes", "sent"), [(0.1, 5), (0.8, 3), (9.0, 1)])
async def test_all_deletions_of_a_write_have_one_deadline(
    takes: float, sent: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def unchanged(_: Settling, removal: Removal, *__: object) -> Mapping[bytes, bytes]:
        return removal.victims

    monkeypatch.setattr(Settling, "_unchanged", unchanged)
    clock, late, journal = ManualClock(), list[Exception](), Rows()
    exchange: Any = Exchange(clock, takes)
    await settling(journal, clock, late)._removed(removal(), ROWS, exchange, POLICY)
    assert len(exchange.sent) == sent
    assert clock.now <= SECONDS
    assert [type(error) for error in late] == ([] if sent == len(VICTIMS) else [TimeoutError])
    assert journal.ended == VICTIMS.keys(), "one that fails is under way no longer, or undo would leave it"


async def test_a_removal_ends_when_its_client_leaves(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else its points would count as under way, and `undo` would leave them for ten minutes."""
    requested, answered, journal = asyncio.Event(), asyncio.Event(), Rows()

    class Slow(Exchange):
        async def ask(self, _: Question, *, seconds: float) -> bytes:
            requested.set()
            await answered.wait()
            return await super().ask(_, seconds=seconds)

    async def unchanged(_: Settling, removal: Removal, *__: object) -> Mapping[bytes, bytes]:
        return removal.victims

    monkeypatch.setattr(Settling, "_unchanged", unchanged)
    clock = ManualClock()
    exchange: Any = Slow(clock, 0.0)
    change = Change(removal=removal(), left_out=tuple(ROWS))
    client = asyncio.create_task(settling(journal, clock, []).settle(change, exchange, POLICY, is_success=True))
    await requested.wait()
    client.cancel()
    answered.set()
    with pytest.raises(asyncio.CancelledError):
        await client
    assert journal.ended == VICTIMS.keys()


async def test_where_the_second_look_fails_copies_of_stored_points_are_stored(monkeypatch: pytest.MonkeyPatch) -> None:
    async def fails(*_: object) -> Mapping[bytes, bytes]:
        raise LostReplyError(FailOpen.OVERFETCH_RESET)

    monkeypatch.setattr(Settling, "_now", fails)
    stored, within = (
        replace(ROWS[0], kind=Kind.LEFT_OUT, id=b"1", survivor=b"9"),
        replace(ROWS[0], kind=Kind.LEFT_OUT, id=b"2", survivor=b"3"),
    )
    change = Change(left_out=(stored, within), left_out_places=(0, 1), points=removal().points, originals={b"9": b"{}"})
    failed, unused = list[Exception](), cast("Any", None)
    late = await settling(Rows(), ManualClock(), failed)._late(change, None, unused, POLICY)
    assert late == [(stored, 0)]
    assert [type(error) for error in failed] == [LostReplyError]
