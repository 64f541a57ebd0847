"""The access log: one line for a request that ended, of closed sets and numbers only.

No path, query, header, collection or message is in it. Trace ids stay out because they come from a header; the id of a
request is our own, random, and told to nobody else.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from vecsieve.proxy.labels import OperationName, Origin, Outcome
from vecsieve.proxy.log_lines import Field, encode, timestamp
from vecsieve.proxy.log_sink import LineSink
from vecsieve.proxy.report import Report

SUCCESS_SHARE = 0.01  # errors and fail-opens are logged all; of the rest one in a hundred shows what normal is
METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """One request that ended. ``status`` None: the client got none. ``report``: of a classified search.

    ``is_loopback``, ``is_reused``: whether the client is on this machine, and whether its connection had carried a request
    before; None where that is not known.
    """

    request_id: str
    method: str
    operation: OperationName
    backend: str
    outcome: Outcome
    origin: Origin
    status: int | None
    seconds: float
    request_bytes: int = 0
    response_bytes: int = 0
    is_loopback: bool | None = False
    is_reused: bool | None = None
    report: Report | None = None

    @property
    def is_remarkable(self) -> bool:
        """Whether it is logged whatever the share of successes."""
        return self.is_trouble or (self.status is not None and self.status >= 400)

    @property
    def is_trouble(self) -> bool:
        """Whether an operator should look: no answer, a 5xx, one of our own making, or a search that was not improved.

        A 4xx of the database is its answer to a client's mistake, or to whether something exists: nobody here can mend it.
        """
        return (
            self.status is None
            or self.status >= 500
            or self.outcome is Outcome.FAIL_OPEN
            or self.origin is Origin.PROXY
        )


class AccessLog:
    """Writes all errors and fail-opens, and every n-th of the rest. ``wall_clock``: seconds since the epoch."""

    __slots__ = ("_owed", "_share", "_sink", "_wall_clock")

    def __init__(
        self, sink: LineSink, *, share: float = SUCCESS_SHARE, wall_clock: Callable[[], float] = time.time
    ) -> None:
        self._sink = sink
        self._share = share
        self._wall_clock = wall_clock
        self._owed = 0.0

    def write(self, access: Access) -> None:
        """Log the request if it is its turn. Never blocks, never raises."""
        if not access.is_remarkable:
            self._owed += self._share
            if self._owed < 1.0:
                return
            self._owed -= 1.0
        self._sink.put(encode({"ts": timestamp(self._wall_clock()), **_fields(access)}))


def _fields(access: Access) -> dict[str, Field]:
    fields: dict[str, Field] = {
        "level": "warning" if access.is_trouble else "info",
        "msg": "access",
        "request_id": access.request_id,
        "method": access.method if access.method in METHODS else "_OTHER",
        "operation": access.operation.value,
        "backend": access.backend,
        "status": access.status,
        "origin": access.origin.value,
        "outcome": access.outcome.value,
        "duration_ms": _ms(access.seconds),
        "request_bytes": access.request_bytes,
        "response_bytes": access.response_bytes,
        "peer_is_loopback": access.is_loopback,
        "connection_is_reused": access.is_reused,
    }
    report = access.report
    if report is not None:
        fields |= {
            "reason": report.reason,
            "upstream_ms": _ms(report.upstream_seconds),
            "added_ms": _ms(report.added_seconds),
            "searches": report.searches,
            "top_k": report.top_k,
            "candidates": report.candidates,
            "collapsed": report.collapsed,
            "returned": report.returned,
        }
    return fields


def _ms(seconds: float) -> float:
    return round(seconds * 1000, 3)
