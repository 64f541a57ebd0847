"""A sweep over a collection in memory: what it finds, what stays, and how it goes on."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from support.backends.two_facts import PLANTED, TWO_FACTS
from support.jobs.memory_source import MemorySource
from vecsieve.proxy.jobs.pages import as_json
from vecsieve.proxy.jobs.pairs import reading
from vecsieve.proxy.jobs.pairs.store import StoreError
from vecsieve.proxy.jobs.source import Point, PointId, Source, SourceError
from vecsieve.proxy.jobs.sweep.deciding import Keep, SweepOptions
from vecsieve.proxy.jobs.sweep.report import Report
from vecsieve.proxy.jobs.sweep.run import lines, opened_store, sweep

FAMILIES, COPIES, DIMENSION = 20, 3, 64
WORDS = [
    one + other for one in ("sand", "rain", "gold", "wood", "moon", "corn") for other in ("stone", "field", "light")
]


def options(work: Path, **changed: Any) -> SweepOptions:
    usual = SweepOptions(
        url="",
        collection="planted",
        keep=Keep.FIRST,
        text_field="text",
        time_field="at",
        ignore=["at", "tenant"],
        work=work,
    )
    return replace(usual, **changed)


def sentences(family: int) -> list[str]:
    """Three sentences that no other family has."""
    draw = np.random.default_rng(family)
    return [f"Family {family}, part {part}, has {' '.join(draw.choice(WORDS, 12))}." for part in range(3)]


def planted() -> list[Point]:
    """Families of five: a text, the same in other blanks, two sentences of it, one with another word, and one without text. The vectors of a family are
    near one another, as all vectors are. Ids: family * 10 + number.
    """
    draw = np.random.default_rng(5)
    points = []
    for family in range(FAMILIES):
        family_sentences, base = sentences(family), draw.normal(size=DIMENSION) + 2.0
        whole = " ".join(family_sentences)
        for number, text in enumerate(
            (whole, f" {'  '.join(family_sentences)} ", " ".join(family_sentences[:2]), f"{whole} It is so.", None)
        ):
            vector = (base + 0.05 * draw.normal(size=DIMENSION)).astype(np.float32)
            payload: dict[str, object] = {"at": f"2026-01-0{number + 1}", "tenant": number % 2}
            points.append(
                Point(
                    id=10 * family + number,
                    vector=vector,
                    payload=payload if text is None else {**payload, "text": text},
                )
            )
    return points


def swept(points: Sequence[Point], work: Path, **changed: Any) -> tuple[Report, list[dict[str, Any]]]:
    return swept_by(MemorySource(points), work, **changed)


def swept_by(source: Source, work: Path, **changed: Any) -> tuple[Report, list[dict[str, Any]]]:
    settings = options(work, **changed)
    with opened_store(source, settings) as store:
        return sweep(source, settings, store), [json.loads(line) for line in lines(store)]


def test_what_one_text_that_stays_says_could_go_and_nothing_else(tmp_path: Path) -> None:
    """The longest of a family holds the others: equal texts, sentences of it; a text with a sentence more, and points without texts stay."""
    report, removed = swept(planted(), tmp_path)
    assert {(line["id"] % 10, line["survivor"] % 10, line["evidence"]) for line in removed} == {
        (0, 3, "contained"),
        (1, 3, "contained"),
        (2, 3, "contained"),
    }
    assert all(line["id"] // 10 == line["survivor"] // 10 for line in removed)
    assert (report.redundant, report.contained, report.equal) == (3 * FAMILIES, 3 * FAMILIES, 0)
    assert (report.families, report.largest) == (FAMILIES, 4)


def of_one_vector(texts: Sequence[str]) -> list[Point]:
    """In one file, as if a model found them alike."""
    return [
        Point(id=number, vector=np.ones(DIMENSION, np.float32), payload={"text": text, "file": "all.txt"})
        for number, text in enumerate(texts)
    ]


def test_no_record_could_go_for_another_of_its_kind(tmp_path: Path) -> None:
    report, removed = swept(
        of_one_vector([text for texts in TWO_FACTS.values() for text in texts]), tmp_path, ignore=None
    )
    assert (removed, report.redundant, report.other_facts) == ([], 0, 0)


def test_each_planted_copy_could_go_and_what_holds_it_stays(tmp_path: Path) -> None:
    points = of_one_vector([*(whole for _, whole in PLANTED), *(part for part, _ in PLANTED)])
    _, removed = swept(points, tmp_path, ignore=None, keep=Keep.FIRST)
    count = len(PLANTED)
    assert {line["id"] for line in removed} == set(range(count, 2 * count))
    assert all(line["survivor"] < count for line in removed)


def without(numbers: set[int]) -> list[Point]:
    return [point for point in planted() if int(point.id) % 10 not in numbers]


def test_points_of_one_space_without_copies_all_stay(tmp_path: Path) -> None:
    report, removed = swept(without({1, 2, 3, 4}), tmp_path)
    assert (report.redundant, removed, report.families, report.repeats) == (0, [], 0, 0)


@pytest.mark.parametrize(("keep", "stays"), [(Keep.FIRST, 0), (Keep.OLDEST, 0), (Keep.NEWEST, 1), (Keep.LONGEST, 1)])
def test_of_equal_texts_who_stays_is_chosen_and_no_shorter_one_stays_for_a_longer(
    tmp_path: Path, keep: Keep, stays: int
) -> None:
    _, removed = swept(without({3, 4}), tmp_path, keep=keep)
    assert {(line["id"] % 10, line["survivor"] % 10, line["evidence"]) for line in removed} == {
        (1 - stays, stays, "equal"),
        (2, stays, "contained"),
    }


def test_what_has_no_time_goes_before_what_has_one(tmp_path: Path) -> None:
    points = [
        replace(point, payload={"text": point.payload["text"]}) if point.id == 0 else point for point in without({3, 4})
    ]
    _, removed = swept(points, tmp_path, keep=Keep.OLDEST)
    assert {line["survivor"] for line in removed if line["id"] // 10 == 0} == {1}


SENTENCES = sentences(1)
HALVES = [" ".join(SENTENCES[:2]), " ".join(SENTENCES[1:])]


@pytest.mark.parametrize(
    ("texts", "gone"),
    [
        (
            [SENTENCES[0], HALVES[0], " ".join(SENTENCES)],
            {(0, 2), (1, 2)},
        ),  # a chain: nobody goes for a point that goes itself
        (HALVES, set()),  # two texts that hold a third between them do not hold it
        ([*HALVES, " ".join(SENTENCES)], {(0, 2), (1, 2)}),
        ([f"one text of some words {lone} and more of them" for lone in ("\ud800", "\ud801", "?")], set()),
    ],
)
def test_who_goes_for_whom(tmp_path: Path, texts: list[str], gone: set[tuple[int, int]]) -> None:
    _, removed = swept(of_one_vector(texts), tmp_path)
    assert {(line["id"], line["survivor"]) for line in removed} == gone


def test_equal_vectors_make_copies_of_points_without_texts_alone(tmp_path: Path) -> None:
    vectors = np.random.default_rng(7).normal(size=(3, DIMENSION)).astype(np.float32)
    near = vectors[1] * np.float32(1.0001) + np.float32(1e-4)
    payloads = [{}, {}, {"text": "one"}, {"text": "another"}, {}, {"text": "two"}]
    rows = [vectors[0], vectors[0] * 2, vectors[0], vectors[0], near, vectors[1]]
    points = [
        Point(id=n, vector=row, payload=payload) for n, (row, payload) in enumerate(zip(rows, payloads, strict=True))
    ]
    report, removed = swept(points, tmp_path)
    assert [(line["id"], line["survivor"], line["evidence"]) for line in removed] == [(1, 0, "equal_vector")]
    assert report.equal_vector == 1
    _, removed = swept_by(MemorySource(points, distance="Euclid"), tmp_path / "length counts")
    assert not removed


def test_equal_texts_with_other_metadata_are_two_facts_and_the_report_names_the_fields(tmp_path: Path) -> None:
    report, removed = swept(without({2, 3, 4}), tmp_path, ignore=None)
    assert not removed
    assert (report.repeats, report.redundant, report.other_facts) == (FAMILIES, 0, FAMILIES)
    assert report.fields == {"at": FAMILIES, "tenant": FAMILIES}
    assert report.left[0].members[0].differs == ("at", "tenant")
    again, removed = swept(without({2, 3, 4}), tmp_path, ignore=["at"])
    assert (again.redundant, again.fields, removed) == (0, {"tenant": FAMILIES}, [])
    again, removed = swept(without({2, 3, 4}), tmp_path, ignore_metadata=True)
    assert (again.redundant, again.other_facts, len(removed)) == (FAMILIES, 0, FAMILIES)


@pytest.mark.parametrize("text", ["The same words of one page.", "The page. The same words of one page."])
@pytest.mark.parametrize(
    ("base_payload", "other", "ignored", "goes"),
    [
        ({"meta": {"file": "a", "page": 1}}, {"meta": {"page": 1, "file": "a"}}, (), True),
        ({"meta": {"file": "a", "page": 1}}, {"meta": {"file": "b", "page": 1}}, (), False),
        ({"meta": {"file": "a", "page": 1}}, {"meta": {"file": "b", "page": 1}}, ("meta.file",), True),
        ({"meta": {"file": "a", "page": 1}}, {"meta": {"file": "b", "page": 2}}, ("meta",), True),
        ({"tags": ["x"]}, {"tags": ["y"]}, (), False),
        ({"file": "a"}, {}, (), False),
        ({}, {"file": "a"}, (), False),
        ({"file": None}, {"_vecsieve": {"duplicate_of": 1}}, (), True),
        ({"file": "a" * 80}, {"file": "a" * 79 + "b"}, (), False),
    ],
)
def test_every_other_value_of_a_payload_counts(
    tmp_path: Path,
    text: str,
    base_payload: dict[str, object],
    other: dict[str, object],
    ignored: tuple[str, ...],
    goes: bool,
) -> None:
    payloads = [{**base_payload, "text": "The same words of one page."}, {**other, "text": text}]
    points = [Point(id=number, vector=None, payload=payload) for number, payload in enumerate(payloads)]
    report, removed = swept(points, tmp_path, ignore=list(ignored))
    assert bool(removed) == goes
    assert report.repeats == 1


def test_a_thousand_equal_texts_of_three_files_leave_three(tmp_path: Path) -> None:
    points = [
        Point(id=number, vector=None, payload={"text": "The notice of the house.", "file": number % 3})
        for number in range(1000)
    ]
    report, removed = swept(points, tmp_path, keep=Keep.NEWEST)
    assert len(removed) == 997
    assert all(line["id"] % 3 == line["survivor"] % 3 for line in removed)
    assert (report.redundant, report.other_facts) == (997, 2)


def test_copies_of_two_tenants_both_stay(tmp_path: Path) -> None:
    _, removed = swept(without({3, 4}), tmp_path, tenant_field=["tenant"])
    assert {(line["id"] % 10, line["survivor"] % 10) for line in removed} == {(2, 0)}


def test_what_a_search_alone_would_collapse_stays_and_is_counted(tmp_path: Path) -> None:
    family_sentences = [sentence for family in range(3) for sentence in sentences(family)]
    text = " ".join(family_sentences)
    points = [
        Point(id=0, vector=None, payload={"text": text}),
        Point(id=1, vector=None, payload={"text": text.replace("Family 1, part 1, has", "The family 1, part 1, has")}),
    ]
    report, removed = swept(points, tmp_path)
    assert not removed
    assert (report.repeats, report.searched) == (1, 1)
    assert report.left[0].members[0].evidence == "searched"


def test_the_report_says_what_it_saw(tmp_path: Path) -> None:
    report, _ = swept(planted(), tmp_path)
    content = json.loads(as_json(report))
    assert (content["points"], content["with_text"], content["with_vector"]) == (
        5 * FAMILIES,
        4 * FAMILIES,
        5 * FAMILIES,
    )
    assert content["candidates"] >= content["pairs"] >= content["redundant"]
    assert content["repeats"] == content["redundant"] + content["other_facts"] + content["searched"]
    assert content["redundant"] == content["equal"] + content["contained"] + content["equal_vector"]
    assert content["redundant_bytes"] > 3 * FAMILIES * 4 * DIMENSION
    example = content["examples"][0]
    assert example["size"] == 4
    assert example["survivor"]["evidence"] is None
    assert len(example["members"]) == 3


def test_an_empty_collection_is_told_of(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="'planted' has no points"):
        swept([], tmp_path)


def test_points_without_vectors_are_compared_by_their_texts(tmp_path: Path) -> None:
    report, removed = swept([replace(point, vector=None) for point in planted()], tmp_path)
    assert report.with_vector == 0
    assert {line["similarity"] for line in removed} == {None}
    assert len(removed) == 3 * FAMILIES


def test_lone_surrogates_are_read(tmp_path: Path) -> None:
    payloads = [{"text": f"\ud800 {number // 4} word"} for number in range(40)]
    points = [Point(id=number, vector=None, payload=payload) for number, payload in enumerate(payloads)]
    assert swept(points, tmp_path)[0].redundant == 30


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


@pytest.mark.parametrize("left", [0, 4, 5, 6, 8])
def test_going_on_after_an_interruption_gives_what_one_run_gives(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, whole: tuple[Report, list[dict[str, Any]]], left: int
) -> None:
    monkeypatch.setattr(reading, "PAGE", 20)
    source = Ended(planted(), left)
    with pytest.raises(KeyboardInterrupt):
        swept_by(source, tmp_path / "parts")
    source = Ended(planted(), 10)
    assert swept_by(source, tmp_path / "parts") == whole
    # Five reads for the sample, which is kept as a whole, and five for the pages.
    assert source.left == (left if left >= 5 else 0), "what was read is not read again"


def test_points_deleted_meanwhile_are_counted_and_left_out(tmp_path: Path) -> None:
    class Shrinking(MemorySource):
        def read(self, ids: Sequence[PointId]) -> list[Point]:
            return [item for item in super().read(ids) if item.id != 1]

    report, removed = swept_by(Shrinking(planted()), tmp_path)
    assert report.gone == 1
    assert report.redundant == FAMILIES * COPIES - 1
    assert 1 not in {line["id"] for line in removed}


def test_a_collection_that_has_changed_needs_a_new_folder(tmp_path: Path) -> None:
    swept(planted(), tmp_path)
    with pytest.raises(StoreError, match="begun for another job"):
        swept(planted()[:-1], tmp_path)


@pytest.mark.parametrize("distance", ["Cosine", "Dot", "Euclid"])
def test_vectors_change_nothing_where_there_are_texts(tmp_path: Path, distance: str) -> None:
    one, other = (
        swept_by(MemorySource(points, distance=distance), tmp_path / name)[1]
        for name, points in (
            ("as is", planted()),
            ("one vector", [replace(point, vector=np.ones(DIMENSION, np.float32)) for point in planted()]),
        )
    )
    assert [entry["id"] for entry in one] == [entry["id"] for entry in other if entry["evidence"] != "equal_vector"]


def test_what_was_decided_is_not_decided_again_unless_other_fields_are_ignored(tmp_path: Path) -> None:
    whole = swept(planted(), tmp_path)
    source = Ended(planted(), 0)  # reads nothing
    assert swept_by(source, tmp_path) == whole
    assert swept_by(source, tmp_path, ignore=None)[0].redundant < whole[0].redundant


def test_once_points_are_deleted_the_folder_keeps_what_is_ignored_and_does_not_look_at_the_ids(tmp_path: Path) -> None:
    report, removed = swept(planted(), tmp_path)
    with opened_store(MemorySource(planted()), options(tmp_path)) as store:
        store.progressed({"deleted": 1})
    assert swept(planted()[:50], tmp_path) == (report, removed)
    with pytest.raises(StoreError, match="deleted with other fields ignored"):
        swept(planted()[:50], tmp_path, ignore=None)
