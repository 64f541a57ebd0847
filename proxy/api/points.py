"""`POST /v1/check`, `/v1/add`, `/v1/addBatch`: compare points with those in the database, and store them by the write policy.
`GET /v1/stats`: the counts of the write gate since the start, for all workers together.

The points become an upsert of the backend, which the write gate judges and changes like the upsert of a client. There is one difference:
if judging fails, nothing is stored and the reply is an error, because the client asked for a verdict and can retry.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import partial
from http import HTTPStatus
from typing import Annotated, Any, Literal
from urllib.parse import parse_qsl, quote

import msgspec
from msgspec import Meta, Raw, Struct, field
from prometheus_client import CollectorRegistry

from vecsieve.adapters.contract import MalformedReplyError, Operation, Question, UnsupportedError
from vecsieve.adapters.wire.json_vectors import decode_arrays
from vecsieve.config.backends import DEFAULT_BACKEND

from ..http.headers import RawHeaders
from ..search.errors import LostReplyError, RefusedReplyError, UpstreamExchangeError
from ..search.policy import ResolvedPolicy
from ..telemetry.exposition import Samples
from ..telemetry.labels import CopiesResult, PointResult, WriteTier
from ..writes.gate import WriteGate
from ..writes.judging import Verdict
from ..writes.plans import Judged
from ..writes.reads import NotJudgedError
from ..writes.rows import JournalError, Kind, LeftOut
from ..writes.settling import Change
from .messages import MOST_NUMBERS, Metadata, Whole, whole
from .problems import Kind as Trouble
from .problems import ProblemError, decoded, invalid

SUPPORTED_BACKENDS = frozenset({DEFAULT_BACKEND})  # backends for which this module builds upserts
MOST_POINTS = 1000
LARGEST_ID = 2**64 - 1  # msgspec bounds no integer beyond 63 bits
WORDS = 300  # characters of the database's error that are passed on
_QUERY = "?wait=true"  # a merge needs the upsert to be applied first

Classification = Literal["exact", "semantic", "related", "unique"]
_UUID = r"^[0-9a-fA-F]{8}-?[0-9a-fA-F]{4}-?[0-9a-fA-F]{4}-?[0-9a-fA-F]{4}-?[0-9a-fA-F]{12}$"
PointId = (
    Annotated[str, Meta(pattern=_UUID)]
    | Annotated[int, Meta(ge=0, extra_json_schema={"maximum": LARGEST_ID})]
    | Annotated[Whole, Meta(ge=0.0, le=2.0**53)]
)
_NUMBERS = {"type": "array", "items": {"type": "number"}, "minItems": 1, "maxItems": MOST_NUMBERS}
Vector = Annotated[Raw, Meta(extra_json_schema=_NUMBERS)]


class Point(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A point with one dense vector."""

    id: Annotated[PointId, Meta(description="A number, or a UUID.")]
    vector: Vector
    payload: Metadata = field(default_factory=lambda: Raw(b"null"))


# No segment of dots only, because paths are normalised.
Collection = Annotated[str, Meta(min_length=1, max_length=255, pattern=r"^[^/]*[^./][^/]*$")]
VectorName = Annotated[str | None, Meta(description="Name of the vector, if the collection has named vectors.")]


class PointRequest(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True, rename="camel"):
    """A collection and one point."""

    collection: Collection
    point: Point
    vector_name: VectorName = None


class PointsRequest(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True, rename="camel"):
    """A collection and points. A later point is compared with earlier ones, too."""

    collection: Collection
    points: Annotated[list[Point], Meta(min_length=1, max_length=MOST_POINTS)]
    vector_name: VectorName = None


class Checked(Struct, frozen=True, kw_only=True, rename="camel"):
    """The verdict by the most similar stored point. `hashMatch`: whether the texts are equal, read exactly."""

    classification: Classification
    match_id: str | int | None
    similarity: float
    hash_match: bool
    duration_ms: float


