"""The data ports: aiohttp's server on addresses or inherited sockets, with settings that are proven to be in force.

One wrong keyword makes aiohttp drop all of them with only a log line; here a probe connection is built and fed before
the ports open, and what it does is compared with what was configured.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType
from typing import Protocol

from aiohttp import web
from aiohttp.http import RawRequestMessage
from aiohttp.web_protocol import RequestPayloadError

from vecsieve.config.schema import LimitSettings
from vecsieve.proxy.ages import Ages
from vecsieve.proxy.doors import Door
from vecsieve.proxy.http.accepting import Accepting, Arrivals, arriving_at_most, bound
from vecsieve.proxy.http.answers import LocalAnswers
from vecsieve.proxy.http.audit import IncompatibleLibrary, audit_library
from vecsieve.proxy.http.connections import Connections
from vecsieve.proxy.http.events import Events
from vecsieve.proxy.http.framing import objection
from vecsieve.proxy.http.protocol import ClientConnection, ConnectionRules
from vecsieve.proxy.origin import Origin
from vecsieve.proxy.redaction import guard_foreign_loggers

Factory = Callable[[], asyncio.Protocol]
Handler = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]
# After an early answer the rest of a body is read and dropped this long: closing at once would reset the connection,
# and a reset destroys the answer on its way (RFC 9112 9.6).
LINGERING_SECONDS = 10.0
AT_ONCE_SECONDS = 0.001  # aiohttp takes a grace of 0 for one without end (helpers.ceil_timeout)


class DataServer(web.Server):
    """aiohttp's server whose connections are ours, and which refuses heads that could be read in two ways."""

    def __init__(self, handler: Handler, limits: LimitSettings, answers: LocalAnswers, events: Events) -> None:
        super().__init__(_Guard(handler, answers, events), handler_cancellation=True)
        self.client_connections = Connections(limit=limits.connections, events=events)
        self._settings = effective_settings(limits)
        self.rules = ConnectionRules(
            head_timeout_seconds=limits.head_timeout_seconds,
            connections=self.client_connections,
            answers=answers,
            events=events,
            ages=Ages(limits.connection_age_seconds, clock=time.monotonic),
        )

    def __call__(self, index: Origin | None = None) -> ClientConnection:
        """Build one connection; a wrong setting is an error here, not a silent fallback. ``index``: behind its port."""
        return ClientConnection(self, self.rules, index, **self._settings)


@dataclass(frozen=True, slots=True)
class _Guard:
    """The handler behind the head checks."""

    handler: Handler
    answers: LocalAnswers
    events: Events

    async def __call__(self, request: web.BaseRequest) -> web.StreamResponse:
        trouble = objection(request.method, request.raw_path, request.version, request.raw_headers)
        if trouble is None:
            return await self.handler(request)
        self.events.answered_locally(trouble.value)
        return self.answers.response(trouble, request.raw_path)


class Front(Protocol):
    """What has a port's connections before aiohttp gets those that are HTTP/1."""

    def before(self, http: Factory) -> Factory:
        """What makes the protocol of a new connection."""
        ...

    @property
    def owed(self) -> int:
        """How many of these have not got all of their answers yet."""
        ...

    def say_goodbye(self) -> None:
        """Ask those that aiohttp has not got to go elsewhere."""
        ...

    async def close(self, *, grace_seconds: float) -> None:
        """Wait for those that aiohttp has not got, then cut them."""
        ...


@dataclass(frozen=True, slots=True)
class Listener:
    """The open data ports of one server, which share its limits and its end. ``fronts``: of those that have one."""

    server: DataServer
    sockets: tuple[Accepting, ...]
    fronts: tuple[Front, ...]

    @property
    def ports(self) -> tuple[int, ...]:
        """The ports that were bound, in the order of the doors; the free one where 0 was asked for."""
        return tuple(each.port for each in self.sockets)

    @property
    def owed(self) -> int:
        """How many clients behind a front have not got all of their answers yet."""
        return sum(front.owed for front in self.fronts)

    def stop_accepting(self) -> None:
        """Close the listening sockets; open connections live on, and who can be asked to leave is asked."""
        for each in self.sockets:
            each.close()
        for front in self.fronts:
            front.say_goodbye()

    def drain(self) -> None:
        """End every connection with its next answer."""
        self.server.client_connections.drain()

    async def close(self, *, grace_seconds: float) -> None:
        """Stop accepting, let requests in flight finish for the grace period, then cut them."""
        self.stop_accepting()
        self.drain()
        self.server.client_connections.dismiss()
        await asyncio.gather(*(each.opened() for each in self.sockets))
        await asyncio.gather(
            self.server.shutdown(max(grace_seconds, AT_ONCE_SECONDS)),
            *(front.close(grace_seconds=grace_seconds) for front in self.fronts),
        )


