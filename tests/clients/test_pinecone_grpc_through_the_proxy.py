"""The current major of Pinecone's own client over gRPC: directly and through the proxy, which serves an index at one port for
both transports. The older majors make the same scenario's calls in tests/pinecone_majors.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import grpc
import pytest
from pinecone.grpc import GrpcIndex
from pinecone_majors import scenario
from servers.pinecone.grpc_messages import as_bytes
from servers.pinecone.server import Emulator

from support.network.ports import free_ports
from support.pinecone.emulator import SERVERLESS
from support.pinecone.loading import HEADERS, KEY, loaded_emulator, sent
from support.pinecone.planted import TOP_K, plan
from support.pinecone.verdict import differences, faults
from support.process.running import running
from support.process.stack import exchange
from vecsieve.proxy.search.memory.points import WINDOW

PLAN = plan()
NEAR: list[Any] = [{"id": f"near-{number}", "values": [1.0, 0.0]} for number in range(8)]
FAR: list[Any] = [{"id": f"far-{number}", "values": [0.4 - number, 1.0]} for number in range(4)]


@asynccontextmanager
async def fronted(emulator: Emulator, mode: str) -> AsyncIterator[tuple[str, Mapping[str, str]]]:
    """The proxy's URL, and by the name of an index host:port of its own port there."""
    indexes = emulator.project.indexes
    ports = dict(zip(indexes, free_ports(len(indexes)), strict=True))
    settings = {
        "index_ports": {port: indexes[name].host for name, port in ports.items()},
        "public_form": "port_authority",
    }
    async with running(emulator.url, backend="pinecone", mode=mode, pinecone=settings) as proxy:
        yield f"http://127.0.0.1:{proxy.port}", {name: f"127.0.0.1:{port}" for name, port in ports.items()}


async def answers(control: str, addresses: Mapping[str, str]) -> dict[str, Any]:
    """The observations of the scenario. ``addresses``: where the control plane must say that the indexes are."""
    given = {**PLAN, "places": {control: list(addresses.values())}}
    return await asyncio.to_thread(lambda: asyncio.run(scenario.main(control, given, "grpc")))


@pytest.fixture(scope="module")
def emulator() -> Iterator[Emulator]:
    with loaded_emulator(PLAN, grpc=True) as running:
        yield running


@pytest.fixture(scope="module")
def honest(emulator: Emulator) -> dict[str, Any]:
    return asyncio.run(answers(emulator.url, {name: emulator.grpc_address(name) for name in PLAN["indexes"]}))


@pytest.mark.parametrize("mode", ["off", "shadow"])
async def test_in_modes_off_and_shadow_the_client_sees_what_it_sees_directly(
    emulator: Emulator, honest: dict[str, Any], mode: str
) -> None:
    async with fronted(emulator, mode) as (url, addresses):
        assert differences(honest, await answers(url, addresses)) == []


async def test_in_mode_on_clean_data_is_as_directly_and_copied_data_distinct_full_and_in_order(
    emulator: Emulator, honest: dict[str, Any]
) -> None:
    async with fronted(emulator, "on") as (url, addresses):
        await answers(url, addresses)  # how much more is fetched grows with what was found
        assert faults(honest, await answers(url, addresses)) == []


def test_the_scenario_asks_what_it_should(honest: dict[str, Any]) -> None:
    assert [name for name, answer in honest.items() if isinstance(answer, dict) and "error" in answer] == ["wrong size"]
    page = [match["id"] for match in honest["copied.vector.bare"]]
    assert len({one.partition("-")[0] for one in page}) < len(page) == TOP_K


async def test_the_services_own_words_reach_the_client(emulator: Emulator) -> None:
    """Headers and refusals, but for the number of the request."""
    query = as_bytes("QueryRequest", {"topK": 3, "vector": PLAN["fan_out"]["vector"]})
    wrong = as_bytes("QueryRequest", {"topK": 3, "vector": [1.0]})

    async def heard(address: str) -> list[Any]:
        errors: list[Any] = []
        async with grpc.aio.insecure_channel(address) as channel:
            method: Any = channel.unary_unary("/VectorService/Query")
            for message, key in ((query, KEY), (wrong, KEY), (query, "no")):
                call = method(message, metadata=(("api-key", key),), timeout=10)
                code, words = await call.code(), await call.details()
                given = {k: v for k, v in await call.initial_metadata() if k != "x-pinecone-request-id"}
                errors.append((code, words, given, dict(await call.trailing_metadata())))
        return errors

    async with fronted(emulator, "off") as (_, addresses):
        direct = await heard(emulator.grpc_address("clean"))
        assert await heard(addresses["clean"]) == direct
    assert [code.name for code, *_ in direct] == ["OK", "INVALID_ARGUMENT", "UNAUTHENTICATED"]
    assert direct[0][2]["x-pinecone-max-indexed-lsn"]


async def test_a_write_over_one_transport_is_noticed_over_the_other(emulator: Emulator) -> None:
    """A score that no longer fits what is remembered makes both transports fetch vectors again."""
    created = {"name": "edited", "dimension": 2, "metric": "cosine", "spec": SERVERLESS}
    host = sent(emulator.url, "/indexes", created)["host"]
    sent(host, "/vectors/upsert", {"vectors": NEAR + FAR})
    settings = {"index_host": host}
    try:
        async with running(emulator.url, backend="pinecone", mode="on", pinecone=settings) as proxy:

            def recalled() -> float:
                return proxy.count("memory_recalls_total", backend="pinecone", result="whole")

            await asyncio.to_thread(write_and_search, f"http://127.0.0.1:{proxy.port}", recalled)
    finally:
        exchange(emulator.url, "DELETE", "/indexes/edited", headers=HEADERS)


def write_and_search(url: str, recalled: Callable[[], float]) -> None:
    with GrpcIndex(host=url, api_key=KEY, secure=False) as index:

        def over_rest() -> list[str]:
            body = b'{"topK":4,"vector":[1.0,0.1]}'
            answer = exchange(url, "POST", "/query", body, HEADERS)
            return [match["id"] for match in json.loads(answer.body)["matches"]]

        def over_grpc() -> list[str]:
            return [match.id for match in index.query(vector=[1.0, 0.1], top_k=4).matches]

        before = over_rest()
        assert sum(one.startswith("near") for one in before) == 1
        for ask in (over_rest, over_grpc) * WINDOW:
            assert ask() == before
        remembered = recalled()
        assert remembered > WINDOW
        assert (over_rest(), over_grpc()) == (before, before)
        assert recalled() == remembered + 2  # over either
        # Near ones no more: now all are apart.
        index.upsert(vectors=[{"id": f"near-{number}", "values": [1.0, 0.5 - 0.2 * number]} for number in range(8)])
        after = over_rest()
        assert over_grpc() == after
        assert sum(one.startswith("near") for one in after) > 1
        assert recalled() == remembered + 2
