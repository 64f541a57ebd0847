from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from support.backends.toy_backend import OPERATION
from support.backends.toy_exchange import policy, toys
from support.jobs.reports import REPORT
from vecsieve.adapters.base import GrpcDialect
from vecsieve.adapters.contract import Question, RequestHead
from vecsieve.config.schema import Settings
from vecsieve.proxy.grpc.exchange import GrpcExchange
from vecsieve.proxy.grpc.status import NO_MESSAGE, Outcome, unreachable
from vecsieve.proxy.runtime.addresses import Origin
from vecsieve.proxy.search.errors import FailureKind, LostReplyError, RefusedReplyError, RejectedReplyError
from vecsieve.proxy.search.exchange import Exchange
from vecsieve.proxy.search.policy import Rules
from vecsieve.proxy.search.report import header_value
from vecsieve.proxy.telemetry.labels import AttemptKind, FailOpen
from vecsieve.proxy.telemetry.spans import Code

INITIAL, TRAILING = (("date", "now"),), (("t-bin", b"\0"),)
SUCCESS = Outcome(message=b"upstream's", initial=INITIAL, trailing=TRAILING)
UNCHANGED = Outcome(message=b"to the client's own message")


METHOD = "/a.Service/Search"


class Scripted(GrpcExchange):
    """A search whose every request has the same outcome; the client's own message has another."""

    outcome: Outcome

    async def _sent(
        self, path: str, message: bytes | None, kind: AttemptKind, *, seconds: float | None, is_search: bool
    ) -> Outcome:
        if message == self.message:
            assert (path, seconds, is_search) == (METHOD, 1.0, False)
            return replace(UNCHANGED, trailing=(("kind", kind.value),))
        assert seconds == 2.0
        assert (path, message, kind) in {
            (METHOD, b"widened", AttemptKind.OVERFETCH),
            (QUESTION.target, QUESTION.body, AttemptKind.LOOKUP),
        }
        return self.outcome


def exchange(outcome: Outcome = SUCCESS, *, report_header: bool = True) -> Scripted:
    around = toys()
    grpc: Any = SimpleNamespace(services=around.services, searches=around.service)
    head = RequestHead(method="POST", path=METHOD)
    context: Any = SimpleNamespace(time_remaining=lambda: 1.0)
    origin = Origin("http", "127.0.0.1:9")
    record = around.services.recorder.begin()
    made = Scripted(record, record.trace, grpc, head, origin, context, ())
    made.outcome = outcome
    made.message = made.plain = b"the client's"
    made.operation = made.search = OPERATION
    made.policy = policy()
    made.rules = Rules.of(Settings.model_validate({"report_header": report_header}))
    return made


QUESTION = Question(method="POST", target="/a.Service/Describe", body=b"what")


def failing(code: int, details: str = "", kind: FailureKind | None = None) -> Outcome:
    return Outcome(code=code, details=details, kind=kind, trailing=(("retry-after", "7"),))


async def test_it_is_what_the_ladder_and_the_first_step_take() -> None:
    made: Exchange[Outcome] = exchange()
    assert made.plain == b"the client's"


async def test_a_success_gives_its_message_and_its_metadata_stands_around_ours() -> None:
    made = exchange()
    assert await made.send(b"widened", seconds=2.0, fits=lambda _: True) == b"upstream's"
    answer = made.answer(b"ours", REPORT)
    assert answer == Outcome(
        message=b"ours", initial=(*INITIAL, ("x-vecsieve", header_value(REPORT))), trailing=TRAILING
    )
    assert (answer.is_success, answer.body_bytes) == (True, 4)


@pytest.mark.parametrize("is_reported", [False, True])
async def test_a_plain_answer_has_nothing_to_report_and_the_report_can_be_turned_off(is_reported: bool) -> None:
    made = exchange(report_header=is_reported)
    await made.send(b"widened", seconds=2.0, fits=lambda _: True)
    report = REPORT._replace(figures=()) if is_reported else REPORT
    assert made.answer(b"ours", report) == replace(SUCCESS, message=b"ours")


def test_without_a_success_there_is_no_answer_and_without_a_refusal_none_of_those() -> None:
    with pytest.raises(RejectedReplyError):
        exchange().answer(b"ours", REPORT)
    with pytest.raises(RejectedReplyError):
        exchange().refusal()


@pytest.mark.parametrize(
    ("failure", "reason"),
    [
        (failing(Code.DEADLINE_EXCEEDED, kind=FailureKind.TIMEOUT), FailOpen.OVERFETCH_TIMEOUT),
        (failing(Code.UNAVAILABLE, kind=FailureKind.RESET), FailOpen.OVERFETCH_RESET),
        (unreachable(FailureKind.CONNECT), FailOpen.OVERFETCH_RESET),
        (NO_MESSAGE, FailOpen.OVERFETCH_RESET),
    ],
)
async def test_what_broke_on_the_way_is_lost(failure: Outcome, reason: FailOpen) -> None:
    made = exchange(failure)
    with pytest.raises(LostReplyError) as lost:
        await made.send(b"widened", seconds=2.0, fits=lambda _: True)
    assert lost.value.reason is reason
    with pytest.raises(RejectedReplyError):
        made.refusal()


SERVER_ERRORS = {1, 4, 13, 14, 15}
MAY_BE_SIZE = {2, 3, 9, 11}


@pytest.mark.parametrize("code", [code for code in Code if code is not Code.OK])
async def test_a_refusal_is_the_databases_own_and_is_judged_by_its_code(code: Code) -> None:
    failure = failing(code, "grüße")
    made = exchange(failure)
    with pytest.raises(RefusedReplyError) as refused:
        await made.send(b"widened", seconds=2.0, fits=lambda _: True)
    verdict = refused.value
    assert (verdict.status, verdict.words) == (code.value, "grüße".encode())
    assert verdict.is_server_error is (code in SERVER_ERRORS)
    assert verdict.may_be_size is (code in MAY_BE_SIZE)
    assert made.refusal() is failure


@pytest.mark.parametrize(
    "words",
    [
        "grpc: received message larger than max (5000000 vs. 4194304)",
        "CLIENT: Sent message larger than max (9 vs. 4)",
        "gRPC message exceeds maximum size 4194304: 5000000",
    ],
)
async def test_a_message_too_long_for_one_of_the_ends_is_nobodys_quota(words: str) -> None:
    with pytest.raises(RefusedReplyError) as refused:
        await exchange(failing(Code.RESOURCE_EXHAUSTED, words)).send(b"widened", seconds=2.0, fits=lambda _: True)
    assert refused.value.may_be_size
    assert not GrpcDialect().is_quota(refused.value.status, refused.value.words)


async def test_a_question_brings_a_message_or_is_lost_or_refused() -> None:
    assert await exchange().ask(QUESTION, seconds=2.0) == b"upstream's"
    refused, broken = failing(Code.PERMISSION_DENIED), failing(Code.UNAVAILABLE, kind=FailureKind.RESET)
    for failure, error in ((refused, RefusedReplyError), (broken, LostReplyError)):
        made = exchange(failure)
        with pytest.raises(error):
            await made.ask(QUESTION, seconds=2.0)
        with pytest.raises(RejectedReplyError):
            made.refusal()


@pytest.mark.parametrize("kind", [AttemptKind.ORIGINAL, AttemptKind.REPLAY])
async def test_the_original_is_the_clients_own_message_and_upstreams_own_answer(kind: AttemptKind) -> None:
    assert await exchange().original(kind) == replace(UNCHANGED, trailing=(("kind", kind.value),))
