"""SIGTERM and a closed terminal end a block as Ctrl-C does, and only while it lasts."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from support.process.manual_time import ManualTime, settle
from vecsieve.proxy.runtime.lifecycle import Lifecycle, State, ended_by_signals
from vecsieve.proxy.runtime.loop import PERIOD_SECONDS, LoopLag


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_the_block_as_ctrl_c_does(number: signal.Signals) -> None:
    with pytest.raises(KeyboardInterrupt), ended_by_signals():
        signal.raise_signal(number)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_afterwards_the_handlers_are_what_they_were(number: signal.Signals) -> None:
    before = signal.getsignal(number)
    with ended_by_signals():
        assert signal.getsignal(number) is not before
    assert signal.getsignal(number) is before


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_librarys_own_error_of_a_signal_is_the_same_end(number: signal.Signals) -> None:
    """DuckDB raises RuntimeError where a signal comes within a query."""

    def interrupted() -> None:
        try:
            signal.raise_signal(number)
        except KeyboardInterrupt:
            raise RuntimeError("Query interrupted") from None

    with pytest.raises(KeyboardInterrupt), ended_by_signals():
        interrupted()
    with pytest.raises(RuntimeError), ended_by_signals():
        raise RuntimeError("no signal came")


def test_a_signal_that_is_ignored_stays_so() -> None:
    """Under nohup a hangup ends nothing."""
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with ended_by_signals():
            signal.raise_signal(signal.SIGHUP)
            assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)


def test_beside_the_main_thread_nothing_is_installed() -> None:
    seen: list[object] = []

    def look() -> None:
        with ended_by_signals():
            seen.append(signal.getsignal(signal.SIGTERM))

    thread = threading.Thread(target=look)
    thread.start()
    thread.join()
    assert seen == [signal.getsignal(signal.SIGTERM)]


TERM, INT, HUP = signal.SIGTERM, signal.SIGINT, signal.SIGHUP


class Recorded:
    """A plane that writes down what is done to it, and when."""

    def __init__(self, clock: ManualTime, in_flight: int = 0) -> None:
        self.in_flight = in_flight
        self.story: list[tuple[float, str]] = []
        self._clock = clock

    def drain(self) -> None:
        self.story.append((self._clock.now, "drain"))

    def stop_accepting(self) -> None:
        self.story.append((self._clock.now, "stop accepting"))


class Life:
    """A lifecycle on manual time, running."""

    def __init__(self, *, accept: float = 0.0, drain: float = 25.0, in_flight: int = 0) -> None:
        self.time = ManualTime()
        self.plane = Recorded(self.time, in_flight)
        self.reloads: list[float] = []
        self.cycle = Lifecycle(
            drain_accept_seconds=accept,
            drain_seconds=drain,
            reload=self.reload,
            pause=self.time.pause,
        )
        self.end = asyncio.create_task(self.cycle.finish(self.plane))

    async def reload(self) -> None:
        self.reloads.append(self.time.now)
        await self.time.pause(1.0)

    async def stopped_after(self, seconds: float) -> bool:
        await self.time.advance(seconds)
        return self.end.done()


async def test_a_process_is_ready_once_started_and_until_told_to_stop() -> None:
    life = Life()
    assert (life.cycle.state, life.cycle.is_ready) == (State.STARTING, False)
    life.cycle.started()
    assert (life.cycle.state, life.cycle.is_ready) == (State.READY, True)
    life.cycle.handle_signal(TERM)
    assert (life.cycle.state, life.cycle.is_ready) == (State.DRAINING, False), "at once, before the loop turns"
    assert await life.end


async def test_a_process_that_was_told_to_stop_while_starting_never_becomes_ready() -> None:
    life = Life()
    life.cycle.handle_signal(TERM)
    life.cycle.started()
    assert not life.cycle.is_ready
    assert await life.end


@pytest.mark.parametrize("number", [TERM, INT])
async def test_an_idle_sidecar_stops_at_once(number: signal.Signals) -> None:
    life = Life()
    life.cycle.started()
    await settle()
    assert not life.end.done()
    life.cycle.handle_signal(number)
    assert await life.stopped_after(0.0)
    assert life.plane.story == [(0.0, "drain"), (0.0, "stop accepting")]
    assert life.end.result() is True
    assert life.cycle.state is State.STOPPED


async def test_behind_a_service_connections_are_accepted_for_the_configured_time() -> None:
    life = Life(accept=5.0)
    life.cycle.handle_signal(TERM)
    assert not await life.stopped_after(4.9)
    assert life.plane.story == [(0.0, "drain")]
    assert await life.stopped_after(0.1)
    assert life.plane.story[-1] == (5.0, "stop accepting")


async def test_requests_in_flight_are_waited_for() -> None:
    life = Life(in_flight=2)
    life.cycle.handle_signal(TERM)
    assert not await life.stopped_after(10.0)
    assert life.cycle.state is State.FINISHING
    life.plane.in_flight = 0
    assert await life.stopped_after(0.1)
    assert life.end.result() is True


async def test_requests_that_never_end_are_cut_after_the_drain_time() -> None:
    life = Life(accept=5.0, drain=25.0, in_flight=1)
    life.cycle.handle_signal(TERM)
    assert not await life.stopped_after(29.9)
    assert await life.stopped_after(0.2)
    assert life.end.result() is False


async def test_a_drain_time_of_zero_cuts_at_once() -> None:
    life = Life(drain=0.0, in_flight=1)
    life.cycle.handle_signal(TERM)
    assert await life.stopped_after(0.0)
    assert life.end.result() is False


@pytest.mark.parametrize("second", [TERM, INT])
async def test_a_second_signal_while_accepting_means_now(second: signal.Signals) -> None:
    life = Life(accept=5.0, in_flight=1)
    life.cycle.handle_signal(TERM)
    await life.time.advance(1.0)
    life.cycle.handle_signal(second)
    assert await life.stopped_after(0.0)
    assert life.plane.story == [(0.0, "drain"), (1.0, "stop accepting")]
    assert life.end.result() is False


async def test_a_second_signal_while_finishing_means_now() -> None:
    life = Life(in_flight=1)
    life.cycle.handle_signal(TERM)
    await life.time.advance(3.0)
    life.cycle.handle_signal(TERM)
    assert await life.stopped_after(0.0)


async def test_each_hangup_asks_for_new_settings_while_ready_only() -> None:
    life = Life(in_flight=1)
    life.cycle.handle_signal(HUP)
    assert life.reloads == [], "still starting: the settings are being read anyway"
    life.cycle.started()
    life.cycle.handle_signal(HUP)
    await settle()
    assert life.reloads == [0.0]
    life.cycle.handle_signal(HUP)
    life.cycle.handle_signal(HUP)
    await life.time.advance(0.5)
    assert life.reloads == [0.0], "one after another"
    await life.time.advance(0.5)
    assert life.reloads == [0.0, 1.0], "once for all that came meanwhile"
    life.cycle.handle_signal(TERM)
    life.cycle.handle_signal(HUP)
    await life.time.advance(2.0)
    assert life.reloads == [0.0, 1.0]
    assert not await life.stopped_after(1.0), "a hangup is not a second signal"
    life.plane.in_flight = 0
    assert await life.stopped_after(1.0)


async def test_no_task_outlives_the_drain() -> None:
    life = Life(accept=5.0, in_flight=1)
    life.cycle.handle_signal(TERM)
    await life.time.advance(6.0)
    life.cycle.handle_signal(TERM)
    await life.end
    names = {task.get_name() for task in asyncio.all_tasks()}
    assert names.isdisjoint({"vecsieve-drain", "vecsieve-reload"})


async def test_cancelling_the_wait_is_not_swallowed() -> None:
    life = Life(in_flight=1)
    life.cycle.handle_signal(TERM)
    await settle()
    life.end.cancel()
    with pytest.raises(asyncio.CancelledError):
        await life.end


PROGRAM = """
import asyncio, sys
from vecsieve.proxy.runtime.lifecycle import Lifecycle

