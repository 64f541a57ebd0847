"""Profile files: what is written can be read, what is wrong is named, what was good stays in force."""

from __future__ import annotations

import json
import logging
import math
import os
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry

from support.jobs.profiles import MEMBERS, profile
from support.process.clocks import ManualClock
from support.selection.policies import DEFAULT
from vecsieve.config.problems import SettingsError
from vecsieve.config.schema import ProfileSettings
from vecsieve.proxy.search.collections.profiles import (
    FITTING_SHARE,
    LARGEST_FILE_BYTES,
    SMALLEST_POOL,
    WIDENED,
    WINDOW,
    Calibration,
    Drift,
    Event,
    Profile,
    Profiles,
    Reload,
    decoded,
    encoded,
)
from vecsieve.proxy.telemetry.metrics import Metrics


def reloaded(profiles: Profiles) -> Reload:
    reload = profiles.reload_if_changed()
    assert reload is not None
    return reload


def refusal(tree: object) -> str:
    with pytest.raises(SettingsError) as caught:
        decoded(json.dumps(tree).encode(), name="docs.json")
    return str(caught.value)


def similarity(profiles: Profiles, collection: str, vector_name: str) -> float | None:
    known_profile = profiles.profile(collection, vector_name)
    return None if known_profile is None else known_profile.mean_unrelated_similarity


def put(directory: Path, name: str, made: Profile) -> None:
    """As `vecsieve calibrate` does: a new file renamed into place."""
    fresh = directory / f"{name}.fresh"
    fresh.write_bytes(encoded(made))
    fresh.replace(directory / name)


@given(
    st.text(min_size=1).filter(lambda text: text.isprintable()),
    st.integers(1, 65_536),
    st.floats(-1.0, 1.0),
)
def test_what_is_written_is_read_back(collection: str, dimension: int, similarity: float) -> None:
    """Decoding an encoded profile gives the same profile."""
    made = profile(collection=collection, dimension=dimension, mean_unrelated_similarity=similarity)
    assert decoded(encoded(made), name="x.json") == made


@given(st.binary(max_size=300))
def test_any_bytes_are_a_profile_or_a_clear_refusal(content: bytes) -> None:
    """Reading arbitrary bytes raises SettingsError, nothing else."""
    with pytest.raises(SettingsError, match=r"x\.json"):
        decoded(content, name="x.json")


def test_every_wrong_field_is_told_by_name() -> None:
    refused = refusal(
        {
            **MEMBERS,
            "version": 1,
            "pools": "many",
            "dimension": 0,
            "pool_median": {"percentile_1": 0.1, "percentile_50": -1, "percentile_9": 0.3},
            "vector": "",
        }
    )
    assert len(refused.splitlines()) == 7
    for place in ("version", "pools", "dimension", "vector", "pool_median.percentile_50"):
        assert f"docs.json: {place}: wanted " in refused
    assert "pool_median.percentile_9: wanted a known key (did you mean percentile_99?)" in refused


@pytest.mark.parametrize("tree", [[], "text", 3, None])
def test_json_that_is_no_object_is_refused(tree: object) -> None:
    assert "docs.json: wanted a profile" in refusal(tree)


def test_a_directory_is_loaded_and_asked_by_collection_and_vector(tmp_path: Path) -> None:
    put(tmp_path, "a.json", profile(mean_unrelated_similarity=0.1))
    put(tmp_path, "b.json", profile(vector_name="title", mean_unrelated_similarity=0.0))
    (tmp_path / "notes.txt").write_text("no profile")
    profiles = Profiles(tmp_path)
    assert similarity(profiles, "docs", "") is None
    reload = reloaded(profiles)
    assert (reload.profiles, reload.problems) == (2, ())
    assert similarity(profiles, "docs", "") == 0.1
    assert similarity(profiles, "docs", "title") == 0.0
    assert similarity(profiles, "other", "") is None
    assert profiles.profile("docs", "title") == profile(vector_name="title", mean_unrelated_similarity=0.0)


def test_nothing_is_read_again_while_nothing_changed(tmp_path: Path) -> None:
    put(tmp_path, "a.json", profile())
    profiles = Profiles(tmp_path)
    profiles.reload_if_changed()
    assert profiles.reload_if_changed() is None