class Added(Checked, frozen=True, kw_only=True, rename="camel"):
    """The result for one point. `survivorId`: the point that is stored for it. `evictedId`: the point that was removed for it."""

    action: Literal["added", "merged", "skipped"]
    survivor_id: str | int
    evicted_id: str | int | None


class AddedBatch(Struct, frozen=True, kw_only=True, rename="camel"):
    """One result per point, in the order of the request, and the count of each action."""

    results: list[Added]
    added: int
    merged: int
    skipped: int
    duration_ms: float


class _Count(Struct):
    count: int


class _Counted(Struct):
    result: _Count


_ONE, _SEVERAL = msgspec.json.Decoder(PointRequest), msgspec.json.Decoder(PointsRequest)


Send = Callable[[RawHeaders, Question, float], Awaitable[bytes]]


@dataclass(frozen=True, slots=True)
class _Write:
    """An upsert built here, and the reads for it. ``send``: to the database, with credentials, within seconds."""

    send: Send
    operation: Operation
    plain: bytes
    key: str | None
    client_timeout_seconds: float | None = None

    async def ask(self, question: Question, *, seconds: float) -> bytes:
        headers = () if self.key is None else ((b"api-key", self.key.encode(errors="surrogateescape")),)
        return await self.send(headers, question, seconds)

    async def again(self, body: bytes, *, seconds: float) -> bytes:
        """As in the protocol."""
        target = f"/collections/{quote(self.operation.collection, safe='')}/points{_QUERY}"
        return await self.ask(Question(method="PUT", target=target, body=body), seconds=seconds)


@dataclass(frozen=True, slots=True)
class Points:
    """The endpoints. ``gate``: judges REST upserts of the backend. ``send``: as in `_Write`."""

    gate: WriteGate
    send: Send
    clock: Callable[[], float]

    async def check(self, body: bytes, key: str | None) -> bytes:
        """Judge one point; store nothing."""
        began = self.clock()
        request = await self.gate.in_thread(partial(decoded, _ONE, body))
        write, policy = await self._written(request, [request.point], key)
        judged, _ = await self._judged(write, policy, is_write=False)
        return _encoded(Checked(**_duplicate(judged.verdicts[0]), duration_ms=self._since(began)))

    async def add(self, body: bytes, key: str | None) -> bytes:
        began = self.clock()
        request = await self.gate.in_thread(partial(decoded, _ONE, body))
        (result,) = await self._added(request, [request.point], key, began)
        return _encoded(result)

    async def count(self, collection: str, key: str | None) -> int:
        """How many points a collection has. Raises ProblemError."""
        operation = Operation(backend=DEFAULT_BACKEND, name="upsert", collection=collection)
        seconds = self.gate.any_policy_of(operation).write.deadline_seconds
        target = f"/collections/{quote(collection, safe='')}/points/count"
        question = Question(method="POST", target=target, body=b'{"exact":false}')
        body = await _answered(_Write(self.send, operation, b"", key).ask(question, seconds=seconds))
        try:
            return msgspec.json.decode(body, type=_Counted).result.count
        except msgspec.DecodeError:
            raise ProblemError(Trouble.NO_DATABASE, "its reply has no count of points") from None

    async def add_batch(self, body: bytes, key: str | None) -> bytes:
        began = self.clock()
        request = await self.gate.in_thread(partial(decoded, _SEVERAL, body))
        results = await self._added(request, request.points, key, began)
        actions = [result.action for result in results]
        counts = {action: actions.count(action) for action in ("added", "merged", "skipped")}
        return _encoded(AddedBatch(results=results, **counts, duration_ms=self._since(began)))

    async def _written(
        self, request: PointRequest | PointsRequest, points: Sequence[Point], key: str | None
    ) -> tuple[_Write, ResolvedPolicy]:
        """The upsert of these points, and the policy that applies to it."""
        operation = Operation(backend=DEFAULT_BACKEND, name="upsert", collection=request.collection)
        policy = self.gate.any_policy_of(operation)
        plain = await self.gate.in_thread(partial(_upsert, points, request.vector_name))
        return _Write(self.send, operation, plain, key), policy

    async def _added(
        self, request: PointRequest | PointsRequest, points: Sequence[Point], key: str | None, began: float
    ) -> list[Added]:
        write, policy = await self._written(request, points, key)
        judged, change = await self._judged(write, policy, is_write=True)
        if change.answer is not None and not change.left_out:
            raise ProblemError(Trouble.COPIES, "a point is a copy, and the write policy rejects copies")
        body = change.body if change.body is not None or change.answer is not None else write.plain
        async with self.gate.settling.ending(change):
            change = await self._stored(write, policy, body, change)
        taken = self._since(began)
        return [_result(judged, row, change.left_out, taken) for row in range(len(points))]

    async def _stored(self, write: _Write, policy: ResolvedPolicy, body: bytes | None, change: Change) -> Change:
        if body is not None:
            await _answered(write.again(body, seconds=policy.write.deadline_seconds))
        try:
            return await self.gate.settling.settle(change, write, policy, is_success=True)
        except UpstreamExchangeError as failure:
            raise ProblemError(Trouble.FAILED, failure.cause) from None

    async def _judged(self, write: _Write, policy: ResolvedPolicy, *, is_write: bool) -> tuple[Judged, Change]:
        """Raises ProblemError."""
        try:
            return await self.gate.examine(write, policy, query=_QUERY, is_write=is_write)
        except UnsupportedError as error:
            raise invalid(
                "$.points", error.reason.value, "vectors of one name and length, numbers or UUIDs as ids"
            ) from None
        except RefusedReplyError as refused:
            raise _declined(refused) from None
        except (LostReplyError, MalformedReplyError):
            raise ProblemError(Trouble.NO_DATABASE, "it did not return the neighbours") from None
        except (NotJudgedError, JournalError, TimeoutError) as error:
            retry = (("Retry-After", "1"),)
            raise ProblemError(
                Trouble.BUSY, f"the points could not be judged: {type(error).__name__}", fields=retry
            ) from None

    def _since(self, began: float) -> float:
        return round((self.clock() - began) * 1000.0, 3)


