from __future__ import annotations

import pytest
from prometheus_client import CollectorRegistry

from support.deploy.expositions import value
from vecsieve.adapters.contract import NativeAnswer
from vecsieve.proxy.grpc.status import (
    NO_MESSAGE,
    UNSENDABLE,
    Outcome,
    answered_locally,
    local_answer,
    local_failure,
    speaker,
    unreachable,
    upstream_failed,
)
from vecsieve.proxy.search.errors import FailureKind
from vecsieve.proxy.telemetry.labels import LocalError, Origin, UpstreamError
from vecsieve.proxy.telemetry.metrics import Metrics
from vecsieve.proxy.telemetry.spans import Code

REFUSED = Outcome(code=Code.NOT_FOUND, details="no collection")
BROKEN = Outcome(code=Code.UNAVAILABLE, details="Socket closed", kind=FailureKind.RESET)


def counts(registry: CollectorRegistry, name: str, kinds: type[LocalError | UpstreamError]) -> dict[str, float]:
    found = {kind.value: value(registry, name, backend="qdrant", kind=kind.value) for kind in kinds}
    return {kind: count for kind, count in found.items() if count}


@pytest.mark.parametrize(
    ("failure", "kinds"),
    [
        (REFUSED, {}),
        (BROKEN, {"reset": 1}),
        (NO_MESSAGE, {"protocol": 1}),
        (UNSENDABLE, {}),
        (local_failure(Code.INTERNAL, "ours"), {}),
        *((unreachable(kind), {kind.value: 1}) for kind in (FailureKind.CONNECT, FailureKind.DNS, FailureKind.TLS)),
    ],
)
def test_what_broke_on_the_way_is_an_error_of_upstreams(failure: Outcome, kinds: dict[str, float]) -> None:
    upstream_failed(Metrics(registry := CollectorRegistry(), backend="qdrant"), failure)
    assert counts(registry, "upstream_errors_total", UpstreamError) == kinds
    assert counts(registry, "local_errors_total", LocalError) == {}


@pytest.mark.parametrize(
    ("failure", "kinds"),
    [
        (REFUSED, {}),
        (BROKEN, {"no_upstream": 1}),
        (NO_MESSAGE, {"no_upstream": 1}),
        (unreachable(FailureKind.CONNECT), {"no_upstream": 1}),
        (UNSENDABLE, {"bad_request": 1}),
    ],
)
def test_what_a_client_gets_instead_of_an_answer_is_an_error_of_ours(failure: Outcome, kinds: dict[str, float]) -> None:
    answered_locally(Metrics(registry := CollectorRegistry(), backend="qdrant"), failure)
    assert counts(registry, "local_errors_total", LocalError) == kinds


def test_every_way_to_fail_has_a_name_in_the_metrics() -> None:
    for kind in FailureKind:
        upstream_failed(
            Metrics(registry := CollectorRegistry(), backend="qdrant"),
            Outcome(code=Code.UNAVAILABLE, details="", kind=kind),
        )
        assert sum(counts(registry, "upstream_errors_total", UpstreamError).values()) == 1, kind


@pytest.mark.parametrize(
    ("outcome", "origin"),
    [
        (None, Origin.UPSTREAM),
        (Outcome(message=b"the database's"), Origin.UPSTREAM),
        (
            local_answer(NativeAnswer(status=Code.OK, content_type="", body=b"a write of which nothing is left")),
            Origin.PROXY,
        ),
        (REFUSED, Origin.UPSTREAM),
        (BROKEN, Origin.PROXY),
        (NO_MESSAGE, Origin.PROXY),
        (UNSENDABLE, Origin.PROXY),
    ],
)
def test_the_database_speaks_only_where_it_was_heard(outcome: Outcome | None, origin: Origin) -> None:
    assert speaker(outcome) is origin
