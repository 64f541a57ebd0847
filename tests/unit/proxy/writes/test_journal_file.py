"""The journal's file: of another version, broken, without room, without a right, moved away, of another proxy; and clocks that jump."""

from __future__ import annotations

import os
import shutil
import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from support.jobs.journals import rows_left_out
from support.process.clocks import ManualClock
from vecsieve.config.problems import SettingsError
from vecsieve.proxy.writes import lock
from vecsieve.proxy.writes.book import Book
from vecsieve.proxy.writes.journal import Journal
from vecsieve.proxy.writes.lock import locked
from vecsieve.proxy.writes.rows import UNSEEN_SECONDS, JournalError, LeftOut, State

POINT = LeftOut(
    collection="docs", partition=b"", id=b"7", survivor=b"1", tier="exact", similarity=1.0, point=b'{"secret":7}'
)
DAY = 86_400.0


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "journal.db"


def columns(path: Path) -> set[str]:
    with closing(sqlite3.connect(path)) as connection:
        return {name for _, name, *_ in connection.execute("PRAGMA table_info(points)")}


def another(number: int) -> LeftOut:
    return replace(POINT, id=b"%d" % number, point=b"%d" % number * 2000)


def test_a_file_whose_making_fails_half_way_is_made_by_the_next(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("vecsieve.proxy.writes.book._BY_AT", "CREATE INDEX points_by_at ON nothing (at)")
    with pytest.raises(JournalError, match="syntax error"):
        Book(path)
    assert columns(path) == set()
    monkeypatch.undo()
    with closing(Book(path)) as book:
        book.enter([POINT], State.DONE, at=1.0)
        assert len(rows_left_out(book)) == 1


def test_a_file_of_a_newer_format_is_refused_and_left_as_it_is(path: Path) -> None:
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript("PRAGMA user_version = 9; CREATE TABLE points (everything)")
    before = path.read_bytes()
    with pytest.raises(JournalError, match="saw a journal of format 9, wanted 1: a newer version wrote it") as caught:
        Book(path)
    assert str(path) in str(caught.value)
    assert path.read_bytes() == before


def test_a_file_that_is_no_journal_says_so(path: Path) -> None:
    path.write_bytes(b"no database" * 100)
    with pytest.raises(JournalError, match="saw file is not a database, wanted a journal") as caught:
        Book(path)
    assert str(path) in str(caught.value)


def test_a_journal_that_must_exist_is_not_made(path: Path) -> None:
    with pytest.raises(JournalError, match="no journal at"):
        Book(path, must_exist=True)
    assert not path.exists()


@pytest.mark.timeout(20)
@pytest.mark.parametrize("kind", ["directory", "pipe", "absent folder"])
def test_what_is_no_file_is_refused_at_once(path: Path, kind: str) -> None:
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "directory":
        path.mkdir()
    else:
        path = path.parent / "absent" / path.name
    with pytest.raises(JournalError, match=rf"{path}: saw .*, wanted a journal"):
        Book(path)


@pytest.mark.parametrize("share", [0.9, 0.5, 0.1])
def test_a_truncated_file_is_refused_and_takes_no_further_point(path: Path, share: float) -> None:
    with closing(Book(path)) as book:
        book.enter([another(number) for number in range(200)], State.DONE, at=1.0)
    os.truncate(path, int(path.stat().st_size * share))
    with pytest.raises(JournalError, match=r"malformed|not a database"), closing(Book(path)) as book:
        book.enter([POINT], State.DONE, at=2.0)


def test_a_page_that_was_overwritten_is_an_error_without_content(path: Path) -> None:
    with closing(Book(path)) as book:
        book.enter([another(number) for number in range(200)], State.DONE, at=1.0)
    size = path.stat().st_size
    with path.open("r+b") as file:
        file.seek(4096)
        file.write(b"\xff" * (size - 4096))
    with pytest.raises(JournalError, match="malformed") as caught, closing(Book(path)) as book:
        rows_left_out(book)
    assert "secret" not in str(caught.value)


def test_a_full_disk_loses_nothing_that_was_entered_and_heals(path: Path) -> None:
    with closing(Book(path)) as book:
        book.enter([POINT], State.DONE, at=1.0)
        (pages,) = book._connection.execute("PRAGMA page_count").fetchone()
        book._connection.execute(f"PRAGMA max_page_count = {pages + 1}")
        with pytest.raises(JournalError, match=r"saw database or disk is full, wanted .* a disk with room"):
            book.enter([another(number) for number in range(50)], State.PENDING, at=2.0)
        assert [row.id for row in rows_left_out(book)] == [b"7"]
        book._connection.execute(f"PRAGMA max_page_count = {pages + 1000}")
        book.enter([another(1)], State.DONE, at=3.0)
        assert [row.id for row in rows_left_out(book)] == [b"7", b"1"]


@contextmanager
def nobody() -> Iterator[None]:
    """Root may write everything."""
    if os.getuid() != 0:
        yield
        return
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0)


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """Whose parents anybody may pass, unlike pytest's."""
    folder = Path(tempfile.mkdtemp())
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


