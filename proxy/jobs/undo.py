"""``vecsieve undo``: restores points that the write gate left out, or that a sweep deleted, from the journal.

It sends them to the database itself, because the gate would leave them out again. A point whose id is stored now is not changed. A point
that was stored changed gets its own content back only if it still has the content that it was given. Each batch is marked in the journal
once the database has stored it, so the next run continues an interrupted one.
"""

from __future__ import annotations

import json
import os
import sys
import time
from base64 import b64decode
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import numpy as np
import numpy.typing as npt
import typer

from vecsieve.adapters.writes import Form
from vecsieve.config.backends import DEFAULT_BACKEND
from vecsieve.config.problems import Problem, SettingsError, one_line

from ..runtime.files import output_console, progress_bar
from ..runtime.lifecycle import ended_by_signals
from ..writes.book import Book
from ..writes.lock import is_locked
from ..writes.rows import NO_ID, Head, JournalError, Kind, Row, State
from .databases import KeyOption, RateOption, SourceOptions, points_opened
from .source import Points, SourceError

BATCH = 100
BATCH_BYTES = 1_000_000  # the most bytes per request: Pinecone accepts two million
MOST_LISTED = 20  # points listed
MOST_REFUSED = 5  # with more refusals, the database is assumed to refuse everything


@dataclass(frozen=True, slots=True, kw_only=True)
class Arguments:
    """The options of `undo`. ``collection``, ``since``, ``id``: None for all."""

    journal: Annotated[Path, typer.Option(help="The journal: `journal.path` of the settings.", show_default=False)]
    url: Annotated[
        str, typer.Option(help="The database's own URL; through the write gate points would be left out again.")
    ]
    backend: Annotated[str, typer.Option(help="The database, as in the settings.")] = DEFAULT_BACKEND
    collection: Annotated[str | None, typer.Option(help="Only points of this collection.")] = None
    since: Annotated[str | None, typer.Option(help="Only points since this date or moment, UTC without a zone.")] = None
    id: Annotated[str | None, typer.Option(help="Only the point with this id.")] = None
    rejected: Annotated[bool, typer.Option("--rejected", help="Also copies of writes that were refused.")] = False
    doubted: Annotated[bool, typer.Option("--doubted", help="Also points that a client may have deleted since.")] = (
        False
    )
    apply: Annotated[bool, typer.Option("--apply", help="Store the points; without it they are only listed.")] = False
    requests_per_second: RateOption = 20.0
    api_key_env: KeyOption = None

    @property
    def states(self) -> list[State]:
        """Of rows that are restored besides those that are DONE."""
        choices = {State.REJECTED: self.rejected, State.DOUBTED: self.doubted}
        return [state for state, is_chosen in choices.items() if is_chosen]

    def points(self, collection: str) -> Points:
        """Raises SourceError."""
        options = SourceOptions(
            url=self.url,
            collection=collection,
            backend=self.backend,
            requests_per_second=self.requests_per_second,
            api_key_env=self.api_key_env,
        )
        return points_opened(options, os.environ)


def run(arguments: Arguments, *, steady: Callable[[], float] = time.monotonic) -> int:
    """``steady``: the machine's steady clock. Returns the exit code: 0, 1 if the journal or the database cannot be used, 130 on Ctrl-C. Raises SettingsError for arguments."""
    since = _moment(arguments.since)
    try:
        with ended_by_signals(), closing(Book(arguments.journal, must_exist=True)) as book:
            ids = _identifiers(arguments.id)
            heads = book.heads(
                collection=arguments.collection,
                since=since,
                ids=ids,
                also=arguments.states,
                steady=_proxy_time(arguments.journal, steady),
            )
            doubted = book.doubted(
                collection=arguments.collection, since=since, ids=ids, steady=_proxy_time(arguments.journal, steady)
            )
            missing = [head for head in heads if head.kind != Kind.CHANGED]
            # The latest content of each id, and every row without an id.
            keys = ((head.collection, head.partition, head.number if head.id == NO_ID else head.id) for head in missing)
            newest = list(dict(zip(keys, missing, strict=True)).values())
            changed = [head for head in reversed(heads) if head.kind == Kind.CHANGED]
            _show(book, newest, changed)
            if doubted and not arguments.doubted:
                hint = f"{doubted} more may have been deleted since, such as by a filter: --doubted includes them"
                output_console().print(hint)
            if arguments.apply:
                refused, stored = _apply(book, newest, arguments, steady)
                _restore(book, changed, arguments, steady, stored)
                if refused:
                    sys.stderr.write(f"vecsieve undo: {len(refused)} were not stored: {'; '.join(refused)}\n")
                    return 1
            elif newest or changed:
                output_console().print("nothing was changed; --apply stores them")
    except (JournalError, SourceError) as error:
        sys.stderr.write(f"vecsieve undo: {error}\n")
        return 1
    except KeyboardInterrupt:
        sys.stderr.write("\nstopped: stored points are marked; run the same command again to continue\n")
        return 130
    return 0


