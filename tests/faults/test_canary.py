"""A canary in front of a database that goes wrong: it goes back to shadow, no client gets an error of ours, and no client's pages have both modes."""

from __future__ import annotations

import asyncio
import json
from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import grpc
import pytest

from support.grpc.upstream import Arrived, Context, grpc_upstream
from support.network.faulty_upstream import FaultyUpstream, Received, Talk, raw_exchange, reply
from support.process.running import Running, running
from support.qdrant import scripted_grpc
from support.qdrant.scripted import JSON, honest, request, search
from support.qdrant.scripted_grpc import query, say
from vecsieve.config.schema import Settings
from vecsieve.proxy.search.hedge import HEDGE_TIMES
from vecsieve.proxy.telemetry.labels import CanaryState

CLIENTS = 12
SHARE = 0.5
PAGE = 3
MOST_ROUNDS = 40  # of one page for every client: a minute's traffic of a client that searches every second and a half


def is_widened(received: Received) -> bool:
    """Whether more results are requested than a client did, with vectors or without."""
    limit: int = json.loads(received.content)["limit"]
    return limit > PAGE


Answer = Callable[[Talk, Received], Awaitable[None]]


async def good(talk: Talk, received: Received) -> None:
    await talk.send(honest(received))


async def failing(talk: Talk, _: Received) -> None:
    await talk.send(reply(b'{"status":{"error":"disk"}}', status=b"500 Internal Server Error", headers=[JSON]))


async def slow_when_widened(talk: Talk, received: Received) -> None:
    await asyncio.sleep(0.2 if is_widened(received) else 0.0)
    await talk.send(honest(received))


async def silent_when_widened(talk: Talk, received: Received) -> None:
    await asyncio.sleep(3.0 if is_widened(received) else 0.0)
    await talk.send(honest(received))


async def slow(talk: Talk, received: Received) -> None:
    await asyncio.sleep(1.5)
    await talk.send(honest(received))


async def without_texts_and_vectors(talk: Talk, received: Received) -> None:
    body = json.loads(received.content)
    points = [{"id": rank, "version": 1, "score": 0.9 - rank / 100} for rank in range(body["limit"])]
    await talk.send(reply(json.dumps({"result": {"points": points}}).encode(), headers=[JSON]))


async def copies(talk: Talk, received: Received) -> None:
    """Nothing but copies of one text: a page has one result."""
    body = json.loads(received.content)
    text = "The pump of the second floor needs a new seal before it runs again."
    points = [
        {
            "id": rank,
            "version": 1,
            "score": 0.9 - rank / 1000,
            "payload": {"text": text},
            "vector": [1.0, 0.0, 0.0, 0.0],
        }
        for rank in range(body["limit"])
    ]
    await talk.send(reply(json.dumps({"result": {"points": points}}).encode(), headers=[JSON]))


@dataclass
class Proxied:
    """A proxy with a canary, its database, and what its clients got: for each the modes and the statuses of its pages in order."""

    proxy: Running
    upstream: FaultyUpstream
    answer: Answer = good
    modes: defaultdict[int, list[bool]] = field(default_factory=lambda: defaultdict(list))
    statuses: set[bytes] = field(default_factory=set)

    async def page(self, client: int) -> None:
        """One page of one client, whose key is the same for all."""
        message = request(search(PAGE), headers=b"api-key: %d\r\n" % client)
        answer = await raw_exchange(self.proxy.port, message)
        self.modes[client].append(b"\r\nx-vecsieve: " in answer)
        self.statuses.add(answer[9:12])
        assert b"x-vecsieve-origin" not in answer, "an answer of ours"

    async def round(self, *, at_once: int = 4) -> None:
        for first in range(0, CLIENTS, at_once):
            await asyncio.gather(*[self.page(client) for client in range(first, first + at_once)])

    async def until_stopped(self) -> None:
        for _ in range(MOST_ROUNDS):
            await self.round()
            if self.state not in {CanaryState.NONE, CanaryState.ON}:
                return

    @property
    def state(self) -> CanaryState:
        return next(candidate for candidate in CanaryState if self.proxy.count("canary_state", state=candidate.value))

    @property
    def members(self) -> set[int]:
        """The clients whose first page was in mode on."""
        return {client for client, modes in self.modes.items() if modes[0]}


def settings(**canary: object) -> dict[str, object]:
    return {"policy": {"mode": "shadow"}, "canary": canary, "shadow": {"sample": 0.0}, "hedge_times": HEDGE_TIMES}


@asynccontextmanager
async def proxied(**canary: object) -> AsyncIterator[Proxied]:
    async def script(talk: Talk) -> None:
        while (received := await talk.request()) is not None:
            await there.answer(talk, received)
            if received.header(b"connection") == b"close":
                return

    async with FaultyUpstream(script) as upstream, running(upstream.url, **settings(**canary)) as proxy:
        there = Proxied(proxy, upstream)
        yield there


