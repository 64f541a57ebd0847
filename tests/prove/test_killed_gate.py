"""The write gate's run under kills, small: of one database at each change, of all at length."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Sequence
from typing import cast

import pytest

from prove import killed_gate
from prove.killed_databases import DATABASES
from prove.killed_gate import Upserts, World, prove, restart, survives
from prove.planted_points import COPIES, made

QUICK = ("weaviate", "merge", "keep-newest")


@pytest.mark.parametrize(
    ("backend", "mode", "merge"),
    [pytest.param(*each, marks=() if each == QUICK else pytest.mark.deep) for each in killed_gate.chosen([])],
)
def test_what_was_acknowledged_is_stored_or_in_the_journal_and_undo_stores_it_again(
    backend: str, mode: str, merge: str
) -> None:
    together = 1 if mode == "reject" else 3
    assert prove(120, backend, mode, merge, together=together, between=8)


def test_three_in_ten_points_are_copies_of_points_that_are_none() -> None:
    points = [made(number) for number in range(1, 4001)]
    originals = {tuple(each.vector): each.text for each in points if each.text.islower()}
    copies = [each for each in points if each.text.isupper()]
    assert len(originals) + len(copies) == len(points)
    assert abs(len(copies) / len(points) - COPIES) < 0.02
    assert all(originals[tuple(each.vector)] == each.text.lower() for each in copies)


def test_a_point_survives_by_the_last_of_those_that_took_its_place() -> None:
    took = {1: 2, 2: 3, 4: 5, 5: 4}
    assert survives(1, {3: ""}, took)
    assert not survives(1, {9: ""}, took)
    assert not survives(4, {3: ""}, took)


class RestingWorld:
    """The gate judges nothing for so many looks after a restart."""

    def __init__(self, upserts: Upserts, looks: int) -> None:
        self._upserts, self._looks = upserts, looks
        self.seen: list[bool] = []

    def restart_database(self) -> None:
        self.seen.append(self._upserts.judges.is_set())

    def outcomes(self) -> Counter[str]:
        self.seen.append(self._upserts.judges.is_set())
        self._looks -= 1
        return Counter(judged=7 if self._looks >= 0 else 8)


def test_clients_wait_from_before_a_restart_until_the_gate_judges_again() -> None:
    upserts = Upserts(9, 1)
    world = RestingWorld(upserts, 3)
    assert upserts.judges.is_set()
    restart(cast(World, world), upserts, threading.Event())
    assert world.seen == [False] * 5  # the restart, and the looks of which the last sees a judged write
    assert upserts.judges.is_set()


def test_nobody_waits_for_a_gate_that_gets_no_more_writes() -> None:
    upserts, over = Upserts(9, 1), threading.Event()
    over.set()
    restart(cast(World, RestingWorld(upserts, 1_000_000)), upserts, over)
    assert upserts.judges.is_set()


@pytest.mark.parametrize(
    ("named", "expected"),
    [
        (["milvus"], {"milvus": 4}),
        (["chroma:merge", "weaviate:reject"], {"chroma": 2, "weaviate": 1}),
        (
            [],
            {"qdrant": 4, "chroma": 4, "pinecone": 4, "milvus": 4, "weaviate": 4, "opensearch": 4, "elasticsearch": 4},
        ),
    ],
)
def test_runs_are_chosen_by_backend_and_mode(named: Sequence[str], expected: dict[str, int]) -> None:
    assert Counter(backend for backend, _, _ in killed_gate.chosen(list(named))) == expected
    assert set(expected) <= set(DATABASES)
