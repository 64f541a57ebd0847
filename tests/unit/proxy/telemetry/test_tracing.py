"""Tracing that is off loads nothing, and the stopwatch of stages."""

from __future__ import annotations

import subprocess
import sys

from vecsieve.proxy.search.report import stages_of
from vecsieve.proxy.telemetry.labels import Stage
from vecsieve.proxy.telemetry.tracing import Stopwatch


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


def test_a_stage_entered_twice_adds_up_and_its_marks_say_when() -> None:
    clock = Clock()
    watch = Stopwatch(clock, clock())
    for seconds in (1.0, 2.0):
        since = watch.clock()
        clock.now += seconds
        watch.marks.append((Stage.UPSTREAM, since, watch.clock()))
        clock.now += 10.0
    assert watch.started == 100.0
    assert watch.marks == [(Stage.UPSTREAM, 100.0, 101.0), (Stage.UPSTREAM, 111.0, 113.0)]
    assert stages_of(watch.marks) == {Stage.UPSTREAM: 3.0}
