"""Start and stop, and what a client connects to, over either transport."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

from aiohttp import web
from servers.pinecone.calls import Limits
from servers.pinecone.grpc_service import GrpcServer, Service
from servers.pinecone.rest import Edge, Rest
from servers.pinecone.store import Index, Place, Project, label_of

from vecsieve.adapters.pinecone.calls import PineconeDialect
from vecsieve.config.addresses import Address
from vecsieve.config.schema import LimitSettings
from vecsieve.proxy.grpc.shared_port import SharedPort
from vecsieve.proxy.http.answers import LocalAnswers
from vecsieve.proxy.http.connections import Connections, Events
from vecsieve.proxy.http.protocol import ConnectionRules

# The emulator's ports, plain or over TLS. One with an index behind it speaks gRPC beside HTTP/1, as at the service.


_KEEPALIVE_SECONDS = 3600.0
"""Envoy's default; the Python clients 5 and 6 never retry on a connection that was closed under them."""
_LINE_BYTES = 1024 * 1024
"""`/vectors/fetch` with 1,000 ids of 512 characters; aiohttp's own 8 kB would refuse 200 UUIDs."""
_SHUTDOWN_SECONDS = 2.0


class Ports:
    """Of one emulator, on one interface. ``app``: answers HTTP/1. ``tls``: of every port; None is plain."""

    def __init__(self, app: web.Application, *, tls: ssl.SSLContext | None) -> None:
        self._runner = web.AppRunner(
            app,
            access_log=None,
            handle_signals=False,
            keepalive_timeout=_KEEPALIVE_SECONDS,
            shutdown_timeout=_SHUTDOWN_SECONDS,
            max_line_size=_LINE_BYTES,
            max_field_size=_LINE_BYTES,
        )
        self._host = ""
        self._tls = tls
        self._rules = _rules()
        self._starting: list[asyncio.Task[None]] = []
        self._listening: list[asyncio.Server] = []
        self._fronts: list[SharedPort] = []
        self._calls: list[GrpcServer] = []

    async def begin(self, host: str) -> None:
        """Before a port is opened, on the interface of this host."""
        self._host = host
        await self._runner.setup()

    def open(self, port: int, service: Service | None = None) -> int:
        """Listen from here on, at any free port for 0; returns its number. Who connects before we are ready waits.

        ``service``: answers gRPC there. Raises OSError when the port is taken.
        """
        family = socket.AF_INET6 if ":" in self._host else socket.AF_INET
        bound = socket.create_server((self._host, port), family=family)
        calls = None if service is None else GrpcServer(service)
        self._starting.append(asyncio.get_running_loop().create_task(self._serve(bound, calls)))
        return int(bound.getsockname()[1])

    async def close(self) -> None:
        """Let what is under way end, for a moment."""
        await asyncio.gather(*self._starting)
        for server in self._listening:
            server.close()
        # Together: the gRPC servers tell their clients to go away through our ports.
        await asyncio.gather(
            *(calls.close() for calls in self._calls),
            *(front.close(grace_seconds=_SHUTDOWN_SECONDS) for front in self._fronts),
            self._runner.cleanup(),
        )

    async def _serve(self, bound: socket.socket, calls: GrpcServer | None) -> None:
        front = SharedPort(self._rules, inner=None if calls is None else calls.inner, tls=self._tls)
        self._fronts.append(front)
        if calls is not None:
            self._calls.append(calls)
            await calls.start()
        server = self._runner.server
        assert server is not None
        self._listening.append(await asyncio.get_running_loop().create_server(front.before(server), sock=bound))


def _rules() -> ConnectionRules:
    """A data port's own, with nobody to count."""
    limits, unobserved = LimitSettings(), Events()
    connections = Connections(limit=limits.connections, events=unobserved)
    return ConnectionRules(limits.head_timeout_seconds, connections, LocalAnswers(PineconeDialect()), unobserved)


# Start and stop the emulator inside a running loop.
#
# Every index gets a listener of its own on a free port, and the control plane calls it `http://127.0.0.1:<port>`, much as
# Pinecone Local does: any REST client can use that as it stands. With `host_form` given, indexes share the control plane's
# port and are told apart by the first label of the host a request is sent to, as at the real service. gRPC is spoken at an
# index's own port, whatever its host is called: its handlers are not told which host a call was sent to.


