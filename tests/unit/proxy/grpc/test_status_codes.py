from __future__ import annotations

import grpc
import pytest

from vecsieve.proxy.grpc.status import HTTP_STATUSES
from vecsieve.proxy.telemetry.spans import Code


def test_the_codes_are_those_of_the_library() -> None:
    assert {code.name: code.value for code in Code} == {code.name: code.value[0] for code in grpc.StatusCode}


# google/rpc/code.proto, "HTTP Mapping" of each.
@pytest.mark.parametrize(
    ("code", "status"),
    [(0, 200), (1, 499), (3, 400), (4, 504), (5, 404), (7, 403), (8, 429), (12, 501), (13, 500), (14, 503), (16, 401)],
)
def test_each_counts_as_the_status_that_says_the_same(code: int, status: int) -> None:
    assert HTTP_STATUSES[code] == status
