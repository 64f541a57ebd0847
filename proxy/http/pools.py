"""A pool of connections to the database: aiohttp's session with every habit of a browser switched off."""

from __future__ import annotations

import asyncio
import socket
import ssl
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

import aiohttp
from aiohttp.abc import AbstractResolver, ResolveResult
from aiohttp.client_proto import ResponseHandler
from aiohttp.client_reqrep import ConnectionKey
from aiohttp.connector import Connection
from aiohttp.tracing import Trace

from vecsieve.config.schema import UpstreamSettings
from vecsieve.proxy.ages import NEVER, Ages
from vecsieve.proxy.http.audit import audit_connector, audit_session
from vecsieve.proxy.http.loans import Loan, Loans
from vecsieve.proxy.http.public_addresses import PublicResolver
from vecsieve.proxy.http.raw_request import RawRequest

# A reply field larger than this is refused; aiohttp's 8190 is less than Qdrant's own clients take.
REPLY_FIELD_BYTES = 65_536
REPLY_FIELDS = 1024
ADDED_BY_AIOHTTP = ("User-Agent", "Accept", "Accept-Encoding", "Content-Type")


@dataclass(frozen=True, slots=True)
class Census:
    """A pool at one moment. ``waiting``: requests that have no connection yet; ``opened``: connections since it began."""

    busy: int
    idle: int
    waiting: int
    opened: int

    def __add__(self, other: Census) -> Census:
        return Census(
            self.busy + other.busy, self.idle + other.idle, self.waiting + other.waiting, self.opened + other.opened
        )


class CleanConnector(aiohttp.TCPConnector):
    """A pool that never hands out a connection that is too old, or on which the database has spoken unasked.

    Bytes that arrive on an idle connection would be read as the reply to the next request (aiohttp 3.14.5 looks only
    when a connection is given back), so each client would get the answer meant for the one before.
    """

    _opened = 0

    def __init__(self, *, ages: Ages, **settings: Any) -> None:
        super().__init__(**settings)
        self._ages = ages
        self._ends: WeakKeyDictionary[ResponseHandler, float] = WeakKeyDictionary()
        self._keys: WeakKeyDictionary[ResponseHandler, ConnectionKey] = WeakKeyDictionary()
        self._loans = Loans()

    def census(self) -> Census:
        """What it holds now, those that are being opened among the busy. aiohttp has no public count."""
        return Census(
            busy=len(self._acquired),
            idle=sum(len(kept) for kept in self._conns.values()),
            waiting=sum(len(queued) for queued in self._waiters.values()),
            opened=self._opened,
        )

    async def _create_connection(
        self,
        req: aiohttp.ClientRequest,
        traces: list[Trace],
        timeout: aiohttp.ClientTimeout,  # noqa: ASYNC109 - aiohttp calls its deadlines so
    ) -> ResponseHandler:
        made = await super()._create_connection(req, traces, timeout)
        self._opened += 1
        self._ends[made] = self._ages.end()
        self._keys[made] = req.connection_key
        return made

    def lend(self, protocol: ResponseHandler, speed: Callable[[], float], end: Callable[[], None]) -> None:
        """Whoever lacks a connection may have this one, once ``end`` was called. ``speed``: of its client, in bytes a second."""
        key = self._keys[protocol]
        self._loans.add(protocol, Loan(key, speed, end))
        self._call_in(key)

    def take_back(self, protocol: ResponseHandler) -> None:
        """It is lent no more."""
        self._loans.take_back(protocol)

    async def _wait_for_available_connection(self, key: ConnectionKey, traces: list[Trace]) -> None:
        self._loop.call_soon(self._call_in, key)  # once it waits
        await super()._wait_for_available_connection(key, traces)

    def _call_in(self, key: ConnectionKey) -> None:
        """Call in as many lent connections as requests to a host wait for one."""
        waiting = sum(not each.done() for each in self._waiters.get(key, ()))
        is_full = bool(self._limit) and len(self._acquired) >= self._limit  # whoever leaves, makes room
        for _ in range(waiting):
            if not self._loans.call_in(None if is_full else key):
                return

    async def _get(self, key: ConnectionKey, traces: list[Trace]) -> Connection | None:
        while (connection := await super()._get(key, traces)) is not None:
            protocol = connection.protocol
            if protocol is not None and not protocol.should_close and not self._is_old(protocol):
                return connection
            connection.close()
        return None

    def _is_old(self, protocol: ResponseHandler) -> bool:
        return self._ages.is_over(self._ends.get(protocol, NEVER))


class BoundedResolver(AbstractResolver):
    """The system's resolver with a deadline: aiohttp's own connect deadline does not cover it."""

    def __init__(self, *, seconds: float) -> None:
        self._inner = aiohttp.ThreadedResolver()
        self._seconds = seconds

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        """Look a host up. Raises OSError, which aiohttp reports as a DNS failure, also when it takes too long."""
        try:
            async with asyncio.timeout(self._seconds):
                return await self._inner.resolve(host, port, family)
        except TimeoutError:
            raise OSError("name lookup timed out") from None

    async def close(self) -> None:
        """Nothing is held."""
        await self._inner.close()


def open_session(
    settings: UpstreamSettings,
    *,
    idle_seconds: float,
    tls: ssl.SSLContext | None,
    may_be_private: Callable[[str], bool] | None = None,
    most: int = 0,
) -> aiohttp.ClientSession:
    """A session that sends what it is given, once. Raises IncompatibleLibrary when that cannot be promised.

    ``may_be_private``, ``most``: as for `Upstream`.
    Waiting for a free connection is bounded like a silent stream: the request would wait as long on the database.
    """
    resolver: AbstractResolver = BoundedResolver(seconds=settings.connect_timeout_seconds)
    if may_be_private is not None:
        resolver = PublicResolver(resolver, may_be_private=may_be_private)
    connector = CleanConnector(
        ages=Ages(settings.pool_age_seconds, clock=time.monotonic),
        # By host: an index that has stopped answering must not hold the connections of the others.
        limit=most,
        limit_per_host=settings.pool_connections,
        keepalive_timeout=idle_seconds,
        ttl_dns_cache=int(settings.dns_ttl_seconds),
        resolver=resolver,
        ssl=True if tls is None else tls,
    )
    session = aiohttp.ClientSession(
        connector=connector,
        request_class=RawRequest,
        skip_auto_headers=ADDED_BY_AIOHTTP,
        cookie_jar=aiohttp.DummyCookieJar(),
        auto_decompress=False,
        raise_for_status=False,
        trust_env=False,
        max_line_size=REPLY_FIELD_BYTES,
        max_field_size=REPLY_FIELD_BYTES,
        max_headers=REPLY_FIELDS,
        timeout=aiohttp.ClientTimeout(
            total=None,
            connect=settings.stream_idle_timeout_seconds,
            sock_connect=settings.connect_timeout_seconds,
            sock_read=settings.stream_idle_timeout_seconds,
        ),
    )
    audit_session(session)
    audit_connector(connector)
    session._retry_connection = False  # noqa: SLF001 - aiohttp re-sends PUT, DELETE and GET when a kept connection dies
    return session
