"""Channels to the database: a few connections to each origin; a further one is used when the earlier ones have enough calls.

A call that arrived is not retried. Relayed calls may be answered compressed, as without us; the pools of searches may not: packed floats
hardly shrink, and a database would spend more time on compression than on the search.
"""

from __future__ import annotations

import asyncio
import os
import re
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import KW_ONLY, dataclass, field
from pathlib import Path

import grpc

from vecsieve.config.schema import UpstreamSettings

from ..http.connections import Ages
from ..http.tls import upstream_pems
from ..runtime.addresses import Origin
from ..runtime.loop import Owner

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
    certificates: dict[str, None] = {}
    for path in files:
        certificates.update(dict.fromkeys(_certificates(path)))
    return "".join(certificates).encode("ascii") or None


def _certificates(path: Path) -> list[str]:
    """The PEM blocks of a file; none for an unreadable one, as in OpenSSL."""
    try:
        text = path.read_text(encoding="latin-1")
    except OSError:
        return []
    blocks = text.split(_BEGIN)[1:]
    return [f"{_BEGIN}{block.split(_END)[0]}{_END}\n" for block in blocks if _END in block and block.isascii()]


def _credentials(settings: UpstreamSettings) -> grpc.ChannelCredentials:
    """Raises SettingsError for files that are gone, and were never read."""
    authorities, certificate, key = upstream_pems(settings)
    return grpc.ssl_channel_credentials(authorities or system_roots(), key, certificate)


Option = tuple[str, int | str]

# The longest wait before reconnecting. A call that is not retried fails while the core waits, so a database that is back must soon be tried
# again.
FIRST_BACKOFF_MS, LONGEST_BACKOFF_MS = 100, 1000
# hyper, in Qdrant, accepted 16 MiB of metadata for years and accepts 16 KiB now; grpcio's 8 KiB is less than a token may need.
METADATA_BYTES = 1 << 20
# Calls on a connection before the next one is used. Eight on one connection take a seventh less of our time than on three, and a busy
# process never uses one connection only.
CALLS_BEFORE_NEXT = 8
UNLIMITED = -1
_ONLY_IDENTITY = 1  # a set of bits: identity 1, deflate 2, gzip 4


@dataclass(slots=True)
class Channels:
    """Leases channels. Create it inside the event loop and close it there. Origins come from the settings; gRPC resolves their names.

    ``message_bytes``: the largest answer that is relayed; ``pool_bytes``: the largest that a search reads. The core refuses a larger one
    with RESOURCE_EXHAUSTED before it is held.
    """

    _settings: UpstreamSettings
    _: KW_ONLY
    connections: int
    message_bytes: int = UNLIMITED
    pool_bytes: int = UNLIMITED
    _credentials: grpc.ChannelCredentials | None = None
    _pools: dict[tuple[Origin, bool], _Pool] = field(default_factory=dict)
    _closing: set[asyncio.Task[None]] = field(default_factory=set)
    _renewing: Owner = field(default_factory=Owner)
    _ages: Ages = field(init=False)

    def __post_init__(self) -> None:
        self._ages = Ages(self._settings.pool_age_seconds, clock=asyncio.get_running_loop().time)

    @property
    def connected(self) -> int:
        """How many connections are open."""
        channels = (channel for pool in self._pools.values() for channel in pool.channels)
        return sum(channel.get_state() is grpc.ChannelConnectivity.READY for channel in channels)

    async def close(self) -> None:
        """Close every channel; calls on them are cancelled. Close the listener first."""
        await self._renewing.close()
        for key in list(self._pools):
            await self._pools.pop(key).close()
        if self._closing:
            await asyncio.wait(self._closing)

    @contextmanager
    def lease(self, origin: Origin, *, is_search: bool) -> Iterator[grpc.aio.Channel]:
        """A channel for one call: the first with few calls, else the one with the fewest."""
        key = (origin, is_search)
        pool = self._pools.get(key)
        if pool is None:
            pool = self._pools[key] = self._made(*key)
        if not pool.is_renewing and asyncio.get_running_loop().time() >= pool.end:
            pool.is_renewing = True
            self._renewing.start(self._replace(key, pool))
        calls = pool.calls
        place = calls.index(min(calls))
        for earlier in range(place):
            if calls[earlier] < CALLS_BEFORE_NEXT:
                place = earlier
                break
        calls[place] += 1
        try:
            yield pool.channels[place]
        finally:
            calls[place] -= 1
            if pool.is_retired:
                self._end_if_idle(pool)

    async def _replace(self, key: tuple[Origin, bool], old: _Pool) -> None:
        """Connect anew beside an old pool, which serves until the new one is ready."""
        fresh = self._made(*key)
        is_taken = False
        try:
            async with asyncio.timeout(self._settings.connect_timeout_seconds):
                await asyncio.gather(*(channel.channel_ready() for channel in fresh.channels))
            if self._pools.get(key) is old:
                self._pools[key] = fresh
                old.is_retired = is_taken = True
                self._end_if_idle(old)
        except TimeoutError:  # keep the old pool for another lifetime
            old.end, old.is_renewing = self._ages.end(), False
        finally:
            if not is_taken:
                await fresh.close()

    def _made(self, origin: Origin, is_search: bool) -> _Pool:
        options = self._options(origin)
        options.append(("grpc.max_receive_message_length", self.pool_bytes if is_search else self.message_bytes))
        if is_search:
            options.append(("grpc.compression_enabled_algorithms_bitset", _ONLY_IDENTITY))
        channels = [self._open(origin, options) for _ in range(self.connections)]
        return _Pool(channels, self._ages.end(), [0] * len(channels))

    def _open(self, origin: Origin, options: list[Option]) -> grpc.aio.Channel:
        if origin.scheme == "http":
            return grpc.aio.insecure_channel(_target(origin), options=options)
        if self._credentials is None:
            self._credentials = _credentials(self._settings)
        return grpc.aio.secure_channel(_target(origin), self._credentials, options=options)

    def _options(self, origin: Origin) -> list[Option]:
        return [
            ("grpc.default_authority", origin.authority),
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

    def _end_if_idle(self, pool: _Pool) -> None:
        """Close a retired pool once its calls are over."""
        if not any(pool.calls):
            task = asyncio.create_task(pool.close(), name="close gRPC channels")
            self._closing.add(task)
            task.add_done_callback(self._closing.discard)


@dataclass(slots=True)
class _Pool:
    """The channels to one origin. ``end``: of its age. ``calls``: in progress, by channel."""

    channels: list[grpc.aio.Channel]
    end: float
    calls: list[int]
    is_renewing: bool = False
    is_retired: bool = False

    async def close(self) -> None:
        for channel in self.channels:
            await channel.close()


def _target(origin: Origin) -> str:
    host = f"[{origin.host}]" if ":" in origin.host else origin.host
    return f"dns:///{host}:{origin.url('/').port}"
