"""The recent searches of one process: answers to the inspector's questions, as JSON-ready dictionaries.

With several workers the admin process asks each of them over a socket in their private directory. A question is one line of JSON; the
answer is JSON up to the end of the connection. Only the same user may enter the directory, which also holds the metrics' files.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

import numpy as np
import orjson

from ..search.budgets import Egress
from ..search.collections.learned import Lru
from ..search.collections.texts import CollectionTexts
from ..telemetry.labels import COLLAPSE_OF, TextsKnown
from ..telemetry.verdict import Measured
from .pools import KeptPool, Pools
from .reasons import in_words
from .recent import BUCKET_SECONDS, DOUBTFUL, MEMBERS, NOTHING, Kept, LeftOut, Numbered, Recent
from .status import FailedReload
from .whatif import UNCHANGED, Change, judged

Answer = dict[str, Any]
MOST_ROWS = 200  # entries of a list; a person reads fewer
MOST_EXPLAINED = (
    20  # searches of `/explain` whose texts are read for reasons in words: some 20 ms each, the newest first
)
EXACT = 2**53  # a browser rounds larger whole numbers


class Kind(StrEnum):
    SEARCHES = "searches"
    SEARCH = "search"
    EXPLAIN = "explain"
    DOUBTFUL = "doubtful"
    PAIR = "pair"
    COLLECTIONS = "collections"
    TEXTS = "texts"
    RELOAD = "reload"
    WHATIF = "whatif"
    EGRESS = "egress"
    MEASURED = "measured"


@dataclass(frozen=True, slots=True)
class Question:
    """``number``: of a search; for SEARCHES, only later ones are returned. ``rank``: of a candidate, for PAIR. ``change``: for WHATIF."""

    kind: Kind
    number: int = 0
    rank: int = 0
    change: Change = UNCHANGED


Ask = Callable[[Question], Awaitable[list[Answer]]]
"""Asks every serving process; one that does not answer is left out."""


class Knowledge:
    """Answers for one process. Doubtful pairs are kept longer than their searches while the page is in use. ``measured``: searches that mode shadow measured.
    ``failed_reload``: the last reload, if it failed.
    """

    __slots__ = ("_counted", "_doubtful", "_judging", "_looked_at", "_pools", "_recent", "_texts", "_why")

    def __init__(
        self,
        recent: Recent,
        pools: Pools,
        egress: Egress,
        texts: CollectionTexts | None = None,
        measured: Iterable[Measured] = (),
        failed_reload: Callable[[], FailedReload | None] = lambda: None,
    ) -> None:
        self._texts = CollectionTexts() if texts is None else texts
        self._recent = recent
        self._pools = pools
        self._judging = asyncio.Lock()
        self._looked_at = 0
        self._doubtful: list[Answer] = []
        self._why = Lru[tuple[int, bool], Mapping[int, str]](MOST_ROWS)
        # What is counted anyway.
        self._counted: Mapping[Kind, Callable[[], Answer]] = {
            Kind.EGRESS: lambda: dict(json.loads(egress.as_json())),
            Kind.MEASURED: lambda: {"rows": [*map(tuple, measured)]},
            Kind.COLLECTIONS: lambda: {"rows": recent.trends.as_rows(), "texts": self._texts.as_rows()},
            Kind.TEXTS: lambda: {"texts": self._texts.as_rows()},
            Kind.RELOAD: lambda: {"rows": [asdict(failed)] if (failed := failed_reload()) else []},
        }

    async def ask(self, question: Question) -> list[Answer]:
        """As `Ask`, for this process only."""
        return [await self.answer(question)]

    async def answer(self, question: Question) -> Answer:
        """Lets other tasks run between two records: a ring of large searches takes long to read."""
        reply: Answer
        match question.kind:
            case Kind.SEARCHES:
                reply = self._searches(question.number)
            case Kind.SEARCH:
                kept = self._recent.numbered(question.number)
                reply = {"row": None if kept is None else _for_browser(_record(kept, await self._explained(kept)))}
            case Kind.EXPLAIN:
                reply = {"keep": self._recent.keep, "rows": await self._records()}
            case Kind.DOUBTFUL:
                await self._look()
                reply = {"rows": [_for_browser(pair) for pair in self._doubtful]}
            case Kind.PAIR:
                reply = {"row": self._pair(question.number, question.rank)}
            case Kind.WHATIF:
                reply = await self._whatif(question.change)
            case _:
                reply = self._counted[question.kind]()
        return reply

    async def _whatif(self, change: Change) -> Answer:
        """Runs beside the loop, one at a time."""
        async with self._judging:
            started, size = time.perf_counter(), self._pools.size_bytes
            result = await asyncio.to_thread(judged, self._pools.kept(), change)
            return {**result, "bytes": size, "took_ms": round((time.perf_counter() - started) * 1000, 1)}

    def _searches(self, since: int) -> Answer:
        kept = [record for record in self._recent.newest() if record.number > since][:MOST_ROWS]
        return {
            "keep": self._recent.keep,
            "texts": self._recent.texts,
            "reached": self._recent.reached,
            "rows": [{"number": record.number, "at": record.at, **record.seen.summary()} for record in kept],
        }

    async def _records(self) -> list[Answer]:
        records = []
        for place, kept in enumerate(self._recent.newest()):
            why = await self._explained(kept) if place < MOST_EXPLAINED else self._known(kept)
            records.append(_record(kept, why))
            await asyncio.sleep(0)
        return records

    async def _explained(self, kept: Numbered) -> Mapping[int, str]:
        """The reasons of a search's candidates in words; none if its pool was not kept. Reads the texts beside the loop, once."""
        pool = None if (kept.number, self._recent.texts) in self._why else self._pool(kept)
        if pool is not None:
            async with self._judging:
                has_words = self._recent.texts
                reasons = await asyncio.to_thread(in_words, pool, kept.seen.selection, has_words=has_words)
                self._why.hold((kept.number, has_words), reasons)
        return self._known(kept)

    def _known(self, kept: Numbered) -> Mapping[int, str]:
        """The reasons that were found before."""
        return self._why.get((kept.number, self._recent.texts), NOTHING)

    async def _look(self) -> None:
        """Add the pairs of the searches since the last call; keep those that differ most, one for each pair."""
        fresh = [search for search in self._recent.newest() if search.number > self._looked_at]
        self._looked_at = max(self._looked_at, *(search.number for search in fresh)) if fresh else self._looked_at
        pairs: list[Answer] = []
        for search in fresh:
            pairs = [*pairs, *(_pairs(search) if search.seen.has_doubtful else ())]
            pairs = doubtful_first(pairs) if len(pairs) > 10 * MOST_ROWS else pairs
            await asyncio.sleep(0)
        self._doubtful = doubtful_first([*pairs, *self._doubtful])

    def _pair(self, number: int, rank: int) -> Answer | None:
        kept = self._recent.numbered(number)
        pairs = self._doubtful if kept is None else _pairs(kept, only_doubtful=False)
        return next((pair for pair in pairs if (pair["search"], pair["rank"]) == (number, rank)), None)

    def _pool(self, kept: Numbered) -> KeptPool | None:
        """The kept pool of a search; in a batch only one search has one."""
        pool = self._pools.numbered(kept.number)
        return pool if pool is not None and np.array_equal(pool.bare.scores, kept.seen.scores, equal_nan=True) else None


