"""The real client, told only where the control plane is: it finds its indexes behind the proxy, by name."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Iterator
from typing import Any

import pytest
from pinecone import AsyncPinecone, Pinecone, ServerlessSpec

from support.pinecone.emulator import emulated
from support.process.stack import exchange, serve

SPEC = ServerlessSpec(cloud="aws", region="us-east-1")
NEAR = [{"id": f"a{number}", "values": [1.0, 0.0]} for number in range(6)]
FAR = [{"id": f"b{number}", "values": [0.2, 1.0 - 0.3 * number]} for number in range(3)]


@pytest.fixture(scope="module")
def urls() -> Iterator[tuple[str, str]]:
    """The emulator's control plane, and the proxy in front of it."""
    with emulated() as emulator, serve(emulator.url, "--backend", "pinecone") as (proxy, _):
        yield emulator.url, proxy


@pytest.fixture(scope="module")
def client(urls: tuple[str, str]) -> Iterator[Pinecone]:
    with Pinecone(api_key="key", host=urls[1]) as made:
        made.create_index(name="docs", dimension=2, metric="cosine", spec=SPEC)
        with made.index("docs") as index:
            index.upsert(vectors=[*NEAR, *FAR])
        yield made
        made.delete_index("docs")


def matches(client: Pinecone) -> list[str]:
    """The identifiers of the three nearest."""
    with client.index("docs") as index:
        return [match.id for match in index.query(vector=[1.0, 0.0], top_k=3).matches]


def test_every_answer_that_describes_an_index_leads_through_the_proxy(urls: tuple[str, str], client: Pinecone) -> None:
    emulator, proxy = urls
    hosts = [client.describe_index("docs").host, *(index.host for index in client.list_indexes())]
    configured: Any = client.configure_index("docs", tags={"a": "b"})
    created = client.create_index(name="second", dimension=2, metric="cosine", spec=SPEC)
    hosts += [created.host, *([] if configured is None else [configured.host])]
    client.delete_index("second")
    original = exchange(emulator, "GET", "/indexes/docs", headers={"Api-Key": "key"})
    assert b"/_i/" not in original.body
    assert all(host is not None and host.startswith(f"{proxy}/_i/127.0.0.1:") for host in hosts)


def test_a_search_by_name_gives_distinct_results_and_the_index_itself_does_not(
    urls: tuple[str, str], client: Pinecone
) -> None:
    with Pinecone(api_key="key", host=urls[0]) as direct:
        assert matches(direct) == ["a0", "a1", "a2"]
    ids = matches(client)
    assert len(ids) == 3
    assert ids[0] == "a0"
    assert len([one for one in ids if one.startswith("a")]) == 1


def test_a_thousand_ids_are_fetched_and_strange_ids_arrive(client: Pinecone) -> None:
    ids = [str(uuid.UUID(int=number)) for number in range(999)]
    with client.index("docs") as index:
        index.upsert(vectors=[{"id": "a+b/c%2Fd", "values": [0.5, 0.5]}])
        answer = index.fetch(ids=[*ids, "a+b/c%2Fd"])
        index.delete(ids=["a+b/c%2Fd"])
    assert list(answer.vectors) == ["a+b/c%2Fd"]


def test_the_asyncio_client_finds_its_way_as_well(urls: tuple[str, str], client: Pinecone) -> None:
    async def searched() -> list[str]:
        async with AsyncPinecone(api_key="key", host=urls[1]) as made, await made.index("docs") as index:
            answer = await index.query(vector=[1.0, 0.0], top_k=3)
            return [match.id for match in answer.matches]

    assert asyncio.run(searched()) == matches(client)
