from __future__ import annotations

from prove.jumping_clock import MONTH_SECONDS, READINGS, jumping


def test_it_goes_on_back_and_to_the_beginning_and_comes_again() -> None:
    now = jumping(lambda: 1_000_000_030.0)
    read = [now() for _ in range(4 * READINGS + 1)]
    assert read[:READINGS] == [1_000_000_030.0] * READINGS
    assert read[READINGS] == 1_000_000_030.0 + MONTH_SECONDS
    assert read[2 * READINGS] == 1_000_000_030.0 - MONTH_SECONDS
    assert read[3 * READINGS] < 60.0
    assert read[4 * READINGS] == read[0]
