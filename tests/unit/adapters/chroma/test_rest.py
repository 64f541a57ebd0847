from __future__ import annotations

import json

import numpy as np
import pytest

from support.chroma import bodies as chroma_bodies
from vecsieve.adapters.chroma.rest import ChromaRest
from vecsieve.adapters.contract import Needs, RequestHead

ADAPTER = ChromaRest()


def trimmed(include: list[str] | None, reply: bytes, *keep: list[int], needs: Needs | None = None) -> bytes:
    operation = ADAPTER.classify(RequestHead(method="POST", path=chroma_bodies.PATHS[0]))
    assert operation is not None
    request: dict[str, object] = {"query_embeddings": [[1.0, 0.0]] * len(keep), "n_results": 5}
    if include is not None:
        request["include"] = include
    call = ADAPTER.parse_request(operation, json.dumps(request).encode(), Needs() if needs is None else needs)
    return ADAPTER.trim(call, ADAPTER.parse_reply(call, reply), [np.array(kept, dtype=np.intp) for kept in keep])


def test_kept_cells_are_the_servers_bytes_in_the_order_of_keep() -> None:
    reply = (
        b'{"ids":[["a","\\u00e9","c"]],"embeddings":[[[1.0,0.0],[5.9604645e-8,1],[-0.0,1]]],"documents":[["x",null,"\\ud83d"]],'
        b'"uris":null,"metadatas":null,"distances":[[0.10,1E5,null]],"include":["documents","embeddings","distances"]}'
    )
    assert trimmed(["documents"], reply, [2, 0]) == (
        b'{"ids":[["c","a"]],"embeddings":null,"documents":[["\\ud83d","x"]],"uris":null,"metadatas":null,"distances":null,'
        b'"include":["documents"]}'
    )


@pytest.mark.parametrize(
    ("include", "told", "left"),
    [
        ([], b'["embeddings","distances"]', b"[]"),
        (["uris"], b'["uris","embeddings","distances"]', b'["uris"]'),
        (["uris", "uris"], b'["uris","uris","embeddings","distances"]', b'["uris","uris"]'),
        (["distances"], b'["distances","embeddings"]', b'["distances"]'),
        (["distances", "embeddings"], b'["distances","embeddings"]', b'["distances","embeddings"]'),
        (None, b'["documents","metadatas","distances","embeddings"]', b'["documents","metadatas","distances"]'),
    ],
)
def test_the_list_of_what_was_included_is_the_clients_again(
    include: list[str] | None, told: bytes, left: bytes
) -> None:
    answer = trimmed(include, b'{"ids":[["a","b"]],"include":%s}' % told, [0, 1])
    assert answer == b'{"ids":[["a","b"]],"include":%s}' % left
