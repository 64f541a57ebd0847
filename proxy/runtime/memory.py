"""Memory of one process: how glibc keeps it, when Python collects it, and the guard that measures it.

glibc returns megabyte bodies to the kernel after each request and page-faults them in again; raising two thresholds doubled
the throughput of a bare relay of 1 MB replies. Both are bounded, so the resident memory is bounded too. All threads share one
arena, so a block that one thread of grpc core freed serves the others.
"""

from __future__ import annotations

import asyncio
import ctypes
import gc
import os
from collections.abc import Callable
from enum import Enum
from pathlib import Path

# mallopt's parameter numbers, from glibc's malloc.h.
M_TRIM_THRESHOLD = -1
M_MMAP_THRESHOLD = -3
M_ARENA_MAX = -8

# Smaller blocks come from the heap and are reused. Replies are at most 16 MiB by default and mostly below 2 MiB. glibc accepts
# at most 32 MiB on 64-bit machines.
MMAP_THRESHOLD_BYTES = 8 * 1024 * 1024
# Free memory that may stay at the end of the heap: about the replies of a few dozen concurrent searches.
TRIM_THRESHOLD_BYTES = 64 * 1024 * 1024
# The default is eight per core. grpc core reads a message into blocks of its thread's arena, and each arena keeps what it freed:
# after 4 messages of 30 MiB, 90 MiB more were resident, with one arena 10 MiB. Threads cache small blocks and Python has its own
# allocator, so the single lock costs no measurable time.
ARENAS = 1

# Holes of smaller messages are filled by the next ones.
LARGE_MESSAGE_BYTES = 4 * 1024 * 1024
# Trim when this many bytes were released, after this delay: by then the library has freed them, and a burst costs one trim. With a delay of
# 1 s consecutive replies of 16 MB added up (peaks of 158 to 167 MiB on a busy machine, with 0.25 s 149 to 158). One reply of that size must
# trigger a trim: with a threshold of 16 MiB its memory stayed until the next one.
TRIM_WORTH_BYTES = 8 * 1024 * 1024
TRIM_SECONDS = 0.25

# Young collections per full collection; CPython's default is 10. A full collection takes 0.45 µs an object: 40 to 60 ms with 4,096
# connections (measured), during which the loop stands still, and each connect and disconnect brings the next one closer. Requests
# and connections leave almost no cyclic garbage: after four waves of 4,000 connections the resident memory was the same with and
# without full collections. At most 700,000 objects of older cyclic garbage wait for one.
YOUNG_BEFORE_ALL = 100

SAMPLE_SECONDS = 0.1
HIGH_SHARE = 0.80  # searches pass through. Envoy's overload manager acts at 95 %, but Python's heap is fragmented
CRITICAL_SHARE = 0.92  # new requests are refused

Mallopt = Callable[[int, int], int]


def collect_seldom() -> None:
    """Run collections from now on, full ones rarely, and exempt all present objects. Called once, after the start."""
    gc.collect()
    gc.freeze()  # before a fork this also avoids copying their pages
    gc.enable()
    young, middle, _ = gc.get_threshold()
    gc.set_threshold(young, middle, YOUNG_BEFORE_ALL)


def keep_freed_blocks(mallopt: Mallopt | None) -> None:
    """Raise glibc's thresholds and limit it to one arena, before there are threads. Does nothing without ``mallopt``."""
    if mallopt is None:
        return
    for parameter, value in (
        (M_MMAP_THRESHOLD, MMAP_THRESHOLD_BYTES),
        (M_TRIM_THRESHOLD, TRIM_THRESHOLD_BYTES),
        (M_ARENA_MAX, ARENAS),
    ):
        mallopt(parameter, value)  # returns 0 if refused; glibc then returns memory by its own rules


def glibc_mallopt() -> Mallopt | None:
    """``mallopt`` of this process if its C library is glibc. musl has none; a preloaded jemalloc ignores it."""
    try:
        library = ctypes.CDLL(None)
        library.gnu_get_libc_version  # noqa: B018 - the lookup raises AttributeError outside glibc
        mallopt = library.mallopt
    except (OSError, AttributeError, TypeError):  # TypeError: Windows has no library without a name
        return None
    mallopt.argtypes = (ctypes.c_int, ctypes.c_int)
    mallopt.restype = ctypes.c_int
    return lambda parameter, value: int(mallopt(parameter, value))


