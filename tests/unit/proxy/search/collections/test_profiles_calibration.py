"""Profiles in a running process: loaded, looked at again when it is time, told of when they cannot be taken or fit no more."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry

from support.jobs.profiles import profile
from support.process.clocks import ManualClock
from support.selection.policies import DEFAULT
from vecsieve.config.schema import ProfileSettings
from vecsieve.proxy.search.collections.profiles import WINDOW, Calibration, encoded
from vecsieve.proxy.telemetry.metrics import Metrics


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
