"""The second step of one call, free of transport: the lookups that bring vectors a search could not.

Whatever fails in it, the reply stays what it was, and its texts are compared as if nobody had tried.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from vecsieve.adapters.contract import Malformed, Reply, SearchCall
from vecsieve.adapters.second_step import Found, Lookup, SecondStep
from vecsieve.proxy.labels import Looked, Stage
from vecsieve.proxy.stopwatch import Stopwatch

Look = Callable[[Lookup], Awaitable[bytes]]
"""Sends a lookup and returns the body of a 2xx answer; raises LookupFailed for everything else."""


class LookupFailed(Exception):  # noqa: N818 - as Rejected, a verdict on an attempt
    """A lookup brought nothing to join."""

    def __init__(self, looked: Looked) -> None:
        super().__init__(looked.value)
        self.looked = looked


class Lookups:
    """The lookups of one call. What an earlier round found is not asked for again.

    ``looked``: what became of them, None while there were none. ``read_units`` and ``fetched_bytes``: what they cost.
    """

    __slots__ = ("_asked", "_found", "_look", "_step", "_watch", "fetched_bytes", "looked", "read_units")

    def __init__(self, step: SecondStep, look: Look, watch: Stopwatch) -> None:
        self._step = step
        self._look = look
        self._watch = watch
        self._asked: set[str] = set()
        self._found: list[Found] = []
        self.looked: Looked | None = None
        self.read_units = 0
        self.fetched_bytes = 0

    async def completed(self, call: SearchCall, reply: Reply) -> Reply:
        """The reply with its candidates' vectors, or as it is when they cannot be had.

        Raises LookupFailed where an earlier round had vectors: what was selected by them is better than what texts select.
        """
        if self.looked not in {None, Looked.FOUND}:
            return reply
        had = self.looked
        try:
            return await self._joined(call, reply)
        except LookupFailed as failure:
            self.looked = failure.looked
        except Malformed:
            self.looked = Looked.MALFORMED
        if had is not None:
            raise LookupFailed(self.looked)
        return reply

    def charged(self, reply: Reply) -> Reply:
        """The reply whose answer names what the client is billed for the lookups as well."""
        return self._step.charged(reply, self.read_units) if self.read_units else reply

    async def _joined(self, call: SearchCall, reply: Reply) -> Reply:
        for lookup in self._step.lookups(call, reply, self._asked):
            with self._watch.stage(Stage.UPSTREAM):
                body = await self._look(lookup)
            self.fetched_bytes += len(body)
            with self._watch.stage(Stage.DECODE):
                found = self._step.found(lookup, body)
            self.read_units += found.read_units
            self._asked.update(lookup.ids)
            self._found.append(found)
            self.looked = Looked.FOUND
        if not self._found:
            return reply
        with self._watch.stage(Stage.DECODE):
            return self._step.joined(reply, self._found)
