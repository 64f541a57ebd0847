"""The judges of the gRPC sections can fail."""

from __future__ import annotations

from collections import Counter

import grpc
import pytest

from prove import grpc_faults, grpc_grace, grpc_load, grpc_soak, grpc_writes
from prove.grpc_answers import databases, is_reported, misbehaving
from prove.grpc_calls import OK, OURS, Calls
from prove.grpc_farewell import arrived
from prove.grpc_faults import Invalidation, is_same
from prove.toxics import Toxic
from prove.usage import MIB, Usage
from support.grpc.calls import Seen
from support.grpc.upstream import grpc_upstream
from support.qdrant.scripted_grpc import scripted

UNAVAILABLE, EXCEEDED = grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED


def seen(code: grpc.StatusCode = grpc.StatusCode.OK, message: bytes = b"a", *, is_ours: bool = False) -> Seen:
    trailing = (("x-vecsieve-origin", "proxy"),) if is_ours else ()
    return Seen((message,) if code is grpc.StatusCode.OK else (), code, "", (), trailing)


def after(one: Seen, seconds: float = 0.1) -> Invalidation:
    return Invalidation(one, seconds)


def calls(*outcomes: int, seconds: float = 0.01) -> Calls:
    made = Calls()
    for outcome in outcomes:
        made.heard(0, outcome, seconds)
    return made


def test_a_difference_from_the_direct_call_is_told() -> None:
    whole, distinct = after(seen()), seen(message=b"distinct")
    assert is_same(whole, whole, distinct)
    assert is_same(whole, after(distinct), distinct)
    assert not is_same(whole, after(seen(message=b"half")), distinct)
    assert not is_same(whole, after(seen(UNAVAILABLE, is_ours=True)), distinct)
    assert not is_same(after(seen(UNAVAILABLE)), whole, distinct)
    assert not is_same(whole, after(seen(), 9.0), distinct), "it hung"
    assert is_same(after(seen(UNAVAILABLE)), after(seen(EXCEEDED)), distinct)


def test_what_the_database_said_must_pass_word_for_word() -> None:
    refusal = Seen((), UNAVAILABLE, "why", (), (("x-why", "told"),))
    assert is_reported(after(refusal), after(refusal), b"")
    assert not is_reported(after(refusal), after(Seen((), UNAVAILABLE, "other", (), refusal.trailing)), b"")
    assert not is_reported(after(refusal), after(Seen((), UNAVAILABLE, "why", (), ())), b"")
    assert not is_reported(after(refusal), after(seen(UNAVAILABLE, is_ours=True)), b"")
    assert is_reported(after(seen(UNAVAILABLE)), after(seen(UNAVAILABLE, is_ours=True)), b"")
    assert is_reported(after(seen()), after(seen(message=b"distinct")), b"distinct")
    assert not is_reported(after(seen()), after(seen(message=b"part")), b"distinct")


@pytest.mark.parametrize("mode", ["off", "on"])
async def test_a_widened_answer_that_is_cut_costs_the_improvement_and_nothing_else(mode: str) -> None:
    async with grpc_upstream(Query=scripted()) as database:
        result = await grpc_faults.fault(database.port, mode, Toxic.LIMIT_DATA, 400, 0.0, rounds=2)
    assert result.met, result.measured


@pytest.mark.parametrize("name", ["status INTERNAL, every search", "garbage, widened searches"])
async def test_a_misbehaving_database_is_a_finding(name: str) -> None:
    result = await misbehaving(name, databases()[name], "on", rounds=1)
    assert result.met, result.measured


def test_a_write_twice_or_lost_is_unmet() -> None:
    def verdicts(written: dict[int, int], acknowledged: set[int]) -> list[bool | None]:
        return [one.met for one in grpc_writes.judged("", Counter(written), acknowledged, calls(OK))]

    assert verdicts({1: 1, 2: 1}, {1}) == [True, True]
    assert verdicts({1: 2}, {1}) == [False, True]
    assert verdicts({2: 1}, {1}) == [True, False]


def test_what_takes_longer_than_it_may_is_unmet() -> None:
    slower = calls(OK, seconds=0.02)
    assert [one.met for one in grpc_load.compared("L1", "", slower, slower, p50=1.0, p99=2.5)] == [True] * 3
    verdicts = [one.met for one in grpc_load.compared("L1", "", calls(OK), calls(14, seconds=0.02), p50=1.0, p99=11.0)]
    assert verdicts == [False, False, True]
    assert grpc_load.recovered(slower, slower).met
    assert not grpc_load.recovered(calls(OK), slower).met


def test_too_much_must_be_answered_shed_and_in_time() -> None:
    def verdicts(over: Calls, shed: float, *, is_alive: bool = True) -> list[bool | None]:
        return [one.met for one in grpc_load.shedding("", over, shed, is_alive=is_alive)]

    assert verdicts(calls(OK, 14 + OURS), 1) == [True, True, True]
    assert verdicts(calls(OK, 14), 0) == [False, False, True]
    assert verdicts(calls(OK), 1, is_alive=False)[0] is False
    assert verdicts(calls(OK, seconds=1.6), 1) == [True, True, False]


def test_only_what_a_killed_worker_was_doing_may_fail_and_a_database_that_is_away_is_named_by_us() -> None:
    assert grpc_grace.spared("", calls(OK, 14)).met
    assert not grpc_grace.spared("", calls(OK, 14 + OURS)).met
    assert not grpc_grace.spared("", calls(*[14] * 17)).met
    assert grpc_grace.meanwhile("", calls(14 + OURS)).met
    assert not grpc_grace.meanwhile("", calls(14 + OURS, 14)).met
    assert not grpc_grace.meanwhile("", calls(14 + OURS, seconds=1.5)).met


def test_an_answer_that_did_not_arrive_or_a_process_that_was_ended_is_unmet() -> None:
    assert arrived("", Counter({"OK": 5, "exit 0": 1})).met
    assert not arrived("", Counter({"OK": 5, "UNAVAILABLE": 1, "exit 0": 1})).met
    assert not arrived("", Counter({"OK": 5, "exit -9": 1})).met


def test_what_grows_is_unmet() -> None:
    def verdicts(**more: int) -> list[bool | None]:
        then = Usage(resident=0, peak=0, descriptors=10, threads=5)
        now = Usage(more.get("resident", 0), 0, 10 + more.get("fds", 0), 5 + more.get("threads", 0))
        return [one.met for one in grpc_soak.judged("", calls(OK), (then, 3), (now, 3 + more.get("tasks", 0)))]

    assert verdicts() == [True] * 5
    assert verdicts(resident=3 * MIB) == [True, False, True, True, True]
    assert verdicts(fds=4) == [True, True, False, True, True]
    assert verdicts(threads=4) == [True, True, True, False, True]
    assert verdicts(tasks=-4) == [True, True, True, True, False]