def _proxy_time(journal: Path, steady: Callable[[], float]) -> float | None:
    """The moment at which deletions under way count; None if no proxy uses the journal: then none is under way."""
    return steady() if is_locked(journal) else None


def _moment(text: str | None) -> float:
    """Seconds since the epoch of an ISO 8601 date; UTC without a zone."""
    if text is None:
        return 0.0
    try:
        read = datetime.fromisoformat(text)
    except ValueError:
        raise SettingsError([Problem("--since", repr(text), "a date such as 2026-11-23 or 2026-11-23T09:30")]) from None
    return (read if read.tzinfo is not None else read.replace(tzinfo=UTC)).timestamp()


def _identifiers(text: str | None) -> list[bytes] | None:
    """In the spelling of journals: a number or a text; Qdrant's UUIDs in lower case."""
    if text is None:
        return None
    number = [text.encode()] if text.isdecimal() else []
    return [*number, *(json.dumps(spelling).encode() for spelling in {text, text.lower()})]


def _show(book: Book, newest: Sequence[Head], changed: Sequence[Head]) -> None:
    console = output_console()
    console.print(f"{len(newest)} points were left out or deleted{f', {len(changed)} changed' if changed else ''}")
    heads = [*newest, *changed]
    for row in book.rows([head.number for head in heads[:MOST_LISTED]]):
        at = datetime.fromtimestamp(row.at, UTC).isoformat(timespec="seconds")
        alike = f", {row.similarity:.4f}" if row.similarity else ""
        line = f"{at}  {row.collection}  {row.id.decode()}  {row.tier} copy of {row.survivor.decode()}{alike}"
        console.print(one_line(line), markup=False)
    if len(heads) > MOST_LISTED:
        console.print(f"and {len(heads) - MOST_LISTED} more")


Key = tuple[str, bytes, bytes]
"""Collection, partition and id of a point."""


def _apply(
    book: Book, heads: Sequence[Head], arguments: Arguments, steady: Callable[[], float]
) -> tuple[list[str], set[Key]]:
    """Store the points; return why some were not stored, and which were. What reads may not show yet counts as stored."""
    collections: defaultdict[str, defaultdict[bytes, list[Head]]] = defaultdict(lambda: defaultdict(list))
    for head in heads:
        collections[head.collection][head.partition].append(head)
    stored = there = waiting = 0
    refused: list[str] = []
    restored_keys: set[Key] = set()
    with progress_bar("restoring", len(heads)) as advance:
        for collection, partitions in collections.items():
            with closing(arguments.points(collection)) as points:
                for partition, rows in partitions.items():
                    for batch in _batches(rows):
                        ids = [head.id for head in batch if head.id != NO_ID]
                        present = points.present(partition, ids) if ids else frozenset()
                        unseen = book.unseen(collection, partition, ids, at=steady()) - present
                        waiting += (late := sum(head.id in unseen for head in batch))
                        numbers = [head.number for head in batch if head.id not in present | unseen]
                        missing = book.restorable(
                            numbers, also=arguments.states, steady=_proxy_time(arguments.journal, steady)
                        )
                        taken = _stored(points, missing, refused)
                        # The gate hears of it before reads show it.
                        book.note(collection, partition, [row.id for row in taken if row.id != NO_ID], at=steady())
                        book.undone(row.number for row in taken)
                        restored_keys.update((collection, partition, row.id) for row in taken)
                        stored, there = stored + len(taken), there + len(batch) - len(missing) - late
                        advance(len(batch))
    words = f"{stored} were stored; {there} have an id that is stored now, and were not changed"
    later = f"; {waiting} were written less than ten minutes ago, which reads may not show: repeat the command later"
    output_console().print(words + (later if waiting else ""))
    return refused, restored_keys


