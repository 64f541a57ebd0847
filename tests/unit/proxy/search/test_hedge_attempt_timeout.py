"""How long a widened request is waited for alone: bounds, what is learned, and what is forgotten."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.backends.toy_backend import OPERATION
from support.process.clocks import ManualClock
from vecsieve.proxy.search.hedge import (
    GAVE_UP_SECONDS,
    HEDGE_TIMES,
    LATE_SAMPLES,
    SAMPLES,
    AttemptTimeout,
)

OTHER = replace(OPERATION, collection="other")


def attempt_timeout(
    *widened: float, plain: tuple[float, ...] = (), longest: float = 5.0, clock: ManualClock | None = None
) -> AttemptTimeout:
    made = AttemptTimeout(longest_seconds=longest, clock=ManualClock() if clock is None else clock)
    for seconds in widened:
        made.of(OPERATION).widened.append(seconds)
    for seconds in plain:
        made.of(OPERATION).plain.append(seconds)
    return made


def test_while_nothing_is_known_the_original_follows_after_half_a_second() -> None:
    assert attempt_timeout().of(OPERATION).times(None)[0] == HEDGE_TIMES.hedge_most
    assert attempt_timeout().of(OPERATION).times(None)[1] == 2.5


@pytest.mark.parametrize(("usual", "seconds"), [(0.002, 0.25), (0.2, 0.4), (3.0, 0.5)])
def test_it_follows_after_twice_the_usual_time_within_bounds(usual: float, seconds: float) -> None:
    assert attempt_timeout(*[usual] * SAMPLES).of(OPERATION).times(None)[0] == pytest.approx(seconds)


@pytest.mark.parametrize(("timeout", "seconds"), [(0.4, 0.1), (1.0, 0.25), (60.0, 6.0)])
def test_a_timeout_that_is_known_leaves_three_quarters_for_the_original(timeout: float, seconds: float) -> None:
    assert attempt_timeout(*[3.0] * SAMPLES, longest=30.0).of(OPERATION).times(timeout)[0] == pytest.approx(seconds)


def test_where_the_clients_own_take_nearly_as_long_as_its_timeout_both_go_out_at_once() -> None:
    assert attempt_timeout(plain=(0.9,) * 5).of(OPERATION).times(1.0)[0] == 0.0


def test_a_fast_database_is_waited_for_at_least_a_second() -> None:
    assert attempt_timeout(0.002).of(OPERATION).times(None)[1] == HEDGE_TIMES.attempt_least


def test_a_slow_database_is_waited_for_four_times_its_95th_percentile() -> None:
    assert attempt_timeout(*[0.5] * SAMPLES).of(OPERATION).times(None)[1] == pytest.approx(2.0)


def test_one_outlier_in_thirty_two_does_not_stretch_the_patience_and_old_samples_are_forgotten() -> None:
    assert attempt_timeout(*[0.5] * (SAMPLES - 1), 10.0, longest=60.0).of(OPERATION).times(None)[1] == pytest.approx(
        2.0
    )
    old = attempt_timeout(*[10.0] * SAMPLES, *[0.5] * SAMPLES, longest=60.0)
    assert old.of(OPERATION).times(None)[1] == pytest.approx(2.0)


def test_who_went_away_after_a_second_or_more_has_shown_a_timeout_for_ten_minutes() -> None:
    clock = ManualClock()
    made = attempt_timeout(*[3.0] * SAMPLES, plain=(3.0,) * SAMPLES, longest=30.0, clock=clock)
    made.of(OPERATION).gave_up(0.9)
    assert made.of(OPERATION).times(None)[0] == HEDGE_TIMES.hedge_most
    made.of(OPERATION).gave_up(5.0)
    assert made.of(OPERATION).times(None)[0] == pytest.approx(0.5)
    assert made.of(OPERATION).times(None)[1] == 2.5
    assert made.of(OPERATION).times(40.0)[1] == 12.0, "what a client says itself goes before"
    clock.advance(GAVE_UP_SECONDS)
    assert made.of(OPERATION).times(None)[1] == 12.0


def test_a_collection_of_which_nothing_is_known_is_in_doubt_and_one_timely_answer_ends_that() -> None:
    made = attempt_timeout()
    assert made.of(OPERATION).is_doubtful
    made.of(OPERATION).late.append(False)
    assert not made.of(OPERATION).is_doubtful
    assert made.of(OTHER).is_doubtful


def test_when_half_of_the_last_were_late_it_is_in_doubt_again() -> None:
    made = attempt_timeout(0.01)
    for is_late in [False] * LATE_SAMPLES + [True]:
        made.of(OPERATION).late.append(is_late)
    assert not made.of(OPERATION).is_doubtful
    made.of(OPERATION).late.append(True)
    assert made.of(OPERATION).is_doubtful


@pytest.mark.parametrize(("widened", "plain", "is_doubtful"), [(3.0, 3.0, False), (3.1, 2.9, False), (3.0, 1.0, True)])
def test_a_database_that_is_as_slow_to_its_clients_is_no_reason_for_doubt(
    widened: float, plain: float, is_doubtful: bool
) -> None:
    made = attempt_timeout(widened, widened, plain=(plain, plain))
    for _ in range(LATE_SAMPLES):
        made.of(OPERATION).late.append(True)
    assert made.of(OPERATION).is_doubtful is is_doubtful


def test_only_so_many_collections_are_remembered() -> None:
    made = AttemptTimeout(longest_seconds=5.0, clock=ManualClock(), entries=2)
    for name in "abc":
        made.of(replace(OPERATION, collection=name)).late.append(False)
    assert len(made) == 2
    assert made.of(replace(OPERATION, collection="a")).is_doubtful


@given(
    longest=st.floats(0.1, 60.0),
    client=st.none() | st.floats(0.001, 600.0),
    widened=st.lists(st.floats(0.0, 100.0), max_size=80),
    plain=st.lists(st.floats(0.0, 100.0), max_size=80),
)
def test_the_original_is_never_later_than_its_bounds(
    longest: float, client: float | None, widened: list[float], plain: list[float]
) -> None:
    """A hedge never comes after the last moment, nor after a quarter of a known timeout, nor after half a second without one."""
    made = attempt_timeout(*widened, plain=tuple(plain), longest=longest)
    last, first = made.of(OPERATION).times(client)[1], made.of(OPERATION).times(client)[0]
    assert 0.0 <= first <= last <= longest
    assert first <= (HEDGE_TIMES.hedge_most if client is None else client / 4)
    assert client is None or last <= client / 2
    assert first >= min(HEDGE_TIMES.hedge_least, last) or client is not None
    assert made.of(OPERATION).times(client)[2] <= longest
