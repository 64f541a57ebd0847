"""Channels to the database: a few connections to each origin; a further one is used when the earlier ones have enough calls.

A call that arrived is not retried. Relayed calls may be answered compressed, as without us; the pools of searches may not: packed floats
hardly shrink, and a database would spend more time on compression than on the search.
"""

from __future__ import annotations

import asyncio
import os
import re
import socket
import ssl
from collections import OrderedDict
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

import grpc
from aiohttp.abc import AbstractResolver

from vecsieve.config.schema import UpstreamSettings

from ..http.connections import Ages
from ..runtime.addresses import Origin
from ..search.errors import FailureKind, UpstreamExchangeError

_HASHED = re.compile(r"[0-9a-f]{8}\.[0-9]+")  # the names made by `openssl rehash`; OpenSSL reads no others in a folder
_BEGIN, _END = "-----BEGIN CERTIFICATE-----", "-----END CERTIFICATE-----"


def system_roots() -> bytes | None:
    """The PEM of every certificate that OpenSSL trusts here, each once; None if there are none: gRPC's own list is used.

    gRPC's list is inside its wheel and knows no private authority. SSL_CERT_FILE and SSL_CERT_DIR replace the file and the folders, as
    everywhere.
    """
    places = ssl.get_default_verify_paths()
    files = [Path(os.environ.get(places.openssl_cafile_env, places.openssl_cafile))]
    for folder in os.environ.get(places.openssl_capath_env, places.openssl_capath).split(os.pathsep):
        files += sorted(path for path in Path(folder).glob("*") if _HASHED.fullmatch(path.name) is not None)
    found: dict[str, None] = {}
    for path in files:
        found.update(dict.fromkeys(_certificates(path)))
    return "".join(found).encode("ascii") or None


def _certificates(path: Path) -> list[str]:
    """The PEM blocks of a file; none for an unreadable one, as in OpenSSL."""
    try:
        text = path.read_text(encoding="latin-1")
    except OSError:
        return []
    blocks = text.split(_BEGIN)[1:]
    return [f"{_BEGIN}{block.split(_END)[0]}{_END}\n" for block in blocks if _END in block and block.isascii()]


def _credentials(settings: UpstreamSettings, roots: bytes | None) -> grpc.ChannelCredentials:
    """``roots``: PEM to trust; None: as the settings say. Raises OSError for files that are gone."""
    if roots is None:
        roots = system_roots() if settings.ca_file is None else Path(settings.ca_file).read_bytes()
    if settings.client_certificate is None or settings.client_key is None:
        return grpc.ssl_channel_credentials(roots)
    return grpc.ssl_channel_credentials(
        roots, Path(settings.client_key).read_bytes(), Path(settings.client_certificate).read_bytes()
    )


Option = tuple[str, int | str]

# The longest wait before reconnecting. A call that is not retried fails while the core waits, so a database that is back must soon be tried
# again.
FIRST_BACKOFF_MS, LONGEST_BACKOFF_MS = 100, 1000
# hyper, in Qdrant, accepted 16 MiB of metadata for years and accepts 16 KiB now; grpcio's 8 KiB is less than a token may need.
METADATA_BYTES = 1 << 20
# Origins named by requests; the least recently used one is closed when its calls are over.
MOST_POOLS = 128
# Calls on a connection before the next one is used. Eight on one connection take a seventh less of our time than on three, and a busy
# process never uses one connection only.
CALLS_BEFORE_NEXT = 8
UNLIMITED = -1
_ONLY_IDENTITY = 1  # a set of bits: identity 1, deflate 2, gzip 4


