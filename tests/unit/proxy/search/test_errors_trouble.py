""""""

from __future__ import annotations

import pytest

from vecsieve.proxy.search.errors import WORDING, ClientFault, FailureKind, trouble_of


@pytest.mark.parametrize("cause", [*FailureKind, *ClientFault])
def test_every_failure_has_a_trouble(cause: FailureKind | ClientFault) -> None:
    status, _ = WORDING[trouble_of(cause)]
    assert status == (504 if cause is FailureKind.TIMEOUT else 502 if isinstance(cause, FailureKind) else status)
    assert 400 <= status < 600
