""""""

from __future__ import annotations

import pytest

from vecsieve.proxy.search.errors import FailureKind, UpstreamFailure


@pytest.mark.parametrize("kind", list(FailureKind))
def test_only_a_failed_connection_is_certain_to_have_sent_nothing(kind: FailureKind) -> None:
    assert UpstreamFailure(kind).before_sending is (kind in {FailureKind.CONNECT, FailureKind.DNS, FailureKind.TLS})
    assert str(UpstreamFailure(kind)) == kind.value
