"""What a process holds is read from the kernel and from within, and a slope tells growth from noise."""

from __future__ import annotations

import asyncio
import mmap
import os
from pathlib import Path

import pytest

from prove.held import MIB, forget_peak, held, slope
from prove.stack import proxy
from prove.watched import asked, live_tasks
from support.network.faulty_upstream import RawClient


def pages(size: int) -> mmap.mmap:
    """Memory that the kernel has just given: what the heap has may be resident already, from an earlier test."""
    taken = mmap.mmap(-1, size)
    for start in range(0, size, mmap.PAGESIZE):
        taken[start] = 1
    return taken


def test_memory_descriptors_and_threads_are_those_of_the_process(tmp_path: Path) -> None:
    before = held([os.getpid()])
    taken = pages(64 * MIB)
    with (tmp_path / "open").open("w"):
        after = held([os.getpid()])
    assert after.descriptors == before.descriptors + 1
    assert after.resident - before.resident > 60 * MIB
    assert after.peak >= after.resident
    taken.close()
    assert held([os.getpid(), os.getpid()]).threads == 2 * before.threads


def test_a_peak_is_forgotten() -> None:
    taken = pages(64 * MIB)
    peak = held([os.getpid()]).peak
    taken.close()
    forget_peak(os.getpid())
    assert held([os.getpid()]).peak < peak - 32 * MIB


def test_a_slope_is_what_grows_for_each_step_whatever_the_noise() -> None:
    assert slope([(0, 1), (1, 3), (2, 5)]) == pytest.approx(2)
    assert slope([(0, 5), (1, 5), (2, 5)]) == 0
    with pytest.raises(ValueError, match="fewer than two"):
        slope([(0, 1)])


async def test_a_task_that_waits_is_counted_and_one_that_is_done_is_not() -> None:
    before = live_tasks()
    waiting = asyncio.create_task(asyncio.Event().wait())
    assert live_tasks() == before + 1
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)
    assert live_tasks() == before


@pytest.mark.deep
async def test_a_watched_proxy_tells_its_tasks_and_what_has_grown(tmp_path: Path) -> None:
    watch = {"PROVE_WATCH": str(tmp_path / "watch"), "PROVE_TRACE": "1"}
    async with proxy("http://127.0.0.1:9", module="prove.watched", environment=watch) as running:
        await asyncio.to_thread(asked, tmp_path / "watch")
        before, grown = await asyncio.to_thread(asked, tmp_path / "watch")
        assert sum(size for _, size in grown) == 0
        client = await RawClient.connect(running.port)
        await client.send(b"GET / HTTP/1.1\r\nHost: c\r\n\r\n")
        assert (await client.reply()).status == 502
        tasks, grown = await asyncio.to_thread(asked, tmp_path / "watch")
        await client.close()
        assert tasks > before
        assert sum(size for _, size in grown) > 0
