from __future__ import annotations

import pytest

from support.backends.transports import GRPC
from vecsieve.adapters.contract import DescribesCollections, Needs, Operation, SearchCall
from vecsieve.adapters.weaviate.grpc import WeaviateGrpc

ADAPTER = WeaviateGrpc()


def test_it_is_the_adapter_of_its_backend_and_has_a_first_step() -> None:
    assert isinstance(GRPC["weaviate"].adapter(), WeaviateGrpc)
    assert isinstance(ADAPTER, DescribesCollections)


def test_a_reply_of_another_adapter_is_refused() -> None:
    operation = Operation(backend="other", name="query", collection="c")
    call = SearchCall(operation=operation, searches=(), needs=Needs(), document=None)
    with pytest.raises(TypeError):
        ADAPTER.parse_reply(call, b"")
