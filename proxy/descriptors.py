"""How many descriptors (RLIMIT_NOFILE) this process may have open, and how many of them its clients may take.

Linux starts most services with a soft limit of 1,024. Without a bound, 1,100 silent connections take all of them: no
connection to the database can be opened any more, and every request is a 502. So the soft limit is raised as far as the
settings need it and the hard limit allows, and what does not fit is lowered: connections of clients first get what the
pools, the admin port, gRPC, the log and a reserve leave over.
"""

from __future__ import annotations

import logging
import resource
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from vecsieve.config.schema import Settings
from vecsieve.proxy.admin.connection import CONNECTIONS as ADMIN_CONNECTIONS
from vecsieve.proxy.doors import Door, doors_of
from vecsieve.proxy.http.accepting import arriving_at_most
from vecsieve.proxy.log_lines import FIELDS

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


def needed(settings: Settings, doors: Sequence[Door], held: int) -> int:
    """How many descriptors are enough for everything that the settings allow at once. ``held``: open already."""
    own = _own(settings, doors, held, limit=UNLIMITED)
    return own + 2 * _pool_wanted(settings) + _cost(doors, settings.limits.connections)


def budget(settings: Settings, doors: Sequence[Door], *, held: int, limit: int, hard: int) -> Budget:
    """What fits into ``limit`` descriptors. Pure."""
    room = max(0, limit - _own(settings, doors, held, limit=limit))
    pool_total = max(1, min(_pool_wanted(settings), room // POOL_SHARE))
    wanted = settings.limits.connections
    fitting = bisect_right(range(1, wanted + 1), room - 2 * pool_total, key=lambda count: _cost(doors, count))
    per_host = min(settings.upstream.pool_connections, pool_total)
    return Budget(limit, hard, max(1, fitting), per_host, pool_total)


def _own(settings: Settings, doors: Sequence[Door], held: int, *, limit: int) -> int:
    """What is neither a client's nor a pool's."""
    origins = {door.grpc for door in doors} - {None}
    grpc = len(origins) * (GRPC_SERVER + GRPC_CHANNELS * settings.grpc.connections)
    shared = sum(min(each, limit // SMALL_SHARE) for each in (ADMIN_CONNECTIONS, RESERVE))
    return held + LISTENING * (len(doors) + 1) + grpc + shared


def _pool_wanted(settings: Settings) -> int:
    if settings.backend != "pinecone":
        return settings.upstream.pool_connections
    hosts = max(HOSTS, len(settings.pinecone.index_ports))
    return settings.upstream.pool_connections * (hosts + 1)


def _cost(doors: Sequence[Door], connections: int) -> int:
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
