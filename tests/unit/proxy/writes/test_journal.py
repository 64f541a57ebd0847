"""The journal: a row for each point that was left out, durable before its write goes out, the same row however often it comes."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from support.jobs.journals import rows_left_out
from vecsieve.proxy.writes.book import Book
from vecsieve.proxy.writes.journal import Journal
from vecsieve.proxy.writes.rows import NO_ID, Kind, LeftOut, State

POINT = LeftOut(
    collection="docs",
    partition=b"",
    id=b"7",
    survivor=b"1",
    tier="exact",
    similarity=0.99,
    point=b'{"id":7,"vector":[1.50,2],"payload":{"text":"gr\xc3\xb6\xc3\x9fe"}}',
)
LATER = replace(POINT, survivor=b"2")
OTHER = replace(POINT, id=b"8", point=b'{"id":8,"vector":[1,2]}')


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "journal.db"


@pytest.fixture
def book(path: Path) -> Iterator[Book]:
    opened = Book(path)
    yield opened
    opened.close()


def states(path: Path) -> list[str]:
    connection = sqlite3.connect(path)
    try:
        return [state for (state,) in connection.execute("SELECT state FROM points ORDER BY number")]
    finally:
        connection.close()


def test_a_point_comes_back_byte_for_byte(book: Book) -> None:
    book.enter([POINT], State.DONE, at=5.0)
    (row,) = rows_left_out(book)
    assert (row.point, row.id, row.survivor, row.at, row.collection) == (POINT.point, b"7", b"1", 5.0, "docs")


def test_only_points_that_were_acknowledged_are_listed(book: Book, path: Path) -> None:
    book.enter([POINT, OTHER], State.PENDING, at=1.0)
    assert rows_left_out(book) == []
    book.settle([POINT], State.DONE, at=2.0)
    book.settle([OTHER], State.REFUSED, at=2.0)
    assert [row.id for row in rows_left_out(book)] == [b"7"]
    assert states(path) == ["done", "refused"]


def test_the_same_point_again_is_the_same_row_and_stays_done(book: Book, path: Path) -> None:
    for _ in range(3):
        book.enter([POINT], State.PENDING, at=1.0)
        book.settle([POINT], State.DONE, at=2.0)
    book.enter([POINT], State.PENDING, at=2.0)
    book.settle([POINT], State.REFUSED, at=2.0)
    assert states(path) == ["done"]


@pytest.mark.parametrize("before", [State.REFUSED, State.UNDONE, State.PENDING])
def test_a_point_that_was_stored_or_refused_may_be_left_out_anew(book: Book, before: State) -> None:
    book.enter([POINT], before, at=1.0)
    book.enter([LATER], State.PENDING, at=2.0)
    book.settle([LATER], State.DONE, at=2.0)
    assert [(row.survivor, round(row.at, 3)) for row in rows_left_out(book)] == [(b"2", 2.0)]


def test_a_point_that_is_left_out_again_has_its_latest_survivor(book: Book) -> None:
    """Else two points that took each other's place would name each other, and not the one that is stored."""
    book.enter([POINT], State.DONE, at=1.0)
    book.enter([LATER], State.PENDING, at=2.0)
    book.settle([LATER], State.DONE, at=3.0)
    assert [(row.survivor, row.at) for row in rows_left_out(book)] == [(b"2", 3.0)]


def test_a_survivor_that_was_not_stored_takes_no_place_of_one_that_was(book: Book) -> None:
    book.enter([POINT], State.PENDING, at=1.0)
    book.settle([POINT], State.DONE, at=1.0)
    book.enter([replace(LATER, kind=Kind.REMOVED)], State.PENDING, at=2.0)
    assert [(row.survivor, row.kind) for row in rows_left_out(book)] == [(b"1", Kind.LEFT_OUT)]


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_of_two_writes_for_which_a_point_goes_the_one_that_was_carried_out_counts(
    book: Book, order: tuple[int, int]
) -> None:
    """The database refused the other: the point is gone all the same, and has the survivor that is stored."""
    for at in order:
        book.enter([(POINT, LATER)[at]], State.PENDING, at=1.0)
    book.settle([POINT], State.REFUSED, at=2.0)
    book.settle([LATER], State.DONE, at=3.0)
    assert [(row.survivor, row.at) for row in rows_left_out(book)] == [(b"2", 3.0)]


@pytest.mark.parametrize(("id", "state"), [(b"7", "done"), (NO_ID, "undone")])
def test_a_point_that_was_restored_meanwhile_may_go_once_more_unless_it_would_be_stored_twice(
    path: Path,
    id: bytes,  # noqa: A002 - as in the journal
    state: str,
) -> None:
    book, point = Book(path), replace(POINT, id=id)
    book.enter([point], State.PENDING, at=1.0)
    book.enter([point], State.PENDING, at=2.0)
    book.settle([point], State.DONE, at=3.0)
    book.undone([1])
    book.settle([point], State.DONE, at=4.0)
    assert states(path) == [state]
    book.close()


