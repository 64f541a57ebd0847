from __future__ import annotations

import numpy as np
import pytest

from support.backends.transports import GRPC
from support.weaviate.conversations import PATH, search
from support.weaviate.messages import single
from support.weaviate.model import Collection, Stored
from vecsieve.adapters.contract import DescribesCollections, Needs, Operation, RequestHead, SearchCall
from vecsieve.adapters.weaviate.grpc import WeaviateGrpc

ADAPTER = WeaviateGrpc()


def test_it_is_the_adapter_of_its_backend_and_has_a_first_step() -> None:
    assert isinstance(GRPC["weaviate"].adapter(), WeaviateGrpc)
    assert isinstance(ADAPTER, DescribesCollections)


def test_one_search_from_its_head_to_its_answer() -> None:
    objects = [
        Stored(id=f"00000000-0000-0000-0000-{number:012}", properties={"text": "x"}, vector=[1.0, number])
        for number in range(30)
    ]
    server = Collection(name="Docs", properties=("text",), objects=objects)
    body = search(collection="Docs", near_vector={"vectors": [single([1.0, 0.0])]})
    operation = ADAPTER.classify(RequestHead(method="POST", path=PATH, message=body))
    assert operation is not None
    asked = ADAPTER.describe(operation, body)
    assert asked is not None
    call = ADAPTER.parse_request(operation, body, Needs(known=ADAPTER.parse_description(server.answer(asked.body))))
    reply = ADAPTER.parse_reply(call, server.answer(ADAPTER.widen(call, [24])))
    assert (call.searches[0].top_k, reply.pools[0].size) == (10, 24)
    assert ADAPTER.trim(call, reply, [np.arange(10)]) == server.answer(body)


def test_a_reply_of_another_adapter_is_refused() -> None:
    operation = Operation(backend="other", name="query", collection="c")
    call = SearchCall(operation=operation, searches=(), needs=Needs(), document=None)
    with pytest.raises(TypeError):
        ADAPTER.parse_reply(call, b"")
