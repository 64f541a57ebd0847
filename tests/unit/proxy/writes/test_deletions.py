"""Of which requests the journal must hear before they go out."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from qdrant_client import grpc as qdrant

from vecsieve.adapters.backends import BACKENDS
from vecsieve.adapters.contract import RequestHead
from vecsieve.proxy.writes.deletions import Deletions

POINTS = "/collections/c/points"
ONE = "/v1/objects/Docs/00000000-0000-0000-0000-000000000001"


class HereAndNow:
    """Reads that work at once."""

    async def done(self, _: object, work: Callable[[], bool]) -> bool:
        return work()


def followed(name: str, method: str, target: str, message: Any = None) -> bool | None:
    """None for a request that is neither a deletion nor a change. ``message``: over gRPC."""
    transport = BACKENDS[name].rest if message is None else BACKENDS[name].grpc
    assert transport is not None
    assert transport.writes is not None
    assert transport.deletes is not None
    unused: Any = None
    reads: Any = HereAndNow()
    deletions = Deletions(transport.writes(), transport.deletes, reads, unused)
    path, mark, query = target.partition("?")
    body = b"" if message is None else message.SerializeToString()
    head = RequestHead(method=method, path=path, content_type="application/json", host="docs-1.x", message=body)
    request = deletions.classify(head)
    exchange: Any = SimpleNamespace(plain=body)
    return None if request is None else asyncio.run(deletions.follows(exchange, request, mark + query))


@pytest.mark.parametrize(
    ("name", "method", "target", "expected"),
    [
        ("qdrant", "POST", f"{POINTS}/delete?wait=true", True),
        ("qdrant", "POST", f"{POINTS}/batch?wait=true", True),
        ("qdrant", "POST", f"{POINTS}/payload?wait=true", False),
        ("qdrant", "PUT", f"{POINTS}/vectors?timeout=3&wait=true", False),
        ("qdrant", "PUT", f"{POINTS}/vectors", True),
        ("qdrant", "PUT", f"{POINTS}/vectors?wait=false", True),
        ("qdrant", "PUT", POINTS, None),
        ("pinecone", "POST", "/vectors/update", True),
        ("weaviate", "PATCH", ONE, True),
        ("weaviate", "PUT", f"{ONE}?consistency_level=ALL", False),
        ("chroma", "POST", "/api/v1/collections/00000000-0000-0000-0000-00000000000c/update", None),
    ],
)
def test_a_change_that_reads_show_at_once_is_not_followed(
    name: str, method: str, target: str, expected: bool | None
) -> None:
    assert followed(name, method, target) is expected


@pytest.mark.parametrize(("waits", "expected"), [(True, False), (False, True), (None, True)])
def test_over_grpc_the_message_says_whether_the_client_waits(waits: bool | None, expected: bool) -> None:
    update = qdrant.UpdatePointVectors(collection_name="c", wait=waits)
    assert followed("qdrant", "POST", "/qdrant.Points/UpdateVectors", update) is expected
    assert followed("qdrant", "POST", "/qdrant.Points/Delete", qdrant.DeletePoints(collection_name="c", wait=waits))


async def test_a_batch_of_upserts_waits_for_no_description_and_no_journal() -> None:
    rest = BACKENDS["opensearch"].rest
    assert rest.writes is not None
    assert rest.deletes is not None
    unused: Any = None
    reads: Any = HereAndNow()
    deletions = Deletions(rest.writes(), rest.deletes, reads, unused)
    body = b'{"index":{"_id":"a"}}\n{"text":"a"}\n'
    request = deletions.classify(RequestHead(method="POST", path="/docs/_bulk", content_type="application/json"))
    exchange: Any = SimpleNamespace(plain=body, operation=request)
    async with deletions.followed(exchange, body, query="", now=0.0) as pending:
        pending.is_done = True
