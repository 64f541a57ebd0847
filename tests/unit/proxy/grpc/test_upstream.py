from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import ExitStack, asynccontextmanager
from pathlib import Path

import grpc
import pytest

from support.grpc.calls import Seen, ask, ask_on
from support.grpc.relay_server import bare_grpc_relay
from support.grpc.upstream import Arrived, Context, echo, grpc_upstream
from support.network.certificates import make_certificates
from vecsieve.config.schema import UpstreamSettings
from vecsieve.proxy.grpc.upstream import CALLS_BEFORE_NEXT, Channels, _target, system_roots
from vecsieve.proxy.runtime.addresses import Origin
from vecsieve.proxy.search.errors import FailureKind

SETTINGS = UpstreamSettings(connect_timeout_seconds=1.0, dns_ttl_seconds=0.05)


@asynccontextmanager
async def channels(connections: int = 1) -> AsyncIterator[Channels]:
    made = Channels(SETTINGS, connections=connections)
    try:
        yield made
    finally:
        await made.close()


async def call(through: Channels, origin: Origin) -> Seen:
    with through.lease(origin, is_search=False) as channel:
        return await ask_on(channel, "unary_unary")


async def test_a_connection_is_used_when_those_before_it_have_calls_enough() -> None:
    peers: list[str] = []

    async def note_peer(arrived: Arrived, context: Context) -> None:
        peers.append(context.peer())
        await echo(arrived, context)

    async with grpc_upstream(method=note_peer) as upstream, channels(connections=3) as through:
        origin = Origin.of(f"http://{upstream.address}")
        for _ in range(3):
            await call(through, origin)
        assert len(set(peers)) == 1, "one call at a time is one connection's"
        with ExitStack() as busy:
            most = CALLS_BEFORE_NEXT
            leases = [busy.enter_context(through.lease(origin, is_search=False)) for _ in range(3 * most + 3)]
            first, second, third = leases[0], leases[most], leases[2 * most]
            assert leases == [first] * most + [second] * most + [third] * most + [first, second, third]
        with through.lease(origin, is_search=False) as again:
            assert again is leases[0]


async def test_searches_and_other_calls_have_connections_of_their_own() -> None:
    async with channels() as through:
        origin = Origin("http", "db.example:80")
        with through.lease(origin, is_search=True) as one, through.lease(origin, is_search=False) as other:
            assert one is not other


async def test_closing_cancels_what_is_still_called() -> None:
    async def stuck(_: Arrived, __: Context) -> None:
        await asyncio.Event().wait()

    async with grpc_upstream(method=stuck) as upstream:
        through = Channels(SETTINGS, connections=2)
        calling = asyncio.create_task(call(through, Origin.of(f"http://{upstream.address}")))
        await upstream.next_call()
        await through.close()
        with pytest.raises(asyncio.CancelledError):
            await calling


async def test_a_proxy_named_in_the_environment_is_not_gone_through(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "https_proxy", "grpc_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    async with grpc_upstream(method=echo) as upstream, channels() as through:
        assert (await call(through, Origin.of(f"http://{upstream.address}"))).code is grpc.StatusCode.OK


@asynccontextmanager
async def tls_upstream(directory: Path) -> AsyncIterator[tuple[int, Path]]:
    """Its port, and the file with the authority to trust."""
    files = make_certificates(directory)
    async with grpc_upstream(method=echo, certificate=(files.leaf, files.key)) as upstream:
        yield upstream.port, files.authority


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1"])
async def test_https_is_tls_checked_against_the_given_authority(host: str, tmp_path: Path) -> None:
    async with (
        tls_upstream(tmp_path) as (port, authority),
        bare_grpc_relay(f"https://{host}:{port}", authority=authority) as way,
    ):
        assert (await ask(way.address, "unary_unary")).messages == (b"question",)


async def test_https_believes_what_openssl_is_told_to(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with tls_upstream(tmp_path) as (port, _):
        monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "ca.pem"))
        async with bare_grpc_relay(f"https://localhost:{port}") as way:
            assert (await ask(way.address, "unary_unary")).messages == (b"question",)


