"""A pool of connections to the database: aiohttp's session with every habit of a browser switched off."""

from __future__ import annotations

import asyncio
import ipaddress
import logging
import socket
import ssl
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

import aiohttp
from aiohttp import http_parser, web
from aiohttp.abc import AbstractResolver, ResolveResult
from aiohttp.client_proto import ResponseHandler
from aiohttp.client_reqrep import ConnectionKey
from aiohttp.connector import Connection
from aiohttp.tracing import Trace
from aiohttp.web_protocol import RequestHandler

from vecsieve.config.schema import UpstreamSettings
from vecsieve.proxy.http.message import RawRequest
from vecsieve.proxy.search.limits import NEVER, Ages

# What answers hold while they wait for slow clients: lent, so that whoever lacks it may have it, from the slowest client first.


@dataclass(frozen=True, slots=True)
class Loan:
    """What one answer holds. ``host``: whom its connection leads to; ``speed``: of its client, in bytes a second.

    ``end``: cuts the client and gives back at once what the answer holds.
    """

    host: ConnectionKey | None
    speed: Callable[[], float]
    end: Callable[[], None]


class Loans:
    """What is lent, the longest first. Each loan is known by its holder."""

    __slots__ = ("_lent",)

    def __init__(self) -> None:
        self._lent: dict[object, Loan] = {}

    def __len__(self) -> int:
        return len(self._lent)

    def add(self, holder: object, loan: Loan) -> None:
        """Lend."""
        self._lent[holder] = loan

    def take_back(self, holder: object) -> None:
        """It is lent no more. Does nothing when it was called in."""
        self._lent.pop(holder, None)

    def call_in(self, host: ConnectionKey | None = None) -> bool:
        """End the one whose client reads slowest, of those to ``host`` or of all; False when there is none.

        Of clients that have taken nothing the one that has waited longest: nobody need look further.
        """
        slowest: object | None = None
        least = float("inf")
        for holder, loan in self._lent.items():
            if host is not None and loan.host != host:
                continue
            speed = loan.speed()
            if slowest is None or speed < least:
                slowest, least = holder, speed
            if speed <= 0:
                break
        if slowest is None:
            return False
        self._lent.pop(slowest).end()
        return True


# Which addresses a name may lead to when a request chose the name: public ones.
#
# Checked where the connection gets its addresses from, so the address that was checked is the one connected to; a name
# that answers differently the second time (rebinding) is checked the second time. A literal address never gets here:
# routes refuse those.

LOGGER = logging.getLogger("vecsieve.upstream")
# RFC 6052: a NAT64 gateway makes of the last four bytes an IPv4 address on its own side.
_NAT64 = ipaddress.IPv6Network("64:ff9b::/96")
# All that IANA has given out to the internet (RFC 4291 2.4). Python calls most of the rest global as well: site-local
# addresses, and 64:ff9b:1::/48, behind which RFC 8215 lets any network translate to its own private IPv4.
_INTERNET = ipaddress.IPv6Network("2000::/3")


class PublicResolver(AbstractResolver):
    """A resolver that refuses a name unless all of its addresses are public, or the settings name it themselves."""

    def __init__(self, inner: AbstractResolver, *, may_be_private: Callable[[str], bool]) -> None:
        self._inner = inner
        self._may_be_private = may_be_private

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        """Look a host up. Raises OSError, which aiohttp reports as a DNS failure, also for a refused name."""
        found = await self._inner.resolve(host, port, family)
        if self._may_be_private(host) or all(is_public(result["host"]) for result in found):
            return found
        LOGGER.warning(
            "a host that a request named has an address that is not public: no connection. If that is right, write its "
            "whole name into pinecone.allowed_hosts"
        )
        raise OSError("the name leads to an address that is not public")

    async def close(self) -> None:
        """End the inner resolver."""
        await self._inner.close()


