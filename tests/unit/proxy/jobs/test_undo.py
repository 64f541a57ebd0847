"""Whether a stored vector is still the one that the gate wrote, in every form in which databases show vectors."""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from vecsieve.adapters.writes import PLAIN
from vecsieve.proxy.jobs import undo
from vecsieve.proxy.jobs.source import Points, SourceError, Whole
from vecsieve.proxy.jobs.undo import _are_near
from vecsieve.proxy.writes.book import Book
from vecsieve.proxy.writes.lock import locked
from vecsieve.proxy.writes.rows import ANY, UNSEEN_SECONDS, Kind, LeftOut, State

ONE, UNIT = [3.0, 4.0], [0.6, 0.8]


@pytest.mark.parametrize(
    ("stored", "written", "is_near"),
    [
        (ONE, ONE, True),
        (UNIT, ONE, True),  # normalised by the database
        ([6.0, 8.0], ONE, False),  # as long as it was written, or of length one
        ([0.6, 0.79], ONE, False),
        ([3.0005, 4.0], ONE, True),  # of 16 bits
        ([3.0], ONE, False),
        (None, ONE, False),
        (ONE, None, True),  # none was written
        ({"a": UNIT, "b": [1.0]}, {"a": ONE}, True),
        ({"b": [1.0]}, {"a": ONE}, False),
        ({"a": [0.8, 0.6]}, {"a": ONE}, False),
        ([UNIT, [0.0, 1.0]], [ONE, [0.0, 2.0]], True),
        ([UNIT], [ONE, [0.0, 2.0]], False),
        ({"indices": [1, 2], "values": [3.0, 4.0]}, {"indices": [1, 2], "values": ONE}, True),
        ({"indices": [1, 3], "values": [3.0, 4.0]}, {"indices": [1, 2], "values": ONE}, False),
        ({"indices": [5_000], "values": [3.0]}, {"indices": [5_001], "values": [3.0]}, False),
        (UNIT, b64encode(np.array(ONE, "<f4").tobytes()).decode(), True),
        (UNIT, "no vector", False),
        ([0.0, 0.0], [0.0, 0.0], True),
        (["x"], ["y"], False),
        ([], [], True),
    ],
)
def test_a_vector_is_the_same_but_for_rounding_and_what_the_database_makes_of_its_length(
    stored: Any, written: Any, is_near: bool
) -> None:
    assert _are_near(stored, written) == is_near


# `vecsieve undo` and writes that reads do not show yet: it stores over none of them, and the gate hears of what it stores itself.

NOW = 5.0
ORIGINAL, UNITED = b'{"id":1,"payload":{"n":1}}', b'{"id":1,"payload":{"n":2}}'
POINT = LeftOut(collection="docs", partition=b"", id=b"1", survivor=b"9", tier="exact", similarity=1.0, point=ORIGINAL)


class Stored(Points):
    form = PLAIN

    def __init__(self) -> None:
        self.points: dict[bytes, bytes] = {}

    def present(self, partition: bytes, keys: Sequence[bytes]) -> frozenset[bytes]:
        return frozenset(keys) & self.points.keys()

    def put(self, partition: bytes, bodies: Sequence[bytes]) -> None:
        self.points |= {json.dumps(json.loads(body)["id"]).encode(): body for body in bodies}

    def stored(self, partition: bytes, point: Any) -> bytes | None:
        return self.points.get(json.dumps(point).encode())

    def whole(self, ids: Sequence[Any]) -> list[Whole]:
        raise AssertionError

    def delete(self, points: Sequence[Whole]) -> None:
        raise AssertionError


Run = Callable[..., dict[bytes, bytes]]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "j.db"


@pytest.fixture
def undone(path: Path) -> Run:
    """What is stored after `undo`."""
    points = Stored()

    class Arguments(undo.Arguments):
        def points(self, _collection: str) -> Points:
            return points

    def run(*, after: float = 0.0) -> dict[bytes, bytes]:
        assert undo.run(Arguments(journal=path, url="http://x", apply=True), steady=lambda: NOW + after) == 0
        return points.points

    return run