def test_points_that_were_removed_or_changed_are_told_apart_and_come_by_time(book: Book) -> None:
    book.enter([replace(OTHER, kind=Kind.CHANGED, became=b"{}")], State.DONE, at=1.0)
    book.enter([replace(POINT, kind=Kind.REMOVED)], State.DONE, at=9.0)
    assert [(row.kind, row.became) for row in rows_left_out(book)] == [(Kind.CHANGED, b"{}"), (Kind.REMOVED, None)]


def test_copies_of_refused_writes_are_listed_where_they_are_asked_for(book: Book) -> None:
    book.enter([POINT], State.REJECTED, at=1.0)
    assert rows_left_out(book) == []
    assert [head.id for head in book.heads(also=[State.REJECTED])] == [b"7"]
    book.enter([POINT], State.PENDING, at=2.0)  # the mode became skip, and the client came again
    book.settle([POINT], State.DONE, at=2.0)
    assert len(rows_left_out(book)) == 1


def test_the_same_content_under_two_ids_or_in_two_collections_is_two_rows(book: Book) -> None:
    book.enter([POINT, OTHER, replace(POINT, collection="b"), replace(POINT, partition=b'"eu"')], State.DONE, at=1.0)
    assert len(rows_left_out(book)) == 4


def test_rows_are_chosen_by_collection_moment_and_id(book: Book) -> None:
    book.enter([POINT], State.DONE, at=1.0)
    book.enter([OTHER, replace(POINT, collection="b")], State.DONE, at=9.0)
    assert [row.id for row in rows_left_out(book, collection="docs")] == [b"7", b"8"]
    assert [row.collection for row in rows_left_out(book, since=5.0)] == ["docs", "b"]
    assert [row.collection for row in rows_left_out(book, id=b"7")] == ["docs", "b"]
    book.undone([row.number for row in rows_left_out(book, collection="b")])
    assert len(rows_left_out(book)) == 2


def test_what_rows_are_of_is_listed_without_their_contents(book: Book) -> None:
    book.enter([POINT, OTHER, replace(POINT, partition=b'"eu"')], State.DONE, at=1.0)
    heads = book.heads(ids=[b"7", b"9"])
    assert [(head.id, head.partition, head.size) for head in heads] == [
        (b"7", b"", len(POINT.point)),
        (b"7", b'"eu"', len(POINT.point)),
    ]
    assert [row.partition for row in book.rows([heads[1].number, heads[0].number])] == [b"", b'"eu"']


def test_the_file_is_in_wal_mode_and_every_commit_is_synced(book: Book) -> None:
    run = book._connection.execute
    assert run("PRAGMA journal_mode").fetchone() == ("wal",)
    assert run("PRAGMA synchronous").fetchone() == (2,)  # FULL


def test_a_new_file_is_for_its_owner_alone(book: Book, path: Path) -> None:
    book.enter([POINT], State.DONE, at=1.0)
    assert {file.stat().st_mode & 0o077 for file in path.parent.iterdir()} == {0}


def test_a_process_that_is_killed_loses_nothing_that_was_entered(path: Path) -> None:
    program = f"""
import os, signal
from pathlib import Path
from vecsieve.proxy.writes.book import Book
from vecsieve.proxy.writes.rows import LeftOut, State
book = Book(Path({str(path)!r}))
for n in range(50):
    point = LeftOut(collection="c", partition=b"", id=b"%d" % n, survivor=b"0", tier="exact", similarity=1.0, point=b"%d" % n)
    book.enter([point], State.DONE, at=1.0)
os.kill(os.getpid(), signal.SIGKILL)
"""
    subprocess.run([sys.executable, "-c", program], check=False)
    book = Book(path)
    assert [row.point for row in rows_left_out(book)] == [b"%d" % n for n in range(50)]
    book.close()


def test_two_writers_share_the_file(path: Path) -> None:
    one, other = Book(path), Book(path)
    one.enter([POINT], State.DONE, at=1.0)
    other.enter([OTHER], State.DONE, at=1.0)
    assert len(rows_left_out(one)) == len(rows_left_out(other)) == 2
    one.close()
    other.close()


async def test_the_loop_enters_and_settles_in_a_thread(path: Path) -> None:
    journal = Journal(path, now=lambda: 3.0)
    await journal.enter([POINT], State.PENDING)
    assert states(path) == ["pending"]
    await journal.settle([POINT], State.DONE)
    await journal.close()
    assert states(path) == ["done"]


async def test_a_journal_that_was_never_needed_makes_no_file(path: Path) -> None:
    await Journal(path, now=lambda: 3.0).close()
    assert not path.exists()
