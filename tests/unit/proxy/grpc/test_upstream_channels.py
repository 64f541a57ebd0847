from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Sequence
from contextlib import ExitStack, asynccontextmanager
from pathlib import Path

import grpc
import pytest
from aiohttp.abc import AbstractResolver, ResolveResult

from support.grpc.calls import Seen, ask, ask_on
from support.grpc.raw import REPLY_HEAD, framed, raw_upstream
from support.grpc.relay_server import bare_grpc_relay
from support.grpc.upstream import Arrived, Context, echo, grpc_upstream
from support.network.certificates import make_certificates
from vecsieve.config.schema import UpstreamSettings
from vecsieve.proxy.grpc.upstream import CALLS_BEFORE_NEXT, MOST_POOLS, Channels, _literal_target, _target
from vecsieve.proxy.http.names import PublicResolver
from vecsieve.proxy.runtime.addresses import Origin
from vecsieve.proxy.search.errors import FailureKind, UpstreamExchangeError

SETTINGS = UpstreamSettings(connect_timeout_seconds=1.0, dns_ttl_seconds=0.05)


class Names(AbstractResolver):
    """A resolver that knows what it is told, and counts. No addresses: the look-up fails."""

    def __init__(self, *addresses: str) -> None:
        self.addresses: Sequence[str] = addresses
        self.asked: list[tuple[str, int]] = []

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        self.asked.append((host, port))
        assert family is socket.AF_UNSPEC
        if not self.addresses:
            raise OSError("no such name")
        return [
            ResolveResult(hostname=host, host=address, port=port, family=socket.AF_INET, proto=0, flags=0)
            for address in self.addresses
        ]

    async def close(self) -> None:
        """Nothing is held."""


@asynccontextmanager
async def channels(resolver: AbstractResolver | None = None, connections: int = 1) -> AsyncIterator[Channels]:
    made = Channels(SETTINGS, connections=connections, resolver=resolver)
    try:
        yield made
    finally:
        await made.close()


async def call(through: Channels, origin: Origin) -> Seen:
    with await through.lease(origin, is_search=False) as channel:
        return await ask_on(channel, "unary_unary")


def named(host: str, port: int) -> Origin:
    return Origin("http", f"{host}:{port}")


async def test_a_connection_is_used_when_those_before_it_have_calls_enough() -> None:
    peers: list[str] = []

    async def tell(arrived: Arrived, context: Context) -> None:
        peers.append(context.peer())
        await echo(arrived, context)

    async with grpc_upstream(method=tell) as upstream, channels(connections=3) as through:
        origin = Origin.of(f"http://{upstream.address}")
        for _ in range(3):
            await call(through, origin)
        assert len(set(peers)) == 1, "one call at a time is one connection's"
        with ExitStack() as busy:
            most = CALLS_BEFORE_NEXT
            held = [busy.enter_context(await through.lease(origin, is_search=False)) for _ in range(3 * most + 3)]
            first, second, third = held[0], held[most], held[2 * most]
            assert held == [first] * most + [second] * most + [third] * most + [first, second, third]
        with await through.lease(origin, is_search=False) as again:
            assert again is held[0]


async def test_searches_and_other_calls_have_connections_of_their_own() -> None:
    async with channels() as through:
        origin = named("db.example", 80)
        with await through.lease(origin, is_search=True) as one, await through.lease(origin, is_search=False) as other:
            assert one is not other


async def test_the_checked_address_is_dialled_and_the_name_is_asked_for() -> None:
    names = Names("127.0.0.1")
    async with (
        raw_upstream(REPLY_HEAD, framed(b"answer"), [(b"grpc-status", b"0")]) as upstream,
        channels(names) as through,
    ):
        seen = await call(through, named("index.example", upstream.port))
    assert seen.messages == (b"answer",)
    assert names.asked == [("index.example", upstream.port)]
    assert dict(upstream.heads[0])[b":authority"] == f"index.example:{upstream.port}".encode()


async def test_a_name_with_a_private_address_is_not_connected_to() -> None:
    async with grpc_upstream(method=echo) as upstream:
        resolver = PublicResolver(Names("127.0.0.1"), may_be_private=lambda host: host == "known.example")
        async with channels(resolver) as through:
            with pytest.raises(UpstreamExchangeError) as raised:
                await call(through, named("evil.example", upstream.port))
            assert raised.value.kind is FailureKind.DNS
            assert (await call(through, named("known.example", upstream.port))).code is grpc.StatusCode.OK
    assert len(upstream.calls) == 1