def effective_settings(limits: LimitSettings) -> dict[str, float | int | bool | None]:
    """Our limits under the names that aiohttp gives them."""
    return {
        "keepalive_timeout": limits.keep_alive_seconds,
        "max_line_size": limits.head_line_bytes,
        "max_field_size": limits.head_field_bytes,
        "max_headers": limits.head_fields,
        "lingering_time": LINGERING_SECONDS,
        "auto_decompress": False,
        "access_log": None,
        "tcp_keepalive": True,
    }


async def listen(
    server: DataServer, limits: LimitSettings, *doors: Door, fronts: Mapping[Door, Front] = MappingProxyType({})
) -> Listener:
    """Open the data ports, all or none.

    Raises IncompatibleLibrary when aiohttp is not what we rely on or the settings are not in force; OSError when an
    address cannot be bound.
    """
    audit_library()
    guard_foreign_loggers()
    prove_settings(server, limits)
    arrivals = Arrivals(arriving_at_most(limits.connections))
    with ExitStack() as opened:
        sockets = []
        for door in doors:
            sockets.append(await _opened(server, door, fronts.get(door), arrivals))
            opened.callback(sockets[-1].close)
        opened.pop_all()
    return Listener(server, tuple(sockets), tuple(fronts.values()))


async def _opened(server: DataServer, door: Door, front: Front | None, arrivals: Arrivals) -> Accepting:
    factory: Factory = partial(server, door.index)
    factory = factory if front is None else front.before(factory)
    sockets = await bound(door.host, door.port) if door.shared is None else (door.shared,)
    return Accepting(sockets, factory, arrivals)


def prove_settings(server: DataServer, limits: LimitSettings) -> None:
    """Raise IncompatibleLibrary unless a connection built by ``server`` behaves as ``limits`` say."""
    probe = server()
    seen = {
        "keepalive_timeout": probe.keepalive_timeout,
        "max_line_size": probe.max_line_size,
        "max_field_size": probe.max_field_size,
        "max_headers": probe.max_headers,
        "lingering_time": probe._lingering_time,  # noqa: SLF001 - audited: it has no public name
    }
    wanted = {name: value for name, value in effective_settings(limits).items() if name in seen}
    wrong = [f"{name} is {seen[name]!r}, configured {wanted[name]!r}" for name in seen if seen[name] != wanted[name]]
    if probe.access_logger is not None:
        wrong.append("aiohttp's access log is on")
    wrong += _parser_faults(server, limits)
    if wrong:
        raise IncompatibleLibrary("aiohttp did not take the settings: " + "; ".join(wrong))


def _parser_faults(server: DataServer, limits: LimitSettings) -> list[str]:
    """What the C parser, whose settings cannot be read back, does wrong with two canned requests."""
    faults = []
    if _first_body(server, b"Content-Encoding: gzip\r\nContent-Length: 3\r\n\r\nabc") != b"abc":
        faults.append("request bodies are decompressed")
    if _first_body(server, b"x: " + b"a" * (limits.head_field_bytes + 1) + b"\r\n\r\n") is not None:
        faults.append("the limit of a header field is not enforced")
    return faults


def _first_body(server: DataServer, rest: bytes) -> bytes | None:
    """The body a fresh connection reads from a POST with these fields; None when it refuses the head or the body."""
    probe = server()
    probe.data_received(b"POST / HTTP/1.1\r\nHost: probe\r\n" + rest)
    message, payload = probe._messages[0]  # noqa: SLF001 - audited
    if not isinstance(message, RawRequestMessage):
        return None
    try:
        return payload.read_nowait()
    except RequestPayloadError:
        return None
