"""The state is written every few seconds, seldom enough to cost little, and when reading ends early."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.searched_source import numbered
from vecsieve.proxy.jobs.analyze import run
from vecsieve.proxy.jobs.analyze.reading import Reading, nothing_yet, spread
from vecsieve.proxy.jobs.analyze.run import EVERY_SECONDS, SHARE, Keeper

OF = {"collection": "c"}


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def begun() -> Reading:
    return Reading(ids=numbered(3), gathered=nothing_yet(3, spread(3, None)))


def test_it_is_written_once_the_seconds_are_over_and_not_before(tmp_path: Path) -> None:
    path, clock = tmp_path / "state", Clock()
    keeper = Keeper(path, OF, clock=clock)
    clock.now += EVERY_SECONDS - 0.1
    keeper.page_done(begun())
    assert not path.exists()
    clock.now += 0.1
    keeper.page_done(begun())
    assert path.exists()


def test_a_slow_write_makes_the_next_one_wait_longer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock, written = Clock(), list[float]()

    def slow(*_: object) -> None:
        written.append(clock.now)
        clock.now += 3.0

    monkeypatch.setattr(run, "save", slow)
    keeper = Keeper(tmp_path / "state", OF, clock=clock)
    for _ in range(100):
        clock.now += 1.0
        keeper.page_done(begun())
    assert written == [100.0 + EVERY_SECONDS, 100.0 + EVERY_SECONDS + 3.0 + SHARE * 3.0]


@pytest.mark.parametrize("error", [KeyboardInterrupt, RuntimeError])
def test_an_early_end_is_kept_and_goes_on(tmp_path: Path, error: type[BaseException]) -> None:
    path = tmp_path / "state"
    keeper, reading = Keeper(path, OF), begun()
    reading.done = 2
    with pytest.raises(error), keeper.kept_on_interrupt(reading):
        raise error
    fresh = begun()
    assert keeper.restored(fresh)
    assert fresh.done == 2


def test_a_good_end_writes_nothing_and_no_path_never_does(tmp_path: Path) -> None:
    with Keeper(tmp_path / "state", OF).kept_on_interrupt(begun()):
        pass
    assert list(tmp_path.iterdir()) == []
    clock = Clock()
    nowhere = Keeper(None, OF, clock=clock)
    clock.now += 100.0
    nowhere.page_done(begun())
    assert not nowhere.restored(begun())
    with pytest.raises(KeyboardInterrupt), nowhere.kept_on_interrupt(begun()):
        raise KeyboardInterrupt