class Emulator:
    """A running emulator: `url` is its control plane. Any key is taken, unless one is given.

    host_form: what indexes are called, such as `{label}.svc.emulator.test:{port}`; None for a port for each.
    private_form: the same for `private_host`; None repeats the host.
    grpc: speak it beside REST where an index has a port of its own, and give each one.
    tls: of every port; None is plain.
    index_port: where the only index is; 0 is any free port for each.
    """

    def __init__(
        self,
        *,
        api_key: str | None = None,
        limits: Limits | None = None,
        host_form: str | None = None,
        private_form: str | None = None,
        grpc: bool = False,
        tls: ssl.SSLContext | None = None,
        index_port: int = 0,
    ) -> None:
        self._index_port = index_port
        self._forms = (host_form, private_form)
        self._edge, self._limits = Edge(api_key), limits or Limits()
        self._speaks_grpc = grpc
        self._scheme = "http" if tls is None else "https"
        self._labels: dict[int, str] = {}
        self._host = ""
        self.port = 0
        self.project = Project(self._place)
        rest = Rest(self.project, self._labels.get, edge=self._edge, limits=self._limits)
        self._ports = Ports(rest.app(), tls=tls)

    @property
    def url(self) -> str:
        """Where the control plane is."""
        return self._url(self.port)

    def grpc_address(self, name: str) -> str:
        """Where the index of this name answers gRPC: `127.0.0.1:50051`. Raises KeyError where it does not."""
        known = self._known(label_of(name)) if self._speaks_grpc else None
        if known is None:
            raise KeyError(name)
        return self._authority(known)

    async def start(self, listen: Address) -> None:
        """Listen; port 0 picks a free one. Raises OSError when the port is taken."""
        self._host = listen.host
        await self._ports.begin(listen.host)
        self.port = self._ports.open(listen.port)

    async def close(self) -> None:
        """Stop listening. What was stored is gone."""
        await self._ports.close()

    def hold(self, indexes: Mapping[str, Index]) -> None:
        """Serve these indexes, by name, of an emulator that has ended."""
        self.project.indexes.update(indexes)
        for name in indexes:
            self._place(label_of(name))

    def _place(self, label: str) -> Place:
        host_form, private_form = self._forms
        if host_form is None:
            host = self._url(self._port_of(label))
        else:
            host = host_form.format(label=label, port=self.port)
            if self._speaks_grpc:
                self._port_of(label)
        return Place(host, host if private_form is None else private_form.format(label=label, port=self.port))

    def _port_of(self, label: str) -> int:
        """The index's own port. An index made anew under its old name is found where it was, as at the service."""
        known = self._known(label)
        if known is not None:
            return known
        service = Service(lambda: self.project.labelled(label), self._edge, self._limits) if self._speaks_grpc else None
        port = self._ports.open(self._index_port, service)
        self._labels[port] = label
        return port

    def _known(self, label: str) -> int | None:
        return next((port for port, one in self._labels.items() if one == label), None)

    def _url(self, port: int) -> str:
        return f"{self._scheme}://{self._authority(port)}"

    def _authority(self, port: int) -> str:
        return f"{f'[{self._host}]' if ':' in self._host else self._host}:{port}"


@asynccontextmanager
async def serve(
    listen: Address,
    *,
    api_key: str | None = None,
    limits: Limits | None = None,
    host_form: str | None = None,
    private_form: str | None = None,
    grpc: bool = False,
    tls: ssl.SSLContext | None = None,
    index_port: int = 0,
) -> AsyncIterator[Emulator]:
    """An emulator that listens while the block runs. Raises OSError when the port is taken."""
    emulator = Emulator(
        api_key=api_key,
        limits=limits,
        host_form=host_form,
        private_form=private_form,
        grpc=grpc,
        tls=tls,
        index_port=index_port,
    )
    await emulator.start(listen)
    try:
        yield emulator
    finally:
        await emulator.close()