def _stored(points: Points, rows: Sequence[Row], refused: list[str]) -> list[Row]:
    """Store those of one partition that the database accepts: a point that it refuses does not stop others. Raises SourceError if many are
    refused, or the database does not answer at all: smaller batches would each wait as long.
    """
    if not rows:
        return []
    try:
        points.put(rows[0].partition, [row.point for row in rows])
    except SourceError as error:
        if ids := [row.id for row in rows if row.id != NO_ID]:
            points.present(rows[0].partition, ids[:1])
        if len(rows) > 1:
            half = len(rows) // 2
            return [*_stored(points, rows[:half], refused), *_stored(points, rows[half:], refused)]
        if len(refused) == MOST_REFUSED:
            raise
        refused.append(f"{rows[0].id.decode()}: {error}")
        return []
    return list(rows)


def _restore(
    book: Book, heads: Sequence[Head], arguments: Arguments, steady: Callable[[], float], stored: set[Key]
) -> None:
    """``heads``: of points that were changed, latest first: one may have been changed several times. ``stored``: keys of the points that this run stored."""
    collections: defaultdict[str, list[Head]] = defaultdict(list)
    for head in heads:
        collections[head.collection].append(head)
    restored = 0
    for collection, rows in collections.items():
        with closing(arguments.points(collection)) as points:
            for head in rows:
                # This run may have superseded it: a removed point comes back changed, and then gets its own content.
                states = [*arguments.states, State.SUPERSEDED]
                at = _proxy_time(arguments.journal, steady)
                row = next(iter(book.restorable([head.number], also=states, steady=at)), None)
                if row is None:  # in doubt since a moment
                    continue
                key = (collection, row.partition, row.id)
                is_seen = key in stored or not book.unseen(*key[:2], [row.id], at=steady())
                if is_seen and _is_as_made(points.stored(row.partition, json.loads(head.id)), row.became, points.form):
                    stored.add(key)
                    book.note(*key[:2], [row.id], at=steady())
                    points.restore(row.partition, row.point)
                    book.undone([row.number])
                    restored += 1
    if heads:
        since = f"{len(heads) - restored} were changed since, and were not restored"
        output_console().print(f"{restored} have their own content again; {since}")


def _is_as_made(stored: bytes | None, made: bytes | None, form: Form) -> bool:
    """Whether the stored point has the payload and the vectors that the gate gave it."""
    if stored is None or made is None:
        return False
    one, other = json.loads(stored), json.loads(made)
    return form.same(one, other) and _are_near(form.vectors_of(one), form.vectors_of(other))


# Databases normalise vectors, and keep some in 16 bits.
_ROUNDED = 2e-3


def _are_near(stored: object, written: object) -> bool:
    """Whether a stored vector is the written one, but for rounding and its length; of several under names, each of those that were written."""
    if stored == written or written is None:
        return True
    if isinstance(written, dict):
        return isinstance(stored, dict) and all(_are_near(stored.get(name), value) for name, value in written.items())
    if isinstance(written, str):  # Chroma's clients write float32 so
        with suppress(ValueError):
            written = np.frombuffer(b64decode(written, validate=True), "<f4").tolist()
    if isinstance(written, list) and isinstance(stored, list):
        if any(isinstance(value, list | dict) for value in written):
            return len(stored) == len(written) and all(map(_are_near, stored, written))
        # Whole numbers are exact, such as the indices of a sparse vector.
        if any(isinstance(value, float) for value in (*stored, *written)):
            with suppress(TypeError, ValueError):
                one, other = (np.asarray(value, np.float64) for value in (stored, written))
                return one.shape == other.shape and _is_near(one, other)
    return False


def _is_near(one: npt.NDArray[np.float64], other: npt.NDArray[np.float64]) -> bool:
    length = float(np.linalg.norm(other))
    is_normalised = abs(float(np.linalg.norm(one)) - 1.0) <= _ROUNDED
    same = [other, other / length] if is_normalised and length else [other]
    return any(float(np.linalg.norm(one - vector)) <= _ROUNDED * float(np.linalg.norm(vector)) for vector in same)


def _batches(heads: Sequence[Head]) -> Iterator[list[Head]]:
    batch: list[Head] = []
    size = 0
    for head in heads:
        if batch and (len(batch) == BATCH or size + head.size > BATCH_BYTES):
            yield batch
            batch, size = [], 0
        batch.append(head)
        size += head.size
    if batch:
        yield batch
