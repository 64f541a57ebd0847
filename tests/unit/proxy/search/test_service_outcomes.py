"""The way of a search from its body to its answer: who answers it, and what is said of it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

import pytest

from support.backends.toy_backend import OUT_OF_QUOTA, ToyAdapter, ToyDialect, families_of
from support.backends.toy_exchange import OWN, ToyExchange, shadowed, toys
from support.process.clocks import ManualClock
from support.process.manual_time import settle
from support.process.turning import Turning, calm
from vecsieve.adapters.contract import Reason, UnsupportedError
from vecsieve.adapters.fusions import SAME, Ending
from vecsieve.config.schema import LimitSettings
from vecsieve.proxy.runtime.memory import MemoryGuard
from vecsieve.proxy.search.hedge import Fits
from vecsieve.proxy.search.limits import Turns
from vecsieve.proxy.search.service import ProcessServices, SearchService
from vecsieve.proxy.telemetry.labels import AttemptKind, Bypass, FailOpen, Outcome
from vecsieve.proxy.telemetry.requests import RequestRecord


@dataclass
class Made:
    """A service as a process makes it."""

    services: ProcessServices
    service: SearchService

    def record(self) -> RequestRecord:
        return self.services.recorder.begin()


def made(*, resident: Callable[[], int] = lambda: 0, most: int = 2, turns: Turns | None = None) -> Made:
    """``resident``: how many of 100 bytes are held."""
    guard = MemoryGuard(100, resident_bytes=resident, clock=ManualClock())
    turns = calm() if turns is None else turns
    found = toys(limits=LimitSettings(searches_in_flight=most), memory=guard, turns=turns)
    return Made(found.services, found.service)


async def test_a_search_is_improved_and_reported() -> None:
    there, exchange = made(), ToyExchange()
    record = there.record()
    answer = await there.service.search(exchange, record, sample=1.0)
    assert families_of(answer.body) == [[0, 1, 2, 3]]
    assert record.outcome is Outcome.DEDUP
    assert record.report is answer.report
    assert there.services.recorder.searches_in_flight == 0


async def test_in_shadow_the_answer_is_upstreams_own_and_the_measurement_follows_it() -> None:
    there, exchange = made(), shadowed(ToyExchange())
    record = there.record()
    assert await there.service.search(exchange, record, sample=1.0) is OWN
    assert (record.outcome, record.report) == (Outcome.SHADOW, None)
    assert (exchange.originals, exchange.sent) == ([AttemptKind.ORIGINAL], [])
    await settle()
    assert len(exchange.sent) == 1


async def test_in_shadow_what_is_not_sampled_is_bypassed() -> None:
    there, exchange = made(), shadowed(ToyExchange())
    record = there.record()
    assert await there.service.search(exchange, record, sample=0.0) is OWN
    assert (record.outcome, record.bypass) == (Outcome.BYPASS, Bypass.SHADOW_NOT_SAMPLED)
    await settle()
    assert exchange.sent == []


async def test_what_the_adapter_does_not_support_is_bypassed(monkeypatch: pytest.MonkeyPatch) -> None:
    def unsupported(*_: object) -> None:
        raise UnsupportedError(Reason.ORDERING_CHOSEN)

    monkeypatch.setattr(ToyAdapter, "parse_request", unsupported)
    there, exchange = made(), ToyExchange()
    record = there.record()
    assert await there.service.search(exchange, record, sample=1.0) is OWN
    assert (record.outcome, record.bypass) == (Outcome.BYPASS, Reason.ORDERING_CHOSEN)
    assert exchange.originals == [AttemptKind.ORIGINAL]


async def test_a_fault_of_ours_while_preparing_is_the_plain_answer() -> None:
    there, exchange = made(), ToyExchange(plain=b"no JSON")
    record = there.record()
    assert await there.service.search(exchange, record, sample=1.0) is OWN
    assert (record.outcome, record.fail_open) == (Outcome.FAIL_OPEN, FailOpen.INTERNAL)
    assert exchange.originals == [AttemptKind.ORIGINAL]


@pytest.mark.parametrize(("resident", "reason"), [(10, None), (86, FailOpen.MEMORY)])
def test_there_is_no_room_when_memory_is_short(resident: int, reason: FailOpen | None) -> None:
    there = made(resident=lambda: resident)
    assert there.service.no_room() is reason


async def test_there_is_no_room_when_as_many_as_may_be_are_improved() -> None:
    there, go_on = made(most=1), asyncio.Event()

    class Slow(ToyExchange):
        async def send(self, body: bytes, *, seconds: float, fits: Fits, ending: Ending = SAME) -> bytes:
            await go_on.wait()
            return await ToyExchange.send(self, body, seconds=seconds, fits=fits)

    assert there.service.no_room() is None
    first = asyncio.create_task(there.service.search(Slow(), there.record(), sample=1.0))
    await settle()
    assert there.service.no_room() is FailOpen.OVERLOAD
    go_on.set()
    await first
    assert there.service.no_room() is None


async def test_a_cancelled_search_gives_its_place_back() -> None:
    there = made()
    cancelled = ToyExchange(answering=lambda _: asyncio.CancelledError())
    with pytest.raises(asyncio.CancelledError):
        await there.service.search(cancelled, there.record(), sample=1.0)
    assert there.services.recorder.searches_in_flight == 0


async def test_those_whom_nobody_has_looked_at_take_up_room_too() -> None:
    there, waiting = made(most=3), 2
    service = SearchService(ToyAdapter(), ToyDialect(), there.services, number_bytes=12, waiting=lambda: waiting)
    assert service.no_room() is None
    waiting = 3
    assert service.no_room() is FailOpen.OVERLOAD


async def test_while_the_loop_lags_there_is_no_room_for_a_search() -> None:
    loop = Turning()
    there = made(turns=loop.turns)
    assert there.service.no_room() is None
    for _ in range(3):
        loop.turn(2 * LimitSettings().lag_seconds)
    assert there.service.no_room() is FailOpen.OVERLOAD


async def test_after_a_refusal_a_search_goes_as_the_client_wrote_it_and_nothing_is_asked() -> None:
    there, exchange = made(), ToyExchange()
    there.service.status_received("c", 429)
    record = there.record()
    assert await there.service.search(exchange, record, sample=1.0) is OWN
    assert (record.outcome, record.bypass) == (Outcome.BYPASS, Bypass.QUOTA)
    assert (exchange.sent, exchange.originals) == ([], [AttemptKind.ORIGINAL])


async def test_what_is_no_refusal_changes_nothing() -> None:
    there, exchange = made(), ToyExchange()
    there.service.status_received("c", 500)
    there.service.success_received("c", b"fine")
    await there.service.search(exchange, there.record(), sample=1.0)
    assert len(exchange.sent) == 1


async def test_a_refusal_inside_a_success_is_heard_too() -> None:
    there, exchange = made(), ToyExchange()
    there.service.success_received("c", OUT_OF_QUOTA)
    record = there.record()
    await there.service.search(exchange, record, sample=1.0)
    assert record.bypass is Bypass.QUOTA


async def test_a_measurement_is_withheld_while_the_share_comes_back() -> None:
    there, exchange = made(), shadowed(ToyExchange())
    there.service.status_received("", 429)
    record = there.record()
    assert await there.service.search(exchange, record, sample=1.0) is OWN
    await settle()
    assert (record.bypass, exchange.sent) == (Bypass.QUOTA, [])
