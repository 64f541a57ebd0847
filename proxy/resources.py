"""How many descriptors (RLIMIT_NOFILE) this process may have open, and how many of them its clients may take.

Linux starts most services with a soft limit of 1,024. Without a bound, 1,100 silent connections take all of them: no
connection to the database can be opened any more, and every request is a 502. So the soft limit is raised as far as the
settings need it and the hard limit allows, and what does not fit is lowered: connections of clients first get what the
pools, the admin port, gRPC, the log and a reserve leave over.
"""

from __future__ import annotations

import asyncio
import ctypes
import gc
import logging
import os
import resource
from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from vecsieve.config.schema import Settings
from vecsieve.proxy.addresses import DataPort, doors_of
from vecsieve.proxy.admin.server import CONNECTIONS as ADMIN_CONNECTIONS
from vecsieve.proxy.http.listener import arriving_at_most
from vecsieve.proxy.telemetry.log import FIELDS

LOGGER = logging.getLogger("vecsieve.descriptors")

UNLIMITED = 1 << 20  # what is reckoned with where the kernel names no limit: more than any settings need
# Name lookups on threads, files that are read again, a collector of traces.
RESERVE = 64
# Of a small limit the admin port and the reserve take no more than this share each.
SMALL_SHARE = 16
# Two pools, each with at most a quarter: one half for the database, the other for clients.
POOL_SHARE = 4
# A client of gRPC holds its own socket and both ends of the one that leads it to the server inside this process.
GRPC_CLIENT = 3
# Of each gRPC server: its socket, and what the core waits by. Of each place that calls go to: two kinds of channels, and as many
# again while they are renewed.
GRPC_SERVER, GRPC_CHANNELS = 16, 4
# Where requests name hosts (Pinecone) each has connections of its own. So many at once are reckoned with, at least.
HOSTS = 4
LISTENING = 2  # sockets of one port: a name may lead to an address of IPv4 and one of IPv6


@dataclass(frozen=True, slots=True)
class Budget:
    """What fits. ``limit``: the soft limit in force. ``pool_total``: of each of the two pools, for all hosts together."""

    limit: int
    hard: int
    connections: int
    pool_connections: int
    pool_total: int

    def fitted(self, settings: Settings) -> Settings:
        """The settings with what fits in the place of what was asked for."""
        limits = settings.limits.model_copy(update={"connections": self.connections})
        upstream = settings.upstream.model_copy(update={"pool_connections": self.pool_connections})
        return settings.model_copy(update={"limits": limits, "upstream": upstream})


def claim(settings: Settings) -> Budget:
    """Raise this process's soft limit as far as the settings need it, and say what they may have of it."""
    doors, held = doors_of(settings), _open_now()
    soft, hard = (_finite(each) for each in resource.getrlimit(resource.RLIMIT_NOFILE))
    wanted = needed(settings, doors, held)
    if soft < wanted and soft < hard:
        soft = _raised(soft, min(wanted, hard))
    return budget(settings, doors, held=held, limit=soft, hard=hard)


def say(given: Budget, settings: Settings) -> None:
    """Tell the operator what was lowered; nothing where everything fits."""
    asked = (settings.limits.connections, settings.upstream.pool_connections)
    if (given.connections, given.pool_connections) == asked:
        LOGGER.info("RLIMIT_NOFILE is enough", extra={FIELDS: {"limit": given.limit}})
        return
    LOGGER.warning(
        "RLIMIT_NOFILE is too low for limits.connections and upstream.pool_connections: both are lowered to what fits."
        " Raise its hard limit (LimitNOFILE, ulimit -n), or lower these settings",
        extra={
            FIELDS: {
                "limit": given.limit,
                "hard_limit": given.hard,
                "connections": given.connections,
                "connections_wanted": asked[0],
                "pool_connections": given.pool_connections,
                "pool_connections_wanted": asked[1],
            }
        },
    )


