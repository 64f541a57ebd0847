"""Tracing that is off keeps nothing, makes nothing and sends nothing."""

from __future__ import annotations

import subprocess
import sys

from vecsieve.proxy.runtime.addresses import Origin
from vecsieve.proxy.telemetry.labels import AttemptKind, Outcome, Stage
from vecsieve.proxy.telemetry.tracing import MOST_MARKS, NO_TRACING, UNTOLD, UNTRACED, Finish, Stopwatch

PARENT = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"


def test_every_request_is_untraced() -> None:
    assert all(NO_TRACING.begin(parents) is UNTRACED for parents in ([], [PARENT], [PARENT, PARENT], ["x"]))
    assert UNTRACED.trace_id is None


def test_a_leg_leaves_the_clients_traceparent_alone() -> None:
    leg = UNTRACED.leg(AttemptKind.ORIGINAL, "GET", Origin("http", "db:6333"))
    with leg as entered:
        entered.answered(200)
        entered.ended(0)
        entered.cut()
    assert leg is UNTOLD
    assert leg.traceparent is None


async def test_nothing_that_is_told_is_kept() -> None:
    UNTRACED.classified("query")
    UNTRACED.staged([(Stage.DECODE, 1.0, 2.0)])
    UNTRACED.end(Finish(method="GET", outcome=Outcome.PASSTHROUGH))
    await NO_TRACING.close()
    assert not hasattr(UNTRACED, "__dict__") or not vars(UNTRACED)


def test_a_data_plane_that_traces_nothing_does_not_load_opentelemetry() -> None:
    program = """
import asyncio, sys
from prometheus_client import CollectorRegistry
from vecsieve.config.schema import Settings
from vecsieve.proxy.telemetry.metrics import Metrics
from vecsieve.proxy.process.assembly import Process

async def main():
    for tracing in ({}, {"endpoint": "http://127.0.0.1:9"}):
        settings = Settings.model_validate({"tracing": tracing})
        await Process(settings, metrics=Metrics(CollectorRegistry(), backend="qdrant"), log=lambda _: None).close()
        print("opentelemetry.sdk" in sys.modules)

asyncio.run(main())
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.split() == ["False", "True"]


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def test_a_stage_entered_twice_adds_up() -> None:
    clock = Clock()
    watch = Stopwatch(clock)
    for seconds in (1.0, 2.0):
        since = watch.clock()
        clock.now += seconds
        watch.add(Stage.UPSTREAM, since)
        clock.now += 10.0
    assert watch.seconds(Stage.UPSTREAM) == 3.0
    assert watch.elapsed() == 23.0


def test_a_stage_never_entered_took_no_time() -> None:
    assert Stopwatch(Clock()).seconds(Stage.SELECT) == 0.0


def test_marks_say_when_each_stage_was_entered_and_left() -> None:
    clock = Clock()
    watch = Stopwatch(clock, keeps_marks=True)
    for seconds in (1.0, 2.0):
        since = watch.clock()
        clock.now += seconds
        watch.add(Stage.DECODE, since)
        clock.now += 10.0
    assert watch.marks() == ((Stage.DECODE, 100.0, 101.0), (Stage.DECODE, 111.0, 113.0))
    assert watch.stages() == ((Stage.DECODE, 3.0),), "they add up as they do without marks"


def test_no_marks_are_kept_unless_asked_for() -> None:
    watch = Stopwatch(Clock())
    watch.add(Stage.DECODE, watch.clock())
    assert watch.marks() == ()


def test_marks_are_bounded_and_sums_are_not() -> None:
    clock = Clock()
    watch = Stopwatch(clock, keeps_marks=True)
    for _ in range(2 * MOST_MARKS):
        since = watch.clock()
        clock.now += 1.0
        watch.add(Stage.DECODE, since)
    assert len(watch.marks()) == MOST_MARKS
    assert dict(watch.stages()) == {Stage.DECODE: 2 * MOST_MARKS}
