"""Deleting what could go: only what is unchanged, after it is in the journal, once, whenever the run is ended."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from support.jobs.journals import rows_left_out
from support.jobs.memory_source import MemorySource, points
from vecsieve.adapters.writes import PLAIN
from vecsieve.proxy.jobs.pairs.store import Store
from vecsieve.proxy.jobs.source import Point, PointId, Points, Whole, key_of, mark_of
from vecsieve.proxy.jobs.sweep import applying
from vecsieve.proxy.jobs.sweep.applying import Deletion, Survivors, delete
from vecsieve.proxy.jobs.sweep.deciding import Keep, SweepOptions
from vecsieve.proxy.jobs.sweep.run import opened_store, sweep
from vecsieve.proxy.writes.book import Book

FAMILIES, COPIES = 4, 3


class Ends:
    """Ends the run at its ``at``-th step: a request that is about to go out, or that was carried out."""

    def __init__(self, at: int | None = None) -> None:
        self.left = at

    def step(self) -> None:
        if self.left is not None:
            self.left -= 1
            if self.left < 0:
                raise KeyboardInterrupt


class Database(Points):
    """A database in memory. ``deleted``: every id that was, each time."""

    form = PLAIN

    def __init__(self, there: Sequence[Point], ends: Ends) -> None:
        self.there = {point.id: point for point in there}
        self.ends = ends
        self.deleted: list[PointId] = []

    def whole(self, ids: Sequence[PointId]) -> list[Whole]:
        self.ends.step()
        return [_whole(self.there[identifier]) for identifier in reversed(ids) if identifier in self.there]

    def delete(self, points: Sequence[Whole]) -> None:
        self.ends.step()
        for point in points:
            if self.there.pop(point.id, None) is not None:
                self.deleted.append(point.id)
        self.ends.step()

    def present(self, _partition: bytes, keys: Sequence[bytes]) -> frozenset[bytes]:
        raise AssertionError("a sweep asks for whole points")

    def put(self, _partition: bytes, bodies: Sequence[bytes]) -> None:
        raise AssertionError("a sweep stores nothing")

    def close(self) -> None: ...


def _whole(point: Point) -> Whole:
    mark = mark_of(point.vector, point.payload)
    return Whole(id=point.id, key=key_of(point.id), partition=b"", body=b"whole %s" % key_of(point.id), mark=mark)


def planted() -> list[Point]:
    """Families of three equal vectors and texts; ids in the order of the families."""
    vectors = np.repeat(np.eye(FAMILIES, dtype=np.float32), COPIES, axis=0)
    return points(vectors, [{"text": f"one of family {place // COPIES}"} for place in range(len(vectors))])


@contextmanager
def swept(work: Path, there: Sequence[Point]) -> Iterator[Store]:
    source = MemorySource(there)
    with opened_store(source, options(work)) as store:
        sweep(source, options(work), store, is_decided=True)
        yield store


def options(work: Path) -> SweepOptions:
    return SweepOptions(url="", collection="c", keep=Keep.FIRST, text_field="text", work=work)


def applied(work: Path, database: Database) -> Mapping[str, int]:
    there = sorted(database.there.values(), key=lambda point: point.id)
    with swept(work / "work", there) as store, closing(Book(work / "journal.db")) as book:
        by = Deletion(points=database, survivors=Survivors(book, "c"), now=lambda: 1.0)
        return delete(store, by)


def journalled(work: Path) -> dict[bytes, tuple[bytes, str, bytes]]:
    with closing(Book(work / "journal.db", must_exist=True)) as book:
        return {row.id: (row.survivor, row.tier, row.point) for row in rows_left_out(book, collection="c")}


COPIED = [place for place in range(FAMILIES * COPIES) if place % COPIES]


def outcomes(**counts: int) -> dict[str, int]:
    return {"deleted": 0, "gone": 0, "changed": 0, "alone": 0, **counts}


def test_what_could_go_goes_and_is_in_the_journal_with_its_survivor(tmp_path: Path) -> None:
    database = Database(planted(), Ends())
    assert applied(tmp_path, database) == outcomes(deleted=len(COPIED))
    assert sorted(database.there) == list(range(0, FAMILIES * COPIES, COPIES))
    assert journalled(tmp_path) == {
        b"%d" % place: (b"%d" % (place - place % COPIES), "equal", b"whole %d" % place) for place in COPIED
    }
    assert applied(tmp_path, database) == outcomes(deleted=len(COPIED)), "a run that is through does nothing more"
    assert database.deleted == COPIED


@pytest.mark.parametrize("at", range(13))
def test_a_run_that_was_ended_at_any_step_is_ended_by_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, at: int
) -> None:
    monkeypatch.setattr(applying, "BATCH", 3)
    ends = Ends(at)
    database = Database(planted(), ends)
    progressed = Store.progressed

    def ending(store: Store, counts: Mapping[str, int]) -> None:
        progressed(store, counts)
        if sum(counts.values()):
            ends.step()

    monkeypatch.setattr(Store, "progressed", ending)
    if at < 12:  # three batches of four steps
        with pytest.raises(KeyboardInterrupt):
            applied(tmp_path, database)
        assert set(map(key_of, database.deleted)) <= journalled(tmp_path).keys(), "deleted before it was written down"
    ends.left = None
    assert applied(tmp_path, database) == outcomes(deleted=len(COPIED))
    assert sorted(database.deleted) == COPIED, "each once"
    assert len(journalled(tmp_path)) == len(COPIED)


def test_a_run_that_was_killed_after_its_first_deletion_can_be_looked_at_without_deleting(tmp_path: Path) -> None:
    database = Database(planted(), Ends(2))  # read, about to delete, deleted
    with pytest.raises(KeyboardInterrupt):
        applied(tmp_path, database)
    assert database.deleted
    source = MemorySource(sorted(database.there.values(), key=lambda point: point.id))
    with opened_store(source, options(tmp_path / "work")) as store:
        assert sweep(source, options(tmp_path / "work"), store).redundant == len(COPIED)


def changed(database: Database, place: int) -> None:
    database.there[place] = Point(id=place, vector=database.there[place].vector, payload={"text": "rewritten"})


def nudged(database: Database, place: int) -> None:
    vector = database.there[place].vector
    assert vector is not None
    database.there[place] = Point(id=place, vector=vector + np.float32(1e-6), payload=database.there[place].payload)


def removed(database: Database, place: int) -> None:
    del database.there[place]


@pytest.mark.parametrize(
    ("by", "place", "expected", "kept"),
    [
        (changed, 1, {"deleted": len(COPIED) - 1, "changed": 1}, {1}),
        (nudged, 1, {"deleted": len(COPIED) - 1, "changed": 1}, {1}),
        (removed, 1, {"deleted": len(COPIED) - 1, "gone": 1}, set()),
        (changed, 0, {"deleted": len(COPIED) - 2, "alone": 2}, {1, 2}),
        (removed, 0, {"deleted": len(COPIED) - 2, "alone": 2}, {1, 2}),
    ],
)
def test_what_has_changed_since_it_was_compared_stays(
    tmp_path: Path, by: Callable[[Database, int], None], place: int, expected: Any, kept: set[int]
) -> None:
    database = Database(planted(), Ends())
    with swept(tmp_path / "work", planted()):
        by(database, place)
    assert applied(tmp_path, database) == outcomes(**expected)
    assert kept <= database.there.keys()
    assert len(journalled(tmp_path)) == expected["deleted"] == len(database.deleted)