@pytest.mark.parametrize(("id", "partition"), [(b"1", b""), (ANY, ANY)])
def test_nothing_is_stored_over_a_write_that_waits_in_the_database(
    path: Path,
    undone: Run,
    id: bytes,  # noqa: A002 - as in the journal
    partition: bytes,
    capsys: pytest.CaptureFixture[str],
) -> None:
    with closing(Book(path)) as book:
        book.enter([POINT], State.DONE, at=1.0)
        book.note("docs", partition, [id], at=NOW)
    assert undone(after=UNSEEN_SECONDS - 1) == {}
    assert " ".join(capsys.readouterr().out.split()).endswith(
        " 0 were stored; 0 have an id that is stored now, and were not changed; 1 were written less than ten minutes ago, "
        "which reads may not show: repeat the command later"
    )
    assert undone(after=UNSEEN_SECONDS + 1) == {b"1": ORIGINAL}
    assert " ".join(capsys.readouterr().out.split()).endswith(
        " 1 were stored; 0 have an id that is stored now, and were not changed"
    )


def test_the_gate_hears_of_what_undo_stored(path: Path, undone: Run) -> None:
    with closing(Book(path)) as book:
        book.enter([POINT], State.DONE, at=1.0)
        undone()
        assert book.unseen("docs", b"", [b"1", b"2"], at=NOW + 1) == {b"1"}


@pytest.mark.parametrize("state", [State.DONE, State.PENDING])
def test_what_a_sweep_has_read_and_deleted_is_no_longer_unseen(path: Path, state: State) -> None:
    """After `undo`, a sweep and `undo` again within ten minutes. The gate's rows are PENDING: it has not read the points."""
    with closing(Book(path)) as book:
        book.note("docs", b"", [b"1", b"2"], at=NOW)
        book.enter([replace(POINT, kind=Kind.REMOVED)], state, at=1.0)
        unseen = {b"2"} if state is State.DONE else {b"1", b"2"}
        assert book.unseen("docs", b"", [b"1", b"2"], at=NOW + 1) == unseen


def test_a_point_that_was_changed_and_then_removed_gets_its_own_content_in_one_run(path: Path, undone: Run) -> None:
    """What `undo` stored a moment before is no write of a client."""
    with closing(Book(path)) as book:
        book.enter([replace(POINT, kind=Kind.CHANGED, became=UNITED)], State.DONE, at=1.0)
        book.enter([replace(POINT, kind=Kind.REMOVED, point=UNITED)], State.DONE, at=2.0)
    assert undone() == {b"1": ORIGINAL}


@pytest.mark.parametrize(("reads", "puts"), [(True, 9), (False, 1)])
def test_only_a_database_that_answers_is_asked_for_smaller_batches(path: Path, reads: bool, puts: int) -> None:
    """It refuses each write; with ``reads`` it answers all the same."""
    sizes: list[int] = []

    class Refusing(Stored):
        def present(self, partition: bytes, keys: Sequence[bytes]) -> frozenset[bytes]:
            if sizes and not reads:
                raise SourceError("no answer in time")
            return super().present(partition, keys)

        def put(self, partition: bytes, bodies: Sequence[bytes]) -> None:
            sizes.append(len(bodies))
            raise SourceError("refused")

    class Arguments(undo.Arguments):
        def points(self, _collection: str) -> Points:
            return Refusing()

    with closing(Book(path)) as book:
        book.enter([replace(POINT, id=b"%d" % number, point=b"%d" % number) for number in range(5)], State.DONE, at=1.0)
    assert undo.run(Arguments(journal=path, url="http://x", apply=True), steady=lambda: NOW) == 1
    assert len(sizes) == puts


REMOVED = replace(POINT, kind=Kind.REMOVED)


def being_removed(path: Path) -> None:
    with closing(Book(path)) as book:
        book.enter([REMOVED], State.PENDING, at=1.0)
        assert book.removing({1: REMOVED}, at=2.0, steady=NOW) == {b"1"}


def test_what_a_proxy_is_removing_is_not_stored_meanwhile(path: Path, undone: Run) -> None:
    with locked(path):
        being_removed(path)
        assert undone() == {}


def test_what_a_killed_proxy_was_removing_is_stored_again_at_once(path: Path, undone: Run) -> None:
    """It may be gone, and nobody is there any more who would delete what is stored now."""
    being_removed(path)
    assert undone() == {b"1": ORIGINAL}


def test_a_proxy_that_starts_removes_nothing_of_the_one_before_it(path: Path, undone: Run) -> None:
    being_removed(path)
    with locked(path):
        assert undone() == {b"1": ORIGINAL}
