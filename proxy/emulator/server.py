"""Start and stop the emulator inside a running loop.

Every index gets a listener of its own on a free port, and the control plane calls it `http://127.0.0.1:<port>`, much as
Pinecone Local does: any REST client can use that as it stands. With `host_form` given, indexes share the control plane's
port and are told apart by the first label of the host a request is sent to, as at the real service. Over gRPC, which has no
room in a path for more, every index that is served has a second port of its own: `grpc_address`.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from aiohttp import web

from vecsieve.config.addresses import Address
from vecsieve.proxy.emulator.calls import Limits
from vecsieve.proxy.emulator.edge import Edge
from vecsieve.proxy.emulator.grpc_server import GrpcServer
from vecsieve.proxy.emulator.grpc_service import Service
from vecsieve.proxy.emulator.project import Place, Project, label_of
from vecsieve.proxy.emulator.rest import Rest

_KEEPALIVE_SECONDS = 3600.0
"""Envoy's default; the Python clients 5 and 6 never retry on a connection that was closed under them."""
_LINE_BYTES = 1024 * 1024
"""`/vectors/fetch` with 1,000 ids of 512 characters; aiohttp's own 8 kB would refuse 200 UUIDs."""
_SHUTDOWN_SECONDS = 2.0


class Emulator:
    """A running emulator: `url` is its control plane. Any key is taken, unless one is given.

    host_form: what indexes are called, such as `{label}.svc.emulator.test:{port}`; None for a port for each.
    private_form: the same for `private_host`; None repeats the host.
    grpc: serve every index over gRPC as well.
    """

    def __init__(
        self,
        *,
        api_key: str | None = None,
        limits: Limits | None = None,
        host_form: str | None = None,
        private_form: str | None = None,
        grpc: bool = False,
    ) -> None:
        self._forms = (host_form, private_form)
        self._edge, self._limits = Edge(api_key), limits or Limits()
        self._grpc: dict[str, GrpcServer] | None = {} if grpc else None
        self._labels: dict[int, str] = {}
        self._starting: list[asyncio.Task[None]] = []
        self._host = ""
        self.port = 0
        self.project = Project(self._place)
        rest = Rest(self.project, self._labels.get, edge=self._edge, limits=self._limits)
        self._runner = web.AppRunner(
            rest.app(),
            access_log=None,
            handle_signals=False,
            keepalive_timeout=_KEEPALIVE_SECONDS,
            shutdown_timeout=_SHUTDOWN_SECONDS,
            max_line_size=_LINE_BYTES,
            max_field_size=_LINE_BYTES,
        )

    @property
    def url(self) -> str:
        """Where the control plane is."""
        return self._url(self.port)

    def grpc_address(self, name: str) -> str:
        """Where the index of this name is served over gRPC: `127.0.0.1:50051`. Raises KeyError where it is not."""
        return self._authority((self._grpc or {})[label_of(name)].port)

    async def start(self, listen: Address) -> None:
        """Listen; port 0 picks a free one. Raises OSError when the port is taken."""
        self._host = listen.host
        listening = self._listening(listen.port)
        self.port = int(listening.getsockname()[1])
        await self._runner.setup()
        await web.SockSite(self._runner, listening).start()

    async def close(self) -> None:
        """Stop listening. What was stored is gone."""
        await asyncio.gather(*self._starting)
        await self._runner.cleanup()
        await asyncio.gather(*(server.close() for server in (self._grpc or {}).values()))

    def _place(self, label: str) -> Place:
        self._serve_grpc(label)
        host_form, private_form = self._forms
        host = self._url(self._port_of(label)) if host_form is None else host_form.format(label=label, port=self.port)
        return Place(host, host if private_form is None else private_form.format(label=label, port=self.port))

    def _port_of(self, label: str) -> int:
        """The index's own port. An index made anew under its old name is found where it was, as at the service."""
        known = next((port for port, one in self._labels.items() if one == label), None)
        if known is not None:
            return known
        # Listens from here on; who connects before the site has started waits in the backlog.
        listening = self._listening(0)
        site = web.SockSite(self._runner, listening)
        self._starting.append(asyncio.get_running_loop().create_task(site.start()))
        port = int(listening.getsockname()[1])
        self._labels[port] = label
        return port

    def _serve_grpc(self, label: str) -> None:
        if self._grpc is None or label in self._grpc:
            return
        service = Service(lambda: self.project.labelled(label), self._edge, self._limits)
        server = self._grpc[label] = GrpcServer(service, self._host)
        self._starting.append(asyncio.get_running_loop().create_task(server.start()))

    def _listening(self, port: int) -> socket.socket:
        family = socket.AF_INET6 if ":" in self._host else socket.AF_INET
        return socket.create_server((self._host, port), family=family)

    def _url(self, port: int) -> str:
        return f"http://{self._authority(port)}"

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
) -> AsyncIterator[Emulator]:
    """An emulator that listens while the block runs. Raises OSError when the port is taken."""
    emulator = Emulator(api_key=api_key, limits=limits, host_form=host_form, private_form=private_form, grpc=grpc)
    await emulator.start(listen)
    try:
        yield emulator
    finally:
        await emulator.close()
