"""File descriptors of one process: how many the settings need, what the limit allows, and which settings are lowered to fit.

Linux starts most services with a soft limit (RLIMIT_NOFILE) of 1,024. Without a bound, 1,100 silent clients take all of them; then no
connection to the database can be opened, and every request fails with 502. So the soft limit is raised as far as the settings need it and
the hard limit allows. What still does not fit is lowered: clients get the descriptors that the pools, the admin port, gRPC, the log and a
reserve leave.
"""

from __future__ import annotations

import logging
import resource
from bisect import bisect_right
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from vecsieve.config.schema import Settings

from ..admin.server import CONNECTIONS as ADMIN_CONNECTIONS
from ..http.listener import arriving_at_most
from ..runtime.addresses import API_CONNECTIONS, DataPort, data_ports_of
from ..telemetry.log import FIELDS

LOGGER = logging.getLogger("vecsieve.descriptors")

UNLIMITED = 1 << 20  # stands for "no limit": more than any settings need
# For name resolution on threads, files that are reloaded, and the collector of traces.
RESERVE = 64
# The largest share of a small limit for the admin port, and for the reserve.
SMALL_SHARE = 16
# Two pools, each at most a quarter: half of the descriptors for the database, half for clients.
POOL_SHARE = 4
# A gRPC client takes its own socket and both ends of its connection to the server inside this process.
GRPC_CLIENT = 3
# Per gRPC server: its socket and the poll descriptors of the core. Per origin: two kinds of channels, twice while renewed.
GRPC_SERVER, GRPC_CHANNELS = 16, 4
# If requests name hosts (Pinecone), each host has its own connections. The budget covers at least this many hosts.
HOSTS = 4
LISTENING = 2  # sockets of one port: a name may resolve to IPv4 and IPv6


@dataclass(frozen=True, slots=True)
class Budget:
    """The numbers that fit. ``limit``: the soft limit in force. ``pool_total``: connections of each of the two pools, over all hosts."""

    limit: int
    hard: int
    connections: int
    pool_connections: int
    pool_total: int

    def fitted(self, settings: Settings) -> Settings:
        """The settings with both limits lowered to fit."""
        limits = settings.limits.model_copy(update={"connections": self.connections})
        upstream = settings.upstream.model_copy(update={"pool_connections": self.pool_connections})
        return settings.model_copy(update={"limits": limits, "upstream": upstream})


def claim(settings: Settings) -> Budget:
    """Raise the soft limit of this process as far as the settings need it; return the budget."""
    data_ports, in_use = data_ports_of(settings), _open_now()
    soft, hard = (_finite(bound) for bound in resource.getrlimit(resource.RLIMIT_NOFILE))
    required = needed(settings, data_ports, in_use)
    if soft < required and soft < hard:
        with suppress(OSError, ValueError):  # a container's security profile may forbid raising it
            raised = min(required, hard)
            resource.setrlimit(resource.RLIMIT_NOFILE, (raised, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
            soft = raised
    return budget(settings, data_ports, in_use=in_use, limit=soft, hard=hard)


def say(given: Budget, settings: Settings) -> None:
    """Log what was lowered."""
    requested = (settings.limits.connections, settings.upstream.pool_connections)
    if (given.connections, given.pool_connections) == requested:
        return
    LOGGER.warning(
        "RLIMIT_NOFILE is too low for limits.connections and upstream.pool_connections: both are lowered to what fits."
        " Raise its hard limit (LimitNOFILE, ulimit -n), or lower these settings",
        extra={
            FIELDS: {
                "limit": given.limit,
                "hard_limit": given.hard,
                "connections": given.connections,
                "connections_wanted": requested[0],
                "pool_connections": given.pool_connections,
                "pool_connections_wanted": requested[1],
            }
        },
    )


def needed(settings: Settings, data_ports: Sequence[DataPort], in_use: int) -> int:
    """The most descriptors that the settings may use. ``in_use``: already open."""
    reserved = _reserved(settings, data_ports, in_use, limit=UNLIMITED)
    return reserved + 2 * _pool_size(settings) + _cost(data_ports, settings.limits.connections)


def budget(settings: Settings, data_ports: Sequence[DataPort], *, in_use: int, limit: int, hard: int) -> Budget:
    """The budget for ``limit`` descriptors. Pure."""
    room = max(0, limit - _reserved(settings, data_ports, in_use, limit=limit))
    pool_total = max(1, min(_pool_size(settings), room // POOL_SHARE))
    required = settings.limits.connections
    fitting = bisect_right(range(1, required + 1), room - 2 * pool_total, key=lambda count: _cost(data_ports, count))
    per_host = min(settings.upstream.pool_connections, pool_total)
    return Budget(limit, hard, max(1, fitting), per_host, pool_total)


def _reserved(settings: Settings, data_ports: Sequence[DataPort], in_use: int, *, limit: int) -> int:
    """Descriptors that belong neither to clients nor to pools."""
    origins = {data_port.grpc for data_port in data_ports} - {None}
    grpc = len(origins) * (GRPC_SERVER + GRPC_CHANNELS * settings.grpc.connections)
    apis = [API_CONNECTIONS for data_port in data_ports if data_port.is_for_api]
    shared = sum(min(port_count, limit // SMALL_SHARE) for port_count in (ADMIN_CONNECTIONS, RESERVE, *apis))
    return in_use + LISTENING * (len(data_ports) + 1) + grpc + shared


def _pool_size(settings: Settings) -> int:
    if settings.indexes is None:
        return settings.upstream.pool_connections
    hosts = max(HOSTS, len(settings.indexes.index_ports))
    return settings.upstream.pool_connections * (hosts + 1)


def _cost(data_ports: Sequence[DataPort], connections: int) -> int:
    """Descriptors of this many client connections, with room for those just accepted or rejected."""
    per_connection = GRPC_CLIENT if any(data_port.grpc is not None for data_port in data_ports) else 1
    return per_connection * connections + 2 * arriving_at_most(connections)


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
