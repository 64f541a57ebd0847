"""docs/calls.md says of every call of the official clients what VecSieve does with it."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator

import pytest
from calls.clients import QDRANT, milvus_methods
from calls.exercise import Calls, UnknownCallError, methods, requests
from calls.page import HEAD, PAGE, SECTIONS, Section, section_text
from calls.servers import over_http
from chromadb.api.async_client import AsyncClient
from chromadb.api.client import Client
from chromadb.api.models.AsyncCollection import AsyncCollection
from chromadb.api.models.Collection import Collection
from pinecone import AsyncIndex, Index
from pinecone.grpc import GrpcIndex
from pymilvus import AsyncMilvusClient, MilvusClient
from qdrant_client import AsyncQdrantClient, QdrantClient

from support.weaviate.client import INTERPRETER
from vecsieve.adapters.backends import BACKENDS
from vecsieve.adapters.contract import RequestHead

COMMITTED = PAGE.read_text(encoding="utf-8")


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    """Clients log what they do not like about the answers."""
    logging.disable()
    yield
    logging.disable(logging.NOTSET)


@pytest.mark.filterwarnings("ignore")  # deprecated methods are called, too
@pytest.mark.parametrize("section", SECTIONS, ids=[section.backend for section in SECTIONS])
def test_the_committed_page_is_what_the_adapters_make_of_the_clients_calls(section: Section) -> None:
    if section.backend == "weaviate" and not INTERPRETER.exists():
        pytest.skip("Weaviate's client has an environment of its own: make clients")
    assert section_text(section) in COMMITTED, "run: make calls"


def test_the_page_has_nothing_else() -> None:
    assert COMMITTED.startswith(HEAD)
    assert re.findall(r"^## (\w+)", COMMITTED, re.MULTILINE) == [section.title for section in SECTIONS]
    assert {section.backend for section in SECTIONS} == BACKENDS.keys()


class Newer(QdrantClient):
    """A client of a later version."""

    def search_somehow(self, collection_name: str) -> None:
        """A method that the map does not know, and that sends nothing here."""

    def tune(self, knob: int) -> None:
        """Its argument is unknown, too."""


@pytest.mark.parametrize(("method", "missing"), [("search_somehow", "sent nothing"), ("tune", "no argument for knob")])
def test_a_new_method_of_a_client_fails_by_its_name(method: str, missing: str) -> None:
    others = frozenset(methods(Newer)) - {method}
    with over_http(lambda *_: {}) as server:
        client = Newer(url=f"http://127.0.0.1:{server.port}", check_compatibility=False)
        try:
            with pytest.raises(UnknownCallError, match=rf"Newer\.{method}\b.* {missing}|Newer\.{method}: {missing}"):
                requests(server, client, Calls(arguments=QDRANT.arguments, local=others))
        finally:
            client.close()


@pytest.mark.parametrize(
    ("other", "kind"),
    [
        (AsyncQdrantClient, QdrantClient),
        (AsyncIndex, Index),
        (GrpcIndex, Index),
        (AsyncMilvusClient, MilvusClient),
        (AsyncCollection, Collection),
        (AsyncClient, Client),
    ],
)
def test_the_other_clients_of_a_database_have_no_further_calls(other: type, kind: type) -> None:
    further = set(methods(other)) - set(methods(kind))
    # The same calls as futures, and what makes a client.
    futures = {f"{name}_async" for name in methods(kind)}
    assert further - futures - {"create"} == set()


def test_of_all_calls_of_milvus_only_searches_are_classified() -> None:
    transport = BACKENDS["milvus"].grpc
    assert transport is not None
    adapter = transport.adapter()
    paths = milvus_methods()
    assert len(paths) > 100
    classified = {path for path in paths if adapter.classify(RequestHead(method="POST", path=path)) is not None}
    assert {path.rpartition("/")[2] for path in classified} == {"Search", "HybridSearch"}
