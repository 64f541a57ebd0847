"""The soak's judge sees growth, leaks and failures; the yardstick can be unmet."""

from __future__ import annotations

from collections import Counter

import pytest

from prove.held import MIB, Held
from prove.openload import RequestRecorder
from prove.soak import Course, judged
from prove.yardstick import BASE
from prove.yardstick import judged as beside_nginx


def course(*, rising: float = 0.0, descriptors: int = 0, threads: int = 0, tasks: int = 0) -> Course:
    readings = [
        (
            60.0 * minute,
            Held(int((100 + rising * minute / 10) * MIB), 0, 10 + descriptors * minute, 4 + threads * minute),
        )
        for minute in range(9)
    ]
    return Course(readings, [5, 5 + tasks])


def unmet(seconds: float, tally: RequestRecorder, one: Course) -> list[str]:
    return [finding.criterion for finding in judged(seconds, tally, one) if finding.met is False]


def answered(*statuses: int) -> RequestRecorder:
    return RequestRecorder(statuses=Counter(statuses))


@pytest.mark.parametrize(
    ("found", "criterion"),
    [
        (course(), []),
        (course(rising=0.9), []),
        (course(rising=1.5), ["RSS rises ≤ 1 MiB in 10 min"]),
        (course(descriptors=1), ["descriptors ± 3"]),
        (course(threads=-1), ["threads ± 3"]),
        (course(tasks=4), ["tasks ± 3"]),
    ],
)
def test_what_grows_is_unmet(found: Course, criterion: list[str]) -> None:
    assert unmet(600.0, answered(200), found) == criterion


def test_a_short_soak_judges_no_slope_and_a_failure_is_one_at_any_length() -> None:
    assert unmet(10.0, answered(200), course(rising=50)) == []
    assert unmet(10.0, answered(200, 502), course()) == ["0 failed"]


def test_a_tenth_less_than_the_recorded_share_of_nginx_is_unmet() -> None:
    assert beside_nginx([1000 * BASE] * 3, [1000.0] * 3).met
    assert beside_nginx([890 * BASE] * 3, [1000.0] * 3).met is False
    assert beside_nginx([500 * BASE] * 3, [500.0] * 3).met, "what slows both is not ours"