def test_a_changed_a_new_and_a_removed_file_are_noticed(tmp_path: Path) -> None:
    put(tmp_path, "a.json", profile())
    profiles = Profiles(tmp_path)
    profiles.reload_if_changed()
    put(tmp_path, "a.json", profile(mean_unrelated_similarity=0.2))
    put(tmp_path, "b.json", profile(collection="other"))
    assert profiles.reload_if_changed() is not None
    assert (similarity(profiles, "docs", ""), similarity(profiles, "other", "")) == (0.2, 0.05)
    (tmp_path / "a.json").unlink()
    assert reloaded(profiles).profiles == 1
    assert similarity(profiles, "docs", "") is None


def test_a_broken_file_is_reported_and_what_it_said_before_stays(tmp_path: Path) -> None:
    put(tmp_path, "a.json", profile(mean_unrelated_similarity=0.2))
    profiles = Profiles(tmp_path)
    profiles.reload_if_changed()
    (tmp_path / "a.json").write_text('{"cut": ')
    assert "a.json" in str(reloaded(profiles).problems[0])
    assert similarity(profiles, "docs", "") == 0.2
    assert profiles.reload_if_changed() is None
    put(tmp_path, "a.json", profile(mean_unrelated_similarity=0.3))
    assert reloaded(profiles).problems == ()
    assert similarity(profiles, "docs", "") == 0.3


