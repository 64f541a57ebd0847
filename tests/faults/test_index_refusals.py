"""Hosts that a request may not choose: refused, and no connection is made, whatever the name says or leads to."""

from __future__ import annotations

import json
import socket
import ssl
import subprocess
from pathlib import Path

import aiohttp
import pytest
from aiohttp.abc import ResolveResult

from support.network.faulty_upstream import FaultyUpstream, answering, raw_exchange, reply
from support.network.upstream_wire import sending
from support.process.running import running
from vecsieve.config.schema import UpstreamSettings
from vecsieve.proxy.http.upstream import Upstream
from vecsieve.proxy.runtime.addresses import Origin
from vecsieve.proxy.search.errors import FailureKind, UpstreamExchangeError

KEY = b"secret-key"


def query(path: str) -> bytes:
    return b"POST %s HTTP/1.1\r\nHost: vs\r\nApi-Key: %s\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}" % (
        path.encode(),
        KEY,
    )


def status(answer: bytes) -> int:
    return int(answer.split(b" ", 2)[1])


@pytest.fixture
def resolved(monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """Name -> the address that the system's resolver gives; every name that is not in it fails the test."""
    addresses: dict[str, str] = {}

    async def resolve(
        _: aiohttp.ThreadedResolver, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        return [ResolveResult(hostname=host, host=addresses[host], port=port, family=family, proto=0, flags=0)]

    monkeypatch.setattr(aiohttp.ThreadedResolver, "resolve", resolve)
    return addresses


@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "evil.example:{port}",
        "127.0.0.1:{port}",
        "127.0.0.1",
        "127.1:{port}",
        "2130706433:{port}",
        "0x7f000001:{port}",
        "[::1]:{port}",
        "[::ffff:127.0.0.1]:{port}",
        "localhost:{port}",
        "docs.svc.x.pinecone.io@127.0.0.1:{port}",
        "127.0.0.1:{port}%2F.svc.x.pinecone.io",
        "127.0.0.1:{port}%2f..%2f",
        "docs.svc.x.pinecone.io%2Fquery",
        "docs.svc.x.pinecone.io:{port}",
        "docs.svc.x.pinecone.io.evil.example",
        "docs..svc.x.pinecone.io",
        "docs.svc.x.pinecone.io.",
        "127.0.0.1:{port}\\.pinecone.io",
        "127.0.0.1:{port}#.pinecone.io",
        "169.254.169.254",
    ],
)
async def test_a_host_outside_the_list_is_refused_without_a_connection(host: str, resolved: dict[str, str]) -> None:
    async with (
        FaultyUpstream(answering(reply(b"stolen"))) as victim,
        FaultyUpstream(answering(reply())) as control,
        running(control.url, backend="pinecone") as proxy,
    ):
        answer = await raw_exchange(proxy.port, query(f"/_i/{host.format(port=victim.port)}/query"))
    assert status(answer) == 403
    content = json.loads(answer.split(b"\r\n\r\n", 1)[1])
    assert content["code"] == 7
    assert "allowed_hosts" in content["message"]
    assert (victim.connections, control.connections) == (0, 0)
    assert KEY not in answer
    assert host.format(port=victim.port).encode() not in answer
    assert resolved == {}


@pytest.mark.parametrize("pattern", ["*.rebind.example", "idx*.rebind.example"])
async def test_a_name_that_leads_home_is_refused_without_a_connection(pattern: str, resolved: dict[str, str]) -> None:
    resolved["idx.rebind.example"] = "127.0.0.1"
    async with FaultyUpstream(answering(reply(b"stolen"))) as victim:
        settings = {"allowed_hosts": (f"{pattern}:{victim.port}",)}
        async with running("http://127.0.0.1:1", backend="pinecone", pinecone=settings) as proxy:
            for _ in range(2):
                answer = await raw_exchange(proxy.port, query(f"/_i/idx.rebind.example:{victim.port}/vectors/list"))
                assert status(answer) == 502
            assert proxy.count("upstream_errors_total", backend="pinecone", kind="dns") == 2
    assert victim.connections == 0


async def test_a_name_written_in_full_may_lead_home_and_is_still_asked_for_its_certificate(
    resolved: dict[str, str],
) -> None:
    resolved["idx.rebind.example"] = "127.0.0.1"
    async with FaultyUpstream(answering(reply(b"stolen"))) as victim:
        settings = {"allowed_hosts": (f"idx.rebind.example:{victim.port}",)}
        async with running("http://127.0.0.1:1", backend="pinecone", pinecone=settings) as proxy:
            answer = await raw_exchange(proxy.port, query(f"/_i/idx.rebind.example:{victim.port}/vectors/list"))
    assert status(answer) == 502
    assert victim.connections == 1
    assert victim.requests == []


def certificates(folder: Path) -> tuple[ssl.SSLContext, ssl.SSLContext]:
    """For a server called localhost, and for a client that trusts it."""
    key, cert = folder / "key.pem", folder / "cert.pem"
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1", "-subj", "/CN=localhost"]
    extra = ["-addext", "subjectAltName=DNS:localhost", "-keyout", str(key), "-out", str(cert)]
    subprocess.run([*command, *extra], check=True, capture_output=True)
    served = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    served.load_cert_chain(cert, key)
    return served, ssl.create_default_context(cafile=str(cert))


async def searched(origin: Origin, tls: ssl.SSLContext | None) -> bytes:
    """What another origin than the configured one answers."""
    settings = UpstreamSettings(url="http://127.0.0.1:1")
    upstream = Upstream(settings, tls=tls, may_be_private=lambda name: name == "localhost")
    try:
        async with sending(upstream, method="GET", raw_target="/a", headers=[], body=None, origin=origin) as answer:
            return await answer.read_bounded(10)
    finally:
        await upstream.close()


async def test_another_origin_is_asked_and_verified_like_the_first(tmp_path: Path) -> None:
    served, trusted = certificates(tmp_path)
    async with FaultyUpstream(answering(reply(b"index")), tls=served) as index:
        assert await searched(Origin("https", f"localhost:{index.port}"), trusted) == b"index"
        for host, tls in (("localhost", None), ("127.0.0.1", trusted)):  # not trusted; not the certificate's name
            with pytest.raises(UpstreamExchangeError) as caught:
                await searched(Origin("https", f"{host}:{index.port}"), tls)
            assert caught.value.kind is FailureKind.TLS
    assert [received.line for received in index.requests] == [b"GET /a HTTP/1.1"]
    assert index.requests[0].headers == [(b"Host", b"localhost:%d" % index.port)]


async def test_a_redirect_of_an_index_is_the_clients_business() -> None:
    async with FaultyUpstream(answering(reply(b"stolen"))) as victim:
        moved = reply(b"", status=b"307 Temporary Redirect", headers=((b"Location", victim.url.encode()),))
        async with FaultyUpstream(answering(moved)) as index:
            settings = {"index_host": index.url}
            async with running("http://127.0.0.1:1", backend="pinecone", pinecone=settings) as proxy:
                answer = await raw_exchange(proxy.port, query("/vectors/list"))
    assert status(answer) == 307
    assert victim.connections == 0
