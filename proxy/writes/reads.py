"""The gate's reads for one write: the collection's description, its metric, the neighbours, and stored points.

The reads have the client's credentials. Each ends within the time of its write. While reads fail, none is sent.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from vecsieve.adapters.contract import DescribesCollections, Dialect, MalformedReplyError, Question
from vecsieve.adapters.writes import Inquiry, Neighbours, NewPoints, Tenant, WriteAdapter

from ..runtime.loop import LongWork
from ..search.collections.learned import Description
from ..search.errors import LostReplyError, RefusedReplyError
from ..search.exchange import ASK_SECONDS, DESCRIPTION_BYTES, KNOWN_SECONDS, QUESTION_BYTES, Questioner
from ..search.limits import Breaker
from ..search.policy import ResolvedPolicy
from ..search.service import ProcessServices
from ..telemetry.labels import AttemptKind, ReadKind, WriteOutcome
from .judging import has_bare_points, tenant_of

# Writes up to this size are parsed and compared on the event loop, in 1 to 2 ms; larger ones in the thread.
INLINE_BYTES = 32 * 1024
# Estimated size of a neighbour with its vector: of one number as text, and of the rest.
NUMBER_BYTES, NEIGHBOUR_BYTES = 14, 256
# Concurrent queries of one write, if a query has one vector.
QUERIES_AT_ONCE = 8
# Error of a database's scores: neighbours are requested down to this much below the lowest tier.
ROUNDED = 1e-4
_SHAPE = "write: shape "
_COSINE = "write: cosine "  # and the vector's name: a key of the learned descriptions

T = TypeVar("T")


class NotJudgedError(Exception):
    def __init__(self, outcome: WriteOutcome) -> None:
        super().__init__(outcome.value)
        self.outcome = outcome


class Reads:
    """Of the gate of one transport. ``work``: the gates' thread."""

    def __init__(
        self, adapter: WriteAdapter, dialect: Dialect, services: ProcessServices, *, breaker: Breaker, work: LongWork
    ) -> None:
        self._adapter = adapter
        self._dialect = dialect
        self._services = services
        self._breaker = breaker
        self._work = work

    async def known(self, exchange: Questioner, until: float | None) -> object | None:
        """The collection's description, for an adapter that needs it; None if it may not be read. It is kept for a minute; the next write
        requests a lost one again. ``until``: None to use only a kept one.
        """
        verbs, descriptions = self._adapter, self._services.governor.learned.descriptions
        if not isinstance(verbs, DescribesCollections):
            return None
        question = await self.done(exchange, partial(verbs.describe, exchange.operation, exchange.plain))
        if question is None or len(question.target) + len(question.body) > QUESTION_BYTES:
            return None
        key = (exchange.operation.collection, _SHAPE + question.target + question.body.decode("latin-1"))
        known = descriptions.get(key)
        if known is None:
            if until is None:
                return None
            known = Description(await self._described(verbs, exchange, question, until))
            descriptions.put(key, known, seconds=KNOWN_SECONDS)
        return known.known

    async def _described(
        self, verbs: DescribesCollections, exchange: Questioner, question: Question, until: float
    ) -> object | None:
        """None for a refusal or a malformed reply. Raises NotJudgedError, LostReplyError, and RefusedReplyError of a failing server."""
        started = self._services.clock()
        try:
            body = await self.ask(exchange, question, min(until, started + ASK_SECONDS))
            return None if len(body) > DESCRIPTION_BYTES else verbs.parse_description(body)
        except RefusedReplyError as refused:
            if refused.is_server_error:
                raise
            return None
        except MalformedReplyError:
            return None
        finally:
            self._services.metrics.upstream_done(AttemptKind.LOOKUP, self._services.clock() - started)

    async def done(self, exchange: Questioner, work: Callable[[], T], replies: Iterable[bytes] = ()) -> T:
        """Run work on a write and on ``replies`` of the database; large ones in the thread. The neighbours of a small write may have 16 MiB of
        texts, which took 57 ms.
        """
        return await self._work.run(work) if is_long(exchange, replies) else work()

    async def near(
        self, exchange: Questioner, points: NewPoints, policy: ResolvedPolicy, until: float
    ) -> tuple[Neighbours, bool]:
        """The stored neighbours, and whether their scores are cosine similarities. Points without a usable vector or a tenant have none."""
        usable: npt.NDArray[np.bool_] = np.isfinite(points.vectors).all(axis=1) & (points.vectors != 0.0).any(axis=1)
        tenants: dict[int, Tenant] = {}
        for row in np.flatnonzero(usable).tolist():
            if (tenant := tenant_of(policy.tenant_keys, points.fields[row])) is not None:
                tenants[row] = tenant
        is_cosine = await self._is_cosine(exchange, points.vector_name, until)
        if not tenants:
            return _no_neighbours(points), is_cosine
        has_vectors = not is_cosine or has_bare_points(points, policy)
        inquiry = Inquiry(
            which=tuple(tenants),
            tenants=tuple(tenants.values()),
            count=self._count_of(points, len(tenants), policy, has_vectors=has_vectors),
            vectors=has_vectors,
            least=policy.write.related - ROUNDED if is_cosine else None,
        )
        questions = await self.done(exchange, partial(self._adapter.ask, exchange.operation, points, inquiry))
        if not self._services.governor.reads.take(exchange.operation, ReadKind.NEIGHBOURS, len(tenants)):
            raise NotJudgedError(WriteOutcome.WITHHELD)
        bodies = await self.answers(exchange, questions, until)
        return await self.done(exchange, partial(self._adapter.neighbours, points, inquiry, bodies), bodies), is_cosine

    async def answers(self, exchange: Questioner, questions: Sequence[Question], until: float) -> Sequence[bytes]:
        """The answers to questions, a few at a time. The first failure ends all."""
        if len(questions) == 1:
            return [await self.ask(exchange, questions[0], until)]
        room = asyncio.Semaphore(QUERIES_AT_ONCE)

        async def one(question: Question) -> bytes:
            async with room:
                return await self.ask(exchange, question, until)

        tasks = [asyncio.create_task(one(question), name="vecsieve-neighbours") for question in questions]
        try:
            return await asyncio.gather(*tasks)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    def _count_of(self, points: NewPoints, queries: int, policy: ResolvedPolicy, *, has_vectors: bool) -> int:
        """Neighbours per point: one more than are compared, for the point itself; with vectors at most as many as fit into a reply."""
        count = policy.write.neighbours + 1
        if not has_vectors:
            return count
        point_bytes: int = points.vectors.shape[1] * NUMBER_BYTES + NEIGHBOUR_BYTES
        return max(1, min(count, self._services.limits.reply_body_bytes // (point_bytes * queries)))

    async def _is_cosine(self, exchange: Questioner, vector_name: str, until: float) -> bool:
        """Read from the collection's description, and kept for a minute. False if the client may not read it."""
        write, descriptions = exchange.operation, self._services.governor.learned.descriptions
        question = await self.done(exchange, partial(self._adapter.ask_metric, write, exchange.plain))
        key = (write.collection, _COSINE + vector_name + question.target + question.body.decode("latin-1"))
        known = descriptions.get(key)
        if known is None:
            try:
                body = await self.ask(exchange, question, until)
                known = Description(self._adapter.is_cosine(body, vector_name))
            except RefusedReplyError:
                known = Description(known=False)
            descriptions.put(key, known, seconds=KNOWN_SECONDS)
        return known.known is True

    async def ask(self, exchange: Questioner, question: Question, until: float) -> bytes:
        """Raises NotJudgedError, LostReplyError, RefusedReplyError or TimeoutError."""
        if (seconds := until - self._services.clock()) <= 0.0:
            raise TimeoutError
        if not self._breaker.allow():
            raise NotJudgedError(WriteOutcome.WITHHELD)
        try:
            body = await exchange.ask(question, seconds=seconds)
        except LostReplyError:
            self._breaker.failed()
            raise
        except RefusedReplyError as refused:
            if self._dialect.is_quota(refused.status, refused.words):
                self._services.governor.reads.refused(exchange.operation.collection)
            (self._breaker.failed if refused.is_server_error else self._breaker.succeeded)()
            raise
        except asyncio.CancelledError:
            self._breaker.abandoned()
            raise
        self._services.metrics.upstream_response_bytes_total.inc(len(body))
        if self._dialect.is_quota_in_success(body):
            self._services.governor.reads.refused(exchange.operation.collection)
        self._breaker.succeeded()
        return body


def is_long(exchange: Questioner, replies: Iterable[bytes] = ()) -> bool:
    """Whether work on a write and its replies is too long for the event loop."""
    return len(exchange.plain) + sum(map(len, replies)) > INLINE_BYTES


def _no_neighbours(points: NewPoints) -> Neighbours:
    return Neighbours(
        of=np.empty(0, np.intp),
        ids=(),
        scores=np.empty(0),
        vectors=np.empty((0, points.vectors.shape[1]), np.float32),
        fields=(),
    )
