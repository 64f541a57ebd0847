"""The write gate over gRPC: whatever happens to its reads, the client's message goes out once, and the answer is the database's own."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import grpc
import pytest
from qdrant_client import grpc as pb

from support.grpc.calls import Pairs, Seen, ask
from support.grpc.upstream import Arrived, Context, GrpcUpstream, Script, ending, grpc_upstream
from support.process.running import Running, running

UPSERT = "/qdrant.Points/Upsert"


def upsert(*ids: int) -> bytes:
    vectors = pb.Vectors(vector=pb.Vector(dense=pb.DenseVector(data=[1.0, 0.0, 0.5])))
    payload = {"text": pb.Value(string_value="it has all the same words")}
    points = [pb.PointStruct(id=pb.PointId(num=each), vectors=vectors, payload=payload) for each in ids]
    message: bytes = pb.UpsertPoints(collection_name="c", points=points).SerializeToString()
    return message


def saying(message: Any) -> Script:
    async def say(call: Arrived, context: Context) -> None:
        await call.read(context)
        await context.write(message.SerializeToString())

    return say


STORED = pb.PointsOperationResponse(result=pb.UpdateResult(operation_id=7, status=pb.UpdateStatus.Completed))
_VECTORS = pb.VectorsConfig(params=pb.VectorParams(size=3, distance=pb.Distance.Cosine))
DESCRIBED = pb.GetCollectionInfoResponse(
    result=pb.CollectionInfo(config=pb.CollectionConfig(params=pb.CollectionParams(vectors_config=_VECTORS)))
)


def near(score: float) -> Any:
    hit = pb.ScoredPoint(
        id=pb.PointId(num=9), score=score, payload={"text": pb.Value(string_value="it has all the same words")}
    )
    return pb.QueryBatchResponse(result=[pb.BatchResult(result=[hit])])


async def stays_silent(call: Arrived, context: Context) -> None:
    await call.read(context)
    await asyncio.Event().wait()


@asynccontextmanager
async def gated(neighbours: Script, **write: object) -> AsyncIterator[tuple[GrpcUpstream, Running]]:
    async with (
        grpc_upstream(Upsert=saying(STORED), Get=saying(DESCRIBED), QueryBatch=neighbours) as upstream,
        running(
            "http://127.0.0.1:9",
            grpc={"listen": "127.0.0.1:0", "upstream": upstream.address},
            policy={"write": write},
        ) as proxy,
    ):
        yield upstream, proxy


async def send(proxy: Running, message: bytes, metadata: Pairs = ()) -> Seen:
    return await ask(f"127.0.0.1:{proxy.grpc_port}", "unary_unary", (message,), method=UPSERT, metadata=metadata)


def written(upstream: GrpcUpstream) -> list[bytes]:
    return [call.messages[0] for call in upstream.calls if call.method == UPSERT]


async def counted(proxy: Running, outcome: str) -> float:
    for _ in range(300):
        if count := proxy.count("writes_total", backend="qdrant", outcome=outcome):
            return count
        await asyncio.sleep(0.01)
    return 0.0


async def test_off_adds_no_call_and_changes_no_byte() -> None:
    async with gated(saying(near(1.0))) as (upstream, proxy):
        seen = await send(proxy, upsert(1, 2))
        assert seen.messages == (STORED.SerializeToString(),)
        assert [call.messages for call in upstream.calls] == [[upsert(1, 2)]]


async def test_annotate_tells_what_a_copy_is_a_copy_of() -> None:
    async with gated(saying(near(0.99)), mode="annotate") as (upstream, proxy):
        seen = await send(proxy, upsert(1), metadata=(("api-key", "s3cret"),))
        assert seen.messages == (STORED.SerializeToString(),)
        (message,) = written(upstream)
        changed = pb.UpsertPoints.FromString(message)
        assert changed.points[0].payload["_vecsieve"].struct_value.fields["duplicate_of"].integer_value == 9
        methods = [call.method.rpartition("/")[2] for call in upstream.calls]
        assert methods == ["Get", "QueryBatch", "Upsert"]
        assert all(("api-key", "s3cret") in call.metadata for call in upstream.calls)


FAULTS: dict[str, tuple[Script, str]] = {
    "silent": (stays_silent, "late"),
    "forbidden": (ending(grpc.StatusCode.PERMISSION_DENIED, "no"), "refused"),
    "quota": (ending(grpc.StatusCode.RESOURCE_EXHAUSTED, "slow down"), "refused"),
    "another count": (saying(pb.QueryBatchResponse()), "failed"),
}


@pytest.mark.parametrize("name", FAULTS)
@pytest.mark.parametrize("mode", ["annotate", "observe"])
async def test_a_fault_of_the_query_for_neighbours_is_never_the_writes(name: str, mode: str) -> None:
    script, outcome = FAULTS[name]
    async with gated(script, mode=mode, deadline_seconds=0.5) as (upstream, proxy):
        seen = await send(proxy, upsert(1))
        assert seen.messages == (STORED.SerializeToString(),)
        assert await counted(proxy, outcome) == 1
        assert written(upstream) == [upsert(1)]


async def test_observe_sends_the_write_first_and_unchanged() -> None:
    async with gated(saying(near(1.0)), mode="observe") as (upstream, proxy):
        await send(proxy, upsert(1))
        assert await counted(proxy, "judged") == 1
        assert proxy.count("write_copies_total", backend="qdrant") == 1
        assert [call.method.rpartition("/")[2] for call in upstream.calls] == ["Upsert", "Get", "QueryBatch"]
        assert written(upstream) == [upsert(1)]


@pytest.mark.parametrize("mode", ["annotate", "observe"])
async def test_a_message_that_is_not_read_is_sent_as_it_came_and_counted(mode: str) -> None:
    async with gated(saying(near(1.0)), mode=mode) as (upstream, proxy):
        message = pb.UpsertPoints(
            collection_name="c", points=[pb.PointStruct(id=pb.PointId(num=1))]
        ).SerializeToString()
        await send(proxy, message)
        assert await counted(proxy, "unsupported") == 1
        assert [call.messages for call in upstream.calls] == [[message]]
