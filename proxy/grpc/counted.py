"""Failed calls as metrics, so that they count as the same failures over HTTP do.

Rule of this file: a failure is counted as the database's when it is met, and as ours when the client gets it.
"""

from __future__ import annotations

from vecsieve.proxy.grpc.codes import Code, http_status
from vecsieve.proxy.grpc.failures import Failure
from vecsieve.proxy.labels import LocalError, Origin, UpstreamError
from vecsieve.proxy.metrics import Metrics


def met(metrics: Metrics, failure: Failure) -> None:
    """A call to the database failed on its way; what the database itself says is no such failure."""
    if failure.kind is not None:
        metrics.upstream_failed(UpstreamError(failure.kind.value))


def given(metrics: Metrics, failure: Failure) -> None:
    """The client gets it, of a call that was passed on or could not be."""
    if failure.kind is not None:
        metrics.local_error(LocalError.NO_UPSTREAM)
    elif failure.is_local:
        metrics.local_error(LocalError.BAD_REQUEST)


def speaker(failure: Failure | None) -> Origin:
    """Whose status a call ended with: a broken connection's is nobody's but ours, whatever words the core has for it."""
    is_ours = failure is not None and (failure.is_local or failure.kind is not None)
    return Origin.PROXY if is_ours else Origin.UPSTREAM


def code(failure: Failure | None) -> int:
    """The code that a call ended with."""
    return Code.OK if failure is None else failure.code


def status(failure: Failure | None) -> int:
    """The HTTP status of how a call ended."""
    return http_status(code(failure))
