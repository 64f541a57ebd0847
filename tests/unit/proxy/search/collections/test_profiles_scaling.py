"""Profile, learned scale or the pool's own: who is asked first, and when a profile stops counting."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from support.jobs.profiles import profile
from support.selection.policies import DEFAULT
from vecsieve.proxy.search.collections.profiles import (
    ENOUGH_POOLS,
    WINDOW,
    Event,
    Profile,
    Profiles,
    Scales,
    Scaling,
    encoded,
)
from vecsieve.proxy.selection.policy import Fixed, Relative


def loaded(folder: Path, *given: Profile) -> Profiles:
    for number, given_profile in enumerate(given):
        (folder / f"{number}.json").write_bytes(encoded(given_profile))
    profiles = Profiles(folder)
    profiles.reload_if_changed()
    return profiles


def nobody(_profile: Profile, event: Event) -> None:
    raise AssertionError(event)


def taught(scales: Scales, median: float) -> Scales:
    for _ in range(ENOUGH_POOLS):
        scales.observe(("docs", ""), median)
    return scales


def test_without_profile_and_learning_the_pool_speaks_for_itself() -> None:
    distance = Scaling(None, None, nobody).of("docs", "", DEFAULT, dimension=384)
    assert distance is None


def test_a_measured_profile_gives_the_typical_distance(tmp_path: Path) -> None:
    scaling = Scaling(loaded(tmp_path, profile()), None, nobody)
    distance = scaling.of("docs", "", DEFAULT, dimension=384)
    assert distance == 0.4


@pytest.mark.parametrize(
    ("collection", "vector", "dimension"),
    [("other", "", 384), ("docs", "title", 384), ("docs", "", 768), ("docs", None, 384)],
)
def test_a_profile_counts_for_its_collection_vector_and_dimension_alone(
    tmp_path: Path, collection: str, vector: str | None, dimension: int
) -> None:
    distance = Scaling(loaded(tmp_path, profile()), None, nobody).of(collection, vector, DEFAULT, dimension=dimension)
    assert distance is None


def test_a_fixed_threshold_stays_as_the_operator_wrote_it(tmp_path: Path) -> None:
    fixed = replace(DEFAULT, threshold=Fixed(value=0.3))
    scaling = Scaling(loaded(tmp_path, profile()), taught(Scales(), 0.5), nobody)
    assert scaling.of("docs", "", fixed, dimension=384) is None


def test_what_traffic_taught_counts_where_there_is_no_profile(tmp_path: Path) -> None:
    relative = replace(DEFAULT, threshold=Relative(factor=0.2, minimum=0.02, maximum=0.3))
    scaling = Scaling(None, taught(Scales(), 0.5), nobody)
    distance = scaling.of("docs", "", relative, dimension=384)
    assert distance == 0.5
    both = Scaling(loaded(tmp_path, profile()), taught(Scales(), 0.5), nobody)
    assert both.of("docs", "", relative, dimension=384) == 0.4


def test_every_pool_teaches() -> None:
    scaling = Scaling(None, Scales(), nobody)
    for _ in range(ENOUGH_POOLS):
        assert scaling.of("docs", "", DEFAULT, dimension=4) is None
        scaling.observe("docs", "", dimension=4, median=0.3, size=40)
        scaling.observe("docs", None, dimension=4, median=0.9, size=40)
    assert scaling.of("docs", "", DEFAULT, dimension=4) == pytest.approx(0.3)


def test_a_profile_that_the_pools_have_left_is_told_once_and_does_not_count(tmp_path: Path) -> None:
    events: list[tuple[str, Event]] = []
    scaling = Scaling(
        loaded(tmp_path, profile()),
        None,
        lambda collection_profile, event: events.append((collection_profile.collection, event)),
    )
    for _ in range(2 * WINDOW):
        scaling.observe("docs", "", dimension=384, median=0.05, size=40)
    assert events == [("docs", Event.MEDIANS)]
    assert scaling.of("docs", "", DEFAULT, dimension=384) is None
    for _ in range(2 * WINDOW):
        scaling.observe("docs", "", dimension=384, median=0.4, size=40)
    assert events == [("docs", Event.MEDIANS), ("docs", Event.RECOVERED)]
    assert scaling.of("docs", "", DEFAULT, dimension=384) == 0.4


def test_what_traffic_taught_is_forgotten_and_a_profile_is_not(tmp_path: Path) -> None:
    scaling = Scaling(loaded(tmp_path, profile()), taught(Scales(), 0.3), nobody)
    scaling.forget("docs")
    assert scaling.of("docs", "", DEFAULT, dimension=384) == 0.4
    assert scaling.of("docs", "", DEFAULT, dimension=4) is None