class Plane:
    in_flight = int(sys.argv[1])
    def drain(self): print("drain", flush=True)
    def stop_accepting(self): print("stop accepting", flush=True)

async def reload():
    print("reload", flush=True)

async def main():
    cycle = Lifecycle(drain_accept_seconds=0, drain_seconds=20, reload=reload)
    cycle.listen_to_signals()
    cycle.started()
    print("ready", flush=True)
    clean = await cycle.finish(Plane())
    cycle.ignore_signals()
    return 0 if clean else 3

sys.exit(asyncio.run(main()))
"""


@contextmanager
def running(in_flight: int) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, str(in_flight)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    try:
        assert process.stdout.readline() == "ready\n"
        yield process
    finally:
        process.kill()
        process.communicate(timeout=10)


def next_line(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def test_a_real_idle_process_reloads_on_hangup_and_ends_soon_after_sigterm() -> None:
    with running(in_flight=0) as process:
        process.send_signal(HUP)
        assert next_line(process) == "reload"
        started = time.monotonic()
        process.send_signal(TERM)
        assert process.wait(timeout=10) == 0
        assert time.monotonic() - started < 8.0
        assert [next_line(process), next_line(process)] == ["drain", "stop accepting"]


def test_a_real_busy_process_ends_soon_after_the_second_signal() -> None:
    with running(in_flight=1) as process:
        process.send_signal(INT)
        assert [next_line(process), next_line(process)] == ["drain", "stop accepting"]
        started = time.monotonic()
        process.send_signal(TERM)
        assert process.wait(timeout=10) == 3
        assert time.monotonic() - started < 8.0


async def test_lag_is_measured_ten_times_a_second() -> None:
    time, seen = ManualTime(), list[float]()
    lag = LoopLag(seen.append, clock=time, pause=time.pause)
    lag.start()
    await time.advance(1.05)
    await lag.close()
    assert seen == pytest.approx([0.0] * 10)
    assert time.requested == [PERIOD_SECONDS] * 11


async def test_a_late_waking_is_seen_with_its_length() -> None:
    time, seen = ManualTime(), list[float]()

    async def late(seconds: float) -> None:
        time.now += seconds + 0.03
        await asyncio.sleep(0)

    lag = LoopLag(seen.append, clock=time, pause=late)
    lag.start()
    await settle()
    await lag.close()
    assert seen[:3] == pytest.approx([0.03] * 3)


async def test_a_clock_that_stands_still_gives_no_negative_lag() -> None:
    seen: list[float] = []
    lag = LoopLag(seen.append, clock=lambda: 5.0, pause=lambda _: asyncio.sleep(0))
    lag.start()
    await settle()
    await lag.close()
    assert set(seen) == {0.0}


async def test_each_waking_beats() -> None:
    time, beats = ManualTime(), list[float]()
    lag = LoopLag(lambda _: None, clock=time, pause=time.pause, beat=lambda: beats.append(time.now))
    lag.start()
    await time.advance(0.35)
    await lag.close()
    assert beats == pytest.approx([0.1, 0.2, 0.3])


async def test_it_is_started_once_and_closed_any_number_of_times() -> None:
    lag = LoopLag(lambda _: None, clock=lambda: 0.0)
    await lag.close()
    lag.start()
    with pytest.raises(RuntimeError, match="already"):
        lag.start()
    await lag.close()
    await lag.close()
    assert [task for task in asyncio.all_tasks() if task.get_name() == "vecsieve-loop-lag"] == []


async def test_what_ended_the_measuring_is_not_lost() -> None:
    def broken(_seconds: float) -> None:
        raise ZeroDivisionError

    lag = LoopLag(broken, clock=lambda: 0.0, pause=lambda _: asyncio.sleep(0))
    lag.start()
    await settle()
    with pytest.raises(ZeroDivisionError):
        await lag.close()
