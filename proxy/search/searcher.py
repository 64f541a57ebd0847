"""One search without its transport: widen, fetch, select, grow, trim.

The transport passes ``fetch`` and holds the ``Attempt``, which keeps what was fetched for the fallbacks.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from vecsieve.adapters.contract import (
    Adapter,
    Allowance,
    FetchesVectors,
    MalformedReplyError,
    Needs,
    NotesResults,
    Operation,
    Pool,
    Reply,
    Search,
    SearchCall,
)

from ..runtime.loop import LongWork
from ..selection.paged import paging
from ..selection.policy import Policy
from ..selection.single import selecting, unlinked
from ..selection.values import Fate, Selection
from ..telemetry.labels import CollapsedIn, FailOpen, Stage
from .candidates import CALL_BYTES, Columns, Record, candidates_of, records_of
from .collections.paths import is_doubtful
from .collections.profiles import Scaling
from .collections.statements import PoolStatements
from .collections.texts import CollectionTexts, fields_of, read_pools, with_fields
from .context.answer import surround
from .context.repeats import first_pages, renew
from .errors import LookupFailedError, RejectedReplyError
from .fetch import Attempt, Fetch, Plan, next_size
from .memory.fetches import SendVectorFetch, VectorFetches
from .memory.pages import Page, Pages, page_key
from .memory.points import FeatureMemory, Rows
from .memory.recall import Recall
from .report import collapsed_notes


def untouched(pool: Pool) -> Selection:
    """The selection of a whole pool."""
    each = whole(pool)
    return Selection(
        keep=each,
        labels=each,
        representative=each,
        fates=np.full(pool.size, Fate.KEPT, dtype=np.int8),
        distinct=pool.size,
        wanting=0,
        acted=False,
        threshold=0.0,
        **unlinked(pool.size),
    )


def whole(pool: Pool) -> npt.NDArray[np.intp]:
    """(n,) all candidates."""
    return np.arange(pool.size, dtype=np.intp)


def window(search: Search, pool: Pool) -> npt.NDArray[np.intp]:
    """(top_k,) the candidates at the requested ranks, or as many as there are."""
    return np.arange(min(search.offset, pool.size), min(search.offset + search.top_k, pool.size), dtype=np.intp)


def truncate_pools(reply: Reply, sizes: Sequence[int]) -> Reply:
    """The reply with at most ``sizes[i]`` candidates in pool i; 0 leaves a pool unchanged.

    Searches of a batch may share one limit: each is judged by as many candidates as it would have got on its own.
    """
    if not any(0 < size < pool.size for pool, size in zip(reply.pools, sizes, strict=True)):
        return reply
    pools = (first(pool, size) if size else pool for pool, size in zip(reply.pools, sizes, strict=True))
    return replace(reply, pools=tuple(pools))


def first(pool: Pool, count: int) -> Pool:
    """The pool's first ``count`` candidates."""
    vectors = pool.vectors[:count]
    unusable = int(np.isnan(vectors).any(axis=1).sum()) if vectors.shape[1] else len(vectors)
    return replace(
        pool,
        scores=pool.scores[:count],
        vectors=vectors,
        fields=pool.fields[:count],
        ids=pool.ids[:count],
        versions=pool.versions[:count],
        unusable=unusable,
        alone=tuple(row for row in pool.alone if row < count),
    )


PAGE_ROUNDS = 4  # 50 -> 200 -> 800 -> 1000: the steps from the smallest paged pool to the default page_cap
SINGLE_ROUNDS = 1  # one page grows once: a second wait would cost more than its results are worth
# A reply of this size takes 3 to 8 ms to read, 12 without pysimdjson: a larger one is read and trimmed beside the loop.
TURN_BYTES = 1 << 20
# All distances between this many candidates take 5 ms, between a thousand 30 ms: more are compared beside the loop.
LONG_POOL = 400


class _Read(NamedTuple):
    """What is compared: a ``pool`` with a record of each payload, and what memory knows of its ``rows``."""

    pool: Pool
    records: Sequence[Record]
    rows: Rows | None


