from __future__ import annotations

import logging
import socket
from typing import cast

import pytest
from aiohttp import http_parser, web

from support.network.faulty_upstream import FaultyUpstream, answering, raw_exchange, reply
from support.network.ports import free_ports
from support.network.relay_server import Invalidation, PlainDialect, bare_relay
from vecsieve.config.schema import LimitSettings
from vecsieve.proxy.http import listener
from vecsieve.proxy.http.answers import LocalAnswers
from vecsieve.proxy.http.listener import (
    HEAD_FIELDS,
    LINGERING_SECONDS,
    DataServer,
    IncompatibleLibraryError,
    audit_library,
    listen,
    prove_settings,
)
from vecsieve.proxy.http.protocol import ClientConnection
from vecsieve.proxy.runtime.addresses import DataPort, Origin

GET = b"GET / HTTP/1.1\r\nHost: c\r\nConnection: close\r\n\r\n"
LIMITS = LimitSettings()


async def hello(request: web.BaseRequest) -> web.StreamResponse:
    return web.Response(text=request.raw_path)


def server(limits: LimitSettings = LIMITS) -> DataServer:
    return DataServer(hello, limits, LocalAnswers(PlainDialect()), Invalidation())


async def test_control_aiohttp_drops_all_settings_for_one_wrong_name(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL)
    made = web.Server(hello, max_field_size=77, no_such_setting=1)()
    assert made.max_field_size == 8190, "aiohttp now refuses a wrong name itself"


async def test_a_wrong_name_is_an_error_of_ours() -> None:
    built = server()
    built._settings["no_such_setting"] = 1
    with pytest.raises(TypeError):
        built()


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("max_field_size", 1_000_000, "limit of a header field"),
        ("auto_decompress", True, "request bodies are decompressed"),
    ],
)
async def test_a_setting_that_is_not_in_force_refuses_the_start(name: str, value: object, said: str) -> None:
    built = server()
    built._settings[name] = value  # type: ignore[assignment]  # - a wrong value on purpose
    with pytest.raises(IncompatibleLibraryError, match=said):
        await listen(built, LIMITS, DataPort("127.0.0.1", 0))


async def test_a_parser_that_takes_larger_fields_refuses_the_start() -> None:
    smaller = LimitSettings(head_line_bytes=1000)
    with pytest.raises(IncompatibleLibraryError, match="limit of a header field"):
        prove_settings(server(), smaller)


async def test_the_configured_settings_are_in_force() -> None:
    prove_settings(server(), LIMITS)
    made = server()()
    assert (made.keepalive_timeout, made.max_line_size, made.max_headers) == (
        620.0,
        LIMITS.head_line_bytes,
        HEAD_FIELDS,
    )
    assert (made._lingering_time, made.access_logger) == (LINGERING_SECONDS, None)


@pytest.mark.parametrize("name", ["HttpRequestParser", "HttpResponseParser"])
async def test_the_pure_python_parser_refuses_the_start(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_parser, name, getattr(http_parser, f"{name}Py"))
    with pytest.raises(IncompatibleLibraryError, match="pure-Python parser"):
        await listen(server(), LIMITS, DataPort("127.0.0.1", 0))


def test_a_renamed_private_name_is_a_clear_error(monkeypatch: pytest.MonkeyPatch) -> None:
    audit_library()
    monkeypatch.setattr(listener, "RELIED_ON", ((web.StreamResponse, "_prepare_headers _renamed"),))
    with pytest.raises(IncompatibleLibraryError, match=r"has no StreamResponse\._renamed"):
        audit_library()


async def test_port_zero_is_a_free_port_and_a_taken_one_an_error() -> None:
    first = await listen(server(), LIMITS, DataPort("127.0.0.1", 0))
    assert first.ports[0] > 0
    with pytest.raises(OSError, match="is in use"):
        await listen(server(), LIMITS, DataPort("127.0.0.1", first.ports[0]))
    await first.close(grace_seconds=0)


async def test_all_ports_are_opened_or_none() -> None:
    free, taken = free_ports(1)[0], socket.create_server(("127.0.0.1", 0))
    with pytest.raises(OSError, match="is in use"):
        await listen(server(), LIMITS, DataPort("127.0.0.1", free), DataPort("127.0.0.1", taken.getsockname()[1]))
    taken.close()
    with pytest.raises(ConnectionRefusedError):
        await raw_exchange(free, GET)


async def test_every_connection_knows_the_index_behind_its_port_and_all_ports_end_together() -> None:
    async def name(request: web.BaseRequest) -> web.StreamResponse:
        index = cast(ClientConnection, request.protocol).index
        return web.Response(text="none" if index is None else index.authority)

    built = DataServer(name, LIMITS, LocalAnswers(PlainDialect()), Invalidation())
    indexes = (None, Origin("https", "a.example.com"), Origin("http", "b.example.com:1"))
    opened = await listen(built, LIMITS, *(DataPort("127.0.0.1", 0, index) for index in indexes))
    bodies = [(await raw_exchange(port, GET)).rpartition(b"\r\n\r\n")[2] for port in opened.ports]
    assert bodies == [b"none", b"a.example.com", b"b.example.com:1"]
    ports = opened.ports
    opened.stop_accepting()
    for port in ports:
        with pytest.raises(ConnectionRefusedError):
            await raw_exchange(port, GET)
    await opened.close(grace_seconds=0)


async def test_several_listeners_share_one_inherited_socket() -> None:
    shared = socket.create_server(("127.0.0.1", 0))
    listeners = [await listen(server(), LIMITS, DataPort("127.0.0.1", 0, shared=shared.dup())) for _ in range(2)]
    assert {port.ports[0] for port in listeners} == {shared.getsockname()[1]}
    assert b"200 OK" in await raw_exchange(shared.getsockname()[1], GET)
    for port in listeners:
        await port.close(grace_seconds=0)
    shared.close()


async def test_a_closed_listener_takes_no_more_connections() -> None:
    async with FaultyUpstream(answering(reply())) as upstream, bare_relay(upstream.url) as relay:
        port = relay.port
        assert b"200 OK" in await raw_exchange(port, GET)
    with pytest.raises(ConnectionRefusedError):
        await raw_exchange(port, GET)
