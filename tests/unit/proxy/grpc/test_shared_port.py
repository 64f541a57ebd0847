from __future__ import annotations

import asyncio
import ssl

import pytest

from support.network.relay_server import Invalidation, PlainDialect
from vecsieve.proxy.grpc.connections import InnerSocket
from vecsieve.proxy.grpc.frames import Calls
from vecsieve.proxy.grpc.shared_port import Detecting, Handshake, SharedPort
from vecsieve.proxy.http.answers import LocalAnswers
from vecsieve.proxy.http.connections import Connections
from vecsieve.proxy.http.protocol import ConnectionRules


def rules() -> ConnectionRules:
    heard = Invalidation()
    return ConnectionRules(1.0, Connections(limit=10, events=heard), LocalAnswers(PlainDialect()), heard)


@pytest.mark.parametrize(
    ("with_grpc", "with_tls", "first"),
    [
        (False, False, asyncio.Protocol),
        (True, False, Detecting),
        (False, True, Handshake),
        (True, True, Handshake),
    ],
)
async def test_what_a_port_does_not_have_stands_in_nobodys_way(with_grpc: bool, with_tls: bool, first: type) -> None:
    inner = InnerSocket(Calls())
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER) if with_tls else None
    port = SharedPort(rules(), inner=inner if with_grpc else None, tls=tls)
    assert type(port.before(asyncio.Protocol)()) is first
    inner.close()


async def test_closing_an_empty_port_waits_for_nobody() -> None:
    port = SharedPort(rules())
    await asyncio.wait_for(port.close(grace_seconds=60), 1)
    assert len(port) == 0
