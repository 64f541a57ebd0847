"""A whole analysis over a collection in memory: what was planted is found, and going on gives what one run gives."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from support.jobs.analyses import ALONE, COPIES, FAMILIES, analyze_options, planted, report
from support.jobs.memory_source import families, points
from support.jobs.searched_source import SearchedSource
from vecsieve.proxy.jobs.analyze.families import Repeats
from vecsieve.proxy.jobs.analyze.run import analyze
from vecsieve.proxy.jobs.pages import as_json
from vecsieve.proxy.jobs.pairs import reading
from vecsieve.proxy.jobs.pairs.store import StoreError
from vecsieve.proxy.jobs.source import Point, PointId, SourceError

READING = {"shape", "described", "listed", "read", "fetched", "neighbours", "nearest"}


def test_the_planted_families_and_sources_are_found() -> None:
    result = report()
    assert (result.about.points, result.about.examined) == (FAMILIES * COPIES + ALONE,) * 2
    assert result.repeats == Repeats(points=FAMILIES * 2, equal=0, contained=FAMILIES * 2, edited=0, vectors=0)
    assert (result.families.count, result.families.largest) == (FAMILIES, COPIES)
    assert result.sources is not None
    assert [(row.name, row.points, row.repeated, row.copied) for row in result.sources.rows] == [
        ("web", 24, 24, (24, 0, 24)),
        ("wiki", 14, 0, (0, 0, 0)),
        ("pdf", 12, 12, (12, 0, 0)),
    ]
    for family in result.families.examples:
        members = [family.leader, *family.members]
        assert len({int(member.id) // COPIES for member in members}) == 1
        assert [member.source for member in members] == ["pdf", "web", "web"]
        assert [member.evidence for member in members] == [None, "contained", "contained"]


def test_a_sample_has_the_collections_shares_and_whole_families() -> None:
    payloads = [{"body": f"Rule {place // 3} is to be read by all."} for place in range(180)]
    result = report(points(families(60, 3), payloads), limit=60, text_field="body", source_field="source")
    assert (result.about.points, result.about.examined) == (180, 60)
    assert result.repeats.points == result.repeats.equal == 60  # whichever of three would stay
    assert result.families.count == 60
    assert result.families.largest == 3
    assert result.sources is None


def test_a_samples_copies_have_their_sources_too() -> None:
    stored = [
        Point(
            id=place,
            vector=vector,
            payload={"text": f"Rule {place // 2} is read by all.", "source": "odd" if place % 2 else "even"},
        )
        for place, vector in enumerate(families(20, 2))
    ]
    result = report(stored, limit=20)
    assert result.sources is not None
    assert [(row.name, row.copied) for row in result.sources.rows] == [("even", (0, 20)), ("odd", (0, 0))]


@pytest.mark.parametrize("distance", ["Cosine", "Dot", "Euclid", "Manhattan"])
def test_every_metric_is_read(distance: str) -> None:
    result = analyze(SearchedSource(planted(), distance=distance), analyze_options())
    assert result.families.count == FAMILIES


def test_reading_is_all_it_does() -> None:
    class Watched(SearchedSource):
        used: set[str] = set()  # noqa: RUF012 - one test's

        def __getattribute__(self, name: str) -> object:
            if not name.startswith("_") and name not in {"used", "calls", "requests"}:
                Watched.used.add(name)
            return super().__getattribute__(name)

    analyze(Watched(planted()), analyze_options())
    assert {"listed", "read", "neighbours", "shape"} <= Watched.used <= READING


def test_an_empty_collection_is_told_of() -> None:
    with pytest.raises(SourceError, match="'planted' has no points"):
        report([])


def many(count: int = 72) -> list[Point]:
    payloads = [{"text": f"This is text number {place // 3}.", "source": f"s{place % 7}"} for place in range(count)]
    return points(families(count // 3, 3), payloads)


@cache
def of_one_run() -> bytes:
    return as_json(report(many()))


@pytest.mark.parametrize("requests", range(7))
def test_an_interruption_at_any_read_is_gone_on_from(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, requests: int
) -> None:
    monkeypatch.setattr(reading, "PAGE", 30)
    with pytest.raises(SourceError, match="went away"):
        analyze(SearchedSource(many(), fails_after=requests), analyze_options(work=tmp_path))
    source = SearchedSource(many())
    assert as_json(analyze(source, analyze_options(work=tmp_path))) == of_one_run()
    # Three reads for the sample, which is kept as a whole, three for the pages, and one for the examples.
    assert source.calls.count("read") == 7 - (requests if requests >= 3 else 0)


def test_a_folder_of_a_collection_that_has_changed_is_refused(tmp_path: Path) -> None:
    analyze(SearchedSource(many()), analyze_options(work=tmp_path))
    for changed in (many()[:-1], [*many()[:-1], Point(id=999, vector=None, payload={})]):
        with pytest.raises(StoreError, match="begun for another job"):
            analyze(SearchedSource(changed), analyze_options(work=tmp_path))
    with pytest.raises(StoreError, match=r"text fields: the folder has text, now it is body"):
        analyze(SearchedSource(many()), analyze_options(work=tmp_path, text_field="body"))


def test_without_a_folder_nothing_is_left_on_the_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setattr(reading, "PAGE", 30)
    report(many())
    with pytest.raises(SourceError):
        analyze(SearchedSource(many(), fails_after=4), analyze_options())
    assert list(tmp_path.iterdir()) == []


def test_a_whole_collection_is_read_and_only_the_searches_around_stored_points_are_made() -> None:
    whole, sample = SearchedSource(many(201)), SearchedSource(many(201))
    one, other = analyze(whole, analyze_options()), analyze(sample, analyze_options(limit=201))
    assert sample.calls.count("neighbours") > whole.calls.count("neighbours") == 20
    # The same answer by two ways: what hashes find of a small collection is what searches find.
    for name in ("about", "repeats", "families", "sources", "saving", "overlap"):
        assert getattr(one, name) == getattr(other, name), name


def test_points_deleted_meanwhile_are_counted_and_left_out() -> None:
    class Shrinking(SearchedSource):
        def listed(self) -> Iterator[list[PointId]]:
            yield from super().listed()
            yield [5000, 5001]

    result = analyze(Shrinking(planted()), analyze_options())
    assert (result.about.points, result.about.examined, result.about.gone) == (52, 50, 2)
    assert result.repeats.points == FAMILIES * (COPIES - 1)
    assert not result.sampled
