"""S6: two tenants on the same connections, with what the proxy remembers switched on: not a byte of one reaches the other."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import grpc
from qdrant_client import grpc as pb

from prove.finding import Finding, Scale
from support.grpc.upstream import Arrived, Context, GrpcUpstream, grpc_upstream
from support.network.faulty_upstream import FaultyUpstream, RawClient, Received, Script, Talk, reply
from support.process.running import running
from support.qdrant.scripted import JSON

CLIENTS = 8
RANKS = 16
CELLS = 8  # dimensions
QUERY_VECTOR = list(
    range(CELLS, 0, -1)
)  # the query of Pinecone's searches: the records' cells in the order of their ranks
QUERY = "/qdrant.Points/Query"


@dataclass(frozen=True, slots=True)
class Tenant:
    """``mark``: in its key, its collection and namespace, and every payload. ``cells``: which way each of its records points."""

    mark: str
    cells: tuple[int, ...]

    def vector(self, rank: int) -> list[float]:
        """The record's vector; the records of both tenants have the same ids."""
        return [1.0 if cell == self.cells[rank] else 0.0 for cell in range(CELLS)]


TENANTS = (
    Tenant("alpha-5c1d", tuple(rank // 2 % CELLS for rank in range(RANKS))),
    Tenant("beta-91fe", tuple((rank + 1) // 3 % CELLS for rank in range(RANKS))),
)


@dataclass(frozen=True, slots=True)
class Alone:
    """What a tenant is answered when nobody else is there. ``plain``: in mode off, which is right too, when a machine that stood
    still let the deadline pass or opened the breaker.
    """

    improved: bytes
    plain: bytes


@dataclass
class Judge:
    """Compares what each side sees with whose it is. ``alone``: by a tenant's mark; without it a tenant's first answer is its measure."""

    alone: dict[str, Alone] = field(default_factory=dict)
    crossed: Counter[str] = field(default_factory=Counter)
    heard: int = 0
    plain: int = 0

    def request(self, tenant: Tenant, seen: bytes) -> None:
        """What reached the database under this tenant's key."""
        self._foreign(tenant, seen, "requests with the other's bytes")

    def answer(self, tenant: Tenant, seen: bytes) -> None:
        """What a client of this tenant was given."""
        self.heard += 1
        self._foreign(tenant, seen, "answers with the other's bytes")
        if tenant.mark.encode() not in seen:
            self.crossed["answers without the tenant's own bytes"] += 1
            return
        alone = self.alone.setdefault(tenant.mark, Alone(seen, seen))
        if seen != alone.improved:
            is_plain = seen == alone.plain
            self.plain += is_plain
            self.crossed["answers that differ from those given alone"] += not is_plain

    def _foreign(self, tenant: Tenant, seen: bytes, what: str) -> None:
        self.crossed[what] += any(other.mark.encode() in seen for other in TENANTS if other is not tenant)

    def finding(self, what: str) -> Finding:
        """The figure of a run. Most answers must be improved: plain ones say nothing of what is remembered."""
        crossings = ", ".join(f"{count} {what}" for what, count in self.crossed.items() if count)
        measured = f"{crossings or '0'}; {self.plain} answered plainly"
        criterion = "0 bytes of the other tenant, at most half answered plainly"
        return Finding(
            "S6", f"{self.heard} {what}", criterion, measured, not crossings and 2 * self.plain <= self.heard
        )


def tenant_of(key: bytes) -> Tenant:
    """Whose key it is."""
    return next(tenant for tenant in TENANTS if key.decode() == f"key-{tenant.mark}")


def database(judge: Judge) -> Script:
    """Qdrant's and Pinecone's searches, answered by key alone, as an index that both tenants may name is."""

    async def script(talk: Talk) -> None:
        while (received := await talk.request()) is not None:
            tenant = tenant_of(received.header(b"api-key") or b"")
            judge.request(tenant, received.raw)
            await talk.send(reply(_answer(tenant, received), headers=[JSON]))

    return script


def _answer(tenant: Tenant, received: Received) -> bytes:
    body = json.loads(received.content)
    is_pinecone = received.line.startswith(b"POST /query ")
    limit = body["topK" if is_pinecone else "limit"]
    has_vectors = bool(body.get("includeValues" if is_pinecone else "with_vector"))
    rows = [_row(tenant, rank, has_vectors, is_pinecone=is_pinecone) for rank in range(min(limit, RANKS))]
    whole = (
        {"matches": rows, "namespace": tenant.mark}
        if is_pinecone
        else {"result": {"points": rows}, "status": "ok", "time": 0.1}
    )
    return json.dumps(whole, separators=(",", ":")).encode()


def _row(tenant: Tenant, rank: int, has_vector: bool, *, is_pinecone: bool) -> dict[str, object]:
    # Pinecone's are the inner products with the query, and differ: otherwise memory would not believe what it has.
    score = float(QUERY_VECTOR[tenant.cells[rank]]) if is_pinecone else round(0.9 - rank / 100, 2)
    row: dict[str, object] = {"id": f"r{rank}" if is_pinecone else rank, "score": score}
    row["metadata" if is_pinecone else "payload"] = {"who": tenant.mark}
    if has_vector or is_pinecone:  # Pinecone says `[]` for values that were not asked for
        row["values" if is_pinecone else "vector"] = tenant.vector(rank) if has_vector else []
    return row


def qdrant(tenant: Tenant, number: int) -> bytes:
    """A search: every other in a collection that both have."""
    name = "shared" if number // 2 % 2 else tenant.mark
    return _request(
        tenant, f"/collections/{name}/points/query", {"query": [0.5] * CELLS, "limit": 3, "with_payload": True}
    )


def pinecone(tenant: Tenant, _number: int) -> bytes:
    """A query of the tenant's namespace in one index."""
    return _request(
        tenant, "/query", {"topK": 3, "vector": QUERY_VECTOR, "namespace": tenant.mark, "includeMetadata": True}
    )


def _request(tenant: Tenant, path: str, body: dict[str, object]) -> bytes:
    content = json.dumps(body).encode()
    head = f"POST {path} HTTP/1.1\r\nHost: db\r\nContent-Type: application/json\r\nApi-Key: key-{tenant.mark}\r\n"
    return head.encode() + b"Content-Length: %d\r\n\r\n" % len(content) + content


async def over_http(port: int, judge: Judge, made: Callable[[Tenant, int], bytes], count: int) -> None:
    """``count`` requests, the tenants in turn on each of the connections, as behind a load balancer."""

    async def client(first: int) -> None:
        connection = await RawClient.connect(port)
        for number in range(first, count, CLIENTS):
            tenant = TENANTS[(number + number // CLIENTS) % 2]
            await connection.send(made(tenant, number))
            judge.answer(tenant, (await connection.reply()).body)
        await connection.close()

    await _together(client)


async def _together(client: Callable[[int], Coroutine[None, None, None]]) -> None:
    async with asyncio.TaskGroup() as group:
        for first in range(CLIENTS):
            group.create_task(client(first))


async def prove(scale: Scale) -> list[Finding]:
    """Half of the requests as Qdrant's, half as Pinecone's with remembered vectors, a tenth as many over gRPC."""
    half = scale.tenant_requests // 2
    return [await qdrants(half), await pinecones(half), await calls(max(1, half // 5))]


async def qdrants(count: int) -> Finding:
    """Learned distances are on."""
    judge = Judge()
    async with FaultyUpstream(database(judge)) as upstream:
        judge.alone = await _alone(upstream, qdrant, "qdrant", {})
        async with running(upstream.url, profiles={"online": True}) as proxy:
            await over_http(proxy.port, judge, qdrant, count)
        upstream.requests.clear()
    return judge.finding("searches of two tenants, Qdrant, learned distances")


async def pinecones(count: int) -> Finding:
    """Remembered vectors are on, and used: the database must have been asked without them."""
    judge = Judge()
    async with FaultyUpstream(database(judge)) as upstream:
        judge.alone = await _alone(upstream, pinecone, "pinecone", {"pinecone": {"index_host": upstream.url}})
        settings = {"index_host": upstream.url}
        async with running(upstream.url, backend="pinecone", pinecone=settings) as proxy:
            await over_http(proxy.port, judge, pinecone, count)
            recalled = proxy.count("memory_recalls_total", backend="pinecone", result="whole")
    finding = judge.finding(f"queries of two tenants, Pinecone, {recalled:.0f} from remembered vectors")
    return (
        finding
        if recalled
        else Finding(finding.name, finding.what, finding.criterion, "vectors were never remembered", met=False)
    )


async def _alone(
    upstream: FaultyUpstream, made: Callable[[Tenant, int], bytes], backend: str, settings: dict[str, object]
) -> dict[str, Alone]:
    """What each tenant is answered by a proxy of its own."""

    async def answer_to(tenant: Tenant, mode: str) -> bytes:
        async with running(upstream.url, backend=backend, mode=mode, **settings) as proxy:
            connection = await RawClient.connect(proxy.port)
            await connection.send(made(tenant, 0))
            body = (await connection.reply()).body
            await connection.close()
        return body

    return {tenant.mark: Alone(await answer_to(tenant, "on"), await answer_to(tenant, "off")) for tenant in TENANTS}


async def calls(count: int) -> Finding:
    """The same over gRPC, both tenants on one connection."""
    judge = Judge()

    async def play(call: Arrived, context: Context) -> None:
        message = await call.read(context) or b""
        tenant = tenant_of(dict(call.metadata)["api-key"].encode())  # type: ignore[union-attr]  # - text, as it was sent
        judge.request(tenant, message + repr(call.metadata).encode())
        await context.write(_message(tenant, message))
        call.messages.clear()

    @asynccontextmanager
    async def client_of(
        upstream: GrpcUpstream, mode: str = "on"
    ) -> AsyncIterator[Callable[[Tenant, int], Awaitable[bytes]]]:
        async with (
            running("http://127.0.0.1:9", mode=mode, grpc={"upstream": upstream.address}) as proxy,
            grpc.aio.insecure_channel(f"127.0.0.1:{proxy.port}") as channel,
        ):
            method: grpc.aio.UnaryUnaryMultiCallable[bytes, bytes] = channel.unary_unary(QUERY)

            async def ask(tenant: Tenant, number: int) -> bytes:
                query = pb.QueryPoints(collection_name=tenant.mark if number % 3 else "shared", limit=3)
                query.with_payload.enable = True
                query.query.nearest.dense.data.extend([0.5] * CELLS)
                return await method(
                    query.SerializeToString(), metadata=(("api-key", f"key-{tenant.mark}"),), timeout=20.0
                )

            yield ask

    async with grpc_upstream(Query=play) as upstream:
        for tenant in TENANTS:
            async with client_of(upstream) as improved, client_of(upstream, "off") as plain:
                judge.alone[tenant.mark] = Alone(await improved(tenant, 1), await plain(tenant, 1))
        async with client_of(upstream) as ask:

            async def client(first: int) -> None:
                for number in range(first, count, CLIENTS):
                    tenant = TENANTS[(number + number // CLIENTS) % 2]
                    judge.answer(tenant, await ask(tenant, number))

            await _together(client)
    return judge.finding("calls of two tenants on one connection, Qdrant over gRPC")


def _message(tenant: Tenant, message: bytes) -> bytes:
    request = pb.QueryPoints.FromString(message)
    points = []
    # Each tenant's points have versions of their own, as two collections have. Memory knows a point by collection, id and version.
    for rank in range(min(request.limit, RANKS)):
        point = pb.ScoredPoint(
            id=pb.PointId(num=rank), version=TENANTS.index(tenant) + 1, score=round(0.9 - rank / 100, 2)
        )
        point.payload["who"].string_value = tenant.mark
        if request.HasField("with_vectors"):
            point.vectors.vector.dense.data.extend(tenant.vector(rank))
        points.append(point)
    data: bytes = pb.QueryResponse(result=points, time=0.001).SerializeToString()
    return data