def needed(settings: Settings, doors: Sequence[DataPort], held: int) -> int:
    """How many descriptors are enough for everything that the settings allow at once. ``held``: open already."""
    own = _own(settings, doors, held, limit=UNLIMITED)
    return own + 2 * _pool_wanted(settings) + _cost(doors, settings.limits.connections)


def budget(settings: Settings, doors: Sequence[DataPort], *, held: int, limit: int, hard: int) -> Budget:
    """What fits into ``limit`` descriptors. Pure."""
    room = max(0, limit - _own(settings, doors, held, limit=limit))
    pool_total = max(1, min(_pool_wanted(settings), room // POOL_SHARE))
    wanted = settings.limits.connections
    fitting = bisect_right(range(1, wanted + 1), room - 2 * pool_total, key=lambda count: _cost(doors, count))
    per_host = min(settings.upstream.pool_connections, pool_total)
    return Budget(limit, hard, max(1, fitting), per_host, pool_total)


def _own(settings: Settings, doors: Sequence[DataPort], held: int, *, limit: int) -> int:
    """What is neither a client's nor a pool's."""
    origins = {door.grpc for door in doors} - {None}
    grpc = len(origins) * (GRPC_SERVER + GRPC_CHANNELS * settings.grpc.connections)
    shared = sum(min(each, limit // SMALL_SHARE) for each in (ADMIN_CONNECTIONS, RESERVE))
    return held + LISTENING * (len(doors) + 1) + grpc + shared


def _pool_wanted(settings: Settings) -> int:
    if settings.indexes is None:
        return settings.upstream.pool_connections
    hosts = max(HOSTS, len(settings.indexes.index_ports))
    return settings.upstream.pool_connections * (hosts + 1)


def _cost(doors: Sequence[DataPort], connections: int) -> int:
    """The descriptors of so many client connections; those that have just been accepted, or turned away, come on top."""
    each = GRPC_CLIENT if any(door.grpc is not None for door in doors) else 1
    return each * connections + 2 * arriving_at_most(connections)


def _raised(soft: int, wanted: int) -> int:
    """The soft limit after trying: a container's security profile may forbid what the limits allow."""
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    except (OSError, ValueError):
        return soft
    return wanted


def _finite(limit: int) -> int:
    return UNLIMITED if limit == resource.RLIM_INFINITY else limit


def _open_now() -> int:
    """How many descriptors are open: what a process was started with counts too."""
    for directory in ("/proc/self/fd", "/dev/fd"):
        try:
            return len(list(Path(directory).iterdir()))
        except OSError:
            continue
    return RESERVE


# Memory: how glibc keeps freed blocks, and when there is too little left to take on more.
#
# glibc gives megabyte bodies back to the kernel after each request and page-faults them in again; raising two thresholds
# doubled a bare relay of 1 MB replies. Both are bounded, so what stays resident is bounded too. All threads share one arena, so that
# what one of grpc core's threads freed serves the others.

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


def collect_seldom() -> None:
    """From now on walk over all objects seldom, and over those that exist now never again. Call it once, when the start is over."""
    gc.collect()
    gc.freeze()  # in a process that forks: a walk over them would copy their pages, too
    young, middle, _ = gc.get_threshold()
    gc.set_threshold(young, middle, YOUNG_BEFORE_ALL)


def keep_freed_blocks(mallopt: Mallopt | None) -> None:
    """Raise glibc's thresholds and leave it one arena, before there are threads. Without ``mallopt`` it does nothing."""
    if mallopt is None:
        return
    for parameter, value in (
        (M_MMAP_THRESHOLD, MMAP_THRESHOLD_BYTES),
        (M_TRIM_THRESHOLD, TRIM_THRESHOLD_BYTES),
        (M_ARENA_MAX, ARENAS),
    ):
        mallopt(parameter, value)  # 0 where it is refused: memory is freed later then, and nothing else changes


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