def _upsert(points: Sequence[Point], name: str | None) -> bytes:
    """Raises ProblemError."""
    upserts = [_native(point, name, f"$.points[{place}]") for place, point in enumerate(points)]
    return b'{"points":[%s]}' % b",".join(upserts)


def _native(point: Point, name: str | None, where: str) -> bytes:
    """A point in the form of the backend. The numbers and the payload stay the caller's bytes. Raises ProblemError."""
    vector = bytes(point.vector)
    (numbers,) = decode_arrays([vector])
    if numbers is None or not 0 < len(numbers) <= MOST_NUMBERS:
        raise invalid(f"{where}.vector", "another value", f"1 to {MOST_NUMBERS} numbers")
    if bytes(point.payload)[:1] not in {b"{", b"n"}:
        raise invalid(f"{where}.payload", "another value", "an object or null")
    if name is not None:
        vector = b"{%s:%s}" % (msgspec.json.encode(name), vector)
    if isinstance(point.id, int) and point.id > LARGEST_ID:
        raise invalid(f"{where}.id", "a larger number", f"at most {LARGEST_ID}")
    identifier = msgspec.json.encode(whole(point.id, f"{where}.id") if isinstance(point.id, float) else point.id)
    return b'{"id":%s,"vector":%s,"payload":%s}' % (identifier, vector, bytes(point.payload))


async def _answered(reply: Awaitable[bytes]) -> bytes:
    """Raises ProblemError."""
    try:
        return await reply
    except RefusedReplyError as refused:
        raise _declined(refused) from None
    except LostReplyError:
        raise ProblemError(Trouble.NO_DATABASE, "it did not reply; a write may have been applied") from None


def _declined(refused: RefusedReplyError) -> ProblemError:
    if refused.status == HTTPStatus.NOT_FOUND:
        return ProblemError(Trouble.NO_COLLECTION, "the database has no such collection")
    if refused.is_server_error:
        return ProblemError(Trouble.NO_DATABASE, f"its reply has status {refused.status}")
    words = refused.words[:WORDS].decode(errors="replace")
    return ProblemError(Trouble.DECLINED, f"its reply has status {refused.status}: {words}")


