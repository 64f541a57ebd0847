"""One search over a searcher, without a transport, and what it came to."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from vecsieve.adapters.contract import Reply
from vecsieve.proxy.search.policy import ResolvedPolicy
from vecsieve.proxy.search.pools.lookups import SendVectorFetch, VectorFetches
from vecsieve.proxy.search.pools.source import Source
from vecsieve.proxy.search.pools.values import Planned, Selected
from vecsieve.proxy.search.searcher import Searcher
from vecsieve.proxy.selection.values import Selection
from vecsieve.proxy.telemetry.labels import ReadKind

Fetch = Callable[[bytes], Awaitable[bytes]]


class Run:
    """``planned``: the members of its plan."""

    def __init__(self, **planned: Any) -> None:
        self.planned = Planned(**planned)
        self._source: Source | None = None
        self._selected: Selected | None = None

    async def improve(
        self,
        searcher: Searcher,
        fetch: Fetch,
        *,
        cap: int | None = None,
        reply_bytes: int | None = None,
        look: SendVectorFetch | None = None,
    ) -> bytes:
        async def send(body: bytes, *, further: ReadKind | None = None) -> bytes:
            return await fetch(body)

        self._source = source = searcher.source(self.planned, send, look=look)
        self._selected = await searcher.select(source, cap=cap, reply_bytes=reply_bytes)
        return (await searcher.answer(source, self._selected)).body

    def plain(self, searcher: Searcher) -> bytes:
        async def silent(body: bytes, *, further: ReadKind | None = None) -> bytes:
            raise AssertionError("a plain answer is made of what was fetched")

        return searcher.plain(searcher.source(self.planned, silent) if self._source is None else self._source)

    @property
    def source(self) -> Source:
        assert self._source is not None
        return self._source

    @property
    def selected(self) -> Selected:
        assert self._selected is not None
        return self._selected

    @property
    def selections(self) -> tuple[Selection, ...]:
        return self.selected.selections

    @property
    def policy(self) -> ResolvedPolicy:
        return self.source.policy

    @property
    def reply(self) -> Reply | None:
        return None if self.source.last is None else self.source.last.reply

    @property
    def rounds(self) -> int:
        return self.source.rounds

    @property
    def lookups(self) -> VectorFetches | None:
        return self.source.lookups