async def test_https_with_a_stranger_is_a_failure_of_tls_and_nothing_is_sent(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    other = make_certificates(tmp_path_factory.mktemp("other")).authority
    async with (
        tls_upstream(tmp_path) as (port, _),
        bare_grpc_relay(f"https://localhost:{port}", authority=other, is_unary=True) as way,
    ):
        seen = await ask(way.address, "unary_unary")
    assert (seen.code, seen.details) == (grpc.StatusCode.UNAVAILABLE, "The database cannot be reached")
    assert [failure.kind for failure in way.handler.failures] == [FailureKind.TLS]


def test_targets_are_spelled_as_grpc_reads_them() -> None:
    assert _target(Origin.of("http://db:6334")) == "dns:///db:6334"
    assert _target(Origin.of("https://index.example")) == "dns:///index.example:443"
    assert _target(Origin.of("http://[::1]:6334")) == "dns:///[::1]:6334"


async def test_a_name_that_leads_nowhere_is_unavailable_without_saying_so_to_the_client() -> None:
    async with bare_grpc_relay("http://no-such-name.invalid:6334", is_unary=True) as way:
        seen = await ask(way.address, "unary_unary")
    assert (seen.code, seen.details) == (grpc.StatusCode.UNAVAILABLE, "The database cannot be reached")
    assert [failure.kind for failure in way.handler.failures] == [FailureKind.DNS]


async def test_connections_are_counted_once_they_stand() -> None:
    async with grpc_upstream(Echo=echo) as database:
        channels = Channels(SETTINGS, connections=2)
        origin = Origin.of(f"http://{database.address}")
        assert channels.connected == 0
        with channels.lease(origin, is_search=False) as channel:
            assert channels.connected == 0, "nobody has called yet"
            await ask_on(channel, "unary_unary", method="/x/Echo")
            assert channels.connected == 1
        with ExitStack() as busy:
            leases = [busy.enter_context(channels.lease(origin, is_search=False)) for _ in range(CALLS_BEFORE_NEXT + 1)]
            await ask_on(leases[-1], "unary_unary", method="/x/Echo")
        assert channels.connected == 2
        await channels.close()
        assert channels.connected == 0


async def test_connections_are_replaced_at_their_age_and_no_call_is_lost() -> None:
    peers, begun, under_way = list[str](), asyncio.Event(), asyncio.Event()

    async def note_peer(arrived: Arrived, context: Context) -> None:
        peers.append(context.peer())
        if len(peers) == 1:
            begun.set()
            await under_way.wait()
        await echo(arrived, context)

    settings = SETTINGS.model_copy(update={"pool_age_seconds": 0.1})
    async with grpc_upstream(method=note_peer) as upstream:
        through, origin = Channels(settings, connections=2), Origin.of(f"http://{upstream.address}")
        slow = asyncio.create_task(call(through, origin))
        await begun.wait()
        for _ in range(12):
            assert (await call(through, origin)).code is grpc.StatusCode.OK
            await asyncio.sleep(0.05)
        under_way.set()
        assert (await slow).code is grpc.StatusCode.OK, "a call on an old connection ends in peace"
        await through.close()
    assert len(set(peers)) > 2


async def test_old_connections_stay_while_new_ones_cannot_be_made(monkeypatch: pytest.MonkeyPatch) -> None:
    peers = list[str]()

    async def note_peer(arrived: Arrived, context: Context) -> None:
        peers.append(context.peer())
        await echo(arrived, context)

    async def never(_: object) -> None:
        await asyncio.Event().wait()

    settings = SETTINGS.model_copy(update={"pool_age_seconds": 0.05, "connect_timeout_seconds": 0.1})
    async with grpc_upstream(method=note_peer) as upstream:
        through, origin = Channels(settings, connections=1), Origin.of(f"http://{upstream.address}")
        await call(through, origin)
        monkeypatch.setattr("grpc.aio._channel.Channel.channel_ready", never)
        for _ in range(8):
            assert (await call(through, origin)).code is grpc.StatusCode.OK
            await asyncio.sleep(0.05)
        await through.close()
    assert len(set(peers)) == 1


@pytest.fixture
def authority(tmp_path: Path) -> Path:
    return make_certificates(tmp_path).authority


def test_the_file_and_the_folder_that_openssl_is_told_of_are_believed(
    authority: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "0a0b0c0d.0").write_text("a note\n" + authority.read_text() + "another, in Latin: ")
    (folder / "00000000.0").write_bytes(b"\xff\xfe-----BEGIN CERTIFICATE-----")
    (folder / "11111111.0").mkdir()
    monkeypatch.setenv("SSL_CERT_FILE", str(authority))
    monkeypatch.setenv("SSL_CERT_DIR", str(folder))
    roots = system_roots()
    assert roots is not None
    assert roots.decode().strip() == authority.read_text().strip()
    ssl.create_default_context(cadata=roots.decode())


def test_the_folder_alone_is_enough(authority: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    authority.rename(tmp_path / "0a0b0c0d.0")
    authority = tmp_path / "0a0b0c0d.0"
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "absent.pem"))
    monkeypatch.setenv("SSL_CERT_DIR", f"{tmp_path}/absent:{tmp_path}")
    roots = system_roots()
    assert roots is not None
    assert authority.read_text().strip() in roots.decode()


def test_nothing_found_is_none(authority: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A certificate in the folder that was never hashed is not believed: OpenSSL would not find it."""
    assert authority.exists()
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "absent.pem"))
    monkeypatch.setenv("SSL_CERT_DIR", str(tmp_path))
    assert system_roots() is None


def test_what_this_machine_believes_is_read_whole() -> None:
    places = ssl.get_default_verify_paths()
    if places.cafile is None:
        pytest.skip("this machine has no file of certificates for OpenSSL")
    roots = system_roots()
    assert roots is not None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.load_verify_locations(cafile=places.cafile)
    expected = {ssl.DER_cert_to_PEM_cert(der) for der in context.get_ca_certs(binary_form=True)}
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.load_verify_locations(cadata=roots.decode())
    assert expected <= {ssl.DER_cert_to_PEM_cert(der) for der in context.get_ca_certs(binary_form=True)}
