"""Each backend's transports by its name; the operation of a request that is an adapter's, and the reason why one is left alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import ParamSpec, Protocol

import pytest

from vecsieve.adapters.backends import BACKENDS
from vecsieve.adapters.contract import Operation, Reason, RequestHead, UnsupportedError

REST = {name: row.rest for name, row in BACKENDS.items()}
GRPC = {name: row.grpc for name, row in BACKENDS.items() if row.grpc is not None}

Parameters = ParamSpec("Parameters")


class Classifies(Protocol):
    def classify(self, head: RequestHead) -> Operation | None: ...


def operation_of(adapter: Classifies, head: RequestHead) -> Operation:
    operation = adapter.classify(head)
    assert operation is not None
    return operation


def reason_of(call: Callable[Parameters, object], *arguments: Parameters.args, **options: Parameters.kwargs) -> Reason:
    """Why ``call`` with these arguments raises UnsupportedError."""
    with pytest.raises(UnsupportedError) as refused:
        call(*arguments, **options)
    return refused.value.reason
