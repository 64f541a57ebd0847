"""TLS to the database, by files of the settings; and what is said where it fails: the cause, not a library's class."""

from __future__ import annotations

import shutil
import ssl
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import grpc
import pytest

from support.network.certificates import Certificates, make_certificates
from support.network.faulty_upstream import FaultyUpstream, Talk, answering, raw_exchange, reply
from support.process.running import running
from vecsieve.config.problems import SettingsError
from vecsieve.config.schema import Settings, UpstreamSettings
from vecsieve.proxy.grpc.upstream import Channels
from vecsieve.proxy.http.tls import upstream_context
from vecsieve.proxy.jobs.check import CheckError, connect
from vecsieve.proxy.process.talk import fault_of
from vecsieve.proxy.runtime.addresses import Origin

GET = b"GET /collections HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"
ALL = reply(b'{"result":{"collections":[]}}')


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return make_certificates(tmp_path_factory.mktemp("ca"))


@pytest.fixture(scope="module")
def others(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return make_certificates(tmp_path_factory.mktemp("other"))


def served(files: Certificates, *, is_mutual: bool = False) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(files.leaf, files.key)
    if is_mutual:
        context.verify_mode = ssl.CERT_REQUIRED
        context.load_verify_locations(files.authority)
    return context


def trusting(files: Certificates) -> dict[str, str]:
    return {"ca_file": str(files.authority)}


def known(files: Certificates) -> dict[str, str]:
    """With a certificate of its own."""
    return {**trusting(files), "client_certificate": str(files.leaf), "client_key": str(files.key)}


@pytest.mark.parametrize("is_mutual", [False, True])
async def test_a_private_authority_and_a_clients_certificate_are_settings(files: Certificates, is_mutual: bool) -> None:
    changes = known(files) if is_mutual else trusting(files)
    async with FaultyUpstream(answering(ALL), tls=served(files, is_mutual=is_mutual)) as database:
        url = f"https://localhost:{database.port}"
        async with running(url, upstream=changes) as proxy:
            assert (await raw_exchange(proxy.port, GET)).startswith(b"HTTP/1.1 200 ")
        steps: list[str] = []
        settings = Settings.model_validate({"upstream": {"url": url, **changes}})
        await connect(settings, {}, None, steps.append)
        assert steps[0].startswith("reach")
        assert "credentials" in steps[1]


async def at_once(talk: Talk) -> None:
    """As a server of HTTP answers a TLS handshake."""
    await talk.send(b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n")


@dataclass(frozen=True, slots=True)
class Fault:
    """``url``: of the port. ``tls``: of the database, None for none. ``specific``: the settings' files."""

    words: str
    url: str = "https://localhost:{}"
    tls: Callable[[Certificates], ssl.SSLContext] | None = served
    specific: Callable[[Certificates], dict[str, str]] = trusting


FAULTS = [
    Fault("its certificate is of no trusted authority; upstream.ca_file names others", specific=lambda _: {}),
    Fault("its certificate is for another name", url="https://127.1:{}"),
    Fault("it answers without TLS: is its URL http://…?", tls=None),
    Fault("the name is unknown (DNS)", url="http://no-such-host.invalid:{}", tls=None),
]


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.words)
async def test_every_failure_names_its_cause(fault: Fault, files: Certificates) -> None:
    tls = None if fault.tls is None else fault.tls(files)
    async with FaultyUpstream(answering(ALL) if tls is not None else at_once, tls=tls) as database:
        url = fault.url.format(database.port)
        async with running(url, upstream=fault.specific(files)) as proxy:
            answer = await raw_exchange(proxy.port, GET)
            assert answer.startswith(b"HTTP/1.1 502 ")
            assert fault.words in proxy.log[-1].ended.cause
        upstream = UpstreamSettings.model_validate({"url": url, **fault.specific(files)})
        assert fault.words in (await fault_of(upstream) or "")


async def test_a_database_that_asks_for_a_certificate_is_understood(files: Certificates) -> None:
    async with FaultyUpstream(answering(ALL), tls=served(files, is_mutual=True)) as database:
        url = f"https://localhost:{database.port}"
        async with running(url, upstream=trusting(files)) as proxy:
            assert (await raw_exchange(proxy.port, GET)).startswith(b"HTTP/1.1 502 ")
        settings = Settings.model_validate({"upstream": {"url": url, **trusting(files)}})
        with pytest.raises(CheckError, match=r"upstream\.client_certificate"):
            await connect(settings, {}, None, lambda _: None)


async def test_the_check_of_a_port_that_speaks_grpc_says_so() -> None:
    server = grpc.aio.server()
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    settings = Settings.model_validate({"upstream": {"url": f"http://127.0.0.1:{port}"}})
    with pytest.raises(CheckError, match="Is it the port for REST") as caught:
        await connect(settings, {}, None, lambda _: None)
    assert "Error" not in str(caught.value)
    async with running(f"http://127.0.0.1:{port}") as proxy:
        await raw_exchange(proxy.port, GET)
        assert "Error" not in proxy.log[-1].ended.cause
    await server.stop(None)


async def test_grpc_takes_the_same_files(files: Certificates) -> None:
    server = grpc.aio.server(ThreadPoolExecutor(1))
    handler: grpc.RpcMethodHandler[bytes, bytes] = grpc.unary_unary_rpc_method_handler(
        lambda _message, _context: b"answer"
    )
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("a.B", {"C": handler}),))
    pair = (files.key.read_bytes(), files.leaf.read_bytes())
    credentials = grpc.ssl_server_credentials([pair], files.authority.read_bytes(), require_client_auth=True)
    port = server.add_secure_port("localhost:0", credentials)
    await server.start()
    up = {"upstream": f"https://localhost:{port}"}
    async with (
        FaultyUpstream(answering(ALL)) as database,
        running(database.url, grpc=up, upstream=known(files)) as proxy,
        grpc.aio.insecure_channel(f"127.0.0.1:{proxy.port}") as channel,
    ):
        call: grpc.aio.UnaryUnaryMultiCallable[bytes, bytes] = channel.unary_unary("/a.B/C")
        assert await call(b"", timeout=20) == b"answer"
    await server.stop(None)


