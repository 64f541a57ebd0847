"""The connection pools to the database: which connection a request gets, and who must wait."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

from aiohappyeyeballs import AddrInfoType, pop_addr_infos_interleave, start_connection
from aiohttp import ThreadedResolver
from yarl import URL

from vecsieve.config.schema import UpstreamSettings

from ..runtime.addresses import Origin
from ..search.errors import FailureKind, UpstreamExchangeError, cause_of, words_of_tls
from .connections import Ages, Events
from .names import Addresses
from .tls import upstream_context
from .upstream_connection import UpstreamConnection


@dataclass(frozen=True, slots=True)
class Loan:
    """Resources that a slow client's answer holds and others may need.

    ``host``: of its upstream connection. ``speed``: of its client, bytes per second. ``end``: cuts the client and frees the resources.
    """

    host: object | None
    speed: Callable[[], float]
    end: Callable[[], None]


# Clients whose speed one call compares. Each comparison asks the kernel. With 200 slow readers and 200 new ones a second, to compare all of
# them took a quarter of the process's CPU, 16 of them a thirtieth.
LOOKED_AT = 4


@dataclass(slots=True)
class Loans:
    """By holder, the oldest first."""

    _lent: dict[object, Loan] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self._lent)

    def add(self, holder: object, loan: Loan) -> None:
        self._lent[holder] = loan

    def take_back(self, holder: object) -> None:
        self._lent.pop(holder, None)

    def call_in(self, host: object | None = None) -> bool:
        """End the loan of the slowest client, among those to ``host`` or all; False when there is none.

        Of clients that have taken nothing, the one that has waited longest: the search ends there. It also ends behind LOOKED_AT clients;
        the faster ones move to the end, so that the next call looks at others.
        """
        slowest: object | None = None
        least = float("inf")
        looked_at: list[object] = []
        for holder, loan in self._lent.items():
            if host is not None and loan.host != host:
                continue
            speed = loan.speed()
            if slowest is None or speed < least:
                slowest, least = holder, speed
            looked_at.append(holder)
            if speed <= 0 or len(looked_at) == LOOKED_AT:
                break
        if slowest is None:
            return False
        for holder in looked_at:
            self._lent[holder] = self._lent.pop(holder)
        self._lent.pop(slowest).end()
        return True


@dataclass(frozen=True, slots=True)
class Census:
    """A pool at one moment. ``waiting``: requests without a connection; ``opened``: connections since the start."""

    busy: int
    idle: int
    waiting: int
    opened: int

    def __add__(self, other: Census) -> Census:
        return Census(
            self.busy + other.busy, self.idle + other.idle, self.waiting + other.waiting, self.opened + other.opened
        )


@dataclass(slots=True, eq=False)
class _Host:
    """The connections of a pool to one host. It owns them. ``others``: how many of those in use are not for searches."""

    _pool: Pool
    _origin: Origin
    tls: ssl.SSLContext | None
    busy: dict[UpstreamConnection, bool] = field(default_factory=dict)  # for a search?
    idle: deque[UpstreamConnection] = field(default_factory=deque)  # the first is the one that has been idle longest
    opening: int = 0
    others: int = 0

    @property
    def url(self) -> URL:
        return self._origin.url("/")

    @property
    def in_use(self) -> int:
        return len(self.busy) + self.opening

    def failed(self, kind: FailureKind, number: int | None = None, words: str = "") -> UpstreamExchangeError:
        return self._pool.failed(self._origin, kind, number, words)

    def lend(self, connection: UpstreamConnection, speed: Callable[[], float], end: Callable[[], None]) -> None:
        def ended() -> None:
            self._pool.ending.add(connection)
            end()

        self._pool.loans.add(connection, Loan(self, speed, ended))
        self._pool.call_in(self)

    def take_back(self, connection: UpstreamConnection) -> None:
        self._pool.loans.take_back(connection)

    def ended(self, connection: UpstreamConnection, *, is_free: bool) -> None:
        self.others -= not self.busy.pop(connection, True)
        self._pool.ending.discard(connection)
        if is_free:
            self.idle.append(connection)
        elif connection in self.idle:
            self.idle.remove(connection)
        self._pool.changed(has_idle=is_free)


# RFC 8305 5: how long one address may take before the next is tried beside it.
NEXT_ADDRESS_SECONDS = 0.25
# The share of connections reserved for searches: an export of a hundred pages, or clients that read large answers slowly, may use all
# others for seconds. Such a request cannot be recognized before its answer begins.
SEARCH_SHARE = 0.125


class Pool:
    """Connections that send each request once. Create it inside the event loop.

    The one freed last is used first, so that the others idle long enough to be closed. ``idle_seconds``: after which a connection is not
    used again. ``tls``, ``may_be_private``, ``most``: as for `Upstream`. ``has_searches``: some of the connections are kept for them.
    """

    def __init__(
        self,
        settings: UpstreamSettings,
        *,
        events: Events,
        idle_seconds: float,
        tls: ssl.SSLContext | None,
        may_be_private: Callable[[str], bool] | None = None,
        most: int = 0,
        has_searches: bool = True,
    ) -> None:
        self._addresses = Addresses(
            ThreadedResolver(),
            seconds=settings.dns_ttl_seconds,
            timeout_seconds=settings.connect_timeout_seconds,
            may_be_private=may_be_private,
        )
        self._events = events
        self._origin = Origin.of(settings.url)
        self._loop = asyncio.get_running_loop()
        # Read for the first https host.
        self._tls: Callable[[], ssl.SSLContext] = partial(upstream_context, settings) if tls is None else lambda: tls
        # Per host, so that an index that has stopped answering cannot hold the connections of the others.
        self._most_of_host = settings.pool_connections
        self._search_share = SEARCH_SHARE if has_searches else 0.0
        self._most_others = self._most_of_host - int(self._search_share * self._most_of_host)
        self._most = most
        self._idle_seconds = idle_seconds
        self._connect_seconds = settings.connect_timeout_seconds
        self._stall_seconds = settings.stream_idle_timeout_seconds
        self._ages = Ages(settings.pool_age_seconds, clock=self._loop.time)
        self._hosts: dict[Origin, _Host] = {}
        # Requests without a connection, by host and whether they are searches: these queues take turns, oldest request first. They get an
        # idle connection, or None: then they may open one.
        self._waiting: dict[tuple[_Host, bool], dict[asyncio.Future[UpstreamConnection | None], None]] = {}
        self.loans = Loans()
        # Their loans were ended; they are in use for some turns of the loop.
        self.ending: set[UpstreamConnection] = set()
        self._sweeping: asyncio.TimerHandle | None = None
        self._opened = 0
        self._is_closed = False

    def census(self) -> Census:
        """Connections being opened count as busy."""
        hosts = self._hosts.values()
        idle = sum(len(host.idle) for host in hosts)
        waiting = sum(map(len, self._waiting.values()))
        return Census(self._in_use, idle, waiting=waiting, opened=0 if self._is_closed else self._opened)

    def failed(
        self, origin: Origin, kind: FailureKind, number: int | None = None, words: str = ""
    ) -> UpstreamExchangeError:
        """Count a failure, and describe it for the log: without a host that a request named."""
        self._events.upstream_failed(kind.value)
        place = origin.authority if origin == self._origin else "the index's host"
        return UpstreamExchangeError(kind, cause_of(kind, place, number=number, words=words))

    @property
    def _in_use(self) -> int:
        return sum(host.in_use for host in self._hosts.values())

    def idle(self, origin: Origin, *, is_search: bool = True) -> UpstreamConnection | None:
        """An idle connection for one exchange."""
        host = self._hosts.get(origin)
        return self._idle(host, is_search) if host is not None and self._has_room(host, is_search) else None

    async def connection(self, origin: Origin, *, is_search: bool = True) -> UpstreamConnection:
        """A connection for one exchange. ``is_search``: it may be one of those that are kept for searches.

        Raises UpstreamExchangeError.
        """
        if self._is_closed:
            raise self.failed(origin, FailureKind.CONNECT)
        host = self._hosts.get(origin)
        if host is None:
            host = self._hosts[origin] = _Host(self, origin, self._tls() if origin.scheme == "https" else None)
        if not self._has_room(host, is_search):
            connection = await self._turn(host, is_search)
        elif (connection := self._idle(host, is_search)) is None:
            self._opening(host, is_search, 1)
        return await self._open(host, is_search) if connection is None else connection

    def _idle(self, host: _Host, is_search: bool) -> UpstreamConnection | None:
        """An idle connection, now busy. One that is too old, or closing, is never used again."""
        while host.idle:
            connection, now = host.idle.pop(), self._loop.time()
            is_fresh = now - connection.idle_since <= self._idle_seconds and now < connection.ends_at
            if is_fresh and connection.is_open:
                host.busy[connection] = is_search
                host.others += not is_search
                return connection
            connection.close()
        return None

    @staticmethod
    def _opening(host: _Host, is_search: bool, more: int) -> None:
        host.opening += more
        host.others += 0 if is_search else more

    def _has_room(self, host: _Host, is_search: bool) -> bool:
        most, share = self._most, 0.0 if is_search else self._search_share
        is_free = is_search or host.others < self._most_others
        return is_free and host.in_use < self._most_of_host and (not most or self._in_use < most - int(share * most))

    async def _turn(self, host: _Host, is_search: bool) -> UpstreamConnection | None:
        """Wait for a connection, or for the right to open one. The wait is bounded like a silent stream."""
        waiter: asyncio.Future[UpstreamConnection | None] = self._loop.create_future()
        self._waiting.setdefault((host, is_search), {})[waiter] = None
        self.call_in(host)
        try:
            async with asyncio.timeout(self._stall_seconds):
                return await waiter
        except (TimeoutError, asyncio.CancelledError) as left:
            self._give_back(waiter, host, is_search)
            if isinstance(left, TimeoutError):
                raise host.failed(FailureKind.CONNECT) from None
            raise

    def _give_back(self, waiter: asyncio.Future[UpstreamConnection | None], host: _Host, is_search: bool) -> None:
        """Leave the queue, and pass on a connection that was given in the meantime."""
        queue = self._waiting.get((host, is_search), {})
        if waiter in queue:
            del queue[waiter]
            if not queue:
                del self._waiting[host, is_search]
        if not waiter.done() or waiter.cancelled() or waiter.exception() is not None:
            return
        given = waiter.result()
        if given is None:
            self._opening(host, is_search, -1)
            self.changed()
        else:
            given.end(is_clean=True)

    def changed(self, *, has_idle: bool = False) -> None:
        """A connection is idle or gone: serve those who wait."""
        if has_idle and self._sweeping is None:
            self._sweeping = self._loop.call_later(self._idle_seconds, self._sweep)
        while self._waiting:
            served = next((key for key in self._waiting if self._has_room(*key)), None)
            if served is None:
                return
            queue = self._waiting.pop(served)
            waiter = next(iter(queue))
            del queue[waiter]
            if queue:
                self._waiting[served] = queue  # behind the others
            if waiter.done():
                continue
            self._opening(*served, 1)  # before idle connections that are too old make room for others
            given = self._idle(*served)
            if given is not None:
                self._opening(*served, -1)
            waiter.set_result(given)

    async def _open(self, host: _Host, is_search: bool) -> UpstreamConnection:
        """A new connection; ``host.opening`` counts it until it is open."""
        self._make_room()
        made: UpstreamConnection | None = None
        try:
            made = await self._connected(host)
        finally:
            self._opening(host, is_search, -1)
            if made is None:
                self.changed()
        self._opened += 1
        host.busy[made] = is_search
        host.others += not is_search
        if self._is_closed or not made.is_open:
            made.abort()
            raise host.failed(FailureKind.RESET)
        return made

    def _make_room(self) -> None:
        """Close the longest idle connections if idle and used ones are too many together."""
        idle = [host.idle[0] for host in self._hosts.values() if host.idle]
        if self._most and idle and self._in_use + sum(len(host.idle) for host in self._hosts.values()) > self._most:
            min(idle, key=lambda connection: connection.idle_since).close()

    async def _connected(self, host: _Host) -> UpstreamConnection:
        try:
            addresses = await self._addresses.of(host.url.raw_host or "", host.url.port or 0)
        except OSError as error:
            raise host.failed(FailureKind.DNS, error.errno) from None
        while True:
            try:
                async with asyncio.timeout(self._connect_seconds):
                    return await self._dialled(host, addresses)
            except OSError as error:  # includes TimeoutError and ssl.SSLError
                pop_addr_infos_interleave(addresses)
                if not addresses:
                    if isinstance(error, ssl.SSLError):
                        raise host.failed(FailureKind.TLS, words=words_of_tls(error)) from None
                    raise host.failed(FailureKind.CONNECT, error.errno) from None

    async def _dialled(self, host: _Host, addresses: list[AddrInfoType]) -> UpstreamConnection:
        def protocol() -> UpstreamConnection:
            return UpstreamConnection(host, stall_seconds=self._stall_seconds, ends_at=self._ages.end())

        # The names in a certificate have no final dot.
        server_hostname = None if host.tls is None else (host.url.raw_host or "").rstrip(".")
        family, _, _, _, (address, port, *_) = addresses[0]
        if len(addresses) == 1 and family == socket.AF_INET:
            # Without a socket of Python's: 65 µs of CPU instead of 160. An IPv6 address may have a scope, which this loses.
            _, made = await self._loop.create_connection(
                protocol, address, port, ssl=host.tls, server_hostname=server_hostname
            )
        else:
            raw = await start_connection(addresses, happy_eyeballs_delay=NEXT_ADDRESS_SECONDS, loop=self._loop)
            _, made = await self._loop.create_connection(
                protocol, sock=raw, ssl=host.tls, server_hostname=server_hostname
            )
        return made

    def _sweep(self) -> None:
        """Close what has idled for too long, and forget hosts without connections."""
        self._sweeping = None
        limit = self._loop.time() - self._idle_seconds
        next_at: float | None = None
        for origin, host in list(self._hosts.items()):
            while host.idle and host.idle[0].idle_since <= limit:
                host.idle[0].close()
            if host.idle:
                since = host.idle[0].idle_since
                next_at = since if next_at is None else min(next_at, since)
            elif not host.in_use and not any(waited_for is host for waited_for, _ in self._waiting):
                del self._hosts[origin]
        if next_at is not None:
            self._sweeping = self._loop.call_at(next_at + self._idle_seconds, self._sweep)

    def call_in(self, host: object) -> None:
        """End as many loans as requests to a host wait for a connection, without those that are ending already: thirty requests that come in
        one turn would end 465.
        """
        is_full = bool(self._most) and self._in_use >= self._most  # any loan that ends makes room
        waiting = sum(len(queue) for (waiting_host, _), queue in self._waiting.items() if waiting_host is host)
        for _ in range(waiting - sum(is_full or connection.owner is host for connection in self.ending)):
            if not self.loans.call_in(None if is_full else host):
                return

    async def close(self) -> None:
        self._is_closed = True
        if self._sweeping is not None:
            self._sweeping.cancel()
        waiting, self._waiting = self._waiting, {}
        for (host, _), queue in waiting.items():
            for waiter in queue:
                if not waiter.done():
                    waiter.set_exception(host.failed(FailureKind.CONNECT))
        for host in self._hosts.values():
            for connection in [*host.idle, *host.busy]:
                connection.abort()
        self._hosts.clear()
        await self._addresses.close()
        await asyncio.sleep(0)  # a transport releases its socket at the loop's next turn
