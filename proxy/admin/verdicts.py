"""The verdict of mode shadow for its outlets: of all serving processes, in all and per collection; in the log once an hour and at the end."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

import orjson

from ..telemetry.verdict import Measured, Verdict, verdict_of
from .knowledge import Ask, Kind, Question

LOGGER = logging.getLogger("vecsieve.verdict")
EVERY_SECONDS = 3600.0
MOST_COLLECTIONS = 20  # the most searched ones
ROWS = ".measured"  # what a worker leaves


async def rows_of(ask: Ask) -> list[Measured]:
    """The measured searches of all processes."""
    return [Measured(*row) for answer in await ask(Question(Kind.MEASURED)) for row in answer["rows"]]


async def verdict_page(ask: Ask) -> dict[str, Any] | None:
    """For `/status`; None if nothing was measured. Lets other tasks run between two collections: all of them take 15 ms."""
    rows = await rows_of(ask)
    if not rows:
        return None
    collections = []
    for name, _ in Counter(row.collection for row in rows).most_common(MOST_COLLECTIONS):
        verdict = verdict_of([row for row in rows if row.collection == name])
        collections.append({"collection": name, **_members(verdict)})
        await asyncio.sleep(0)
    return {**_members(verdict_of(rows)), "collections": collections}


def _members(verdict: Verdict) -> dict[str, Any]:
    return {"sentence": verdict.sentence, "details": verdict.details, "figures": asdict(verdict)}


def last_words(rows: Sequence[Measured]) -> str:
    """For the end of a process; "" if nothing was measured."""
    return verdict_of(rows).line if rows else ""


async def hourly(ask: Ask) -> None:
    """Log the verdict once an hour, if anything was measured."""
    while True:
        await asyncio.sleep(EVERY_SECONDS)
        if words := last_words(await rows_of(ask)):
            LOGGER.info(words)


# The admin process ends last and says the last words: workers leave it their measured searches.


def leave_rows(directory: Path, place: int, rows: Sequence[Measured]) -> None:
    with suppress(OSError):  # a full disk costs the words, not the exit
        (directory / f"w{place}{ROWS}").write_bytes(orjson.dumps([*map(tuple, rows)]))


def left_rows(directory: Path) -> list[Measured]:
    """What all workers have left."""
    return [Measured(*row) for file in directory.glob(f"*{ROWS}") for row in orjson.loads(file.read_bytes())]
