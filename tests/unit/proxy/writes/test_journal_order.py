"""What is older than a deletion or a write of a client is told by its place in the journal: no clock, and no write that ends late, changes that."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from support.process.clocks import ManualClock
from vecsieve.adapters.writes import Deletion
from vecsieve.proxy.writes.book import MOST_IDS, UNSEEN_SECONDS, Book
from vecsieve.proxy.writes.deletions import Deletions, Doubted
from vecsieve.proxy.writes.journal import Journal
from vecsieve.proxy.writes.rows import ANY, EVERYWHERE, Kind, LeftOut, State

HOUR = 3600.0
ONE = LeftOut(collection="docs", partition=b"", id=b"1", survivor=b"9", tier="exact", similarity=1.0, point=b"one")
LATER = replace(ONE, point=b"later")
REMOVED = replace(ONE, point=b"removed", kind=Kind.REMOVED)
GONE = [Deletion(collection="docs", partition=b"", ids=(b"1",))]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "j.db"


@pytest.fixture
def book(path: Path) -> Iterator[Book]:
    with closing(Book(path)) as book:
        yield book


def states(path: Path) -> dict[bytes, str]:
    with closing(sqlite3.connect(path)) as file:
        return dict(file.execute("SELECT point, state FROM points"))


@pytest.mark.parametrize("jump", [-HOUR, 0.0, HOUR])
async def test_a_deletion_concerns_what_was_left_out_before_it_and_nothing_later(path: Path, jump: float) -> None:
    wall = ManualClock(100 * HOUR)
    journal = Journal(path, now=wall)
    await journal.enter([ONE], State.DONE)
    wall.now += jump
    place = await journal.latest()
    assert await journal.doubt(GONE, until=place) == [1]
    wall.now -= 2 * jump
    await journal.enter([LATER], State.DONE)
    wall.now += jump
    await journal.supersede(GONE, until=place)
    await journal.close()
    assert states(path) == {b"one": "superseded", b"later": "done"}


@pytest.mark.parametrize("jump", [-HOUR, HOUR])
async def test_a_refused_deletion_leaves_rows_as_they_were_and_later_doubts_alone(path: Path, jump: float) -> None:
    wall = ManualClock(100 * HOUR)
    journal = Journal(path, now=wall)
    await journal.enter([ONE], State.DONE)
    place = await journal.latest()
    numbers = await journal.doubt(GONE, until=place)
    wall.now += jump
    await journal.settle([ONE], State.DONE)  # left out once more
    assert await journal.doubt(GONE) == numbers  # another deletion
    await journal.believe(numbers, until=place)
    await journal.close()
    assert states(path) == {b"one": "doubted"}


def test_rows_of_several_workers_have_one_order(path: Path, book: Book) -> None:
    """A row that another process enters is later, though its clock is behind."""
    with closing(Book(path)) as other:
        book.enter([ONE], State.DONE, at=100.0)
        place = book.latest()
        other.enter([LATER], State.DONE, at=50.0)
        book.supersede(GONE, until=place)
    assert states(path) == {b"one": "superseded", b"later": "done"}


def test_a_write_that_ends_late_supersedes_no_newer_row(path: Path, book: Book) -> None:
    """Of two writes of one id the second began later, and ended first."""
    book.enter([ONE], State.DONE, at=1.0)
    place = book.enter([replace(ONE, id=b"2", point=b"other")], State.PENDING, at=2.0)
    book.enter([LATER], State.DONE, at=3.0)
    book.outdate(GONE, until=place)
    assert states(path) == {b"one": "superseded", b"other": "pending", b"later": "done"}


def test_what_is_marked_by_another_worker_meanwhile_keeps_its_mark(path: Path, book: Book) -> None:
    book.enter([ONE], State.DONE, at=1.0)
    found = book._among

    def raced(*values: object) -> list[int]:
        numbers = found(*values)  # type: ignore[arg-type]  # - as they came
        with closing(sqlite3.connect(path)) as file, file:
            file.execute("UPDATE points SET state = 'superseded'")
        return numbers

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(book, "_among", raced)
        assert book.doubt(GONE) == []
    assert states(path) == {b"one": "superseded"}


def test_a_point_is_removed_when_it_is_about_to_be_and_not_before(path: Path, book: Book) -> None:
    """A write that was carried out does not make it DONE: while it is stored, a client may delete it, and `undo` would bring it back."""
    book.enter([REMOVED], State.PENDING, at=1.0)
    assert book.left_out() == []
    assert book.removing([REMOVED], at=2.0, steady=2.0) == {b"1"}
    assert [row.kind for row in book.left_out()] == [Kind.REMOVED]


def test_a_point_whose_deletion_is_under_way_is_not_removed(path: Path, book: Book) -> None:
    book.enter([REMOVED], State.PENDING, at=1.0)
    book.doubt(GONE)
    assert book.removing([REMOVED], at=2.0, steady=2.0) == frozenset()


def test_a_point_that_is_deleted_after_it_was_read_is_not_removed(path: Path, book: Book) -> None:
    """What was deleted before that read was stored anew, if the read shows it."""
    book.enter([REMOVED], State.PENDING, at=1.0)
    book.supersede(GONE, until=book.latest())
    book.reading([REMOVED])
    assert book.removing([REMOVED], at=2.0, steady=2.0) == {b"1"}
    book.reading([REMOVED])
    book.supersede(GONE, until=book.latest())
    assert book.removing([REMOVED], at=3.0, steady=3.0) == frozenset()
    assert states(path) == {b"removed": "superseded"}


def test_a_row_in_doubt_is_not_entered_anew_for_a_stored_point(path: Path, book: Book) -> None:
    """The deletion may be under way: `undo` would bring the point back between it and its answer."""
    book.enter([REMOVED], State.PENDING, at=1.0)
    book.doubt(GONE)
    book.enter([REMOVED], State.PENDING, at=2.0)
    assert book.removing([REMOVED], at=3.0, steady=3.0) == frozenset()
    assert states(path) == {b"removed": "doubted"}


def test_a_point_that_undo_restored_while_it_was_removed_is_in_the_journal(path: Path, book: Book) -> None:
    book.enter([REMOVED], State.PENDING, at=1.0)
    book.removing([REMOVED], at=2.0, steady=2.0)
    book.undone([1])
    book.removed([REMOVED])
    assert states(path) == {b"removed": "doubted"}


@pytest.mark.parametrize(("before", "after"), [(State.DONE, "superseded"), (State.DOUBTED, "superseded")])
def test_a_point_that_was_removed_while_it_was_deleted_does_not_come_back(
    path: Path, book: Book, before: State, after: str
) -> None:
    """The deletion began before the row was entered."""
    place = book.latest()
    book.enter([REMOVED], before, at=1.0)
    book.supersede(GONE, until=place)
    assert states(path) == {b"removed": after}
    book.removed([REMOVED])
    assert states(path) == {b"removed": "doubted"}, "it may have been deleted and stored anew meanwhile"


def test_a_restored_point_supersedes_older_contents_alone(path: Path, book: Book) -> None:
    for at, each in ((3.0, ONE), (2.0, LATER), (1.0, replace(ONE, point=b"last"))):
        book.enter([each], State.DONE, at=at)
    book.undone([2])
    assert states(path) == {b"one": "superseded", b"later": "undone", b"last": "done"}


@pytest.mark.parametrize(
    ("noted", "found"),
    [
        (("docs", b"", [b"1"]), {b"1"}),
        (("docs", ANY, [b"1"]), {b"1"}),
        (("docs", b"", [ANY]), {b"1", b"2"}),
        (("docs", ANY, [ANY]), {b"1", b"2"}),
        ((EVERYWHERE, ANY, [ANY]), {b"1", b"2"}),
        (("docs", b'"eu"', [b"1", ANY]), set()),
        (("others", ANY, [ANY]), set()),
    ],
)
def test_after_what_could_not_be_parsed_all_ids_of_its_place_may_be_unseen(
    book: Book, noted: tuple[str, bytes, list[bytes]], found: set[bytes]
) -> None:
    book.note(*noted, at=5.0)
    assert book.unseen("docs", b"", [b"1", b"2"], at=6.0) == found
    assert book.unseen("docs", b"", [b"1", b"2"], at=6.0 + UNSEEN_SECONDS) == frozenset()
    assert book.unseen("docs", b"", [], at=6.0) == frozenset()


async def test_without_a_file_there_is_nothing_to_follow_and_none_is_made(path: Path) -> None:
    journal = Journal(path, now=lambda: 1.0)
    assert await journal.latest() == 0.0
    assert await journal.doubt(GONE) == []
    await journal.supersede(GONE, until=0.0)
    await journal.outdate(GONE, until=0.0)
    await journal.close()
    assert not path.exists()


def test_what_is_being_removed_is_in_doubt_until_every_removal_of_it_has_ended(book: Book) -> None:
    """Two writes may remove one point: what `undo` stores between would be removed again."""
    book.enter([REMOVED], State.PENDING, at=1.0)
    for steady in (2.0, 3.0):
        book.removing([REMOVED], at=2.0, steady=steady)
    for _ in range(2):
        assert book.heads(steady=4.0) == []
        assert book.doubted(collection=None, since=0.0, ids=None, steady=4.0) == 1
        assert len(book.heads(steady=4.0, also=[State.DOUBTED])) == 1
        book.removed([REMOVED])
    assert [head.kind for head in book.heads(steady=4.0)] == [Kind.REMOVED]


def test_what_is_entered_while_a_deletion_is_under_way_is_in_doubt_until_its_end(book: Book) -> None:
    all_of_it = [Deletion(collection=REMOVED.collection)]
    book.deletions_begun(all_of_it, at=1.0)
    book.deletions_begun(all_of_it, at=2.0)
    book.enter([REMOVED], State.DONE, at=1.0)
    book.deletions_ended(all_of_it)
    assert book.heads(steady=3.0) == []
    book.deletions_ended(all_of_it)
    assert len(book.heads(steady=3.0)) == 1


def test_a_deletion_of_another_place_or_of_long_ago_is_no_doubt(book: Book) -> None:
    """A process that was killed says no end: after ten minutes, or when the machine was started since, its deletions count no longer."""
    book.enter([REMOVED], State.DONE, at=1.0)
    book.deletions_begun([Deletion(collection="another")], at=1000.0)
    book.deletions_begun([Deletion(collection=REMOVED.collection, ids=(b"77",))], at=1000.0)
    book.deletions_begun([Deletion(collection=REMOVED.collection, partition=b"other")], at=1000.0)
    assert len(book.heads(steady=1001.0)) == 1
    book.deletions_begun(
        [Deletion(collection=REMOVED.collection, ids=tuple(b"%d" % number for number in range(2 * MOST_IDS)))],
        at=1000.0,
    )
    assert book.heads(steady=1001.0) == []
    assert len(book.heads(steady=1001.0 + UNSEEN_SECONDS)) == 1
    book.deletions_begun([], at=5.0)
    assert len(book.heads(steady=6.0)) == 1


def test_a_changed_point_that_is_removed_later_is_restored_as_it_was_removed(book: Book) -> None:
    changed = replace(REMOVED, kind=Kind.CHANGED, became=b"{}")
    book.enter([changed], State.DONE, at=1.0)
    book.enter([REMOVED], State.PENDING, at=2.0)
    assert book.removing([REMOVED], at=3.0, steady=3.0) == {b"1"}
    book.removed([REMOVED])
    assert [head.kind for head in book.heads(steady=4.0)] == [Kind.REMOVED]


@pytest.mark.parametrize(
    ("is_done", "became"), [(True, "done"), (False, "done"), (None, "doubted")], ids=["carried out", "refused", "lost"]
)
async def test_a_deletion_without_an_answer_leaves_a_doubt_and_ends(
    path: Path, is_done: bool | None, became: str
) -> None:
    """What comes into the journal behind it is in no doubt. What came beside it is, if nobody knows when it was carried out."""
    journal, clock = Journal(path, now=ManualClock(1.0), steady=ManualClock(1.0)), 2.0
    await journal.enter([REMOVED], State.DONE)
    unused: Any = None
    deletions = Deletions(unused, unused, unused, journal)
    everything = [Deletion(collection="docs")]
    await journal.deletions_begun(everything)
    doubted = Doubted(everything, [], await journal.latest())
    await journal.enter([LATER], State.DONE)
    await deletions.ended(doubted, is_done=is_done)
    await journal.enter([replace(ONE, id=b"2")], State.DONE)
    await journal.close()
    assert states(path)[b"later"] == became
    with closing(Book(path)) as book:
        assert b"2" in [head.id for head in book.heads(steady=clock)]