async def test_grpc_takes_the_files_as_they_were_checked(files: Certificates, tmp_path: Path) -> None:
    """It opens its first connection long after the start."""
    copied = {name: shutil.copy(path, tmp_path) for name, path in known(files).items()}
    settings = UpstreamSettings.model_validate(copied)
    upstream_context(settings)
    for copy in copied.values():
        Path(copy).write_text("broken since")
    channels, origin = Channels(settings, connections=1), Origin.of("https://localhost:1")
    with channels.lease(origin, is_search=False):
        await channels.close()
    unchecked = UpstreamSettings(ca_file=str(tmp_path / "none.pem"))
    with (
        pytest.raises(SettingsError, match=r"^upstream\.ca_file: wanted a readable PEM"),
        Channels(unchecked, connections=1).lease(origin, is_search=False),
    ):
        pass


@pytest.mark.parametrize(
    ("settings", "setting"),
    [
        ({"ca_file": "/nowhere"}, "upstream.ca_file"),
        ({"client_certificate": "leaf", "client_key": "authority"}, "upstream.client_key"),
        ({"client_certificate": "key", "client_key": "key"}, "upstream.client_certificate"),
        ({"client_certificate": "leaf", "client_key": "other"}, "upstream.client_key"),
    ],
)
def test_a_file_that_cannot_be_used_is_named_with_its_setting(
    settings: dict[str, str], setting: str, files: Certificates, others: Certificates
) -> None:
    paths = {"leaf": files.leaf, "key": files.key, "authority": files.authority, "other": others.key}
    named = {name: str(paths.get(file, Path(file))) for name, file in settings.items()}
    with pytest.raises(SettingsError, match=f"^{setting}: wanted a readable PEM|^{setting}: wanted the key of"):
        upstream_context(UpstreamSettings.model_validate(named))
