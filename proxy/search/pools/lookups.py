"""Vectors that a reply lacks, fetched by id in a second request."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from vecsieve.adapters.contract import FetchesVectors, Lookup, LookupReply, MalformedReplyError, Reply, SearchCall

from ...telemetry.labels import Stage, VectorFetchOutcome
from ...telemetry.tracing import Stopwatch
from ..errors import LookupFailedError

SendVectorFetch = Callable[[Lookup], Awaitable[bytes]]
"""Sends a lookup and returns the body of a 2xx answer; raises LookupFailedError for everything else."""


class VectorFetches:
    """The vector fetches of one call; ids found in an earlier round are not fetched again.

    ``outcome``: None if there were none. ``read_units``, ``fetched_bytes``: their cost. When a fetch fails, the reply stays unchanged, and
    texts are compared without vectors.
    """

    __slots__ = ("_look", "_replies", "_requested", "_step", "_watch", "fetched_bytes", "outcome", "read_units")

    def __init__(self, step: FetchesVectors, look: SendVectorFetch, watch: Stopwatch) -> None:
        self._step = step
        self._look = look
        self._watch = watch
        self._requested: set[str] = set()
        self._replies: list[LookupReply] = []
        self.outcome: VectorFetchOutcome | None = None
        self.read_units = 0
        self.fetched_bytes = 0

    async def completed(self, call: SearchCall, reply: Reply) -> Reply:
        """The reply with its candidates' vectors, or unchanged when they are not available.

        Raises LookupFailedError when an earlier round had vectors: that selection is better than one by texts.
        """
        if self.outcome not in {None, VectorFetchOutcome.FOUND}:
            return reply
        had = self.outcome
        try:
            return await self._joined(call, reply)
        except LookupFailedError as failure:
            self.outcome = failure.outcome
        except MalformedReplyError:
            self.outcome = VectorFetchOutcome.MALFORMED
        if had is not None:
            raise LookupFailedError(self.outcome)
        return reply

    def charged(self, reply: Reply) -> Reply:
        """The reply; its answer states the lookups' read units as well."""
        return self._step.charged(reply, self.read_units) if self.read_units else reply

    async def _joined(self, call: SearchCall, reply: Reply) -> Reply:
        for lookup in self._step.lookups(call, reply, self._requested):
            since = self._watch.clock()
            try:
                body = await self._look(lookup)
            finally:
                self._watch.marks.append((Stage.UPSTREAM, since, self._watch.clock()))
            self.fetched_bytes += len(body)
            answer = self._step.parse_lookup(lookup, body)
            self.read_units += answer.read_units
            self._requested.update(lookup.ids)
            self._replies.append(answer)
            self.outcome = VectorFetchOutcome.FOUND
        if not self._replies:
            return reply
        return self._step.joined(reply, self._replies)