def _record(kept: Numbered, why: Mapping[int, str]) -> Answer:
    return {"number": kept.number, "at": kept.at, **asdict(kept.seen.record(why))}


_DOUBTFUL = {COLLAPSE_OF[link] for link in DOUBTFUL}


def _pairs(kept: Numbered, *, only_doubtful: bool = True) -> list[Answer]:
    """The candidates that were left out, each with the result that represents it. ``only_doubtful``: those without a proof that would have
    been on the page.
    """
    record = kept.seen.record()
    reach = max([record.offset + record.top_k - 1, *(candidate.rank for candidate in record.kept)])
    at: dict[int, Kept | LeftOut] = {candidate.rank: candidate for candidate in record.kept}
    at |= {candidate.rank: candidate for candidate in record.left_out}
    return [
        {
            "search": kept.number,
            "rank": out.rank,
            "at": kept.at,
            "collection": record.collection,
            "reason": out.copy.reason,
            "similarity": out.copy.similarity,
            "cut": out.copy.cut,
            "why": out.copy.why,
            "a": _side(at[out.copy.rank]),
            "b": _side(out),
        }
        for out in record.left_out
        if out.copy is not None and (not only_doubtful or (out.copy.reason in _DOUBTFUL and out.rank <= reach))
    ]


def doubtful_first(pairs: list[Answer]) -> list[Answer]:
    """What differs most first: the lowest similarity, before it those of which it is unknown; among equal pairs the first, which is the newest."""
    distinct: dict[tuple[str, ...], Answer] = {}
    for pair in pairs:
        sides = (str(side["id"] if side["text"] is None else side["text"]) for side in (pair["a"], pair["b"]))
        distinct.setdefault((pair["collection"], *sides), pair)
    return sorted(distinct.values(), key=lambda pair: pair["similarity"] or 0.0)[:MOST_ROWS]


def _side(result: Kept | LeftOut) -> Answer:
    return {"id": result.id, "rank": result.rank, "score": result.score, "text": result.text}


def _for_browser(value: Any) -> Any:
    """The same, with whole numbers as text if a browser would round them."""
    if isinstance(value, dict):
        return {name: _for_browser(member) for name, member in value.items()}
    if isinstance(value, list | tuple):
        return [_for_browser(member) for member in value]
    return str(value) if isinstance(value, int) and abs(value) > EXACT else value