class Searcher:
    """Runs calls of one adapter. ``scaling``, ``memory``, ``texts``: learned from earlier pools; ``work``: runs long steps beside the loop; its
    creator closes it. ``recall``: what memory has, None without one.
    """

    __slots__ = ("_adapter", "_pages", "_scaling", "_texts", "_work", "recall")

    def __init__(
        self,
        adapter: Adapter,
        scaling: Scaling | None = None,
        memory: FeatureMemory | None = None,
        work: LongWork | None = None,
        texts: CollectionTexts | None = None,
    ) -> None:
        self._adapter = adapter
        self._texts = CollectionTexts() if texts is None else texts
        self.recall = None if memory is None else Recall(memory)
        self._pages = Pages()
        self._work = LongWork() if work is None else work
        self._scaling = Scaling(None, None, lambda _profile, _event: None) if scaling is None else scaling

    def read(self, operation: Operation, body: bytes, needs: Needs, *, demotes: bool = False) -> SearchCall:
        """Parse the client's request. Raises UnsupportedError. ``demotes``: as in the policy."""
        call = self._adapter.parse_request(operation, body, needs)
        return first_pages(call) if demotes else call

    async def improve(
        self,
        attempt: Attempt,
        fetch: Fetch,
        *,
        cap: int | None,
        reply_bytes: int | None = None,
        look: SendVectorFetch | None = None,
    ) -> bytes:
        """Return the distinct answer in the backend's own bytes. Raises RejectedReplyError or MalformedReplyError.

        ``reply_bytes``: the largest reply, which bounds the growth of a pool; None: unbounded. ``look``: sends a vector fetch; None if the
        transport cannot.
        """
        if look is not None and attempt.call.needs.lookups and isinstance(self._adapter, FetchesVectors):
            attempt.lookups = VectorFetches(self._adapter, look, attempt.watch)
        await self._round(attempt, fetch, attempt.first_sizes)
        if not attempt.is_by_texts and _is_blind(attempt):
            raise RejectedReplyError(FailOpen.NO_VECTORS)
        if any(selection.wanting or selection.framed for selection in attempt.shown):
            await self._grow(attempt, fetch, cap, reply_bytes)
        self._learn(attempt)
        is_long = attempt.reply_bytes > TURN_BYTES
        if attempt.policy.is_surrounded:
            await surround(attempt, self._work, is_long=is_long)
        since = attempt.watch.clock()
        keep = [selection.keep for selection in attempt.selections]
        answer = await self._work.done(partial(self._trim, attempt, keep), is_long=is_long)
        if attempt.policy.tells_collapsed is CollapsedIn.PAYLOAD and isinstance(self._adapter, NotesResults):
            noted = partial(self._adapter.noted, attempt.call, answer, collapsed_notes(attempt))
            answer, attempt.is_noted = await self._work.done(noted, is_long=is_long), True
        attempt.watch.marks.append((Stage.ENCODE, since, attempt.watch.clock()))
        return answer

    def plain(self, attempt: Attempt) -> bytes:
        """The backend's own first top_k of the fetched pool. Raises RejectedReplyError when nothing usable was fetched."""
        if attempt.reply is None:
            raise RejectedReplyError(FailOpen.INTERNAL)
        rows = zip(attempt.call.searches, attempt.reply.pools, attempt.plan, strict=True)
        return self._trim(
            attempt,
            [whole(pool) if planned is None else window(search, pool) for search, pool, planned in rows],
        )

    def _trim(self, attempt: Attempt, keep: Sequence[npt.NDArray[np.intp]]) -> bytes:
        assert attempt.reply is not None  # noqa: S101 - a round has set it, or plain() has looked
        reply = attempt.reply if attempt.lookups is None else attempt.lookups.charged(attempt.reply)
        return self._adapter.trim(attempt.call, reply, keep)

    async def _round(self, attempt: Attempt, fetch: Fetch, sizes: tuple[int, ...]) -> None:
        reply = await self._fetched(attempt, fetch, sizes)
        if self.recall is not None and attempt.spare is not None and not attempt.is_by_texts:
            whole = self.recall.recalled(attempt, reply)
            if whole is None:
                attempt.call, attempt.spare, attempt.stock, attempt.known = attempt.spare(), None, None, ()
                whole = await self._fetched(attempt, fetch, sizes)
            reply = whole
        reply = await self._with_texts(attempt, reply)
        if attempt.is_by_texts and _lacks_texts(attempt, reply):
            self._texts.lacking(attempt.collection)
            attempt.is_by_texts = False
            if attempt.spare is not None:
                reply = await self._with_vectors(attempt, reply, fetch, sizes)
        if attempt.policy.unproven and (doubtful := _doubtful(attempt, reply)):
            reply = await self._looked_at(attempt, reply, doubtful, fetch, sizes)
        attempt.rounds += 1
        attempt.keep(_judged(reply, attempt.plan))
        attempt.sizes, attempt.selections = sizes, ()
        attempt.exhausted = tuple([pool.size < size for pool, size in zip(reply.pools, sizes, strict=True)])
        attempt.selections, attempt.renewed = await self._select(attempt), ()
        if attempt.policy.demotes:
            if attempt.recollect is not None:
                await attempt.recollect()  # as late as possible: the searches of a question come at once
            attempt.renewed = await renew(attempt, self._work, self._scaled)

    async def _with_texts(self, attempt: Attempt, reply: Reply) -> Reply:
        """The reply with the fields that the policy reads, once the first pools have shown where the texts are."""
        needs, texts = attempt.call.needs, self._texts
        is_read = attempt.is_look or (not attempt.is_by_texts and texts.is_open(attempt.policy, attempt.collection))
        if needs.values and is_read and not attempt.rounds:
            since, read = attempt.watch.clock(), partial(read_pools, reply.pools, needs)
            reading = await self._work.done(read, is_long=attempt.reply_bytes > TURN_BYTES)
            attempt.watch.marks.append((Stage.DECODE, since, attempt.watch.clock()))
            attempt.policy = attempt.policy.with_texts(texts.learn(attempt.collection, reading, is_look=needs.whole))
        return with_fields(reply, needs, attempt.policy)

    async def _looked_at(
        self, attempt: Attempt, reply: Reply, doubtful: Sequence[int], fetch: Fetch, sizes: tuple[int, ...]
    ) -> Reply:
        """The reply judged by the texts that its own vectors confirm; by none without vectors."""
        if attempt.is_by_texts and attempt.spare is not None:
            self._texts.lacking(attempt.collection)
            attempt.is_by_texts = False
            reply = await self._with_vectors(attempt, reply, fetch, sizes)
        needs, pools = attempt.call.needs, [reply.pools[place] for place in doubtful]
        paths: tuple[str, ...] = ()
        if any(pool.vectors.shape[1] for pool in pools):
            read = partial(read_pools, pools, needs)
            reading = await self._work.done(read, is_long=attempt.reply_bytes > TURN_BYTES)
            paths = self._texts.learn(attempt.collection, reading, is_look=needs.whole)
        attempt.policy = attempt.policy.with_texts(paths)
        return with_fields(reply, needs, attempt.policy)

    async def _with_vectors(self, attempt: Attempt, reply: Reply, fetch: Fetch, sizes: tuple[int, ...]) -> Reply:
        """The reply with vectors, once a result without a text has come: only vectors decide about it. Further searches of the collection ask for
        them at once. Without a budget for another read such results stay.
        """
        assert attempt.spare is not None  # noqa: S101 - the caller has looked
        lean, attempt.call, attempt.spare, attempt.stock = attempt.call, attempt.spare(), None, None
        try:
            return with_fields(await self._fetched(attempt, fetch, sizes), attempt.call.needs, attempt.policy)
        except (RejectedReplyError, MalformedReplyError, LookupFailedError):
            attempt.call = lean
            return reply

    async def _fetched(self, attempt: Attempt, fetch: Fetch, sizes: tuple[int, ...]) -> Reply:
        """One reply, from which a fallback can answer if the next step fails."""
        reply = truncate_pools(await self._stocked(attempt, attempt.call, fetch, sizes), sizes)
        if attempt.reply is None and (attempt.lookups is not None or attempt.spare is not None):
            attempt.keep(reply)
        if attempt.lookups is None or (attempt.is_by_texts and not attempt.call.needs.vectors):
            return reply
        return await attempt.lookups.completed(attempt.call, reply)

    async def _stocked(self, attempt: Attempt, call: SearchCall, fetch: Fetch, sizes: tuple[int, ...]) -> Reply:
        """A reply with at least ``sizes`` candidates: the one in stock, or the next from upstream."""
        if attempt.stock is not None and all(has >= size for has, size in zip(attempt.stocked, sizes, strict=True)):
            return attempt.stock
        watch, asked = attempt.watch, sizes
        if attempt.first:
            asked = tuple(map(max, sizes, attempt.first))
        since = watch.clock()
        body = self._adapter.widen(call, asked)
        watch.marks.append((Stage.REWRITE, since, watch.clock()))
        if call.needs.whole:
            self._texts.looking(attempt.collection)
        since = watch.clock()
        try:
            fetched = await fetch(body)
        finally:
            watch.marks.append((Stage.UPSTREAM, since, watch.clock()))
        attempt.fetched_bytes += len(fetched)
        attempt.reply_bytes = len(fetched)
        since, read = watch.clock(), partial(self._adapter.parse_reply, call, fetched)
        reply = await self._work.done(read, is_long=len(fetched) > TURN_BYTES)
        watch.marks.append((Stage.DECODE, since, watch.clock()))
        if len(reply.pools) != len(call.searches):
            raise MalformedReplyError(f"{len(reply.pools)} result lists for {len(call.searches)} searches")
        attempt.stock, attempt.stocked = reply, asked
        return reply

    async def _grow(self, attempt: Attempt, fetch: Fetch, cap: int | None, reply_bytes: int | None) -> None:
        """Fetch larger pools while a page is short; then complete it from what there is."""
        left = PAGE_ROUNDS if any(search.pages for search in attempt.call.searches) else SINGLE_ROUNDS
        while left:
            sizes = self._grown(attempt, attempt.stocked)  # what came with the first request costs no read
            if sizes == attempt.sizes:
                planned = self._grown(attempt, tuple([size or 0 for size in attempt.plan]))
                if planned == sizes:
                    rows = zip(attempt.call.searches, sizes, strict=True)
                    planned, left = (
                        self._grown(attempt, [next_size(*row, attempt.policy, cap) for row in rows]),
                        left - 1,
                    )
                sizes = _within(attempt, planned, reply_bytes)
                attempt.is_grown |= sizes != attempt.sizes
            if sizes == attempt.sizes:
                break
            try:
                await self._round(attempt, fetch, sizes)
            except (RejectedReplyError, MalformedReplyError, LookupFailedError):
                break  # the smaller pool is complete and selected from: growing was only an attempt to improve
        await self._settle(attempt)

    def _grown(self, attempt: Attempt, larger: Sequence[int]) -> tuple[int, ...]:
        """The sizes of the next round: larger ones for pages that are short, or that a pool smaller than planned does not decide. A pool that is
        exhausted does not grow.
        """
        rows = zip(attempt.shown, attempt.sizes, attempt.exhausted, larger, attempt.plan, strict=True)
        return tuple(
            max(more, size)
            if not exhausted and (selection.wanting or (selection.framed and planned is not None and size < planned))
            else size
            for selection, size, exhausted, more, planned in rows
        )

    async def _settle(self, attempt: Attempt) -> None:
        """Complete the pages that growing could not fill. Other searches are done: a single page is filled when it is selected, and an
        exhausted pool was read completely.
        """
        assert attempt.reply is not None  # noqa: S101 - a round has set it
        rows = zip(attempt.call.searches, attempt.selections, attempt.exhausted, strict=True)
        settled: list[Selection] = []
        allowance = Allowance(CALL_BYTES)
        for place, (search, selection, exhausted) in enumerate(rows):
            if search.pages and selection.wanting and not exhausted:
                await asyncio.sleep(0)
                settled.append((await self._select_one(attempt, place, allowance, exhausted=True)).selection)
            else:
                settled.append(selection)
        was, attempt.selections = attempt.selections, tuple(settled)
        if attempt.renewed and any(new is not old for new, old in zip(settled, was, strict=True)):
            attempt.renewed = await renew(attempt, self._work, self._scaled)

    async def _select(self, attempt: Attempt) -> tuple[Selection, ...]:
        """Select from each search's pool, one turn of the loop each, so that a batch does not block the loop."""
        assert attempt.reply is not None  # noqa: S101 - the round that calls this has just set it
        rows = zip(attempt.call.searches, attempt.reply.pools, attempt.exhausted, attempt.plan, strict=True)
        selections: list[Selection] = []
        allowance = Allowance(CALL_BYTES)
        for place, (search, pool, exhausted, planned) in enumerate(rows):
            if selections:
                await asyncio.sleep(0)
            if planned is None:
                selections.append(untouched(pool))
            else:
                known_rows = attempt.known[place] if attempt.known else None
                scale = None if known_rows is None else self._scaled(attempt, pool)[1]
                key = page_key(attempt, search, pool, known_rows, scale)
                known = None if key is None else self._pages.get(key, pool)
                if known is None:
                    page = await self._select_one(attempt, place, allowance, exhausted=exhausted)
                    known = page.selection
                    if key is not None:
                        self._pages.made(key, page, is_repeated=attempt.is_repeated)
                selections.append(known)
        return tuple(selections)

    async def _read(self, attempt: Attempt, place: int) -> _Read:
        """A search's pool with its payload records. A pool that came with vectors is learned, and has the rows that a later search will recall."""
        assert attempt.reply is not None  # noqa: S101 - the round that calls this has just set it
        pool, search = attempt.reply.pools[place], attempt.call.searches[place]
        rows = attempt.known[place] if attempt.known else None
        read = partial(records_of, pool, tenant_keys=attempt.policy.tenant_keys, fields=attempt.policy.fields)
        records = await self._work.done(read, is_long=attempt.reply_bytes > TURN_BYTES)
        if rows is None and self.recall is not None and pool.size <= LONG_POOL:
            rows = self.recall.learnt(attempt, search, pool)
            pool = pool if rows is None else replace(pool, vectors=rows.rows)
        return _Read(pool, records, rows)

    async def _select_one(self, attempt: Attempt, place: int, allowance: Allowance, *, exhausted: bool) -> Page:
        """The selection from a pool, with the payloads on which it depends."""
        search, since = attempt.call.searches[place], attempt.watch.clock()
        pool, records, rows = await self._read(attempt, place)
        candidates = candidates_of(pool, search, records, fields=attempt.policy.fields, allowance=allowance, rows=rows)
        attempt.watch.marks.append((Stage.DECODE, since, attempt.watch.clock()))
        since = attempt.watch.clock()
        chosen, scale = self._scaled(attempt, pool)
        if search.pages:
            top_k, offset = search.top_k, search.offset
            steps = paging(candidates, top_k=top_k, offset=offset, policy=chosen, exhausted=exhausted, scale=scale)
        else:
            whole = attempt.policy.demotes  # results that were shown make room for any other of the pool
            steps = selecting(candidates, top_k=search.top_k, policy=chosen, scale=scale, whole=whole)
        selection = await self._work.finished(steps, is_long=not search.pages and pool.size > LONG_POOL)
        attempt.watch.marks.append((Stage.SELECT, since, attempt.watch.clock()))
        statements = candidates.statements
        return Page(selection, statements.evidence if isinstance(statements, PoolStatements) else ())

    def _scaled(self, attempt: Attempt, pool: Pool) -> tuple[Policy, float | None]:
        """The policy, and the distance at which its threshold is evaluated. A threshold that the request named is not changed."""
        policy = attempt.policy
        if not policy.is_profiled:
            return policy.selection, None
        dimension = pool.vectors.shape[1]
        scale = self._scaling.of(attempt.collection, pool.compared_by, policy.selection, dimension=dimension)
        return policy.selection, scale

    def _learn(self, attempt: Attempt) -> None:
        """Learn once per call, from the last pools, which contain the earlier ones."""
        assert attempt.reply is not None  # noqa: S101 - a round has set it
        collection = attempt.call.operation.collection
        for pool, selection, planned in zip(attempt.reply.pools, attempt.selections, attempt.plan, strict=True):
            if planned is not None:
                vector, dimension = pool.compared_by, pool.vectors.shape[1]
                self._scaling.observe(collection, vector, dimension=dimension, median=selection.median, size=pool.size)


