"""Thresholds are asked for once and honestly reported; pressure follows the share of the smallest limit."""

from __future__ import annotations

import asyncio
import ctypes
import gc
import platform
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.process.clocks import ManualClock
from vecsieve.proxy.runtime.memory import (
    ARENAS,
    MMAP_THRESHOLD_BYTES,
    TRIM_THRESHOLD_BYTES,
    TRIM_WORTH_BYTES,
    MemoryGuard,
    Pressure,
    Trimming,
    cgroup_limit_bytes,
    collect_seldom,
    glibc_mallopt,
    glibc_trim,
    keep_freed_blocks,
    resident_bytes,
)

MIB = 1024 * 1024
MALLOC_OPTIONS = [(-3, MMAP_THRESHOLD_BYTES), (-1, TRIM_THRESHOLD_BYTES), (-8, ARENAS)]


@pytest.mark.parametrize("taken", [1, 0])
def test_both_thresholds_are_raised_and_threads_share_an_arena_whatever_was_refused_before(taken: int) -> None:
    requests: list[tuple[int, int]] = []

    def mallopt(parameter: int, value: int) -> int:
        requests.append((parameter, value))
        return taken

    keep_freed_blocks(mallopt)
    assert requests == MALLOC_OPTIONS


def test_without_glibc_there_is_no_mallopt_and_nothing_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_library(_name: str | None) -> ctypes.CDLL:
        raise OSError("no C library under this name")

    monkeypatch.setattr("vecsieve.proxy.runtime.memory.ctypes.CDLL", no_library)
    assert (glibc_mallopt(), glibc_trim()) == (None, None)
    keep_freed_blocks(glibc_mallopt())


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="the C library is not glibc")
def test_this_glibc_takes_all() -> None:
    mallopt = glibc_mallopt()
    assert mallopt is not None
    assert [mallopt(parameter, value) for parameter, value in MALLOC_OPTIONS] == [1, 1, 1]


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="the C library is not glibc")
def test_what_one_thread_freed_serves_the_next() -> None:
    """Counted by the C library: as many arenas as threads without the bound, one with it."""
    assert arenas_of("pass") > 1
    assert arenas_of("from vecsieve.proxy.runtime.memory import *; keep_freed_blocks(glibc_mallopt())") == 1


def arenas_of(first: str) -> int:
    """How many arenas a process has whose threads have allocated, in a process of its own."""
    script = f"""
import ctypes, sys, threading
{first}
library = ctypes.CDLL(None)
library.malloc.restype = ctypes.c_void_p
ready = threading.Barrier(4)
def allocate():
    library.malloc(ctypes.c_size_t(100_000))
    ready.wait()
threads = [threading.Thread(target=allocate) for _ in range(4)]
for thread in threads: thread.start()
for thread in threads: thread.join()
library.fdopen.restype = ctypes.c_void_p
out = library.fdopen(1, b"w")
library.malloc_info(0, ctypes.c_void_p(out))
library.fflush(ctypes.c_void_p(out))
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    return done.stdout.count("<heap nr=")


@pytest.mark.parametrize(
    ("resident", "expected"),
    [
        (0, Pressure.NONE),
        (799, Pressure.NONE),
        (800, Pressure.HIGH),
        (919, Pressure.HIGH),
        (920, Pressure.CRITICAL),
        (2000, Pressure.CRITICAL),
    ],
)
def test_pressure_begins_at_80_and_92_percent(resident: int, expected: Pressure) -> None:
    guard = MemoryGuard(1000, resident_bytes=lambda: resident, clock=ManualClock())
    assert guard.pressure() is expected


def test_memory_is_read_at_most_every_100_ms() -> None:
    clock = ManualClock(5.0)
    readings = iter([500, 950, 100])
    guard = MemoryGuard(1000, resident_bytes=lambda: next(readings), clock=clock)
    seen = []
    for _ in range(8):
        seen.append(guard.pressure())
        clock.advance(0.03)
    assert seen == [Pressure.NONE] * 4 + [Pressure.CRITICAL] * 4
    clock.advance(10)
    assert guard.pressure() is Pressure.NONE


def test_without_a_limit_nothing_is_read() -> None:
    def never() -> int:
        raise AssertionError("read without a limit to compare with")

    assert MemoryGuard(None, resident_bytes=never, clock=ManualClock()).pressure() is Pressure.NONE


def test_resident_memory_is_read_in_bytes(tmp_path: Path) -> None:
    statm = tmp_path / "statm"
    statm.write_text("5000 3 2 1 0 9 0\n", encoding="ascii")
    assert resident_bytes(statm) in {3 * 4096, 3 * 16384, 3 * 65536}
    assert 5 * MIB < resident_bytes() < 4096 * MIB


@pytest.mark.parametrize("text", ["", "5000"])
def test_resident_memory_that_cannot_be_read_is_zero(tmp_path: Path, text: str) -> None:
    statm = tmp_path / "statm"
    statm.write_text(text, encoding="ascii")
    assert resident_bytes(statm) == 0
    assert resident_bytes(tmp_path / "missing") == 0


def machine(root: Path, *, membership: str | None, limits: dict[str, str]) -> Path:
    """A file system of one machine: which group the process is in, and each group's limit."""
    if membership is not None:
        (root / "proc/self").mkdir(parents=True)
        (root / "proc/self/cgroup").write_text(membership, encoding="ascii")
    for path, text in limits.items():
        file = root / "sys/fs/cgroup" / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="ascii")
    return root


