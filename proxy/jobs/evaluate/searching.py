"""One query through the code that the proxy runs: request bytes in, the ids of the trimmed answer out."""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

from vecsieve.adapters import ADAPTERS
from vecsieve.adapters.contract import Operation, RequestHead
from vecsieve.proxy.jobs.evaluate.labelled import Vectors
from vecsieve.proxy.jobs.evaluate.points import json_floats
from vecsieve.proxy.jobs.evaluate.upstream import Upstream
from vecsieve.proxy.labels import Stage
from vecsieve.proxy.resolved import ResolvedPolicy
from vecsieve.proxy.search import Attempt, Rejected, Searcher, needs_of, plan
from vecsieve.proxy.stopwatch import Clock, Stopwatch

BACKEND = "qdrant"
HEAD = RequestHead(method="POST", path="/collections/labelled/points/query", content_type="application/json")


class _Point(msgspec.Struct):
    id: int


class _Result(msgspec.Struct):
    points: list[_Point]


class _Answer(msgspec.Struct):
    result: _Result


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """``rows``: best first. ``choosing_seconds``: the stages cluster, select and mmr. ``added_seconds``: everything but
    the database's own time.
    """

    rows: tuple[int, ...]
    choosing_seconds: float
    added_seconds: float


class Trial:
    """Asks as a client does that wants ids only: what a policy reads of the payload, the adapter fetches and takes out."""

    __slots__ = ("_clock", "_operation", "_searcher", "_top_k")

    def __init__(self, *, top_k: int, clock: Clock) -> None:
        adapter = ADAPTERS[BACKEND]()
        self._searcher = Searcher(adapter)
        self._operation = _operation(adapter.classify(HEAD))
        self._top_k = top_k
        self._clock = clock

    async def plain(self, vector: Vectors, upstream: Upstream) -> Found:
        """What the database answers by itself."""
        return Found(rows=_rows(await upstream.answer(self._body(vector))), choosing_seconds=0.0, added_seconds=0.0)

    async def search(self, policy: ResolvedPolicy, vector: Vectors, upstream: Upstream) -> Found:
        """What a client behind the proxy gets. Whatever the proxy would answer plainly is answered plainly here."""
        body = self._body(vector)
        watch = Stopwatch(self._clock)
        with watch.stage(Stage.PARSE):
            call = self._searcher.read(self._operation, body, needs_of(policy, None))
        planned = plan(call, policy, None)
        if planned is None:
            return await self.plain(vector, upstream)
        attempt = Attempt(call=call, policy=policy, plan=planned, watch=watch)
        try:
            answer = await self._searcher.improve(attempt, upstream.answer, cap=None)
        except Rejected:
            answer = self._searcher.plain(attempt)
        return Found(
            rows=_rows(answer),
            choosing_seconds=sum(watch.seconds(stage) for stage in (Stage.CLUSTER, Stage.SELECT, Stage.MMR)),
            added_seconds=watch.elapsed() - watch.seconds(Stage.UPSTREAM),
        )

    def _body(self, vector: Vectors) -> bytes:
        return b'{"query":%s,"limit":%d,"with_payload":false}' % (json_floats(vector), self._top_k)


def _operation(found: Operation | None) -> Operation:
    if found is None:
        raise ValueError(f"the adapter {BACKEND} does not take {HEAD.path} for a search")
    return found


def _rows(answer: bytes) -> tuple[int, ...]:
    return tuple(point.id for point in msgspec.json.decode(answer, type=_Answer).result.points)
