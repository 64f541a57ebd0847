"""Descriptors and memory of one process: their limits, and how they are kept within them.

Descriptors: Linux starts most services with a soft limit (RLIMIT_NOFILE) of 1,024. Without a bound, 1,100 silent clients
take all of them; then no connection to the database can be opened, and every request fails with 502. So the soft limit is
raised as far as the settings need it and the hard limit allows. What still does not fit is lowered: clients get what the
pools, the admin port, gRPC, the log and a reserve leave.
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
from vecsieve.proxy.addresses import DataPort, data_ports_of
from vecsieve.proxy.admin.server import CONNECTIONS as ADMIN_CONNECTIONS
from vecsieve.proxy.http.listener import arriving_at_most
from vecsieve.proxy.telemetry.log import FIELDS

LOGGER = logging.getLogger("vecsieve.descriptors")

API_CONNECTIONS = 64  # clients pool a few each; those of data ports cannot take them
UNLIMITED = 1 << 20  # stands for "no limit": more than any settings need
# For name resolution on threads, files that are reloaded, and the collector of traces.
RESERVE = 64
# The admin port and the reserve take at most this share of a small limit each.
SMALL_SHARE = 16
# Two pools, each at most a quarter: half of the descriptors for the database, half for clients.
POOL_SHARE = 4
# A gRPC client takes its own socket and both ends of the one that connects it to the server inside this process.
GRPC_CLIENT = 3
# Per gRPC server: its socket and the poll descriptors of the core. Per origin: two kinds of channels, twice while renewed.
GRPC_SERVER, GRPC_CHANNELS = 16, 4
# Where requests name hosts (Pinecone), each host has its own connections. The budget covers at least so many hosts.
HOSTS = 4
LISTENING = 2  # sockets of one port: a name may resolve to IPv4 and IPv6


@dataclass(frozen=True, slots=True)
class Budget:
    """What fits. ``limit``: the soft limit in force. ``pool_total``: connections of each of the two pools, over all hosts."""

    limit: int
    hard: int
    connections: int
    pool_connections: int
    pool_total: int

    def fitted(self, settings: Settings) -> Settings:
        """The settings with both limits lowered to what fits."""
        limits = settings.limits.model_copy(update={"connections": self.connections})
        upstream = settings.upstream.model_copy(update={"pool_connections": self.pool_connections})
        return settings.model_copy(update={"limits": limits, "upstream": upstream})


def claim(settings: Settings) -> Budget:
    """Raise the soft limit of this process as far as the settings need it; returns what fits."""
    data_ports, held = data_ports_of(settings), _open_now()
    soft, hard = (_finite(each) for each in resource.getrlimit(resource.RLIMIT_NOFILE))
    wanted = needed(settings, data_ports, held)
    if soft < wanted and soft < hard:
        soft = _raised(soft, min(wanted, hard))
    return budget(settings, data_ports, held=held, limit=soft, hard=hard)


def say(given: Budget, settings: Settings) -> None:
    """Log what was lowered."""
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


def needed(settings: Settings, data_ports: Sequence[DataPort], held: int) -> int:
    """Descriptors that the settings may use at most. ``held``: open already."""
    own = _own(settings, data_ports, held, limit=UNLIMITED)
    return own + 2 * _pool_wanted(settings) + _cost(data_ports, settings.limits.connections)


def budget(settings: Settings, data_ports: Sequence[DataPort], *, held: int, limit: int, hard: int) -> Budget:
    """What fits into ``limit`` descriptors. Pure."""
    room = max(0, limit - _own(settings, data_ports, held, limit=limit))
    pool_total = max(1, min(_pool_wanted(settings), room // POOL_SHARE))
    wanted = settings.limits.connections
    fitting = bisect_right(range(1, wanted + 1), room - 2 * pool_total, key=lambda count: _cost(data_ports, count))
    per_host = min(settings.upstream.pool_connections, pool_total)
    return Budget(limit, hard, max(1, fitting), per_host, pool_total)


def _own(settings: Settings, data_ports: Sequence[DataPort], held: int, *, limit: int) -> int:
    """Descriptors that belong neither to clients nor to pools."""
    origins = {data_port.grpc for data_port in data_ports} - {None}
    grpc = len(origins) * (GRPC_SERVER + GRPC_CHANNELS * settings.grpc.connections)
    apis = [API_CONNECTIONS for data_port in data_ports if data_port.is_for_api]
    shared = sum(min(each, limit // SMALL_SHARE) for each in (ADMIN_CONNECTIONS, RESERVE, *apis))
    return held + LISTENING * (len(data_ports) + 1) + grpc + shared


def _pool_wanted(settings: Settings) -> int:
    if settings.indexes is None:
        return settings.upstream.pool_connections
    hosts = max(HOSTS, len(settings.indexes.index_ports))
    return settings.upstream.pool_connections * (hosts + 1)


def _cost(data_ports: Sequence[DataPort], connections: int) -> int:
    """Descriptors of so many client connections, with room for those just accepted or rejected."""
    each = GRPC_CLIENT if any(data_port.grpc is not None for data_port in data_ports) else 1
    return each * connections + 2 * arriving_at_most(connections)


def _raised(soft: int, wanted: int) -> int:
    """The soft limit after the attempt: the security profile of a container may forbid it."""
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    except (OSError, ValueError):
        return soft
    return wanted


def _finite(limit: int) -> int:
    return UNLIMITED if limit == resource.RLIM_INFINITY else limit


def _open_now() -> int:
    """Open descriptors, including those that the process inherited."""
    for directory in ("/proc/self/fd", "/dev/fd"):
        try:
            return len(list(Path(directory).iterdir()))
        except OSError:
            continue
    return RESERVE


# Memory: glibc returns megabyte bodies to the kernel after each request and page-faults them in again; raising two thresholds
# doubled the throughput of a bare relay of 1 MB replies. Both are bounded, so the resident memory is bounded too. All threads
# share one arena, so a block that one thread of grpc core freed serves the others.

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
# Trim when so much was released, after this delay: by then the library has freed it, and a burst costs one trim. With a delay of
# 1 s consecutive replies of 16 MB added up (peaks of 158 to 167 MiB on a busy machine, with 0.25 s 149 to 158). One reply of that
# size must trigger a trim: with a threshold of 16 MiB its memory stayed until the next one.
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
    """From now on run full collections rarely, and exempt all present objects. Call it once, after the start."""
    gc.collect()
    gc.freeze()  # before a fork this also avoids copying their pages
    young, middle, _ = gc.get_threshold()
    gc.set_threshold(young, middle, YOUNG_BEFORE_ALL)


def exempt_present_objects() -> None:
    """Collect what is not exempt yet, and exempt the rest from collections: for much that will be held long, such as the feature
    memory's points (6 objects each). Objects that become cyclic garbage later stay: those of requests that are in flight now.
    """
    gc.collect()
    gc.freeze()


def keep_freed_blocks(mallopt: Mallopt | None) -> None:
    """Raise glibc's thresholds and limit it to one arena, before there are threads. Does nothing without ``mallopt``."""
    if mallopt is None:
        return
    for parameter, value in (
        (M_MMAP_THRESHOLD, MMAP_THRESHOLD_BYTES),
        (M_TRIM_THRESHOLD, TRIM_THRESHOLD_BYTES),
        (M_ARENA_MAX, ARENAS),
    ):
        mallopt(parameter, value)  # returns 0 if refused: memory is then returned as glibc decides


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
        """So many bytes were released, or will be in a moment."""
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

    ``limit_bytes``: None without a limit, and then there is never pressure. ``resident_bytes``: reads the resident memory.
    ``clock``: monotonic seconds.
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
    """Resident memory of this process; 0 where the kernel does not report it."""
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
    own = next((line[3:] for line in memberships if line.startswith("0::")), "/")
    # Every limit between our group and the root applies. Inside a container the root is our group.
    parts = [part for part in own.split("/") if part not in {"", ".."}]
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