async def test_one_client_has_one_mode_and_the_share_of_clients_is_on() -> None:
    async with proxied(share=SHARE) as there:
        for _ in range(4):
            await there.round()
        assert all(len(set(modes)) == 1 for modes in there.modes.values())
        assert 0 < len(there.members) < CLIENTS
        assert there.state is CanaryState.ON
        assert there.statuses == {b"200"}


# What goes wrong, what stops the canary, and the statuses that a direct call would have had.
FAULTS: dict[str, tuple[Answer, set[CanaryState], set[bytes]]] = {
    "errors": (failing, {CanaryState.ERRORS}, {b"200", b"500"}),
    "slow when widened": (slow_when_widened, {CanaryState.SLOW}, {b"200"}),
    "silent when widened": (silent_when_widened, {CanaryState.SLOW, CanaryState.FAIL_OPEN}, {b"200"}),
    "slow": (slow, {CanaryState.SLOW, CanaryState.FAIL_OPEN}, {b"200"}),
    "copies": (copies, {CanaryState.SHORT}, {b"200"}),
    "no texts and no vectors": (without_texts_and_vectors, {CanaryState.FAIL_OPEN}, {b"200"}),
}


@pytest.mark.parametrize("name", FAULTS)
async def test_a_database_that_goes_wrong_stops_it_and_each_client_changes_its_mode_once(name: str) -> None:
    answer, states, statuses = FAULTS[name]
    async with proxied(share=SHARE) as there:
        await there.round()
        members = there.members
        there.answer = answer
        async with asyncio.timeout(60):
            await there.until_stopped()
        assert there.state in states
        assert there.statuses <= statuses
        others = there.modes.keys() - members
        assert not any(mode for client in others for mode in there.modes[client]), "the others stay in shadow"
        there.answer, there.modes = good, defaultdict(list)
        widened = sum(map(is_widened, there.upstream.requests))
        for _ in range(2):
            await there.round()
        assert there.members == set(), "back in shadow for all, and to stay"
        assert sum(map(is_widened, there.upstream.requests)) == widened
        for share, is_on in ((SHARE, False), (SHARE - 0.01, True)):
            made = {"policy": {"mode": "shadow"}, "canary": {"share": share}, "explain": {"keep": 7}}
            there.proxy.process.reload(Settings.model_validate(made))
            assert (there.state is CanaryState.ON) is is_on, "its own settings alone start it again"
        there.modes.clear()
        await there.round()
        assert there.members <= members, "the same clients"


async def test_named_collections_and_addresses_are_on_and_a_header_still_decides() -> None:
    for canary, is_on in (
        ({"collections": ("c",)}, True),
        ({"clients": ("127.0.0.0/8",)}, True),
        ({"collections": ("d",), "clients": ("10.0.0.0/8",)}, False),
    ):
        async with proxied(**canary) as there:
            await there.page(1)
            assert there.modes[1] == [is_on]
            shadow = request(search(PAGE), headers=b"x-vecsieve-mode: shadow\r\n")
            assert b"\r\nx-vecsieve: " not in await raw_exchange(there.proxy.port, shadow)
            on = request(search(PAGE), headers=b"x-vecsieve-mode: on\r\n")
            assert b"\r\nx-vecsieve: " in await raw_exchange(there.proxy.port, on)


async def test_over_grpc_a_key_has_the_mode_that_it_has_over_http() -> None:
    async with proxied(share=SHARE) as there:
        await there.round()
        expected = there.members

    async def failed(_: Arrived, context: Context, __: bytes) -> None:
        await context.abort(grpc.StatusCode.INTERNAL, "disk")

    async def play(call: Arrived, context: Context) -> None:
        message = await call.read(context)
        assert message is not None
        await (failed(call, context, message) if is_failing else say(context, scripted_grpc.honest(message)))

    is_failing = False
    made = settings(share=SHARE)
    async with grpc_upstream(Query=play) as database, scripted_grpc.before(database.address, **made) as proxy:

        async def round_() -> tuple[set[int], set[grpc.StatusCode]]:
            seen = [await query(proxy.port, metadata=(("api-key", str(client)),)) for client in range(CLIENTS)]
            on = {client for client, answer in enumerate(seen) if "x-vecsieve" in dict(answer.initial)}
            return on, {answer.code for answer in seen}

        assert await round_() == (expected, {grpc.StatusCode.OK})
        assert await round_() == (expected, {grpc.StatusCode.OK})
        is_failing = True
        for _ in range(MOST_ROUNDS):
            _, codes = await round_()
            assert codes == {grpc.StatusCode.INTERNAL}, "the database's own"
            if proxy.count("canary_state", state="errors"):
                break
        is_failing = False
        assert await round_() == (set(), {grpc.StatusCode.OK})
