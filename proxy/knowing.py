"""What collections are like, asked with the caller's own credentials where an adapter wants to know, and kept for a minute.

Shapes only, so that callers with different credentials may share it. Whoever may search but not describe is not asked for
again for as long; a wrong or missing entry costs improvement, never a wrong answer.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, runtime_checkable

from vecsieve.adapters.contract import Adapter, Malformed, Operation
from vecsieve.adapters.first_step import FirstStep, Question
from vecsieve.proxy.exchange import Lost, Refused
from vecsieve.proxy.labels import AttemptKind
from vecsieve.proxy.learned import Expiring, Told
from vecsieve.proxy.metrics import Metrics

KNOWN_SECONDS = 60.0  # a collection may be dropped and made anew, and fields added, while we run
# A search waits for it once a minute and collection: a description is answered from a server's memory in milliseconds.
ASK_SECONDS = 0.5


@runtime_checkable
class Asks(Protocol):
    """A transport that can send questions, as an exchange of one search."""

    @property
    def operation(self) -> Operation:
        """Which search it is."""
        ...

    @property
    def plain(self) -> bytes:
        """The body without its content coding."""
        ...

    @property
    def client_timeout_seconds(self) -> float | None:
        """What the client gives the whole exchange; None when it does not say."""
        ...

    async def ask(self, question: Question, *, seconds: float) -> bytes:
        """The body of upstream's success. Raises Lost or Refused."""
        ...


class Knowing:
    """What one transport's adapter has been told. ``held``: where it is kept. ``clock``: monotonic seconds."""

    __slots__ = ("_clock", "_held", "_metrics", "_step")

    def __init__(self, adapter: Adapter, metrics: Metrics, clock: Callable[[], float], held: Expiring[Told]) -> None:
        self._step = adapter if isinstance(adapter, FirstStep) else None
        self._metrics = metrics
        self._clock = clock
        self._held = held

    async def of(self, exchange: object) -> object | None:
        """What is known of the collection that an exchange searches; None where nothing is, or nobody wants to know."""
        if self._step is None or not isinstance(exchange, Asks):
            return None
        question = self._step.question(exchange.operation, exchange.plain)
        if question is None:
            return None
        key = (exchange.operation.collection, question.target + question.body.decode("latin-1"))
        told = self._held.get(key)
        if told is None:
            told = Told(await self._ask(self._step, exchange, question))
            self._held.put(key, told, seconds=KNOWN_SECONDS)
        return told.known

    async def _ask(self, step: FirstStep, exchange: Asks, question: Question) -> object | None:
        limit = exchange.client_timeout_seconds
        started = self._clock()
        try:
            body = await exchange.ask(question, seconds=ASK_SECONDS if limit is None else min(ASK_SECONDS, limit / 4))
            self._metrics.received(len(body))
            return step.told(body)
        except (Lost, Refused, Malformed):
            return None
        finally:
            self._metrics.upstream_done(AttemptKind.LOOKUP, self._clock() - started)