def test_a_file_broken_from_the_start_leaves_the_others_alone(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_bytes(b"\xff\xfe")
    (tmp_path / "b.json").symlink_to(tmp_path / "nowhere")
    (tmp_path / "c.json").write_bytes(b" " * (LARGEST_FILE_BYTES + 1))
    put(tmp_path, "d.json", profile())
    profiles = Profiles(tmp_path)
    reload = reloaded(profiles)
    assert reload.profiles == 1
    assert [str(problem).split(":")[0].split(",")[0] for problem in reload.problems] == ["a.json", "b.json", "c.json"]


def test_of_two_files_for_one_vector_the_first_by_name_counts(tmp_path: Path) -> None:
    put(tmp_path, "b.json", profile(mean_unrelated_similarity=0.2))
    put(tmp_path, "a.json", profile(mean_unrelated_similarity=0.1))
    profiles = Profiles(tmp_path)
    reload = reloaded(profiles)
    assert "b.json" in str(reload.problems[0])
    assert "a.json" in str(reload.problems[0])
    assert similarity(profiles, "docs", "") == 0.1


def test_a_directory_that_goes_away_changes_no_cut_and_is_reported_once(tmp_path: Path) -> None:
    directory = tmp_path / "profiles"
    profiles = Profiles(directory)
    assert "wanted a directory of profiles" in str(reloaded(profiles).problems[0])
    directory.mkdir()
    put(directory, "a.json", profile())
    profiles.reload_if_changed()
    directory.rename(tmp_path / "elsewhere")
    assert reloaded(profiles).profiles == 1
    assert similarity(profiles, "docs", "") == 0.05
    assert profiles.reload_if_changed() is None
    (tmp_path / "elsewhere").rename(directory)
    assert reloaded(profiles).problems == ()


def test_an_edit_of_the_same_length_within_the_same_second_is_noticed(tmp_path: Path) -> None:
    put(tmp_path, "a.json", profile(mean_unrelated_similarity=0.1))
    profiles = Profiles(tmp_path)
    profiles.reload_if_changed()
    before = (tmp_path / "a.json").stat()
    put(tmp_path, "a.json", profile(mean_unrelated_similarity=0.2))
    os.utime(tmp_path / "a.json", ns=(before.st_atime_ns, before.st_mtime_ns))
    assert profiles.reload_if_changed() is not None
    assert similarity(profiles, "docs", "") == 0.2


# Profiles in a running process: loaded, looked at again when it is time, told of when they cannot be taken or fit no more.


@pytest.fixture
def registry() -> CollectorRegistry:
    return CollectorRegistry()


def count(registry: CollectorRegistry, name: str, **labels: str) -> float:
    return registry.get_sample_value(f"vecsieve_{name}", labels) or 0.0


def made(registry: CollectorRegistry, clock: ManualClock, **settings: object) -> Calibration:
    return Calibration(
        ProfileSettings.model_validate(settings), metrics=Metrics(registry, backend="qdrant"), clock=clock
    )


def scale(calibration: Calibration) -> float | None:
    return calibration.scaling.of("docs", "", DEFAULT, dimension=384)


async def looked(calibration: Calibration) -> None:
    """After what is read beside the loop."""
    calibration.look()
    if calibration._reading is not None:
        await calibration._reading


async def test_without_a_directory_nothing_is_read(registry: CollectorRegistry) -> None:
    calibration = made(registry, ManualClock())
    await looked(calibration)
    assert scale(calibration) is None


async def test_profiles_are_there_from_the_first_search_and_again_when_it_is_time(
    registry: CollectorRegistry, tmp_path: Path
) -> None:
    clock = ManualClock()
    calibration = made(registry, clock, directory=str(tmp_path))
    assert scale(calibration) is None
    (tmp_path / "docs.json").write_bytes(encoded(profile()))
    clock.advance(9.0)
    await looked(calibration)
    assert scale(calibration) is None
    clock.advance(1.0)
    await looked(calibration)
    assert scale(calibration) == 0.4


async def test_a_broken_file_is_told_of_and_counted_and_the_last_good_one_stays(
    registry: CollectorRegistry, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    clock = ManualClock()
    (tmp_path / "docs.json").write_bytes(encoded(profile()))
    calibration = made(registry, clock, directory=str(tmp_path))
    (tmp_path / "docs.json").write_text('{"version": 1}')
    clock.advance(60.0)
    with caplog.at_level(logging.WARNING):
        await looked(calibration)
    assert scale(calibration) == 0.4
    assert count(registry, "profile_failures_total", kind="unreadable") > 0
    assert "docs.json" in caplog.text


def test_drift_is_logged_once_and_counted(
    registry: CollectorRegistry, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "docs.json").write_bytes(encoded(profile()))
    calibration = made(registry, ManualClock(), directory=str(tmp_path))
    with caplog.at_level(logging.INFO):
        for _ in range(WINDOW + 5):
            calibration.scaling.observe("docs", "", dimension=384, median=0.01, size=40)
        calibration.scaling.observe("docs", "", dimension=768, median=0.01, size=40)
    assert count(registry, "profile_failures_total", kind="distances") == 1.0
    assert count(registry, "profile_failures_total", kind="dimension") == 1.0
    assert sum("no longer match" in record.message for record in caplog.records) == 2


async def test_learning_is_off_unless_asked_for(registry: CollectorRegistry) -> None:
    plain, learning = made(registry, ManualClock()), made(CollectorRegistry(), ManualClock(), online=True)
    for calibration, expected in ((plain, None), (learning, pytest.approx(0.3))):
        for _ in range(60):
            calibration.scaling.observe("docs", "", dimension=384, median=0.3, size=40)
        assert scale(calibration) == expected


def test_pools_without_vectors_are_no_drift(registry: CollectorRegistry, tmp_path: Path) -> None:
    """Where texts decide, a reply has no vectors: their dimension is no other one than that of the profile."""
    (tmp_path / "docs.json").write_bytes(encoded(profile()))
    calibration = made(registry, ManualClock(), directory=str(tmp_path))
    for _ in range(WINDOW + 5):
        calibration.scaling.observe("docs", "", dimension=0, median=0.0, size=40)
    assert count(registry, "profile_failures_total") == 0
    assert scale(calibration) == 0.4


# When live pools stop looking like their profile, it is said once, and once again when they do.

FITS = 0.4
STRANGE = 0.9


def feed(drift: Drift, *medians: float, dimension: int = 384) -> list[Event]:
    events = [drift.observe(profile(), dimension=dimension, median=median, size=40) for median in medians]
    return [event for event in events if event is not None]


def test_pools_like_the_profile_are_silent() -> None:
    drift = Drift()
    assert feed(drift, *[FITS] * 1000) == []
    assert drift.drifted("docs", "") is None


def test_another_dimension_is_said_at_once_and_once() -> None:
    drift = Drift()
    assert feed(drift, FITS, FITS, dimension=768) == [Event.DIMENSION]
    assert drift.drifted("docs", "") is Event.DIMENSION


def test_strange_medians_are_said_once_the_window_is_full() -> None:
    drift = Drift()
    assert feed(drift, *[STRANGE] * (WINDOW - 1)) == []
    assert feed(drift, STRANGE) == [Event.MEDIANS]
    assert feed(drift, *[STRANGE] * 1000) == []


def test_half_of_the_pools_outside_is_no_drift_yet_and_one_more_is() -> None:
    drift = Drift()
    assert feed(drift, *[STRANGE] * (WINDOW // 2), *[FITS] * (WINDOW // 2)) == []
    drift = Drift()
    assert feed(drift, *[STRANGE] * (WINDOW // 2 + 1), *[FITS] * (WINDOW // 2 - 1)) == [Event.MEDIANS]


@pytest.mark.parametrize(
    ("median", "fits"),
    [(0.2 / WIDENED, True), (0.2 / WIDENED - 1e-6, False), (0.6 * WIDENED, True), (0.6 * WIDENED + 1e-6, False)],
)
def test_the_profiles_range_is_widened_by_a_quarter(median: float, *, fits: bool) -> None:
    assert feed(Drift(), *[median] * WINDOW) == ([] if fits else [Event.MEDIANS])


def test_it_recovers_only_when_most_pools_fit_again() -> None:
    drift = Drift()
    feed(drift, *[STRANGE] * WINDOW)
    still_outside = int(WINDOW * FITTING_SHARE)
    assert feed(drift, *[FITS] * (WINDOW - still_outside - 1)) == []
    assert feed(drift, FITS) == [Event.RECOVERED]
    assert drift.drifted("docs", "") is None
    assert feed(drift, *[STRANGE] * WINDOW) == [Event.MEDIANS]


def test_after_another_dimension_a_whole_window_must_fit() -> None:
    drift = Drift()
    feed(drift, FITS, dimension=768)
    assert feed(drift, *[FITS] * (WINDOW - 1)) == []
    assert feed(drift, FITS) == [Event.RECOVERED]


@pytest.mark.parametrize("median", [0.0, math.nan, math.inf])
def test_a_pool_without_anything_to_measure_is_not_counted(median: float) -> None:
    assert feed(Drift(), *[median] * (5 * WINDOW)) == []


@pytest.mark.parametrize(("size", "counted"), [(SMALLEST_POOL - 1, False), (SMALLEST_POOL, True)])
def test_pools_of_few_candidates_are_not_counted(size: int, *, counted: bool) -> None:
    drift = Drift()
    events = [drift.observe(profile(), dimension=384, median=STRANGE, size=size) for _ in range(WINDOW)]
    assert events[-1] is (Event.MEDIANS if counted else None)


def test_a_new_profile_starts_anew() -> None:
    drift = Drift()
    feed(drift, *[STRANGE] * WINDOW)
    assert drift.observe(profile(sample=1), dimension=384, median=FITS, size=40) is None
    assert drift.drifted("docs", "") is None


def test_the_collection_unseen_for_longest_is_forgotten_first() -> None:
    drift = Drift(entries=2)
    for name in ("a", "b", "a", "c"):
        drift.observe(profile(collection=name), dimension=768, median=FITS, size=40)
    assert len(drift) == 2
    assert [drift.drifted(name, "") for name in "abc"] == [Event.DIMENSION, None, Event.DIMENSION]


@given(st.lists(st.tuples(st.sampled_from([384, 768]), st.floats(0.0, 2.0)), max_size=3 * WINDOW))
def test_no_event_is_said_twice_in_a_row(pools: list[tuple[int, float]]) -> None:
    """Whatever the pools, an event always differs from the one before it."""
    drift = Drift()
    events = [drift.observe(profile(), dimension=dimension, median=median, size=40) for dimension, median in pools]
    emitted = [event for event in events if event is not None]
    assert all(one is not other for one, other in pairwise(emitted))
    assert not emitted or emitted[0] is not Event.RECOVERED