class Channels:
    """Leases channels. Create it inside the event loop and close it there.

    ``message_bytes``: the largest answer that is relayed; ``pool_bytes``: the largest that a search reads. The core refuses a larger one
    with RESOURCE_EXHAUSTED before it is held. ``resolver``: looks up origins within its own deadline and refuses forbidden ones; the
    address it returned is the one dialled. None leaves names to gRPC, for origins from the settings. ``roots``: PEM to trust; None: the
    system's.
    """

    def __init__(
        self,
        settings: UpstreamSettings,
        *,
        connections: int,
        message_bytes: int = UNLIMITED,
        pool_bytes: int = UNLIMITED,
        resolver: AbstractResolver | None = None,
        roots: bytes | None = None,
    ) -> None:
        self._settings = settings
        self._message_bytes = message_bytes
        self._pool_bytes = pool_bytes
        self._connections = connections
        self._resolver = resolver
        self._roots = roots
        self._credentials: grpc.ChannelCredentials | None = None
        self._pools: OrderedDict[tuple[Origin, bool], _Pool] = OrderedDict()
        self._closing: set[asyncio.Task[None]] = set()
        self._renewing: set[asyncio.Task[None]] = set()
        self._ages = Ages(settings.pool_age_seconds, clock=asyncio.get_running_loop().time)

    @property
    def connected(self) -> int:
        """How many connections are open."""
        return sum(pool.connected for pool in self._pools.values())

    async def close(self) -> None:
        """Close every channel; calls on them are cancelled. Close the listener first."""
        renewing = list(self._renewing)
        for task in renewing:
            task.cancel()
        await asyncio.gather(*renewing, return_exceptions=True)
        for key in list(self._pools):
            pool = self._pools.pop(key)
            await pool.close()
        if self._closing:
            await asyncio.wait(self._closing)

    async def lease(self, origin: Origin, *, is_search: bool) -> AbstractContextManager[grpc.aio.Channel]:
        """A channel for one call, open for a block that is entered at once. Raises UpstreamExchangeError for an unknown name."""
        key = (origin, is_search)
        pool = self._pools.get(key)
        if self._resolver is not None:
            pool = await self._checked(self._resolver, key, pool)
        if pool is None:
            pool = self._keep(key, _target(origin), frozenset())
        self._pools.move_to_end(key)
        if not pool.is_renewing and asyncio.get_running_loop().time() >= pool.end:
            self._renew(key, pool)
        return _Lease(pool)

    async def _checked(self, resolver: AbstractResolver, key: tuple[Origin, bool], pool: _Pool | None) -> _Pool:
        """The pool of an origin whose addresses were resolved within the DNS lifetime."""
        now = asyncio.get_running_loop().time()
        if pool is not None and now < pool.checked_at + self._settings.dns_ttl_seconds:
            return pool
        if pool is not None:
            pool.checked_at = now  # concurrent calls use it unchanged
        origin = key[0]
        try:
            found = await resolver.resolve(origin.host, _port(origin), socket.AF_UNSPEC)
        except OSError:
            if pool is not None and not pool.is_retired:
                return pool  # its addresses were checked, and a connection survives a short failure of DNS
            raise UpstreamExchangeError(FailureKind.DNS) from None
        addresses = frozenset(result["host"] for result in found)
        known = self._pools.get(key)
        # Load balancers return some of their addresses in turn: if one of ours is among them, the origin is unchanged.
        if known is not None and not known.addresses.isdisjoint(addresses):
            return known
        kept = self._keep(key, _literal_target(addresses, _port(origin)), addresses)
        kept.checked_at = now
        return kept

    def _renew(self, key: tuple[Origin, bool], old: _Pool) -> None:
        """Connect anew beside an old pool, which serves until the new one is ready."""
        old.is_renewing = True
        task = asyncio.create_task(self._replace(key, old), name="renew gRPC channels")
        self._renewing.add(task)
        task.add_done_callback(self._renewing.discard)

    async def _replace(self, key: tuple[Origin, bool], old: _Pool) -> None:
        fresh = self._made(key, old.target, old.addresses)
        fresh.checked_at = old.checked_at
        is_taken = False
        try:
            async with asyncio.timeout(self._settings.connect_timeout_seconds):
                await fresh.ready()
            if self._pools.get(key) is old:
                self._pools[key] = fresh
                self._retire(old)
                is_taken = True
        except TimeoutError:  # keep the old pool for another lifetime
            old.end, old.is_renewing = self._ages.end(), False
        finally:
            if not is_taken:
                await fresh.close()

    def _keep(self, key: tuple[Origin, bool], target: str, addresses: frozenset[str]) -> _Pool:
        made = self._made(key, target, addresses)
        replaced = self._pools.pop(key, None)
        if replaced is not None:
            self._retire(replaced)
        self._pools[key] = made
        if len(self._pools) > MOST_POOLS:
            self._retire(self._pools.popitem(last=False)[1])
        return made

    def _made(self, key: tuple[Origin, bool], target: str, addresses: frozenset[str]) -> _Pool:
        options = [*self._options(key[0], pinned=bool(addresses))]
        options.append(("grpc.max_receive_message_length", self._pool_bytes if key[1] else self._message_bytes))
        if key[1]:
            options.append(("grpc.compression_enabled_algorithms_bitset", _ONLY_IDENTITY))
        channels = [self._open(key[0], target, options) for _ in range(self._connections)]
        return _Pool(channels, target, addresses, self._ages.end(), self._end_if_idle)

    def _open(self, origin: Origin, target: str, options: list[Option]) -> grpc.aio.Channel:
        if origin.scheme == "http":
            return grpc.aio.insecure_channel(target, options=options)
        if self._credentials is None:
            self._credentials = _credentials(self._settings, self._roots)
        return grpc.aio.secure_channel(target, self._credentials, options=options)

    def _options(self, origin: Origin, *, pinned: bool) -> list[Option]:
        named: list[Option] = [("grpc.default_authority", origin.authority)]
        if pinned and origin.scheme == "https":
            named.append(("grpc.ssl_target_name_override", origin.host))
        return [
            *named,
            # No retry policy is ever given, so this is about calls that the server reports as not processed (REFUSED_STREAM, or beyond a
            # GOAWAY): every client's own core sends those again. Disabled, an upstream that closed connections every 150 ms failed 1 of
            # 1,779 calls; enabled, 0 of 1,693, each of which arrived once.
            ("grpc.enable_retries", 1),
            ("grpc.use_local_subchannel_pool", 1),  # otherwise all channels to an origin would share one connection
            ("grpc.max_send_message_length", UNLIMITED),
            ("grpc.max_metadata_size", METADATA_BYTES),
            ("grpc.absolute_max_metadata_size", METADATA_BYTES),
            (
                "grpc.min_reconnect_backoff_ms",
                int(self._settings.connect_timeout_seconds * 1000),
            ),  # of one connection attempt
            ("grpc.initial_reconnect_backoff_ms", FIRST_BACKOFF_MS),
            ("grpc.max_reconnect_backoff_ms", LONGEST_BACKOFF_MS),
            ("grpc.dns_min_time_between_resolutions_ms", int(self._settings.dns_ttl_seconds * 1000)),
            ("grpc.enable_http_proxy", 0),  # the settings decide where calls go, not http_proxy
            ("grpc.service_config_disable_resolution", 1),  # nor in a TXT record
        ]

    def _retire(self, pool: _Pool) -> None:
        pool.is_retired = True
        self._end_if_idle(pool)

    def _end_if_idle(self, pool: _Pool) -> None:
        if pool.is_retired and pool.is_idle:
            task = asyncio.create_task(pool.close(), name="close gRPC channels")
            self._closing.add(task)
            task.add_done_callback(self._closing.discard)


