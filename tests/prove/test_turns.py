"""Long turns of a loop are written down by what they took of the processor, short ones and waiting are not."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import numpy as np
import pytest

from prove.security_texts import POINTS, vectors
from prove.turns import LONG_SECONDS, longest, watch


def busy(seconds: float) -> None:
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        pass


def test_a_long_turn_is_written_down_and_waiting_is_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "turns"
    monkeypatch.setattr(asyncio.Handle, "_run", asyncio.Handle._run)
    watch(file)

    async def turns() -> None:
        busy(20 * LONG_SECONDS)
        await asyncio.sleep(0.01)
        time.sleep(0.1)
        await asyncio.sleep(0)
        busy(5 * LONG_SECONDS)

    asyncio.run(turns())
    turn, count = longest(file)
    assert 20 * LONG_SECONDS <= turn < 0.1
    assert count == 2
    later, _ = longest(file, 1)
    assert 5 * LONG_SECONDS <= later < turn
    assert longest(file, 2) == (0.0, 2)


def test_the_points_of_hostile_texts_are_near_enough_for_half_of_their_texts_to_be_compared() -> None:
    unit = vectors() / np.linalg.norm(vectors(), axis=1, keepdims=True)
    distances = (1 - unit @ unit.T)[np.triu_indices(POINTS, 1)]
    side = np.arange(POINTS) % 2
    is_same = (side[:, None] == side)[np.triu_indices(POINTS, 1)]
    assert is_same.sum() == 600
    assert distances[is_same].max() < np.median(distances)
    assert distances[is_same].min() > 0.1, "vectors alone say nothing"