def _result(judged: Judged, row: int, rows: Sequence[LeftOut], taken: float) -> Added:
    """The result for one point of a write."""
    point = judged.points.ids[row]
    left_out = next((row for row in rows if row.kind == Kind.LEFT_OUT and row.id == point), None)
    evicted = [row.id for row in rows if row.kind != Kind.CHANGED and row.survivor == point and row.id != point]
    # A copy that replaces another point has merged with it. An original that replaces its copies was added.
    is_merged = left_out is None and bool(evicted) and judged.verdicts[row].of is not None
    return Added(
        **_duplicate(judged.verdicts[row]),
        duration_ms=taken,
        action="skipped" if left_out is not None else "merged" if is_merged else "added",
        survivor_id=_id(point if left_out is None else left_out.survivor),
        evicted_id=_id(evicted[0]) if is_merged else None,
    )


def _duplicate(verdict: Verdict) -> dict[str, Any]:
    return {
        "classification": verdict.tier.value,
        "match_id": None if verdict.nearest is None else _id(verdict.nearest),
        "similarity": round(verdict.similarity, 6),
        "hash_match": verdict.is_equal,
    }


def _id(identifier: bytes) -> str | int:
    return msgspec.json.decode(identifier, type=str | int)


def _encoded(answer: Struct) -> bytes:
    return msgspec.json.encode(answer) + b"\n"


COLLECTION = "collection"


class Stats(Struct, frozen=True, kw_only=True, rename="camel"):
    """Counts of points by verdict and by action."""

    total_entries: Annotated[int | None, Meta(description="Points in the requested collection.")]
    total_checks: Annotated[int, Meta(description="Points that were judged.")]
    exact: int
    semantic: int
    related: int
    unique: int
    duplicates: Annotated[int, Meta(description="Points that were judged to be copies.")]
    added: int
    skipped: int
    merged: int
    evicted: int
    rejected_writes: int
    duration_ms: Annotated[float, Meta(description="Mean time that a write waited for its verdict.")]


@dataclass(frozen=True, slots=True)
class Statistics:
    """The endpoint. ``registry``: of the process, or of all workers. ``points``: None if the backend's collections cannot be counted."""

    registry: CollectorRegistry
    points: Points | None

    async def answer(self, query: bytes, key: str | None) -> bytes:
        """Raises ProblemError."""
        pairs = dict(parse_qsl(query.decode("ascii", "replace"), keep_blank_values=True))
        if unknown := pairs.keys() - {COLLECTION}:
            raise invalid("the query", min(unknown), COLLECTION)
        entries = None
        if COLLECTION in pairs:
            if self.points is None or not pairs[COLLECTION].strip("."):  # as in Collection: no segment of dots only
                raise ProblemError(Trouble.NO_COLLECTION, "no collection of this name can be counted")
            entries = await self.points.count(pairs[COLLECTION], key)
        # In a thread: with several workers this reads the metric files of all.
        samples = await asyncio.to_thread(Samples, self.registry)
        return msgspec.json.encode(_stats(samples, entries)) + b"\n"


def _stats(samples: Samples, entries: int | None) -> Stats:
    by_tier, settled = samples.by("write_points_total", "tier"), samples.by("write_points_settled_total", "result")
    tiers = {tier.value: int(by_tier[tier]) for tier in WriteTier}
    waits = samples.total("write_wait_seconds_count")
    return Stats(
        total_entries=entries,
        total_checks=sum(tiers.values()),
        **tiers,
        duplicates=int(samples.total("write_copies_total")),
        added=int(settled[PointResult.ADDED]),
        skipped=int(settled[PointResult.LEFT_OUT]),
        merged=int(settled[PointResult.MERGED]),
        evicted=int(settled[PointResult.REMOVED]),
        rejected_writes=int(samples.by("writes_with_copies_total", "result")[CopiesResult.REJECTED]),
        duration_ms=round(samples.total("write_wait_seconds_sum") / waits * 1000.0, 3) if waits else 0.0,
    )