async def egress_of(ask: Ask) -> bytes:
    """The body of `/egress`: the figures of all processes for the latest month among them. A worker that does not answer in time is
    missing.
    """
    answers = await ask(Question(Kind.EGRESS))
    month = max((answer["month"] for answer in answers), default=None)
    pages = [answer for answer in answers if answer["month"] == month]
    budgets = [answer["budget_bytes"] for answer in answers]
    by_name: dict[tuple[str, str], list[Answer]] = {}
    for row in (row for page in pages for row in page["collections"]):
        by_name.setdefault((row["backend"], row["collection"]), []).append(row)
    rows = [{"backend": backend, "collection": name, **_spent(of)} for (backend, name), of in by_name.items()]
    rows.sort(key=lambda row: (-row["extra_bytes"], row["backend"], row["collection"]))
    page = {
        "month": month,
        "budget_bytes": None if None in budgets or not budgets else sum(budgets),
        **_spent(pages),
        "collections": rows,
        "others": _spent([page["others"] for page in pages]),
    }
    return json.dumps(page, separators=(",", ":")).encode("ascii") + b"\n"


def _spent(rows: list[Answer]) -> Answer:
    return {name: sum(row[name] for row in rows) for name in ("searches", "extra_bytes")}


def in_one(answers: list[Answer]) -> list[Answer]:
    """The rows of all processes."""
    return [row for answer in answers for row in answer["rows"]]


def collections_in_one(answers: list[Answer]) -> Answer:
    """The counts of all processes, by collection and bucket; the most searched collection first."""
    merged: dict[str, dict[int, list[int]]] = {}
    for row in in_one(answers):
        buckets = merged.setdefault(row["collection"], {})
        for start, *counts in row["buckets"]:
            had = buckets.get(start)
            buckets[start] = counts if had is None else [sum(pair) for pair in zip(had, counts, strict=True)]
    rows: list[Answer] = [
        {
            "collection": name,
            "buckets": [[start, *counts] for start, counts in sorted(buckets.items())],
            **dict(zip(MEMBERS, map(sum, zip(*buckets.values(), strict=True)), strict=False)),
        }
        for name, buckets in merged.items()
        if buckets
    ]
    rows.sort(key=lambda row: (-row["searches"], row["collection"]))
    texts = texts_in_one(answers)
    for row in rows:
        row["texts"] = texts.get(row["collection"])
    return {"bucket_seconds": BUCKET_SECONDS, "members": MEMBERS, "collections": rows}


def texts_in_one(answers: list[Answer]) -> dict[str, Answer]:
    """What is known of the texts of each collection: of the processes that know most."""
    order = list(TextsKnown)
    merged: dict[str, Answer] = {}
    for row in (row for answer in answers for row in answer["texts"]):
        had = merged.get(row["collection"])
        if had is None or order.index(row["standing"]) < order.index(had["standing"]):
            merged[row["collection"]] = row
    return merged


async def texts_of(ask: Ask) -> list[Answer]:
    """For `/status`, which needs no token: what is known of each collection, without the keys of its payloads."""
    merged = texts_in_one(await ask(Question(Kind.TEXTS)))
    return [{name: row[name] for name in ("collection", "standing", "texts")} for row in merged.values()][:MOST_ROWS]


async def failed_reload_of(ask: Ask) -> Answer | None:
    """For `/status`: of the process whose settings are wrong for the longest time; None if all are as in the file."""
    return min(in_one(await ask(Question(Kind.RELOAD))), key=lambda row: str(row["since"]), default=None)


TIMEOUT_SECONDS = 2.0  # seconds; a worker that is stuck is left out, and the page shows the others
LONG_SECONDS = 15.0  # seconds for a thousand pools, on a busy machine
LINE_BYTES = 4096


def _socket(directory: Path, place: int) -> Path:
    return directory / f"inspect_w{place}.sock"


async def open_to_admin(directory: Path, place: int, knowledge: Knowledge) -> asyncio.Server:
    """Answer the admin process from now on. A socket left by a killed predecessor is replaced."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            with suppress(OSError, TimeoutError, ValueError, KeyError):
                async with asyncio.timeout(LONG_SECONDS):
                    message = orjson.loads(await reader.readline())
                    change = Change(**message["change"])
                    question = Question(Kind(message["kind"]), int(message["number"]), int(message["rank"]), change)
                    writer.write(orjson.dumps(await knowledge.answer(question)))
                    await writer.drain()
        finally:
            writer.close()

    return await asyncio.start_unix_server(serve, _socket(directory, place), limit=LINE_BYTES)


def ask_of_workers(directory: Path, workers: int) -> Ask:
    """Ask all workers at once."""

    async def ask(question: Question) -> list[Answer]:
        replies = (_one(_socket(directory, place), question) for place in range(workers))
        return [answer for answer in await asyncio.gather(*replies) if answer is not None]

    return ask


async def _one(path: Path, question: Question) -> Answer | None:
    """The answer of one worker; None without one."""
    writer = None
    try:
        async with asyncio.timeout(LONG_SECONDS if question.kind is Kind.WHATIF else TIMEOUT_SECONDS):
            reader, writer = await asyncio.open_unix_connection(path)
            writer.write(orjson.dumps(asdict(question)) + b"\n")
            answer: Answer = orjson.loads(await reader.read())
            return answer
    except (OSError, TimeoutError, ValueError):
        return None
    finally:
        if writer is not None:
            writer.close()
