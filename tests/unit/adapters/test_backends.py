"""The rows of BACKENDS: what a row says of its backend is what its adapters do."""

from __future__ import annotations

import subprocess
import sys

import pytest

from support.backends.transports import GRPC, REST
from vecsieve.adapters.backends import BACKENDS
from vecsieve.adapters.contract import DescribesCollections, FetchesVectors, RequestHead
from vecsieve.adapters.fusions import DividesFusions
from vecsieve.config.backends import TRAITS

UUID = "00000000-0000-0000-0000-000000000000"
POINTS = "/collections/c/points"
# A path for each search over HTTP.
PATHS = {
    "chroma": (f"/api/v2/tenants/t/databases/d/collections/{UUID}/query",),
    "milvus": ("/v1/vector/search", "/v2/vectordb/entities/search"),
    "pinecone": ("/query", "/records/namespaces/n/search", "/namespaces/n/documents/search"),
    "qdrant": tuple(
        f"{POINTS}/{name}{batch}" for name in ("query", "search", "recommend", "discover") for batch in ("", "/batch")
    ),
    "opensearch": ("/docs/_search", "/docs/_msearch"),
    "elasticsearch": ("/docs/_search", "/docs/_msearch"),
    "weaviate": (),  # its searches over HTTP are GraphQL and pass through
}


def test_a_row_stands_under_its_own_name() -> None:
    assert {name: row.name for name, row in BACKENDS.items()} == {name: name for name in PATHS}


@pytest.mark.parametrize("backend", BACKENDS)
def test_the_operations_of_a_row_are_those_that_its_adapters_give(backend: str) -> None:
    heads = [(REST[backend], RequestHead(method="POST", path=path)) for path in PATHS[backend]]
    if backend in GRPC:
        heads += [(GRPC[backend], RequestHead(method="POST", path=path)) for path in GRPC[backend].unary]
    operations = [
        operation for transport, head in heads if (operation := transport.adapter().classify(head)) is not None
    ]
    assert len(operations) >= len(PATHS[backend])
    assert {operation.backend for operation in operations} == {backend}
    assert {operation.name for operation in operations} == set(BACKENDS[backend].operations)
    assert len(set(BACKENDS[backend].operations)) == len(BACKENDS[backend].operations)


@pytest.mark.parametrize("backend", BACKENDS)
def test_what_a_row_states_of_its_adapters_is_so(backend: str) -> None:
    row = BACKENDS[backend]
    adapters = [transport.adapter() for transport in (row.rest, row.grpc) if transport is not None]
    for is_stated, trait in (
        (row.has_first_step, DescribesCollections),
        (row.has_second_step, FetchesVectors),
        (row.has_fusions, DividesFusions),
    ):
        assert is_stated == any(isinstance(adapter, trait) for adapter in adapters), trait
    assert row.gates_writes == any(
        transport.writes is not None for transport in (row.rest, row.grpc) if transport is not None
    )


def test_without_grpc_nothing_of_it_is_imported() -> None:
    """protobuf alone takes 10 MiB."""
    code = "import sys; import vecsieve.proxy.process.assembly; from vecsieve.adapters.backends import BACKENDS; "
    code += "[row.rest for row in BACKENDS.values()]; print(*sys.modules)"
    loaded = set(
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    )
    assert "vecsieve.adapters.qdrant.rest" in loaded
    assert not {"grpc", "google.protobuf", "vecsieve.adapters.qdrant.grpc"} & loaded


def test_only_transports_of_grpc_know_methods_of_one_message() -> None:
    assert all(row.rest.unary == frozenset() for row in BACKENDS.values())
    assert all(transport.unary for transport in GRPC.values())


def test_the_settings_know_the_same_backends_and_agree_on_what_they_speak() -> None:
    assert TRAITS.keys() == BACKENDS.keys()
    assert {name: row.has_grpc for name, row in TRAITS.items()} == {
        name: row.grpc is not None for name, row in BACKENDS.items()
    }
    assert all(row.has_grpc for row in TRAITS.values() if row.shares_port)