@pytest.mark.parametrize(
    ("membership", "limits", "expected"),
    [
        ("0::/\n", {"memory.max": "402653184\n"}, 384 * MIB),
        ("0::/\n", {"memory.max": "max\n"}, None),
        ("0::/a/b\n", {"a/memory.max": "1000\n", "a/b/memory.max": "2000\n"}, 1000),
        ("0::/a/b\n", {"a/memory.max": "max\n", "a/b/memory.max": "2000\n"}, 2000),
        ("0::/../sibling\n", {"memory.max": "3000\n"}, 3000),
        ("4:memory:/x\n", {"memory/memory.limit_in_bytes": "5000\n"}, 5000),
        ("4:memory:/x\n", {"memory/memory.limit_in_bytes": "9223372036854771712\n"}, None),
        ("0::/\n", {"memory.max": "0\n"}, None),
        ("0::/\n", {"memory.max": "garbage\n"}, None),
        ("0::/\n", {}, None),
        (None, {"memory.max": "7000\n"}, 7000),
        (None, {}, None),
    ],
)
def test_the_smallest_limit_above_the_process_holds(
    tmp_path: Path, membership: str | None, limits: dict[str, str], expected: int | None
) -> None:
    assert cgroup_limit_bytes(root=machine(tmp_path, membership=membership, limits=limits)) == expected


def test_workers_share_the_limit_equally(tmp_path: Path) -> None:
    root = machine(tmp_path, membership="0::/\n", limits={"memory.max": "1000\n"})
    assert cgroup_limit_bytes(workers=4, root=root) == 250


@given(st.text(max_size=40))
def test_any_limit_text_is_a_positive_number_or_no_limit(text: str) -> None:
    """Invariant: what the guard divides by is None or at least 1, whatever the file says."""
    from tempfile import TemporaryDirectory

    with TemporaryDirectory() as directory:
        root = machine(Path(directory), membership="0::/\n", limits={})
        (root / "sys/fs/cgroup").mkdir(parents=True)
        (root / "sys/fs/cgroup/memory.max").write_text(text, encoding="utf-8", errors="replace")
        limit = cgroup_limit_bytes(workers=3, root=root)
    assert limit is None or limit >= 1


async def test_what_was_let_go_of_is_given_back_once_a_while_after_it_was_worth_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("vecsieve.proxy.runtime.memory.TRIM_SECONDS", 0.02)
    trimmed: list[int] = []
    trimming = Trimming(asyncio.get_running_loop(), lambda: trimmed.append(1))
    trimming.freed(TRIM_WORTH_BYTES - 1)
    await asyncio.sleep(0.1)
    assert trimmed == []
    for _ in range(5):
        trimming.freed(TRIM_WORTH_BYTES)
    await asyncio.sleep(0.2)
    assert trimmed == [1]
    trimming.freed(TRIM_WORTH_BYTES)
    await asyncio.sleep(0.2)
    assert trimmed == [1, 1]


def test_without_glibc_nothing_is_planned() -> None:
    planned: list[object] = []
    loop = SimpleNamespace(call_later=lambda *args: planned.append(args))
    Trimming(cast(asyncio.AbstractEventLoop, loop), None).freed(10 * TRIM_WORTH_BYTES)
    assert planned == []


def test_this_process_can_be_trimmed() -> None:
    trim = glibc_trim()
    assert trim is None or trim() in {0, 1}


@contextmanager
def collections_of_all() -> Iterator[list[int]]:
    """A list of what each walk over all objects found; the collector's thresholds are as they were afterwards."""
    collections: list[int] = []

    def note(phase: str, details: dict[str, int]) -> None:
        if phase == "stop" and details["generation"] == 2:
            collections.append(details["collected"])

    before = gc.get_threshold()
    try:
        collect_seldom()
        gc.callbacks.append(note)
        yield collections
    finally:
        gc.callbacks.remove(note)
        gc.set_threshold(*before)


def test_a_crowd_of_connections_brings_no_walk_over_all_objects() -> None:
    with collections_of_all() as collections:
        crowd = [[{"number": [number]} for _ in range(15)] for number in range(4096)]  # 30 objects each, as measured
        assert len(crowd) == 4096
        assert collections == []


def test_cyclic_garbage_is_collected_while_it_is_young() -> None:
    with collections_of_all() as collections:
        before = len(gc.get_objects())
        for _ in range(100_000):
            cycle: list[object] = []
            cycle.append(cycle)
        del cycle
        assert collections == []
        assert len(gc.get_objects()) - before < 20_000, "two young generations"


def test_garbage_that_was_not_young_is_collected_in_the_end() -> None:
    with collections_of_all() as collections:
        young, middle, old = gc.get_threshold()  # Python 3.13 begins with 2,000 where 3.11 and 3.12 have 700
        for _ in range(3 * young * middle * old // 100_000):
            kept: list[list[object]] = [[] for _ in range(50_000)]
            for cycle in kept:
                cycle.append(cycle)
        assert sum(collections) > 0
