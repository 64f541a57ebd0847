""""""

from __future__ import annotations

import pytest
from servers.pinecone.grpc_service import METHODS

from vecsieve.adapters.contract import RequestHead, Touched
from vecsieve.adapters.pinecone.calls import index_of, touched_over_grpc

HOST = "movies-c01b5b5.svc.aped-4627-b74a.pinecone.io"
WRITES = {"Upsert", "Update", "Delete", "CreateNamespace", "DeleteNamespace"}


def change(path: str, host: str = HOST) -> Touched | None:
    return touched_over_grpc(RequestHead(method="POST", path=path, host=host))


@pytest.mark.parametrize("name", sorted(METHODS))
def test_a_write_touches_the_index_it_goes_to_and_a_read_nothing(name: str) -> None:
    expected = Touched(collection=index_of(HOST)) if name in WRITES else None
    assert change(f"/VectorService/{name}") == expected


@pytest.mark.parametrize("path", ["/VectorService/Merge", "/VectorService/query", "/Other/Query", "", "//"])
def test_what_nobody_knows_is_taken_for_a_write(path: str) -> None:
    assert change(path) == Touched(collection="movies-c01b5b5")


def test_a_write_to_a_host_nobody_names_may_change_any_index() -> None:
    assert change("/VectorService/Upsert", host="") == Touched(collection=None)
