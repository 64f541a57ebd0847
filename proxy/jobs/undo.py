"""``vecsieve undo``: stores the points that the write gate left out of Qdrant, as they came, from its journal.

It speaks to the database itself: behind the gate the points would be left out again. A point whose id is stored by now stays as it is.
Each batch is marked in the journal once the database has it, so a run that was interrupted is continued by the next.
"""

from __future__ import annotations

import json
import sys
import urllib.error
import urllib.request
from collections import defaultdict
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from urllib.parse import quote

from vecsieve.config.problems import Problem, SettingsError, masked, one_line
from vecsieve.proxy.jobs.files import key_from, output_console
from vecsieve.proxy.writes.journal import Book, JournalError, Row

BATCH = 100
TIMEOUT_SECONDS = 60.0
SHOWN = 20  # points that are listed


class UndoError(Exception):
    pass


@dataclass(frozen=True, slots=True, kw_only=True)
class Arguments:
    """Of the command line. ``collection``, ``since``, ``id``: None for all. ``api_key_env``: None for the usual variable."""

    journal: Path
    url: str
    collection: str | None
    since: str | None
    id: str | None
    apply: bool
    api_key_env: str | None


def run(arguments: Arguments, environment: Mapping[str, str]) -> int:
    """The exit code: 0, or 1 where the journal or the database cannot be used. Raises SettingsError for arguments."""
    since = _moment(arguments.since)
    server = _Server(arguments.url, key_from(environment, arguments.api_key_env, usual="QDRANT_API_KEY"))
    try:
        with closing(Book(arguments.journal, must_exist=True)) as book:
            rows = book.left_out(collection=arguments.collection, since=since, id=_identifier(arguments.id))
            newest = list({(row.collection, row.partition, row.id): row for row in rows}.values())
            _show(newest)
            if arguments.apply:
                _apply(book, server, newest)
            elif newest:
                output_console().print("nothing was changed; --apply stores them")
    except (JournalError, UndoError) as error:
        sys.stderr.write(f"vecsieve undo: {error}\n")
        return 1
    return 0


def _moment(text: str | None) -> float:
    """Seconds since the epoch of an ISO 8601 date; UTC without a zone."""
    if text is None:
        return 0.0
    try:
        read = datetime.fromisoformat(text)
    except ValueError:
        raise SettingsError([Problem("--since", repr(text), "a date such as 2026-11-23 or 2026-11-23T09:30")]) from None
    return (read if read.tzinfo is not None else read.replace(tzinfo=UTC)).timestamp()


def _identifier(text: str | None) -> bytes | None:
    return None if text is None else (text if text.isdecimal() else json.dumps(text.lower())).encode()


def _show(rows: Sequence[Row]) -> None:
    console = output_console()
    console.print(f"{len(rows)} points were left out")
    for row in rows[:SHOWN]:
        at = datetime.fromtimestamp(row.at, UTC).isoformat(timespec="seconds")
        said = f"{at}  {row.collection}  {row.id.decode()}  {row.tier} copy of {row.survivor.decode()}, {row.similarity:.4f}"
        console.print(one_line(said), markup=False)
    if len(rows) > SHOWN:
        console.print(f"and {len(rows) - SHOWN} more")


def _apply(book: Book, server: _Server, rows: Sequence[Row]) -> None:
    groups: defaultdict[tuple[str, bytes], list[Row]] = defaultdict(list)
    for row in rows:
        groups[row.collection, row.partition].append(row)
    stored = there = 0
    for (collection, partition), group in groups.items():
        each = iter(group)
        while batch := list(islice(each, BATCH)):
            present = server.present(collection, partition, [row.id for row in batch])
            missing = [row for row in batch if row.id not in present]
            if missing:
                server.store(collection, partition, [row.point for row in missing])
                book.undone(row.number for row in missing)
            stored, there = stored + len(missing), there + len(batch) - len(missing)
    output_console().print(f"{stored} were stored; {there} have an id that is stored by now, and stay as they are")


class _Server:
    """Qdrant over REST, one request at a time; the bytes of points are sent as they are."""

    def __init__(self, url: str, api_key: str | None) -> None:
        if not url.startswith(("http://", "https://")):
            raise SettingsError([Problem("--url", str(masked(url)), "http(s)://host:port")])
        self._url = url.rstrip("/")
        self._headers = {"Content-Type": "application/json", **({} if api_key is None else {"api-key": api_key})}

    def present(self, collection: str, partition: bytes, ids: Sequence[bytes]) -> frozenset[bytes]:
        """Which of these ids are stored."""
        body = b'{"ids":[%s],"with_payload":false,"with_vector":false%s}' % (b",".join(ids), _behind(partition))
        found = json.loads(self._sent("POST", collection, "", body))["result"]
        return frozenset(json.dumps(each["id"]).encode() for each in found)

    def store(self, collection: str, partition: bytes, points: Sequence[bytes]) -> None:
        """Upsert these points, and wait until that is done."""
        self._sent("PUT", collection, "?wait=true", b'{"points":[%s]%s}' % (b",".join(points), _behind(partition)))

    def _sent(self, method: str, collection: str, query: str, body: bytes) -> bytes:
        target = f"{self._url}/collections/{quote(collection, safe='')}/points{query}"
        request = urllib.request.Request(target, data=body, headers=self._headers, method=method)  # noqa: S310 - http(s), checked above
        try:
            with urllib.request.urlopen(request, timeout=TIMEOUT_SECONDS) as answer:  # noqa: S310 - the same
                content: bytes = answer.read()
                return content
        except urllib.error.HTTPError as error:
            with error:
                raise UndoError(f"{masked(self._url)} answered with status {error.code}") from None
        except OSError as error:
            raise UndoError(f"cannot reach {masked(self._url)}: {type(error).__name__}") from None


def _behind(partition: bytes) -> bytes:
    return b',"shard_key":' + partition if partition else b""