def _within(attempt: Attempt, sizes: tuple[int, ...], reply_bytes: int | None) -> tuple[int, ...]:
    """The sizes to grow to, limited by the bytes per candidate of the last reply; the current sizes if growing would exceed the bound."""
    assert attempt.reply is not None  # noqa: S101 - a round has set it
    if reply_bytes is None:
        return sizes
    had = sum(pool.size for pool in (attempt.stock or attempt.reply).pools)
    room = had * reply_bytes // max(attempt.reply_bytes, 1)
    if sum(sizes) <= room:
        return sizes
    if len(sizes) == 1 and not attempt.call.searches[0].pages:
        return (max(room, attempt.sizes[0]),)
    return attempt.sizes


def _judged(reply: Reply, planned: Plan) -> Reply:
    """The reply, ignoring missing vectors of searches that were sent unchanged."""
    if None not in planned:
        return reply
    pools = zip(reply.pools, planned, strict=True)
    return replace(reply, pools=tuple(replace(pool, unusable=0) if size is None else pool for pool, size in pools))


def _lacks_texts(attempt: Attempt, reply: Reply) -> bool:
    """Whether a result of a search that was widened has no text where the policy looks for it."""
    places = attempt.policy.text_places
    for pool, size in zip(reply.pools, attempt.plan, strict=True):
        if size is None or not len(pool.scores):
            continue
        if not pool.fields:
            return True
        for row in pool.fields:
            for place in places:
                # A string, or what may have one inside.
                if (raw := row[place]) is not None and raw[:1] in _TEXT_STARTS and raw != b'""':
                    break
            else:
                return True
    return False


def _doubtful(attempt: Attempt, reply: Reply) -> list[int]:
    """The searches whose pools speak against the texts that other pools of the collection have shown under an unknown name."""
    policy = attempt.policy
    if fields_of(attempt.call.needs) != policy.keys:  # this pool was read
        return []
    found: list[int] = []
    for place, (pool, size) in enumerate(zip(reply.pools, attempt.plan, strict=True)):
        columns = Columns(policy.keys, pool.fields).present(policy.unproven) if size is not None and pool.fields else []
        if any(is_doubtful(column, pool.scores) for column in columns):
            found.append(place)
    return found


_TEXT_STARTS = frozenset({b'"', b"{"})


def _is_blind(attempt: Attempt) -> bool:
    """Whether there are candidates, but none has a vector or a text to compare."""
    if attempt.reply is None:
        return False
    pools = [pool for pool, size in zip(attempt.reply.pools, attempt.plan, strict=True) if size is not None]
    if not any(pool.size for pool in pools) or any(pool.unusable < pool.size for pool in pools):
        return False
    keys = len(attempt.policy.tenant_keys)
    return not any(any(fields[keys:]) for pool in pools for fields in pool.fields)
