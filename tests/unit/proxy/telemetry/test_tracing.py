"""Tracing that is off loads nothing, and the stopwatch of stages."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from support.process.clocks import ManualClock
from vecsieve.proxy.search.report import stages_of
from vecsieve.proxy.telemetry.labels import Stage
from vecsieve.proxy.telemetry.tracing import Parent, Stopwatch, parent_of, sampled_trace_id, written


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


def test_a_stage_entered_twice_adds_up_and_its_marks_say_when() -> None:
    clock = ManualClock(100.0)
    watch = Stopwatch(clock, clock())
    for seconds in (1.0, 2.0):
        since = watch.clock()
        clock.now += seconds
        watch.marks.append((Stage.UPSTREAM, since, watch.clock()))
        clock.now += 10.0
    assert watch.started == 100.0
    assert watch.marks == [(Stage.UPSTREAM, 100.0, 101.0), (Stage.UPSTREAM, 111.0, 113.0)]
    assert stages_of(watch.marks) == {Stage.UPSTREAM: 3.0}


# A trace's id is taken from a well-formed traceparent of a recorded trace, and nothing else ever is.

TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
PARENT = "00f067aa0ba902b7"


def test_the_id_of_a_recorded_trace_is_found() -> None:
    assert sampled_trace_id([f"00-{TRACE}-{PARENT}-01"]) == TRACE


def test_other_flags_beside_the_sampled_one_do_not_matter() -> None:
    assert sampled_trace_id([f"00-{TRACE}-{PARENT}-03"]) == TRACE


def test_a_later_version_may_say_more() -> None:
    assert sampled_trace_id([f"cc-{TRACE}-{PARENT}-01-what-the-future-brings"]) == TRACE
    assert sampled_trace_id([f"cc-{TRACE}-{PARENT}-01"]) == TRACE


@pytest.mark.parametrize(
    "values",
    [
        [],
        [""],
        [f"00-{TRACE}-{PARENT}-00"],
        [f"00-{TRACE}-{PARENT}-01", f"00-{TRACE}-{PARENT}-01"],
        [f"ff-{TRACE}-{PARENT}-01"],
        [f"00-{'0' * 32}-{PARENT}-01"],
        [f"00-{TRACE}-{'0' * 16}-01"],
        [f"00-{TRACE.upper()}-{PARENT}-01"],
        [f"00-{TRACE}-{PARENT}-01-more"],
        [f"cc-{TRACE}-{PARENT}-01more"],
        [f"00-{TRACE[:-1]}-{PARENT}-01"],
        [f" 00-{TRACE}-{PARENT}-01"],
        [f"00-{TRACE}-{PARENT}-01\n"],
    ],
)
def test_anything_else_is_no_trace(values: list[str]) -> None:
    assert sampled_trace_id(values) is None


@given(st.lists(st.text() | st.from_regex(r"[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}.*"), max_size=2))
@example([f"00-{TRACE}-{PARENT}-01"])
def test_what_comes_out_is_32_digits_of_what_went_in(values: list[str]) -> None:
    """For any fields: None, or 32 hexadecimal digits that stand in the only field."""
    result = sampled_trace_id(values)
    assert result is None or (re.fullmatch(r"[0-9a-f]{32}", result) and len(values) == 1 and result in values[0])


def test_a_parent_is_read_whether_its_trace_is_recorded_or_not() -> None:
    for flags, is_sampled in (("00", False), ("01", True), ("02", False), ("03", True)):
        parent = parent_of([f"00-{TRACE}-{PARENT}-{flags}"])
        assert parent == Parent(int(TRACE, 16), int(PARENT, 16), int(flags, 16))
        assert parent.is_sampled is is_sampled


def test_flags_that_mean_nothing_yet_are_not_passed_on() -> None:
    parent = parent_of([f"00-{TRACE}-{PARENT}-ff"])
    assert parent is not None
    assert parent.flags == 0x03


@given(st.integers(1, 2**128 - 1), st.integers(1, 2**64 - 1), st.integers(0, 3))
def test_what_is_written_is_read_again(trace_id: int, span_id: int, flags: int) -> None:
    """For any ids but zero and any flags that are passed on: the parent that is read is the one that was written."""
    assert parent_of([written(trace_id, span_id, flags)]) == Parent(trace_id, span_id, flags)