async def test_a_name_is_looked_up_again_when_its_time_is_over_and_not_before() -> None:
    names = Names("127.0.0.1")
    async with grpc_upstream(method=echo) as upstream, channels(names) as through:
        origin = named("index.example", upstream.port)
        await asyncio.gather(*(call(through, origin) for _ in range(5)))
        before = len(names.asked)
        await asyncio.sleep(0.1)
        await asyncio.gather(*(call(through, origin) for _ in range(5)))
    assert len(names.asked) == before + 1


async def test_connections_stay_while_one_address_is_still_among_those_of_the_name() -> None:
    names = Names("127.0.0.1")
    async with channels(names) as through:
        origin = named("index.example", 80)
        with await through.lease(origin, is_search=False) as first:
            pass
        names.addresses = ("127.0.0.9", "127.0.0.1")
        await asyncio.sleep(0.1)
        with await through.lease(origin, is_search=False) as second:
            assert second is first


async def test_a_name_that_moved_is_followed_and_calls_on_the_old_address_end_in_peace() -> None:
    go_on = asyncio.Event()

    async def wait(arrived: Arrived, context: Context) -> None:
        await go_on.wait()
        await echo(arrived, context)

    names = Names("127.0.0.1")
    async with grpc_upstream(method=wait) as upstream, channels(names) as through:
        origin = named("index.example", upstream.port)
        old = asyncio.create_task(call(through, origin))
        await upstream.next_call()
        names.addresses = ("127.0.0.9",)
        await asyncio.sleep(0.1)
        with await through.lease(origin, is_search=False) as moved:
            pass
        go_on.set()
        assert (await old).code is grpc.StatusCode.OK
        with await through.lease(origin, is_search=False) as again:
            assert again is moved


async def test_a_moment_without_dns_leaves_the_connections_that_are_there() -> None:
    names = Names("127.0.0.1")
    async with grpc_upstream(method=echo) as upstream, channels(names) as through:
        origin = named("index.example", upstream.port)
        await call(through, origin)
        names.addresses = ()
        await asyncio.sleep(0.1)
        assert (await call(through, origin)).code is grpc.StatusCode.OK
        with pytest.raises(UpstreamExchangeError):
            await call(through, named("other.example", upstream.port))
    assert len(names.asked) == 3