@dataclass(slots=True)
class _Lease(AbstractContextManager[grpc.aio.Channel]):
    """One call on a pool's channel, for the duration of the block."""

    _pool: _Pool
    _place: int = -1

    def __enter__(self) -> grpc.aio.Channel:
        self._place = self._pool.take()
        return self._pool.channels[self._place]

    def __exit__(self, *_: object) -> None:
        self._pool.give_back(self._place)


class _Pool:
    """The channels to one origin. ``addresses``: checked ones; none if gRPC resolves names. ``end``: of its age. ``left``: called when a
    call ends.
    """

    def __init__(
        self,
        channels: list[grpc.aio.Channel],
        target: str,
        addresses: frozenset[str],
        end: float,
        left: Callable[[_Pool], None],
    ) -> None:
        self.channels = channels
        self._calls = [0] * len(channels)
        self._left = left
        self.target = target
        self.end = end
        self.is_renewing = False
        self.addresses = addresses
        self.checked_at = 0.0
        self.is_retired = False

    @property
    def is_idle(self) -> bool:
        return not any(self._calls)

    def take(self) -> int:
        """The index of the first channel with few calls, else of the one with the fewest. Must be given back."""
        calls = self._calls
        place = next((place for place, count in enumerate(calls) if count < CALLS_BEFORE_NEXT), None)
        if place is None:
            place = calls.index(min(calls))
        calls[place] += 1
        return place

    def give_back(self, place: int) -> None:
        self._calls[place] -= 1
        self._left(self)

    @property
    def connected(self) -> int:
        """How many of the channels are connected."""
        return sum(channel.get_state() is grpc.ChannelConnectivity.READY for channel in self.channels)

    async def ready(self) -> None:
        """Connect all channels; the caller sets a deadline."""
        await asyncio.gather(*(channel.channel_ready() for channel in self.channels))

    async def close(self) -> None:
        for channel in self.channels:
            await channel.close()


def _port(origin: Origin) -> int:
    port = origin.url("/").port
    assert port is not None  # noqa: S101 - the two schemes an origin may have bring their own
    return port


def _target(origin: Origin) -> str:
    host = f"[{origin.host}]" if ":" in origin.host else origin.host
    return f"dns:///{host}:{_port(origin)}"


def _literal_target(addresses: frozenset[str], port: int) -> str:
    """Several addresses in gRPC's syntax, which must be of one family: IPv4 if there are both."""
    ipv4 = sorted(address for address in addresses if ":" not in address)
    if ipv4:
        return "ipv4:" + ",".join(f"{address}:{port}" for address in ipv4)
    return "ipv6:" + ",".join(f"[{address}]:{port}" for address in sorted(addresses))