@pytest.mark.parametrize("has_file", [True, False])
def test_a_file_or_a_folder_that_may_only_be_read_is_an_error(
    open_folder: Path, caplog: pytest.LogCaptureFixture, *, has_file: bool
) -> None:
    path = open_folder / "journal.db"
    if has_file:
        Book(path).close()
        path.chmod(0o444)
    open_folder.chmod(0o555)
    with nobody(), pytest.raises(JournalError, match=rf"{path}: saw permission denied, wanted a journal"):
        Book(path)
    with nobody(), locked(path):
        assert "saw permission denied" in caplog.text


async def test_a_file_that_is_removed_or_replaced_is_made_anew(path: Path) -> None:
    """SQLite goes on writing to a file without a name, and what was left out would be lost with the process."""
    journal = Journal(path, now=lambda: 3.0)
    await journal.enter([POINT], State.DONE)
    for file in path.parent.iterdir():
        file.unlink()
    await journal.enter([another(1)], State.DONE)
    await journal.close()
    with closing(Book(path, must_exist=True)) as book:
        assert [row.id for row in rows_left_out(book)] == [b"1"]


async def test_trouble_is_told_once_and_again_after_it_was_over(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path.mkdir()
    journal = Journal(path, now=lambda: 3.0)

    async def tried() -> None:
        with pytest.raises(JournalError):
            await journal.enter([POINT], State.PENDING)

    await tried()
    await tried()
    path.rmdir()
    await journal.enter([POINT], State.DONE)
    for file in path.parent.iterdir():
        file.unlink()
    path.mkdir()
    await tried()
    await journal.close()
    assert [f"{path}: saw" in record.message for record in caplog.records] == [True, True]


async def test_what_can_be_read_meanwhile_does_not_end_the_trouble(
    path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on a full disk, with a line for each write before."""

    def full(*_arguments: object, **_named: object) -> float:
        raise JournalError(f"{path}: saw database or disk is full")

    journal = Journal(path, now=lambda: 3.0)
    await journal.enter([POINT], State.DONE)
    monkeypatch.setattr(Book, "enter", full)
    for _ in range(3):
        await journal.unseen("docs", b"", [b"1"])
        await journal.before("docs", b"", [b"1"])
        await journal.drop([POINT])
        with pytest.raises(JournalError):
            await journal.enter([POINT], State.PENDING)
    await journal.close()
    assert len(caplog.records) == 1


class TestClocks:
    """The time of day may be corrected by hours at any moment."""

    async def test_ids_stay_unseen_for_ten_minutes_whatever_the_time_of_day(self, path: Path) -> None:
        wall, steady = ManualClock(10 * DAY), ManualClock(50.0)
        journal = Journal(path, now=wall, steady=steady)
        await journal.note("docs", b"", [b"1"])
        for wall.now in (11 * DAY, 9 * DAY):
            await journal.note("docs", b"", [b"2"])
            assert await journal.unseen("docs", b"", [b"1", b"2"]) == {b"1", b"2"}
        steady.now += UNSEEN_SECONDS + 1
        assert await journal.unseen("docs", b"", [b"1"]) == frozenset()
        await journal.close()

    def test_after_a_start_of_the_machine_ids_are_unseen_for_ten_minutes_more(self, path: Path) -> None:
        with closing(Book(path)) as book:
            book.note("docs", b"", [b"1"], at=90 * DAY)
            assert book.unseen("docs", b"", [b"1"], at=5.0) == {b"1"}
            book.note("docs", b"", [b"2"], at=10.0)
            assert book.unseen("docs", b"", [b"1", b"2"], at=10.0) == {b"1", b"2"}
            assert book.unseen("docs", b"", [b"1", b"2"], at=11.0 + UNSEEN_SECONDS) == frozenset()

    @pytest.mark.parametrize("jump", [-5 * 3600.0, 5 * 3600.0])
    def test_rows_are_in_the_order_of_their_writes(self, path: Path, jump: float) -> None:
        """A, then B, then A again under one id: what is stored by `undo` is A, and B is older."""
        one, other = replace(POINT, point=b"A"), replace(POINT, point=b"B")
        with closing(Book(path)) as book:
            for number, point in enumerate((one, other, one)):
                at = 10 * DAY + number * jump
                book.enter([point], State.PENDING, at=at)
                book.settle([point], State.DONE, at=at)
            assert [row.point for row in rows_left_out(book)] == [b"B", b"A"]
            book.undone([rows_left_out(book)[-1].number])
            assert rows_left_out(book) == []


class TestTwoProxies:
    """Workers share a journal; a second proxy does not, since its writes may be of another database."""

    def test_the_second_is_refused_until_the_first_has_ended(self, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(lock, "BUSY_SECONDS", 0.1)
        with (
            locked(path),
            pytest.raises(SettingsError, match=r"journal\.path: wanted a journal for each proxy"),
            locked(path),
        ):
            raise AssertionError
        with locked(path):
            assert not path.exists(), "a journal that is not needed makes no file"

    def test_without_a_journal_or_a_folder_to_lock_nothing_is_refused(
        self, tmp_path: Path, caplog: pytest.LogCaptureFixture
    ) -> None:
        with locked(None), locked(None):
            assert not caplog.records
        with locked(tmp_path / "absent" / "j.db"):
            assert "no such file or directory" in caplog.text

    def test_two_workers_share_the_file(self, path: Path) -> None:
        with closing(Book(path)) as one, closing(Book(path)) as other:
            one.enter([POINT], State.DONE, at=1.0)
            other.enter([another(1)], State.DONE, at=1.0)
            assert len(rows_left_out(one)) == len(rows_left_out(other)) == 2
