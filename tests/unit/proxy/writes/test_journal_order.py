"""What is older than a deletion or a write of a client is told by its place in the journal: no clock, and no write that ends late, changes that."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from support.jobs.journals import rows_left_out
from support.process.clocks import ManualClock
from vecsieve.adapters.writes import Deletion
from vecsieve.proxy.writes.book import MOST_IDS, Book
from vecsieve.proxy.writes.journal import Journal
from vecsieve.proxy.writes.rows import ANY, EVERYWHERE, NO_ID, UNSEEN_SECONDS, Kind, LeftOut, State

HOUR = 3600.0
ONE = LeftOut(collection="docs", partition=b"", id=b"1", survivor=b"9", tier="exact", similarity=1.0, point=b"one")
LATER = replace(ONE, point=b"later")
REMOVED = replace(ONE, point=b"removed", kind=Kind.REMOVED)
GONE = [Deletion(collection="docs", partition=b"", ids=(b"1",))]


NUMBER = 1 << 16  # of a deletion


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


def delete(book: Book) -> None:
    place = book.deletions_begun(NUMBER, GONE, at=5.0)
    book.deletions_ended(NUMBER, GONE, is_done=True, place=place)


@pytest.mark.parametrize("jump", [-HOUR, 0.0, HOUR])
async def test_a_deletion_concerns_what_was_left_out_before_it_and_nothing_later(path: Path, jump: float) -> None:
    wall = ManualClock(100 * HOUR)
    journal = Journal(path, now=wall)
    await journal.enter([ONE], State.DONE)
    wall.now += jump
    place = await journal.deletions_begun(NUMBER, GONE)
    wall.now -= 2 * jump
    await journal.enter([LATER], State.DONE)
    wall.now += jump
    await journal.deletions_ended(NUMBER, GONE, is_done=True, place=place)
    await journal.close()
    assert states(path) == {b"one": "superseded", b"later": "done"}


@pytest.mark.parametrize("is_done", [True, False, None])
async def test_while_a_deletion_is_under_way_its_points_are_in_doubt_and_a_refusal_ends_that(
    path: Path, is_done: bool | None
) -> None:
    journal = Journal(path, now=ManualClock(1.0), steady=ManualClock(1.0))
    await journal.enter([ONE, replace(ONE, id=b"2", point=b"two")], State.DONE)
    place = await journal.deletions_begun(NUMBER, GONE)
    with closing(Book(path)) as book:
        for steady in (None, 2.0, HOUR):
            assert [head.id for head in book.heads(steady=steady)] == [b"2"], "also after a kill, before the next start"
            assert book.doubted(collection=None, since=0.0, ids=None, steady=steady) == 1
        assert len(book.heads(also=[State.DOUBTED])) == 2
        await journal.deletions_ended(NUMBER, GONE, is_done=is_done, place=place)
        assert len(book.heads()) == (2 if is_done is False else 1)
    await journal.close()
    assert states(path)[b"one"] == {True: "superseded", False: "done", None: "doubted"}[is_done]


def test_what_a_killed_process_was_deleting_stays_in_doubt(path: Path, book: Book) -> None:
    book.enter([ONE, REMOVED, replace(ONE, id=b"2", point=b"two")], State.DONE, at=1.0)
    book.deletions_begun(NUMBER, GONE, at=1.0)
    book.forget_deletions()
    assert states(path) == {b"one": "doubted", b"removed": "doubted", b"two": "done"}
    assert [head.id for head in book.heads()] == [b"2"]


def test_what_a_killed_process_was_removing_is_in_no_doubt(path: Path, book: Book) -> None:
    """It may be removed, and its client knows nothing of that."""
    book.enter([REMOVED], State.PENDING, at=1.0)
    assert book.removing({NUMBER: REMOVED}, at=2.0, steady=2.0) == {b"1"}
    book.forget_deletions()
    assert [head.kind for head in book.heads(steady=3.0)] == [Kind.REMOVED]


def test_rows_of_several_workers_have_one_order(path: Path, book: Book) -> None:
    """A row that another process enters is later, though its clock is behind."""
    with closing(Book(path)) as other:
        book.enter([ONE], State.DONE, at=100.0)
        place = book.latest()
        other.enter([LATER], State.DONE, at=50.0)
        book.deletions_ended(NUMBER, GONE, is_done=True, place=place)
    assert states(path) == {b"one": "superseded", b"later": "done"}


def test_a_write_that_ends_late_supersedes_no_newer_row(path: Path, book: Book) -> None:
    """Of two writes of one id the second began later, and ended first."""
    book.enter([ONE], State.DONE, at=1.0)
    place = book.enter([replace(ONE, id=b"2", point=b"other")], State.PENDING, at=2.0)
    book.enter([LATER], State.DONE, at=3.0)
    book.outdate(GONE, until=place)
    assert states(path) == {b"one": "superseded", b"other": "pending", b"later": "done"}


def test_older_contents_are_in_doubt_while_their_id_is_left_out(book: Book) -> None:
    """And no longer, if that write is not acknowledged."""
    book.enter([ONE, replace(ONE, id=NO_ID, point=b"without")], State.DONE, at=1.0)
    for after, left in ((State.REFUSED, [b"one", b"without"]), (State.DONE, [b"one", b"without", b"later"])):
        book.enter([LATER, replace(ONE, id=NO_ID, point=b"too")], State.PENDING, at=2.0)
        assert [row.point for row in rows_left_out(book)] == [b"without"]
        book.settle([LATER], after, at=3.0)
        assert [row.point for row in rows_left_out(book)] == left


def test_a_point_is_removed_when_it_is_about_to_be_and_not_before(path: Path, book: Book) -> None:
    """A write that was carried out does not make it DONE: while it is stored, a client may delete it, and `undo` would bring it back."""
    book.enter([REMOVED], State.PENDING, at=1.0)
    assert rows_left_out(book) == []
    assert book.removing({NUMBER: REMOVED}, at=2.0, steady=2.0) == {b"1"}
    assert [row.kind for row in rows_left_out(book)] == [Kind.REMOVED]


@pytest.mark.parametrize("is_done", [None, True, False])
def test_a_point_that_a_client_is_deleting_is_not_removed(path: Path, book: Book, is_done: bool | None) -> None:
    book.enter([REMOVED], State.PENDING, at=1.0)
    place = book.deletions_begun(NUMBER, GONE, at=1.0)
    assert book.removing({2 * NUMBER: REMOVED}, at=2.0, steady=2.0) == frozenset()
    book.deletions_ended(NUMBER, GONE, is_done=is_done, place=place)
    assert book.removing({2 * NUMBER: REMOVED}, at=2.0, steady=2.0) == ({b"1"} if is_done is False else set())


def test_a_point_that_is_deleted_after_it_was_read_is_not_removed(path: Path, book: Book) -> None:
    """What was deleted before that read was stored anew, if the read shows it."""
    book.enter([REMOVED], State.PENDING, at=1.0)
    delete(book)
    book.reading([REMOVED])
    assert book.removing({2 * NUMBER: REMOVED}, at=2.0, steady=2.0) == {b"1"}
    book.reading([REMOVED])
    delete(book)
    assert book.removing({3 * NUMBER: REMOVED}, at=3.0, steady=3.0) == frozenset()
    assert states(path) == {b"removed": "superseded"}


def test_a_row_in_doubt_is_not_entered_anew_for_a_stored_point(path: Path, book: Book) -> None:
    """The deletion may be under way: `undo` would bring the point back between it and its answer."""
    book.enter([REMOVED], State.PENDING, at=1.0)
    book.deletions_ended(NUMBER, GONE, is_done=None, place=None)
    book.enter([REMOVED], State.PENDING, at=2.0)
    assert book.removing({NUMBER: REMOVED}, at=3.0, steady=3.0) == frozenset()
    assert states(path) == {b"removed": "doubted"}


def test_a_point_that_undo_restored_while_it_was_removed_is_in_the_journal(path: Path, book: Book) -> None:
    book.enter([REMOVED], State.PENDING, at=1.0)
    book.removing({NUMBER: REMOVED}, at=2.0, steady=2.0)
    book.undone([1])
    book.removed({NUMBER: REMOVED})
    assert states(path) == {b"removed": "doubted"}


def test_the_end_of_a_removal_that_was_not_begun_changes_nothing(path: Path, book: Book) -> None:
    book.enter([REMOVED], State.PENDING, at=1.0)
    delete(book)
    book.removed({NUMBER: REMOVED})
    assert states(path) == {b"removed": "superseded"}


@pytest.mark.parametrize("before", [State.DONE, State.DOUBTED])
def test_a_point_that_was_removed_while_it_was_deleted_does_not_come_back(
    path: Path, book: Book, before: State
) -> None:
    """The deletion began before the row was entered."""
    place = book.deletions_begun(NUMBER, GONE, at=1.0)
    book.enter([REMOVED], before, at=1.0)
    book.deletions_ended(NUMBER, GONE, is_done=True, place=place)
    assert states(path) == {b"removed": "superseded"}


def test_a_point_that_was_deleted_while_it_was_removed_is_in_doubt(path: Path, book: Book) -> None:
    """It may have been deleted and stored anew meanwhile."""
    book.enter([REMOVED], State.PENDING, at=1.0)
    book.removing({2 * NUMBER: REMOVED}, at=2.0, steady=2.0)
    delete(book)
    book.removed({2 * NUMBER: REMOVED})
    assert states(path) == {b"removed": "doubted"}


def test_a_restored_point_supersedes_older_contents_alone(path: Path, book: Book) -> None:
    for at, row in ((3.0, ONE), (2.0, LATER), (1.0, replace(ONE, point=b"last"))):
        book.enter([row], State.DONE, at=at)
    book.undone([2])
    assert states(path) == {b"one": "superseded", b"later": "undone", b"last": "done"}


@pytest.mark.parametrize(
    ("noted", "unseen"),
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
    book: Book, noted: tuple[str, bytes, list[bytes]], unseen: set[bytes]
) -> None:
    book.note(*noted, at=5.0)
    assert book.unseen("docs", b"", [b"1", b"2"], at=6.0) == unseen
    assert book.unseen("docs", b"", [b"1", b"2"], at=6.0 + UNSEEN_SECONDS) == frozenset()
    assert book.unseen("docs", b"", [], at=6.0) == frozenset()


async def test_without_a_file_there_is_nothing_to_follow_and_none_is_made(path: Path) -> None:
    journal = Journal(path, now=lambda: 1.0)
    assert await journal.before("docs", b"", [b"1"]) is None
    assert await journal.deletions_begun(NUMBER, GONE) == 0.0
    await journal.deletions_ended(NUMBER, GONE, is_done=True, place=0.0)
    await journal.outdate(GONE, until=0.0)
    await journal.close()
    assert not path.exists()


def test_what_is_being_removed_is_in_doubt_until_every_removal_of_it_has_ended(book: Book) -> None:
    """Two writes may remove one point: what `undo` stores between would be removed again."""
    book.enter([REMOVED], State.PENDING, at=1.0)
    for number in (1, 2):
        book.removing({number * NUMBER: REMOVED}, at=2.0, steady=2.0)
    for number in (1, 2):
        assert book.heads(steady=4.0) == []
        assert book.doubted(collection=None, since=0.0, ids=None, steady=4.0) == 1
        assert len(book.heads(steady=4.0, also=[State.DOUBTED])) == 1
        assert len(book.heads(steady=3.0 + UNSEEN_SECONDS)) == 1, "its worker was killed"
        book.removed({number * NUMBER: REMOVED})
    assert [head.kind for head in book.heads(steady=4.0)] == [Kind.REMOVED]


def test_what_is_entered_while_a_deletion_is_under_way_is_in_doubt_until_its_end(book: Book) -> None:
    """Of several deletions each ends for itself, also one whose beginning never came into the file."""
    all_of_it = [Deletion(collection=REMOVED.collection)]
    for number in (1, 2):
        book.deletions_begun(number * NUMBER, all_of_it, at=1.0)
    book.enter([REMOVED], State.DONE, at=1.0)
    for number in (1, 3):
        book.deletions_ended(number * NUMBER, all_of_it, is_done=False, place=0.0)
        assert book.heads(steady=3.0) == []
    book.deletions_ended(2 * NUMBER, all_of_it, is_done=False, place=0.0)
    assert len(book.heads(steady=3.0)) == 1


def test_a_deletion_of_another_place_is_no_doubt_and_one_of_long_ago_stays_one(path: Path, book: Book) -> None:
    """A worker that was killed says no end: after ten minutes, or when the machine was started since, its deletions are doubts."""
    docs = REMOVED.collection
    for steady in (1.0 + UNSEEN_SECONDS, 0.5):
        book.enter([REMOVED], State.DONE, at=1.0)
        for number, row in enumerate(
            [
                Deletion(collection="another"),
                Deletion(collection=docs, ids=(b"77",)),
                Deletion(collection=docs, partition=b"other"),
            ]
        ):
            book.deletions_begun(number, [row], at=1.0)
        assert len(book.heads()) == 1
        several = [Deletion(collection=docs, ids=tuple(b"%d" % number for number in range(2 * MOST_IDS)))]
        book.deletions_begun(NUMBER, several, at=1.0)
        assert book.heads() == []
        book.deletions_begun(2 * NUMBER, [], at=steady + 1e-3 if steady > 1 else steady)
        assert (book.heads(), states(path)) == ([], {b"removed": "doubted"})


def test_a_changed_point_that_is_removed_later_is_restored_as_it_was_removed(book: Book) -> None:
    changed = replace(REMOVED, kind=Kind.CHANGED, became=b"{}")
    book.enter([changed], State.DONE, at=1.0)
    book.enter([REMOVED], State.PENDING, at=2.0)
    assert book.removing({NUMBER: REMOVED}, at=3.0, steady=3.0) == {b"1"}
    book.removed({NUMBER: REMOVED})
    assert [head.kind for head in book.heads(steady=4.0)] == [Kind.REMOVED]


@pytest.mark.parametrize(
    ("is_done", "became"), [(True, "done"), (False, "done"), (None, "doubted")], ids=["carried out", "refused", "lost"]
)
async def test_a_deletion_without_an_answer_leaves_a_doubt_and_ends(
    path: Path, is_done: bool | None, became: str
) -> None:
    """What comes into the journal behind it is in no doubt. What came beside it is, if nobody knows when it was carried out."""
    journal = Journal(path, now=ManualClock(1.0), steady=ManualClock(1.0))
    await journal.enter([REMOVED], State.DONE)
    everything = [Deletion(collection="docs")]
    place = await journal.deletions_begun(NUMBER, everything)
    await journal.enter([LATER], State.DONE)
    await journal.deletions_ended(NUMBER, everything, is_done=is_done, place=place)
    await journal.enter([replace(ONE, id=b"2")], State.DONE)
    await journal.close()
    assert states(path)[b"later"] == became
    with closing(Book(path)) as book:
        assert b"2" in [head.id for head in book.heads(steady=2.0)]
