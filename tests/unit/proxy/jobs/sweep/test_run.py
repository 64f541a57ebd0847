"""A sweep over a collection in memory: what it finds, what stays, and how it goes on."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from support.memory_source import MemorySource
from vecsieve.proxy.jobs.pairs import reading
from vecsieve.proxy.jobs.pairs.store import StoreError
from vecsieve.proxy.jobs.source import Point, PointId, Source, SourceError
from vecsieve.proxy.jobs.sweep.report import Report, as_json
from vecsieve.proxy.jobs.sweep.run import Asked, Keep, lines, opened_store, sweep
from vecsieve.proxy.runtime.files import Advance

FAMILIES, COPIES, DIMENSION = 20, 4, 64
WORDS = np.array([f"word{number}" for number in range(400)])


@contextmanager
def no_bar(_title: str, _total: int | None) -> Iterator[Advance]:
    yield lambda _done: None


def asked(work: Path, **changed: Any) -> Asked:
    usual = Asked(
        collection="planted",
        similarity=0.98,
        shared=0.92,
        keep=Keep.FIRST,
        text_fields=("text",),
        time_fields=("at",),
        tenants=(),
        work=work,
    )
    return replace(usual, **changed)


def planted(*, with_text: bool = True, seed: int = 5) -> list[Point]:
    """Families of four: a text, its copy, an edited one, and one without text. Ids: family * 10 + number."""
    draw = np.random.default_rng(seed)
    found = []
    for family in range(FAMILIES):
        base = draw.normal(size=DIMENSION) + 2.0
        words = draw.choice(WORDS, 50).tolist()
        edited = [*words[:20], "edited", *words[21:]]
        for number, text in enumerate((words, words, edited, None)):
            vector = (base + 0.05 * draw.normal(size=DIMENSION)).astype(np.float32)
            payload: dict[str, object] = {"at": f"2026-01-0{number + 1}", "tenant": number % 2}
            if with_text and text is not None:
                words_said = " ".join(text)
                payload["text"] = f" {words_said.upper()} " if number == 1 else words_said
            found.append(Point(id=10 * family + number, vector=vector, payload=payload))
    return found


def swept(points: Sequence[Point], work: Path, **changed: Any) -> tuple[Report, list[dict[str, Any]]]:
    return swept_by(MemorySource(points), work, **changed)


def swept_by(source: Source, work: Path, **changed: Any) -> tuple[Report, list[dict[str, Any]]]:
    wanted = asked(work, **changed)
    with opened_store(source, wanted) as store:
        return sweep(source, wanted, store, bar=no_bar), [json.loads(line) for line in lines(store)]


@pytest.mark.parametrize("with_text", [True, False])
def test_every_copy_could_go_and_nothing_else(tmp_path: Path, with_text: bool) -> None:
    report, lines = swept(planted(with_text=with_text), tmp_path)
    assert report.redundant == len(lines) == FAMILIES * (COPIES - 1)
    assert report.families == FAMILIES
    assert report.largest == COPIES
    assert all(line["id"] // 10 == line["survivor"] // 10 and line["survivor"] % 10 == 0 for line in lines)
    why = {"same_text", "near_text", "near_vector"} if with_text else {"near_vector"}
    assert {line["evidence"] for line in lines} <= why
    assert sum(line["evidence"] == "same_text" for line in lines) == (FAMILIES if with_text else 0)


def test_points_of_one_space_without_copies_all_stay(tmp_path: Path) -> None:
    points = [replace(each, id=number) for number, each in enumerate(planted()[::COPIES])]
    report, lines = swept(points, tmp_path)
    assert (report.redundant, lines, report.families) == (0, [], 0)


@pytest.mark.parametrize(("keep", "stays"), [(Keep.FIRST, 0), (Keep.OLDEST, 0), (Keep.NEWEST, 3), (Keep.LONGEST, 1)])
def test_who_stays_is_chosen(tmp_path: Path, keep: Keep, stays: int) -> None:
    _, lines = swept(planted(), tmp_path, keep=keep)
    assert {line["survivor"] % 10 for line in lines} == {stays}


@pytest.mark.parametrize(("keep", "stay"), [(Keep.FIRST, {0, 2}), (Keep.CENTRAL, {1}), (Keep.NEWEST, {1})])
def test_a_copy_at_the_edge_of_a_family_stays_only_where_its_rank_says_so(
    tmp_path: Path, keep: Keep, stay: set[int]
) -> None:
    angles = np.deg2rad([-10.0, 0.0, 10.0])  # cosines of .985 to the one in the middle, of .940 to each other
    others = np.random.default_rng(7).normal(size=(40, DIMENSION))
    vectors = np.concatenate((np.zeros((3, DIMENSION)), others)).astype(np.float32)
    vectors[:3, :2] = np.stack((np.cos(angles), np.sin(angles)), axis=1)
    points = [Point(id=number, vector=vector, payload={}) for number, vector in enumerate(vectors)]
    _, lines = swept(points, tmp_path, keep=keep)
    assert {0, 1, 2} - {line["id"] for line in lines} == stay


def test_what_has_no_time_goes_before_what_has_one(tmp_path: Path) -> None:
    points = [replace(each, payload={}) if each.id in {0, 3} else each for each in planted(with_text=False)]
    _, lines = swept(points, tmp_path, keep=Keep.OLDEST)
    assert {line["survivor"] for line in lines if line["id"] // 10 == 0} == {1}


def test_copies_of_two_tenants_both_stay(tmp_path: Path) -> None:
    _, lines = swept(planted(), tmp_path, tenants=("tenant",))
    assert len(lines) == FAMILIES * 2
    assert all(line["id"] % 2 == line["survivor"] % 2 for line in lines)


def test_the_report_says_what_it_saw(tmp_path: Path) -> None:
    report, _ = swept(planted(), tmp_path)
    held = json.loads(as_json(report))
    assert (held["points"], held["with_text"], held["with_vector"]) == (80, 60, 80)
    assert held["same_text"] >= FAMILIES
    assert held["candidates"] >= held["same_text"] + held["near_text"] + held["near_vector"]
    assert held["redundant_bytes"] > 60 * 4 * DIMENSION
    example = held["examples"][0]
    assert example["size"] == COPIES
    assert example["survivor"]["evidence"] is None
    assert len(example["members"]) == COPIES - 1


def test_an_empty_collection_is_told_of(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="'planted' has no points"):
        swept([], tmp_path)


def test_points_without_vectors_are_compared_by_their_texts(tmp_path: Path) -> None:
    points = [replace(each, vector=None) for each in planted()]
    report, lines = swept(points, tmp_path)
    assert report.with_vector == 0
    assert {line["similarity"] for line in lines} == {None}
    assert {line["id"] % 10 for line in lines} == {1}


def test_lone_surrogates_are_read(tmp_path: Path) -> None:
    points = [
        replace(each, payload={"text": f"\ud800 {number // COPIES} word"}) for number, each in enumerate(planted())
    ]
    assert swept(points, tmp_path)[0].redundant == FAMILIES * (COPIES - 1)


def test_texts_that_differ_in_a_lone_surrogate_are_not_the_same_text(tmp_path: Path) -> None:
    vector = np.ones(DIMENSION, np.float32)
    texts = [f"one text of some words {surrogate} and more of them" for surrogate in ("\ud800", "\ud801", "?")]
    points = [Point(id=number, vector=vector, payload={"text": text}) for number, text in enumerate(texts)]
    _, lines = swept(points, tmp_path)
    assert "same_text" not in {line["evidence"] for line in lines}


class Ended(MemorySource):
    """``left``: reads until it is interrupted."""

    def __init__(self, points: Sequence[Point], left: int) -> None:
        super().__init__(points)
        self.left = left

    def read(self, ids: Sequence[PointId]) -> list[Point]:
        if not self.left:
            raise KeyboardInterrupt
        self.left -= 1
        return super().read(ids)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> tuple[Report, list[dict[str, Any]]]:
    return swept(planted(), tmp_path_factory.mktemp("whole"))


@pytest.mark.parametrize("left", [0, 3, 4, 5, 6])
def test_going_on_after_an_interruption_gives_what_one_run_gives(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, whole: tuple[Report, list[dict[str, Any]]], left: int
) -> None:
    monkeypatch.setattr(reading, "PAGE", 20)
    source = Ended(planted(), left)
    with pytest.raises(KeyboardInterrupt):
        swept_by(source, tmp_path / "parts")
    source = Ended(planted(), 8)
    assert swept_by(source, tmp_path / "parts") == whole
    # Four reads for the sample, which is kept as a whole, and four for the pages.
    assert source.left == (left if left >= 4 else 0), "what was read is not read again"


def test_points_deleted_meanwhile_are_counted_and_left_out(tmp_path: Path) -> None:
    class Shrinking(MemorySource):
        def read(self, ids: Sequence[PointId]) -> list[Point]:
            return [each for each in super().read(ids) if each.id != 1]

    report, lines_said = swept_by(Shrinking(planted()), tmp_path)
    assert report.gone == 1
    assert report.redundant == FAMILIES * (COPIES - 1) - 1
    assert 1 not in {line["id"] for line in lines_said}


def test_a_collection_that_has_changed_needs_a_new_folder(tmp_path: Path) -> None:
    swept(planted(), tmp_path)
    with pytest.raises(StoreError, match="begun for another job"):
        swept(planted()[:-1], tmp_path)


@pytest.mark.parametrize("distance", ["Cosine", "Dot", "Euclid"])
def test_moving_points_along_changes_no_family_by_text(tmp_path: Path, distance: str) -> None:
    moved = [replace(each, vector=None if each.vector is None else each.vector + np.float32(50)) for each in planted()]
    for name, points in (("as is", planted()), ("moved", moved)):
        _, said = swept_by(MemorySource(points, distance=distance), tmp_path / name)
        of_text = [line for line in said if line["evidence"] == "same_text"]
        assert len(of_text) == FAMILIES


def test_what_was_decided_is_not_decided_again_unless_the_cuts_change(tmp_path: Path) -> None:
    whole = swept(planted(), tmp_path)
    source = Ended(planted(), 0)  # reads nothing
    assert swept_by(source, tmp_path) == whole
    assert swept_by(source, tmp_path, similarity=1.0)[0].near_vector < whole[0].near_vector


def test_once_points_are_deleted_the_folder_keeps_its_cuts_and_does_not_look_at_the_ids(tmp_path: Path) -> None:
    report, said = swept(planted(), tmp_path)
    with opened_store(MemorySource(planted()), asked(tmp_path)) as store:
        store.progressed({"deleted": 1})
    assert swept(planted()[:50], tmp_path) == (report, said)
    with pytest.raises(StoreError, match="deleted by other cuts"):
        swept(planted()[:50], tmp_path, similarity=0.99)