async def test_the_origin_used_longest_ago_makes_room() -> None:
    async with channels() as through:
        origins = [named(f"index-{number}.example", 80) for number in range(MOST_POOLS)]
        for origin in origins:
            with await through.lease(origin, is_search=False):
                pass
        with await through.lease(origins[0], is_search=False) as kept:
            pass
        with (
            await through.lease(origins[1], is_search=False) as dropped,
            await through.lease(origins[2], is_search=False) as in_use,
        ):
            pass
        with (
            await through.lease(origins[0], is_search=False),
            await through.lease(named("new.example", 80), is_search=False),
        ):
            pass
        with await through.lease(origins[0], is_search=False) as still:
            assert still is kept
        for origin, before, stays in (
            (origins[3], None, False),
            (origins[1], dropped, True),
            (origins[2], in_use, True),
        ):
            with await through.lease(origin, is_search=False) as now:
                assert (now is before) is stays


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
async def tls_upstream(directory: Path) -> AsyncIterator[tuple[int, bytes]]:
    """Its port, and the authority to trust."""
    files = make_certificates(directory)
    async with (
        grpc_upstream(method=echo) as plain,
        bare_grpc_relay(plain.address, certificate=(files.leaf, files.key)) as upstream,
    ):
        yield upstream.listener.port, files.authority.read_bytes()


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1"])
async def test_https_is_tls_checked_against_the_given_authority(host: str, tmp_path: Path) -> None:
    async with (
        tls_upstream(tmp_path) as (port, authority),
        bare_grpc_relay(f"https://{host}:{port}", roots=authority) as way,
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
    other = make_certificates(tmp_path_factory.mktemp("other")).authority.read_bytes()
    async with (
        tls_upstream(tmp_path) as (port, _),
        bare_grpc_relay(f"https://localhost:{port}", roots=other, is_unary=True) as way,
    ):
        seen = await ask(way.address, "unary_unary")
    assert (seen.code, seen.details) == (grpc.StatusCode.UNAVAILABLE, "The database cannot be reached")
    assert [failure.kind for failure in way.handler.failures] == [FailureKind.TLS]


@pytest.mark.parametrize(("name", "is_right"), [("localhost", True), ("evil.example", False)])
async def test_the_certificate_is_held_against_the_name_and_not_the_checked_address(
    name: str, tmp_path: Path, *, is_right: bool
) -> None:
    async with (
        tls_upstream(tmp_path) as (port, authority),
        bare_grpc_relay(f"https://{name}:{port}", roots=authority, resolver=Names("127.0.0.1"), is_unary=True) as way,
    ):
        seen = await ask(way.address, "unary_unary")
    assert (seen.code is grpc.StatusCode.OK) is is_right
    assert [failure.kind for failure in way.handler.failures] == ([] if is_right else [FailureKind.TLS])


def test_targets_are_spelled_as_grpc_reads_them() -> None:
    assert _target(Origin.of("http://db:6334")) == "dns:///db:6334"
    assert _target(Origin.of("https://index.example")) == "dns:///index.example:443"
    assert _target(Origin.of("http://[::1]:6334")) == "dns:///[::1]:6334"
    assert _literal_target(frozenset({"10.0.0.2", "10.0.0.1", "2001:db8::1"}), 443) == "ipv4:10.0.0.1:443,10.0.0.2:443"
    assert _literal_target(frozenset({"2001:db8::1"}), 443) == "ipv6:[2001:db8::1]:443"


async def test_a_name_that_leads_nowhere_is_unavailable_without_saying_so_to_the_client() -> None:
    async with bare_grpc_relay("http://no-such-name.invalid:6334", is_unary=True) as way:
        seen = await ask(way.address, "unary_unary")
    assert (seen.code, seen.details) == (grpc.StatusCode.UNAVAILABLE, "The database cannot be reached")
    assert [failure.kind for failure in way.handler.failures] == [FailureKind.DNS]


@pytest.mark.parametrize("is_unary", [False, True])
async def test_a_refused_name_is_unavailable_whichever_way_the_call_goes(*, is_unary: bool) -> None:
    async with bare_grpc_relay("http://index.example:6334", resolver=Names(), is_unary=is_unary) as way:
        seen = await ask(way.address, "unary_unary")
    assert (seen.code, seen.details) == (grpc.StatusCode.UNAVAILABLE, "The database cannot be reached")
    assert seen.trailing == (("x-vecsieve-origin", "proxy"),)
    assert [failure.kind for failure in way.handler.failures] == [FailureKind.DNS]


async def test_connections_are_counted_once_they_stand() -> None:
    async with grpc_upstream(Echo=echo) as database:
        channels = Channels(SETTINGS, connections=2)
        origin = Origin.of(f"http://{database.address}")
        assert channels.connected == 0
        with await channels.lease(origin, is_search=False) as channel:
            assert channels.connected == 0, "nobody has called yet"
            await ask_on(channel, "unary_unary", method="/x/Echo")
            assert channels.connected == 1
        with ExitStack() as busy:
            held = [
                busy.enter_context(await channels.lease(origin, is_search=False)) for _ in range(CALLS_BEFORE_NEXT + 1)
            ]
            await ask_on(held[-1], "unary_unary", method="/x/Echo")
        assert channels.connected == 2
        await channels.close()
        assert channels.connected == 0


async def test_connections_are_replaced_at_their_age_and_no_call_is_lost() -> None:
    peers, begun, under_way = list[str](), asyncio.Event(), asyncio.Event()

    async def tell(arrived: Arrived, context: Context) -> None:
        peers.append(context.peer())
        if len(peers) == 1:
            begun.set()
            await under_way.wait()
        await echo(arrived, context)

    settings = SETTINGS.model_copy(update={"pool_age_seconds": 0.1})
    async with grpc_upstream(method=tell) as upstream:
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

    async def tell(arrived: Arrived, context: Context) -> None:
        peers.append(context.peer())
        await echo(arrived, context)

    async def never(_: object) -> None:
        await asyncio.Event().wait()

    settings = SETTINGS.model_copy(update={"pool_age_seconds": 0.05, "connect_timeout_seconds": 0.1})
    async with grpc_upstream(method=tell) as upstream:
        through, origin = Channels(settings, connections=1), Origin.of(f"http://{upstream.address}")
        await call(through, origin)
        monkeypatch.setattr("vecsieve.proxy.grpc.upstream._Pool.ready", never)
        for _ in range(8):
            assert (await call(through, origin)).code is grpc.StatusCode.OK
            await asyncio.sleep(0.05)
        await through.close()
    assert len(set(peers)) == 1
