"""The real client and two indexes, each behind a port of its own, in both forms in which a port can be told."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass

import pytest
from pinecone import Pinecone, ServerlessSpec

from support.network.ports import free_ports
from support.pinecone.emulator import emulated
from support.process.stack import command, exchange

SPEC = ServerlessSpec(cloud="aws", region="us-east-1")
NEAR = [{"id": f"a{number}", "values": [1.0, 0.0]} for number in range(6)]
FAR = [{"id": f"b{number}", "values": [0.2, 1.0 - 0.3 * number]} for number in range(3)]


@dataclass(frozen=True, slots=True)
class Proxied:
    """A running proxy, and the port of each index."""

    url: str
    admin: str
    ports: dict[str, int]
    output: str


@pytest.fixture(scope="module", params=[("port_url", 1), ("port_authority", 1), ("port_url", 2)], ids=str)
def proxied(request: pytest.FixtureRequest) -> Iterator[tuple[str, Proxied]]:
    """The form, and a proxy of one or two processes before an emulator of two indexes that hold the same."""
    form, workers = request.param
    with emulated() as emulator, Pinecone(api_key="key", host=emulator.url) as direct:
        hosts = {}
        for name in ("docs", "chat"):
            hosts[name] = direct.create_index(name=name, dimension=2, metric="cosine", spec=SPEC).host
            with direct.index(name) as index:
                index.upsert(vectors=[{**record, "metadata": {"of": name}} for record in (*NEAR, *FAR)])
        ports = dict(zip(hosts, free_ports(2), strict=True))
        pairs = [part for name in hosts for part in ("--index-port", f"{ports[name]}={hosts[name]}")]
        arguments = ("--upstream", emulator.url, "--backend", "pinecone", "--workers", str(workers), *pairs)
        local = ("--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0")
        with command("serve", *local, *arguments, environment={"VECSIEVE_PINECONE_PUBLIC_FORM": form}) as running:
            urls = running.addresses(2)
            yield form, Proxied(urls["serve"], urls["admin"], ports, running.output())
            assert running.close() == 0


def test_the_client_is_told_of_the_port_in_the_form_that_was_chosen(proxied: tuple[str, Proxied]) -> None:
    form, proxy = proxied
    wire, seen = (
        ("http://", "http://") if form == "port_url" else ("", "https://")
    )  # a bare host is https to the client
    with Pinecone(api_key="key", host=proxy.url) as client:
        for name, port in proxy.ports.items():
            described = json.loads(exchange(proxy.url, "GET", f"/indexes/{name}", headers={"Api-Key": "key"}).body)
            assert described["host"] == f"{wire}127.0.0.1:{port}"
            assert client.describe_index(name).host == f"{seen}127.0.0.1:{port}"


def test_each_port_answers_for_its_own_index_with_distinct_results(proxied: tuple[str, Proxied]) -> None:
    form, proxy = proxied
    with Pinecone(api_key="key", host=proxy.url) as client:
        for name in ("docs", "chat", "docs", "chat"):
            # A client over REST takes a host without a scheme for https: that form is for gRPC, or for typing http://.
            host = f"http://127.0.0.1:{proxy.ports[name]}"
            with client.index(name) if form == "port_url" else client.index(host=host) as index:
                matches = index.query(vector=[1.0, 0.0], top_k=3, include_metadata=True).matches
            assert [match.metadata["of"] for match in matches if match.metadata is not None] == [name] * 3
            ids = [match.id for match in matches]
            assert ids[0] == "a0"
            assert len([identifier for identifier in ids if identifier.startswith("a")]) == 1


def test_a_write_at_a_port_reaches_its_own_index_alone(proxied: tuple[str, Proxied]) -> None:
    _, proxy = proxied
    with Pinecone(api_key="key", host=proxy.url) as client:
        docs, chat = (client.index(host=f"http://127.0.0.1:{port}") for port in proxy.ports.values())
        with docs, chat:
            docs.upsert(vectors=[{"id": "new", "values": [0.5, 0.5]}])
            assert [list(index.fetch(ids=["new"]).vectors) for index in (docs, chat)] == [["new"], []]
            docs.delete(ids=["new"])


def test_the_ports_are_named_at_the_start_and_on_the_status_page(proxied: tuple[str, Proxied]) -> None:
    _, proxy = proxied
    status = json.loads(exchange(proxy.admin, "GET", "/status").body)
    assert status["index_ports"] == sorted(proxy.ports.values())
    assert all(f"http://127.0.0.1:{port}" in proxy.output for port in proxy.ports.values())
