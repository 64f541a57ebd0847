"""Calls that write: upserts go through the write gate, which examines them before they are sent, or beside them; the journal hears of deletions."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Protocol

from vecsieve.adapters.contract import Operation, Question, RequestHead

from ..search.collections.learned import nameable
from ..search.errors import UpstreamExchangeError
from ..search.exchange import WriteQuestioner
from ..search.policy import ResolvedPolicy, is_override
from ..search.service import ProcessServices
from ..telemetry.labels import WriteOutcome
from ..telemetry.spans import Code
from ..telemetry.tracing import UNTRACED, Trace
from ..writes.gate import WriteGate
from .exchange import Outcome, Questions, message_of
from .relay import Context
from .status import Answer, Pairs, for_upstream, is_sendable, local_answer, unreachable

AskOverRest = Callable[[Pairs, Question, float], Awaitable[bytes]]
"""Sends a read to the database's REST, with the metadata of a call and within this many seconds."""


@dataclass(slots=True, kw_only=True)
class Call:
    """One call with one message, None if the client sent none. ``relayed``: upstream's own answer."""

    head: RequestHead
    context: Context
    metadata: Pairs
    trace: Trace
    message: bytes | None = None
    is_read: bool = False
    relayed: Outcome | None = None

    def value(self, name: str | None) -> str:
        """The first value of a key; "" without one."""
        return "" if name is None else next((str(value) for key, value in self.metadata if key == name), "")

    @property
    def overrides(self) -> list[tuple[str, str]]:
        """The metadata if it contains overrides."""
        has_overrides = any(is_override(key) for key, _ in self.metadata)
        return [(key, str(value)) for key, value in self.metadata] if has_overrides else []


class Asked(Protocol):
    """Sends a message of ours to a method: a read, or a write once."""

    async def __call__(self, call: Call, question: Question, seconds: float, *, is_search: bool) -> Outcome: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Writes:
    """Of one port. ``relayed``: forwards a call. ``over_rest``: for databases that answer reads over REST only."""

    services: ProcessServices
    gate: WriteGate | None
    relayed: Callable[[Call, RequestHead], Awaitable[Outcome]]
    asked: Asked
    over_rest: AskOverRest | None

    async def passed(self, call: Call, told: RequestHead) -> Outcome:
        """The answer to a call that is no ranked search."""
        gate, message = self.gate, call.message
        # A call whose metadata cannot be forwarded is refused when it is sent.
        if gate is None or message is None or not is_sendable(call.metadata):
            return await self.relayed(call, told)
        write = nameable(gate.adapter.classify(told))
        policy = None if write is None else gate.policy_of(write)
        if write is not None and policy is not None:
            questions = self._questions(call, message, write, is_traced=policy.write.mode != "observe")
            return await self._gated(call, told, gate, questions, policy)
        deletion = None if gate.deletions is None else nameable(gate.deletions.classify(told))
        if deletion is not None:
            return await self._deleting(call, told, gate, deletion, message)
        return await self.relayed(call, told)

    def _questions(self, call: Call, message: bytes, write: Operation, *, is_traced: bool) -> WriteQuestioner:
        asking = call if is_traced else replace(call, trace=UNTRACED)

        async def over_grpc(question: Question, seconds: float) -> bytes:
            return message_of(await self.asked(asking, question, seconds, is_search=True))

        async def sent(body: bytes, seconds: float) -> bytes:
            question = Question(method="POST", target=call.head.path, body=body)
            return message_of(await self.asked(asking, question, seconds, is_search=False))

        return Questions(
            operation=write,
            plain=message,
            client_timeout_seconds=call.context.time_remaining(),
            asked=over_grpc if self.over_rest is None else partial(self.over_rest, for_upstream(call.metadata)),
            sent=sent,
        )

    async def _deleting(
        self, call: Call, told: RequestHead, gate: WriteGate, deletion: Operation, message: bytes
    ) -> Outcome:
        """Forward a deletion, of which the journal hears."""
        deletions = gate.deletions
        assert deletions is not None  # noqa: S101 - it classified the call
        questions = self._questions(call, message, deletion, is_traced=True)
        is_small = len(message) <= self.services.limits.write_body_bytes
        doubted = await deletions.begun(questions, message if is_small else None, now=self.services.clock())
        answered = await self.relayed(call, told)
        is_done = None
        if isinstance(answered, Answer):
            is_done = deletions.is_done(Code.OK, is_grpc=True, body=answered.message)
        elif answered.kind is None:
            is_done = deletions.is_done(answered.code, is_grpc=True, body=None)
        await deletions.ended(doubted, is_done=is_done)
        return answered

    async def _gated(
        self, call: Call, told: RequestHead, gate: WriteGate, questions: WriteQuestioner, policy: ResolvedPolicy
    ) -> Outcome:
        """Forward an upsert, which the write gate examines before it is sent, or beside it."""
        size = len(questions.plain)
        is_small = size <= self.services.limits.write_body_bytes
        if not is_small or not gate.room.take(size):
            gate.passed(WriteOutcome.OVERLOAD if is_small else WriteOutcome.NOT_READ)
            return await self.relayed(call, told)
        release: Callable[[], None] | None = partial(gate.room.give, size)
        try:
            if policy.write.mode == "observe":
                answered = await self.relayed(call, told)
                if answered.is_success:
                    gate.observe(questions, policy, partial(gate.room.give, size))
                    release = None
                return answered
            return await self._changed(call, told, gate, questions, policy)
        finally:
            if release is not None:
                release()

    async def _changed(
        self, call: Call, told: RequestHead, gate: WriteGate, questions: WriteQuestioner, policy: ResolvedPolicy
    ) -> Outcome:
        """Forward the gate's version of a write, or answer if nothing is left of it."""
        change = await gate.changed(questions, policy)
        if change is None:
            return await self.relayed(call, told)
        try:
            if change.answer is not None:
                await gate.settle(change, questions, policy, is_success=True)
                return local_answer(change.answer)
            sent = call if change.body is None else replace(call, message=change.body)
            answered = await self.relayed(sent, told)
            shown = gate.answer(change, answered.message) if isinstance(answered, Answer) else None
            await gate.settle(change, questions, policy, is_success=shown is not None, told=shown)
        except UpstreamExchangeError as failure:  # of the journal
            return unreachable(failure.kind)
        if shown is not None and isinstance(answered, Answer):
            answered = sent.relayed = replace(answered, message=shown.body)
        call.relayed = sent.relayed
        return answered
