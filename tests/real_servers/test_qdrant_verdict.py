"""The verdict on Qdrant counts what differs, by mode, and names it; tried on outcomes made by hand."""

from __future__ import annotations

from collections import Counter

import pytest
from prove.engine_searches import TIES_VARY, RequestRecorder

from real_servers.qdrant_scenario import outcome
from real_servers.qdrant_verdict import verdict

OUTCOMES = {"count": "56", "near": "a page", "fused": "one way"}
CALLS = {
    "direct": OUTCOMES,
    "again": {**OUTCOMES, "fused": "the other way"},
    "off": OUTCOMES,
    "shadow": {**OUTCOMES, "fused": "a third way"},
    "on": OUTCOMES,
}


def recorder(*stray: str) -> RequestRecorder:
    return RequestRecorder(made=10, distinct=3, reasons=Counter({f"off: {TIES_VARY}": 2}), stray=list(stray))


def test_equal_outcomes_are_good_and_what_two_direct_runs_answer_differently_is_only_counted() -> None:
    made = verdict("REST", "1", recorder(), CALLS)
    assert made.is_good
    assert (made.calls, made.distinct, made.unstable) == (13, 3, 3)


@pytest.mark.parametrize("mode", ["off", "shadow", "on"])
@pytest.mark.parametrize("changed", [{"count": "55"}, {"near": ""}], ids=["another result", "an empty one"])
def test_a_call_that_came_to_something_else_is_told_in_its_mode_alone(mode: str, changed: dict[str, str]) -> None:
    made = verdict("REST", "1", recorder(), {**CALLS, mode: {**OUTCOMES, **changed}})
    assert not made.is_good
    assert {name: len(messages) for name, messages in made.faults.items() if messages} == {mode: 1}
    assert made.faults[mode][0].startswith(next(iter(changed)))


@pytest.mark.parametrize("mode", ["off", "shadow", "on"])
def test_a_search_without_a_reason_counts_in_its_mode(mode: str) -> None:
    made = verdict("gRPC", "1", recorder(f"{mode} cloud1 query: another list"), CALLS)
    assert not made.is_good
    assert {name: len(messages) for name, messages in made.faults.items() if messages} == {mode: 1}


def test_a_score_that_differs_in_its_last_digits_is_the_same_and_another_one_is_not() -> None:
    assert outcome(lambda: [1.6009901762]) == outcome(lambda: [1.6009900569])
    assert outcome(lambda: [1.601]) != outcome(lambda: [1.602])
