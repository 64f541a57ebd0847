"""Memory: how glibc keeps freed blocks, and when there is too little left to take on more.

glibc gives megabyte bodies back to the kernel after each request and page-faults them in again; raising two thresholds
doubled a bare relay of 1 MB replies. Both are bounded, so what stays resident is bounded too. All threads share one arena, so that
what one of grpc core's threads freed serves the others.
"""

from __future__ import annotations

import asyncio
import ctypes
import gc
import os
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

# mallopt's parameter numbers, from glibc's malloc.h.
M_TRIM_THRESHOLD = -1
M_MMAP_THRESHOLD = -3
M_ARENA_MAX = -8

# Blocks below this come from the heap and are reused. Replies are at most 16 MiB by default, and mostly below 2 MiB; glibc
# refuses more than 32 MiB on 64-bit machines.
MMAP_THRESHOLD_BYTES = 8 * 1024 * 1024
# So much free memory may stay at the heap's end: about the replies of a few dozen searches at once.
TRIM_THRESHOLD_BYTES = 64 * 1024 * 1024
# By default there are eight for each core. grpc core reads a message into blocks of its thread's arena, and each arena keeps what
# it has freed: each of three replies of 16 MB took 16 MiB more, and after 4 messages of 30 MiB 90 MiB more were resident, with one
# arena 10. Small blocks are cached by thread and Python has its own, so that the one lock costs no time that can be measured.
ARENAS = 1

# Smaller messages leave holes that the next ones fill.
LARGE_MESSAGE_BYTES = 4 * 1024 * 1024
# When so much was let go of, and so long after: the library has freed it by then, and a burst of messages costs one trim. With a whole
# second replies of 16 MB that follow one another added up (peaks of 158 to 167 MiB on a busy machine, with this 149 to 158).
TRIM_WORTH_BYTES = 16 * 1024 * 1024
TRIM_SECONDS = 0.25

# Of collections of young objects, until all objects are walked over; CPython's own is 10. A walk takes 0.45 microseconds an object: with
# 4,096 connections 40 to 60 ms (measured), in which nobody is served, and who connects and leaves again brings the next one near. Requests
# and connections leave next to nothing to such a walk: after four crowds of 4,000 connections as much was resident with it as without.
# What is cyclic garbage and was not young comes to 700,000 objects at most before one.
YOUNG_BEFORE_ALL = 100

SAMPLE_SECONDS = 0.1
HIGH_SHARE = 0.80  # searches pass through: Envoy's overload manager acts at 95 %, but Python's heap is fragmented
CRITICAL_SHARE = 0.92  # new requests are refused

Mallopt = Callable[[int, int], int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Tuned:
    """What ``keep_freed_blocks`` did: the values that were taken, None for those that were not."""

    mmap_threshold_bytes: int | None
    trim_threshold_bytes: int | None
    arenas: int | None


def collect_seldom() -> None:
    """From now on walk over all objects seldom, and over those that exist now never again. Call it once, when the start is over."""
    gc.collect()
    gc.freeze()  # in a process that forks: a walk over them would copy their pages, too
    young, middle, _ = gc.get_threshold()
    gc.set_threshold(young, middle, YOUNG_BEFORE_ALL)


def keep_freed_blocks(mallopt: Mallopt | None) -> Tuned:
    """Raise glibc's thresholds and leave it one arena, before there are threads. Without ``mallopt`` it does nothing."""

    def taken(parameter: int, value: int) -> int | None:
        return value if mallopt is not None and mallopt(parameter, value) == 1 else None

    return Tuned(
        mmap_threshold_bytes=taken(M_MMAP_THRESHOLD, MMAP_THRESHOLD_BYTES),
        trim_threshold_bytes=taken(M_TRIM_THRESHOLD, TRIM_THRESHOLD_BYTES),
        arenas=taken(M_ARENA_MAX, ARENAS),
    )


def glibc_mallopt() -> Mallopt | None:
    """``mallopt`` of this process, when its C library is glibc. musl has none; jemalloc preloaded ignores ours."""
    try:
        library = ctypes.CDLL(None)
        library.gnu_get_libc_version  # noqa: B018 - looking the symbol up is the question
        mallopt = library.mallopt
    except (OSError, AttributeError, TypeError):  # TypeError: Windows has no library without a name
        return None
    mallopt.argtypes = (ctypes.c_int, ctypes.c_int)
    mallopt.restype = ctypes.c_int
    return lambda parameter, value: int(mallopt(parameter, value))


def glibc_trim() -> Callable[[], object] | None:
    """``malloc_trim`` of this process, when its C library has one: gives all free pages of all arenas back to the kernel."""
    try:
        trim = ctypes.CDLL(None).malloc_trim
    except (OSError, AttributeError, TypeError):
        return None
    trim.argtypes = (ctypes.c_size_t,)
    trim.restype = ctypes.c_int
    return lambda: trim(0)


class Trimming:
    """Gives memory back to the kernel when large messages are gone. ``trim``: takes milliseconds, so it runs in a thread.

    grpc core inflates into blocks of 1 KiB: few of them are ever the end of the heap, so glibc keeps them. After four messages of
    200 MiB 2.3 GB stayed (measured).
    """

    __slots__ = ("_freed", "_is_due", "_loop", "_trim")

    def __init__(self, loop: asyncio.AbstractEventLoop, trim: Callable[[], object] | None) -> None:
        self._loop = loop
        self._trim = trim
        self._freed = 0
        self._is_due = False

    def freed(self, size: int) -> None:
        """So many bytes were let go of, or will be in a moment."""
        self._freed += size
        if self._freed >= TRIM_WORTH_BYTES and not self._is_due and self._trim is not None:
            self._is_due = True
            self._loop.call_later(TRIM_SECONDS, self._start, self._trim)

    def _start(self, trim: Callable[[], object]) -> None:
        self._freed, self._is_due = 0, False
        self._loop.run_in_executor(None, trim)


class Pressure(Enum):
    """How much memory is left."""

    NONE = "none"
    HIGH = "high"  # searches pass through
    CRITICAL = "critical"  # new requests are refused


class MemoryGuard:
    """Compares resident memory with the limit, reading it at most every 100 ms.

    ``limit_bytes``: None where there is no limit, and then there is never pressure. ``resident_bytes``: reads what this
    process holds. ``clock``: monotonic seconds.
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
        """The pressure as of the last reading, which is at most 100 ms old."""
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
    """Resident memory of this process; 0 where the kernel does not tell."""
    try:
        pages = statm.read_bytes().split()[1]
    except (OSError, IndexError):
        return 0
    return int(pages) * os.sysconf("SC_PAGE_SIZE")


def cgroup_limit_bytes(*, workers: int = 1, root: Path = Path("/")) -> int | None:
    """The smallest memory limit above this process, or its share of it; None without one.

    Reads cgroup v2, then v1. The processes of one container share its limit, so each of ``workers`` gets an equal part.
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
    own = next((line[3:] for line in memberships if line.startswith("0::")), "/")
    # A limit anywhere between our group and the root holds for us. Within a container the root is our group.
    parts = [part for part in own.split("/") if part not in {"", ".."}]
    files += [mount.joinpath(*parts[:depth], "memory.max") for depth in range(len(parts) + 1)]
    return files


def _limit(path: Path) -> int | None:
    try:
        text = path.read_text(encoding="ascii", errors="replace").strip()
    except OSError:
        return None
    # v2 says "max" for no limit, v1 a number near 2^63. Zero would make every share infinite: it is no limit we can keep.
    if not text.isdecimal() or not 0 < int(text) < 1 << 60:
        return None
    return int(text)
