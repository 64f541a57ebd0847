from __future__ import annotations

from prove.finding import Finding
from prove.restarts import Account, disordered, findings


def unmet(found: list[Finding]) -> list[str]:
    return [each.criterion for each in found if not each.met]


def account(*acknowledged: int, **sent: list[int]) -> Account:
    return Account(set(acknowledged), dict(enumerate(sent.values())))


def test_each_write_once_in_order_keeps_the_promise() -> None:
    assert unmet(findings(account(1, 2, 3, a=[1, 3, 4], b=[2]), [2, 1, 3], "x", "")) == []


def test_a_write_twice_one_missing_and_one_before_its_time_are_found() -> None:
    kept = account(1, 2, a=[1, 2])
    assert unmet(findings(kept, [1, 2, 1], "x", "")) == ["0 arrived twice", "0 out of order on a connection"]
    assert unmet(findings(kept, [1], "x", "")) == ["0 acknowledged and missing"]
    assert unmet(findings(kept, [2, 1], "x", "")) == ["0 out of order on a connection"]


def test_a_run_that_broke_proves_nothing() -> None:
    assert unmet(findings(account(1, a=[1]), [1], "x", "OSError()")) == ["0 arrived twice"]


def test_the_order_is_a_connections_own() -> None:
    assert disordered({0: [1, 3], 1: [2, 4]}, [2, 4, 1, 3]) == 0
    assert disordered({0: [1, 3, 5]}, [5, 3, 1]) == 2
