"""Admits, classifies and answers every request of any transport.

    admitted ─► classified ─┬─ search ───► policy ─► SearchService
                            ├─ deletion ─► Deletions, around what follows
                            ├─ write ────► policy ─► WriteGate
                            └─ other ────► the database's own answer

The transports implement ``ClientExchange``; each step that differs between them is one of its methods.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from vecsieve.adapters.contract import Operation

from ..runtime.memory import Pressure
from ..search.context.clients import Client
from ..search.context.overrides import OverrideError
from ..search.errors import RejectedReplyError
from ..search.exchange import Exchange, TransportAnswer
from ..search.hedge import Gate
from ..search.limits import Place
from ..search.policy import ResolvedPolicy, Rules
from ..search.report import plain_headers
from ..search.service import ProcessServices, SearchService
from ..telemetry.labels import AttemptKind, Bypass, FailOpen, Shed
from ..telemetry.requests import RequestRecord
from ..telemetry.tracing import Trace
from .deletions import Deletions
from .gate import WriteExchange, WriteGate

A = TypeVar("A", bound=TransportAnswer)


@dataclass(slots=True)
class ClientExchange(Exchange[A], WriteExchange[A]):
    """One request of a client, from its arrival to its answer.

    ``is_search``: by its head. ``place``: set at admission. ``search``, ``write``, ``deletion``: its operations, set by `classify`; a
    request may be a write and a deletion. ``operation``: the current one of them. ``ruled_by``: the collection's name as rules
    know it. ``policy``, ``rules``: set before its body is read.

    `gathered` waits for the body, as far as it is buffered unread. `classify` sets the operations. Both return the answer to a refused
    request. `overrides`: the fields or metadata if there are overrides among them. `read`: the exchange itself, with
    the body of a search in ``plain``, or why the search is bypassed. `is_deleted`: None for unknown. `overloaded` and `invalid`: our answers to a request without a place, and with invalid overrides.
    """

    record: RequestRecord
    _trace: Trace | None
    query: str = field(default="", init=False)
    plain: bytes = field(default=b"", init=False)
    client_timeout_seconds: float | None = field(default=None, init=False)
    place: Place = field(init=False)
    search: Operation | None = field(default=None, init=False)
    write: Operation | None = field(default=None, init=False)
    deletion: Operation | None = field(default=None, init=False)
    operation: Operation = field(init=False)
    ruled_by: str = field(default="", init=False)
    policy: ResolvedPolicy = field(init=False)
    rules: Rules = field(init=False)
    _refusal: A | None = field(default=None, init=False)

    def refusal(self) -> A:
        if self._refusal is None:
            raise RejectedReplyError(FailOpen.INTERNAL)
        return self._refusal

    def plain_headers(self) -> Sequence[tuple[str, str]]:
        """Fields of ours for the database's own answer to a search."""
        is_on = self.rules.report_header and self.policy.mode == "on"
        return plain_headers(self.record.bypass, self.record.fail_open, is_on=is_on)

    def failed_open(self, reason: FailOpen) -> None:
        self.record.failed_open(reason)

    @property
    @abstractmethod
    def is_search(self) -> bool: ...

    @abstractmethod
    async def gathered(self) -> A | None: ...
    @abstractmethod
    async def classify(self) -> A | None: ...
    @abstractmethod
    def overrides(self) -> Collection[tuple[str, str]]: ...
    @abstractmethod
    def client(self) -> Client: ...
    @abstractmethod
    async def read(self) -> Exchange[A] | Bypass: ...
    @abstractmethod
    async def original(self, kind: AttemptKind = AttemptKind.ORIGINAL, gate: Gate | None = None) -> A: ...
    @abstractmethod
    def is_deleted(self, answer: A, deletions: Deletions) -> bool | None: ...
    @abstractmethod
    def overloaded(self) -> A: ...
    @abstractmethod
    def invalid(self, words: str) -> A: ...


class Pipeline:
    """Of one transport. ``gate``: None if all writes pass through."""

    __slots__ = ("_gate", "_searches", "_services")

    def __init__(self, services: ProcessServices, searches: SearchService, gate: WriteGate | None) -> None:
        self._services = services
        self._searches = searches
        self._gate = gate

    async def enter(self, record: RequestRecord, *, is_search: bool) -> Place | None:
        """A place, which the transport returns later; None for a refused request."""
        admission = self._services.admission
        if not await admission.enter(is_search=is_search):
            record.shed(Shed.IN_FLIGHT)
            return None
        place = Place(admission, is_search)
        if self._services.memory.pressure() is Pressure.CRITICAL:
            place.leave()
            record.shed(Shed.MEMORY)
            return None
        return place

    async def answer(self, exchange: ClientExchange[A]) -> A:
        # The last places are reserved for complete requests.
        admission = self._services.admission
        if admission.in_flight >= admission.unfinished and (refusal := await exchange.gathered()) is not None:
            return refusal
        record = exchange.record
        place = await self.enter(record, is_search=exchange.is_search)
        if place is None:
            return exchange.overloaded()
        exchange.place = place
        try:
            if (refusal := await exchange.classify()) is not None:
                return refusal
            if exchange.search is None:
                return await self._passed(exchange)
            try:
                overrides, client, exchange.operation = exchange.overrides(), exchange.client, exchange.search
                ruled_by = exchange.ruled_by or await self._searches.ruled_by(exchange.search, exchange.read)
                rules, policy = self._searches.policy(exchange.search, ruled_by, overrides, record, client)
            except OverrideError as error:
                return exchange.invalid(str(error))
            exchange.rules, exchange.policy = rules, policy
            return await self._searches.answer(
                policy, record, sample=rules.shadow_sample, read=exchange.read, original=exchange.original
            )
        finally:
            place.leave()

    async def _passed(self, exchange: ClientExchange[A]) -> A:
        """The answer to a request that is no ranked search. The journal records deletions, and changes that reads do not show at once."""
        gate, deletion = self._gate, exchange.deletion
        if gate is None:
            return await exchange.relayed()
        if gate.deletions is None or deletion is None:
            return await self._written(exchange, gate)
        deletions, exchange.operation = gate.deletions, deletion
        if not await deletions.follows(exchange, deletion, exchange.query):
            return await self._written(exchange, gate)
        limit, size = self._services.limits.write_body_bytes, 0
        is_read = True
        if exchange.write is not None or deletions.is_change(deletion):  # which may be large
            reserved = exchange.size_bytes(limit)
            is_read, size = reserved is not None and gate.room.take(reserved), reserved or 0
        try:
            body = await exchange.body_of(limit) if is_read else None
            async with deletions.followed(exchange, body, query=exchange.query, now=self._services.clock()) as pending:
                answer = await self._written(exchange, gate)
                pending.is_done = exchange.is_deleted(answer, deletions)
            return answer
        finally:
            if is_read:
                gate.room.give(size)

    async def _written(self, exchange: ClientExchange[A], gate: WriteGate) -> A:
        write = exchange.write
        if write is not None and not write.collection:
            write = await gate.named(exchange, write)
        policy = None if write is None else gate.policy_of(write, exchange.ruled_by or None)
        if write is None or policy is None:
            return await exchange.relayed()
        exchange.operation = write
        return await gate.relayed(exchange, policy)