def glibc_trim() -> Callable[[], object] | None:
    """``malloc_trim`` of this process if its C library has it: returns all free pages of all arenas to the kernel."""
    try:
        trim = ctypes.CDLL(None).malloc_trim
    except (OSError, AttributeError, TypeError):
        return None
    trim.argtypes = (ctypes.c_size_t,)
    trim.restype = ctypes.c_int
    return lambda: trim(0)


class Trimming:
    """Returns memory to the kernel after large messages. ``trim`` takes milliseconds, so it runs in a thread.

    grpc core inflates into blocks of 1 KiB that are rarely at the end of the heap, so glibc keeps them: after four messages of
    200 MiB, 2.3 GB stayed (measured).
    """

    __slots__ = ("_freed", "_is_due", "_loop", "_trim")

    def __init__(self, loop: asyncio.AbstractEventLoop, trim: Callable[[], object] | None) -> None:
        self._loop = loop
        self._trim = trim
        self._freed = 0
        self._is_due = False

    def freed(self, size: int) -> None:
        """Count ``size`` bytes that were released, or will be in a moment."""
        self._freed += size
        if self._freed >= TRIM_WORTH_BYTES and not self._is_due and self._trim is not None:
            self._is_due = True
            self._loop.call_later(TRIM_SECONDS, self._start, self._trim)

    def _start(self, trim: Callable[[], object]) -> None:
        self._freed, self._is_due = 0, False
        self._loop.run_in_executor(None, trim)


class Pressure(Enum):
    NONE = "none"
    HIGH = "high"  # searches pass through
    CRITICAL = "critical"  # new requests are refused


class MemoryGuard:
    """Compares resident memory with the limit, at most every 100 ms.

    ``limit_bytes``: None: no limit, so there is never pressure. ``resident_bytes``: reads the resident memory. ``clock``: monotonic
    seconds.
    """

    __slots__ = ("_clock", "_next", "_pressure", "_resident_bytes", "limit_bytes")

    def __init__(
        self, limit_bytes: int | None, *, resident_bytes: Callable[[], int], clock: Callable[[], float]
    ) -> None:
        self.limit_bytes = limit_bytes
        self._resident_bytes = resident_bytes
        self._clock = clock
        self._next = float("-inf")
        self._pressure = Pressure.NONE

    def pressure(self) -> Pressure:
        """The pressure, at most 100 ms old."""
        if self.limit_bytes is None:
            return Pressure.NONE
        now = self._clock()
        if now >= self._next:
            self._next = now + SAMPLE_SECONDS
            self._pressure = _pressure(self._resident_bytes() / self.limit_bytes)
        return self._pressure


def _pressure(share: float) -> Pressure:
    if share >= CRITICAL_SHARE:
        return Pressure.CRITICAL
    return Pressure.HIGH if share >= HIGH_SHARE else Pressure.NONE


def resident_bytes(statm: Path = Path("/proc/self/statm")) -> int:
    """Resident memory of this process; 0 if the kernel does not report it."""
    try:
        pages = statm.read_bytes().split()[1]
    except (OSError, IndexError):
        return 0
    return int(pages) * os.sysconf("SC_PAGE_SIZE")


def cgroup_limit_bytes(*, workers: int = 1, root: Path = Path("/")) -> int | None:
    """The smallest memory limit above this process, divided by ``workers``; None without one.

    Reads cgroup v2, then v1. The processes of one container share its limit.
    """
    limits = [limit for path in _limit_files(root) if (limit := _limit(path)) is not None]
    return max(1, min(limits) // workers) if limits else None


def _limit_files(root: Path) -> list[Path]:
    mount = root / "sys/fs/cgroup"
    files = [mount / "memory/memory.limit_in_bytes"]
    try:
        memberships = (root / "proc/self/cgroup").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        memberships = []
    group = next((line[3:] for line in memberships if line.startswith("0::")), "/")
    # Every limit between our group and the root applies. Inside a container the root is our group.
    parts = [part for part in group.split("/") if part not in {"", ".."}]
    files += [mount.joinpath(*parts[:depth], "memory.max") for depth in range(len(parts) + 1)]
    return files


def _limit(path: Path) -> int | None:
    try:
        text = path.read_text(encoding="ascii", errors="replace").strip()
    except OSError:
        return None
    # No limit is "max" in v2 and a number near 2^63 in v1. Zero cannot be kept and would make every share infinite.
    if not text.isdecimal() or not 0 < int(text) < 1 << 60:
        return None
    return int(text)
