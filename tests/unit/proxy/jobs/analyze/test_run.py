"""A whole analysis over a collection in memory: what was planted is found, and going on gives what one run gives."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from support.analyzed import ALONE, COPIES, FAMILIES, asked, no_bar, planted, report
from support.memory_source import families, points
from support.searched_source import SearchedSource
from vecsieve.proxy.jobs.analyze import run
from vecsieve.proxy.jobs.analyze.reading import FieldNames, StateError
from vecsieve.proxy.jobs.analyze.report import as_json
from vecsieve.proxy.jobs.analyze.run import analyze
from vecsieve.proxy.jobs.source import Point, PointId, SourceError

READING = {"shape", "ids", "scroll", "read", "neighbours", "nearest"}


def test_the_planted_families_and_sources_are_found() -> None:
    found = report()
    assert (found.about.points, found.about.examined) == (FAMILIES * COPIES + ALONE,) * 2
    assert (found.near.with_copy, found.near.redundant) == (FAMILIES * COPIES, FAMILIES * (COPIES - 1))
    assert (found.exact.with_copy, found.exact.redundant) == (FAMILIES * 2, FAMILIES)
    assert (found.families.count, found.families.largest) == (FAMILIES, COPIES)
    assert found.sources is not None
    assert [(row.name, row.points, row.with_copy, row.copied) for row in found.sources.rows] == [
        ("web", 24, 24, (24, 0, 24)),
        ("wiki", 14, 0, (0, 0, 0)),
        ("pdf", 12, 12, (12, 0, 0)),
    ]
    for family in found.families.examples:
        members = [family.leader, *family.members]
        assert len({int(member.id) // COPIES for member in members}) == 1
        assert sorted(member.source or "" for member in members) == ["pdf", "web", "web"]


def test_without_a_cut_it_is_the_relative_rules() -> None:
    found = report(cut=None)
    assert found.cut.median is not None
    assert found.cut.value == found.cut.relative == pytest.approx(min(0.2 * found.cut.median, 0.3))
    assert found.cut.origin == "relative"
    assert found.cut.value in {each.cut for each in found.density}


def test_a_chosen_cut_stands_beside_the_relative_one() -> None:
    found = report(cut=0.123)
    assert (found.cut.value, found.cut.origin) == (0.123, "option")
    assert {found.cut.value, found.cut.relative} <= {each.cut for each in found.density}


def test_a_sample_has_the_collections_shares_and_whole_families() -> None:
    found = report(points(families(60, 3)), limit=60, fields=FieldNames(text=("body",), source=("source",)))
    assert (found.about.points, found.about.examined) == (180, 60)
    assert found.near.with_copy == 60
    assert found.families.count == 60
    assert found.families.largest == 3
    assert found.sources is None


def test_a_samples_copies_have_their_sources_too() -> None:
    held = [
        Point(id=place, vector=vector, payload={"text": f"t{place}", "source": "odd" if place % 2 else "even"})
        for place, vector in enumerate(families(20, 2))
    ]
    found = report(held, limit=20)
    assert found.sources is not None
    assert [(row.name, row.copied) for row in found.sources.rows] == [("even", (0, 20)), ("odd", (0, 0))]


@pytest.mark.parametrize("distance", ["Cosine", "Dot", "Euclid", "Manhattan"])
def test_every_metric_is_read(distance: str) -> None:
    found = analyze(SearchedSource(planted(), distance=distance), asked(), bar=no_bar)
    assert found.families.count == FAMILIES


def test_reading_is_all_it_does() -> None:
    class Watched(SearchedSource):
        used: set[str] = set()  # noqa: RUF012 - one test's

        def __getattribute__(self, name: str) -> object:
            if not name.startswith("_") and name not in {"used", "calls", "requests"}:
                Watched.used.add(name)
            return super().__getattribute__(name)

    analyze(Watched(planted()), asked(), bar=no_bar)
    assert {"ids", "read", "nearest", "neighbours", "shape"} <= Watched.used <= READING


def test_an_empty_collection_is_told_of() -> None:
    with pytest.raises(SourceError, match="'planted' has no points"):
        report([])


def many() -> list[Point]:
    payloads = [{"text": f"text {place % 200}", "source": f"s{place % 7}"} for place in range(360)]
    return points(families(120, 3), payloads)


@pytest.mark.parametrize("after", [0, 1, 2, 3])
def test_going_on_after_an_error_gives_what_one_run_gives(tmp_path: Path, after: int) -> None:
    state = tmp_path / "state"
    with pytest.raises(SourceError, match="went away"):
        analyze(SearchedSource(many(), fails_after=after), asked(state=state), bar=no_bar)
    source = SearchedSource(many())
    assert as_json(analyze(source, asked(state=state), bar=no_bar)) == as_json(report(many()))
    assert source.calls.count("nearest") == 4 - after


@pytest.mark.parametrize(
    "requests", [each if each % 5 == 0 else pytest.param(each, marks=pytest.mark.deep) for each in range(30)]
)
def test_an_interruption_at_any_request_is_gone_on_from(tmp_path: Path, requests: int) -> None:
    class Interrupted(SearchedSource):
        left = 0

        def nearest(self, vectors: np.ndarray, *, count: int) -> list[list[tuple[PointId, float]]]:
            self._count()
            return super().nearest(vectors, count=count)

        def read(self, ids: Sequence[PointId]) -> list[Point]:
            self._count()
            return super().read(ids)

        def _count(self) -> None:
            self.left -= 1
            if self.left < 0:
                raise KeyboardInterrupt

    state = tmp_path / "state"
    source = Interrupted(many())
    source.left = requests
    with pytest.raises(KeyboardInterrupt):
        analyze(source, asked(state=state), bar=no_bar)
    gone_on = analyze(SearchedSource(many()), asked(state=state), bar=no_bar)
    assert as_json(gone_on) == as_json(report(many()))


def test_the_state_is_written_while_reading(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run, "EVERY_SECONDS", 0.0)
    monkeypatch.setattr(run, "SHARE", 0)
    written: list[int] = []
    monkeypatch.setattr(run, "save", lambda _path, _of, reading: written.append(reading.done))
    # A page is kept before the next one is asked for: a process that is killed loses one page, not all.
    analyze(SearchedSource(many()), asked(state=tmp_path / "state"), bar=no_bar)
    assert written == [100, 200, 300, 360]


def test_a_state_of_a_collection_that_has_changed_is_refused(tmp_path: Path) -> None:
    state = tmp_path / "state"
    with pytest.raises(SourceError):
        analyze(SearchedSource(many(), fails_after=2), asked(state=state), bar=no_bar)
    for changed in (many()[:-1], [*many()[:-1], Point(id=999, vector=None, payload={})]):
        with pytest.raises(StateError, match="begun for another analysis"):
            analyze(SearchedSource(changed), asked(state=state), bar=no_bar)
    with pytest.raises(StateError, match=r"cut: the file has 0.05, now it is 0.06"):
        analyze(SearchedSource(many()), asked(state=state, cut=0.06), bar=no_bar)


def test_points_deleted_meanwhile_are_counted_and_left_out() -> None:
    class Shrinking(SearchedSource):
        def ids(self, *, after: PointId | None, page: int) -> tuple[list[PointId], PointId | None]:
            found, following = super().ids(after=after, page=page)
            return [*found, 5000, 5001], following

    found = analyze(Shrinking(planted()), asked(), bar=no_bar)
    assert (found.about.points, found.about.examined, found.about.gone) == (52, 50, 2)
    assert found.near.with_copy == FAMILIES * COPIES
    assert not found.sampled
