from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vecsieve.proxy.patience import LEAST_SECONDS, SAMPLES, Patience


def test_nothing_known_waits_half_the_longest() -> None:
    assert Patience(longest_seconds=5.0).attempt_seconds(None) == 2.5


def test_the_clients_own_timeout_leaves_half_for_the_original() -> None:
    assert Patience(longest_seconds=5.0).attempt_seconds(1.0) == 0.5


def test_a_fast_database_is_waited_for_at_least_a_second() -> None:
    patience = Patience(longest_seconds=5.0)
    patience.learn(0.002)
    assert patience.attempt_seconds(None) == LEAST_SECONDS


def test_a_slow_database_is_waited_for_four_times_its_95th_percentile() -> None:
    patience = Patience(longest_seconds=5.0)
    for _ in range(SAMPLES):
        patience.learn(0.5)
    assert patience.attempt_seconds(None) == pytest.approx(2.0)


def test_one_outlier_in_sixty_four_does_not_stretch_the_patience() -> None:
    patience = Patience(longest_seconds=60.0)
    for seconds in [*[0.5] * (SAMPLES - 1), 10.0]:
        patience.learn(seconds)
    assert patience.attempt_seconds(None) == pytest.approx(2.0)


def test_old_samples_are_forgotten() -> None:
    patience = Patience(longest_seconds=60.0)
    for seconds in [*[10.0] * SAMPLES, *[0.5] * SAMPLES]:
        patience.learn(seconds)
    assert patience.attempt_seconds(None) == pytest.approx(2.0)


@given(
    longest=st.floats(0.1, 60.0),
    client=st.none() | st.floats(0.001, 600.0),
    samples=st.lists(st.floats(0.0, 100.0), max_size=200),
)
def test_the_attempt_never_outlasts_the_longest_nor_half_the_clients_timeout(
    longest: float, client: float | None, samples: list[float]
) -> None:
    patience = Patience(longest_seconds=longest)
    for seconds in samples:
        patience.learn(seconds)
    attempt = patience.attempt_seconds(client)
    assert 0.0 < attempt <= longest
    assert client is None or attempt <= client / 2
