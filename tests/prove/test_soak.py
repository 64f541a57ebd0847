"""The soak's judge sees growth, leaks and failures; the lag and the yardstick can be unmet; a crowd of requests is mixed as said."""

from __future__ import annotations

from collections import Counter

import pytest

from prove.held import MIB, Held
from prove.instances import Balancer, Instance
from prove.load import lag_in
from prove.openload import RequestRecorder
from prove.soak import FAULTS, Course, judged, mixed
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


def test_one_in_a_hundred_meets_a_fault_and_one_in_ten_writes() -> None:
    sent = [mixed(number) for number in range(100 * len(FAULTS))]
    assert Counter(raw for raw in sent if b"x-fault" in raw) == Counter(FAULTS)
    assert sum(raw.startswith(b"PUT") for raw in sent) == len(sent) // 10
    assert not any(b"Connection: close" in raw for raw in sent)


def test_the_lag_is_the_edge_of_the_bucket_that_holds_the_share() -> None:
    name = "vecsieve_event_loop_lag_seconds_bucket"
    page = "\n".join(f'{name}{{le="{edge}"}} {count}' for edge, count in (("0.001", 98), ("0.25", 99), ("+Inf", 100)))
    assert [lag_in(page, share) for share in (0.98, 0.99, 1.0)] == [0.001, 0.25, float("inf")]
    with pytest.raises(AssertionError, match="never measured"):
        lag_in("", 0.99)


def test_lag_since_an_earlier_page_is_that_of_the_time_between() -> None:
    def page(quick: int, slow: int) -> str:
        name = "vecsieve_event_loop_lag_seconds_bucket"
        return f'{name}{{le="0.001"}} {quick}\n{name}{{le="0.25"}} {quick + slow}\n'

    assert lag_in(page(100, 50), 0.99) == 0.25
    assert lag_in(page(100, 50), 0.99, since=page(10, 50)) == 0.001
    with pytest.raises(AssertionError):
        lag_in(page(10, 50), 0.99, since=page(10, 50))


def test_a_tenth_less_than_the_recorded_share_of_nginx_is_unmet() -> None:
    assert beside_nginx([1000 * BASE] * 3, [1000.0] * 3).met
    assert beside_nginx([890 * BASE] * 3, [1000.0] * 3).met is False
    assert beside_nginx([500 * BASE] * 3, [500.0] * 3).met, "what slows both is not ours"


async def test_a_balancer_without_a_ready_instance_has_no_answer() -> None:
    instance = Instance("http://127.0.0.1:9")
    await instance.look()
    assert not instance.is_ready
    assert await Balancer([instance]).ask(b"") == 0