def is_public(text: str) -> bool:
    """Whether an address is a public unicast one. False for everything that is no address."""
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        return False
    if isinstance(address, ipaddress.IPv6Address):
        inner = _embedded(address)
        if inner is not None:
            return is_public(str(inner))
        if address not in _INTERNET:
            return False
    return address.is_global and not address.is_multicast


def _embedded(address: ipaddress.IPv6Address) -> ipaddress.IPv4Address | None:
    """The IPv4 address that a packet to this IPv6 address ends at: mapped, 6to4, NAT64."""
    if address in _NAT64:
        return ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
    return address.ipv4_mapped or address.sixtofour


# What we lean on of aiohttp beyond its documentation, checked before a listener or a pool opens.
#
# A release that renames one of these must stop the process with a sentence, not re-send a write (``_retry_connection``)
# or lose the head deadline in silence. The range in pyproject.toml is the first guard, this is the second.

RELIED_ON: tuple[tuple[type, tuple[str, ...]], ...] = (
    (
        RequestHandler,
        (
            "_buffer_paused",
            "_current_request",
            "_keepalive_timeout",
            "_lingering_time",
            "_messages",
            "_pause_transport_reading",
            "_reading_paused",
            "_request_count",
            "_request_in_progress",
            "_resume_transport_reading",
            "_upgraded",
            "_waiter",
            "close",
            "data_received",
            "force_close",
            "handle_error",
            "log_debug",
            "log_exception",
            "max_field_size",
            "max_headers",
            "max_line_size",
            "resume_reading",
        ),
    ),
    (
        web.StreamResponse,
        (
            "_keep_alive",
            "_must_be_empty_body",
            "_payload_writer",
            "_prepare_headers",
            "_req",
            "_send_headers_immediately",
            "_write_headers",
        ),
    ),
    (aiohttp.TCPConnector, ("_create_connection", "_get", "_wait_for_available_connection")),
    (
        aiohttp.ClientRequest,
        (
            "_body",
            "_get_content_length",
            "update_body_from_data",
            "update_content_encoding",
            "update_expect_continue",
            "update_headers",
            "update_transfer_encoding",
        ),
    ),
)


class IncompatibleLibraryError(RuntimeError):
    """The installed aiohttp is not the one this data plane was built on."""


def audit_library() -> None:
    """Raise IncompatibleLibraryError when aiohttp lacks what we rely on, or runs on its pure-Python parser.

    Two parsers that differ in what they accept are a smuggling risk of their own; the C parser is the tested one.
    """
    missing = [f"{owner.__name__}.{name}" for owner, names in RELIED_ON for name in names if not hasattr(owner, name)]
    if missing:
        raise IncompatibleLibraryError(f"aiohttp {aiohttp.__version__} has no {', '.join(missing)}")
    if http_parser.HttpRequestParser is http_parser.HttpRequestParserPy:
        raise IncompatibleLibraryError(
            "aiohttp runs on its pure-Python parser (AIOHTTP_NO_EXTENSIONS is set, or the wheel has no extensions)"
        )


def audit_connector(connector: aiohttp.BaseConnector) -> None:
    """Raise IncompatibleLibraryError unless what its connections are counted by exists."""
    if missing := [
        name for name in ("_acquired", "_conns", "_limit", "_loop", "_waiters") if name not in vars(connector)
    ]:
        raise IncompatibleLibraryError(f"aiohttp {aiohttp.__version__} has no BaseConnector.{', '.join(missing)}")


def audit_session(session: aiohttp.ClientSession) -> None:
    """Raise IncompatibleLibraryError unless the switch that ends silent re-sending exists."""
    if "_retry_connection" not in vars(session):
        raise IncompatibleLibraryError(
            f"aiohttp {aiohttp.__version__} has no ClientSession._retry_connection: it would re-send writes"
        )


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
    """A session that sends what it is given, once. Raises IncompatibleLibraryError when that cannot be promised.

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
