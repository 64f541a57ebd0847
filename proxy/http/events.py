"""What the data plane tells whoever counts: five calls with labels from closed sets, never a path, header or message."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Protocol

from vecsieve.proxy.search.errors import Trouble
from vecsieve.proxy.telemetry.labels import ConnectionRejected, LocalError, Side, UpstreamError
from vecsieve.proxy.telemetry.metrics import Metrics


class Events(Protocol):
    """The sink. Calls must return at once and must not raise."""

    def connections_changed(self, count: int) -> None:
        """How many client connections are open now."""
        ...

    def connection_rejected(self, reason: str) -> None:
        """A client connection ended by us: `limit` (turned away), `crowded` (idle or new, its place was needed), `head_timeout`,
        `silent`, `flood`, `slow_reader`.
        """
        ...

    def answered_locally(self, trouble: str) -> None:
        """An answer of our own went out; a member of ``answers.Trouble``."""
        ...

    def upstream_failed(self, kind: str) -> None:
        """An exchange with the database failed; a member of ``failures.FailureKind``."""
        ...

    def client_failed(self, kind: str) -> None:
        """The client's side of an exchange failed; a member of ``failures.ClientFault``."""
        ...


class Unheard:
    """The sink of a data plane that nobody watches."""

    def connections_changed(self, count: int) -> None:
        """Nothing."""

    def connection_rejected(self, reason: str) -> None:
        """Nothing."""

    def answered_locally(self, trouble: str) -> None:
        """Nothing."""

    def upstream_failed(self, kind: str) -> None:
        """Nothing."""

    def client_failed(self, kind: str) -> None:
        """Nothing."""


# The data plane's events as metrics: one table from each side's words to the closed label sets.

# What the client sent is wrong, or late: everything else among our own answers is somebody else's fault.
_CLIENTS = frozenset(
    {
        Trouble.MALFORMED,
        Trouble.HEAD_TOO_LARGE,
        Trouble.HEAD_TIMEOUT,
        Trouble.BODY_TIMEOUT,
        Trouble.TARGET,
        Trouble.CONNECT_METHOD,
        Trouble.VERSION,
        Trouble.TRANSFER_CODING,
        Trouble.TWO_FRAMINGS,
        Trouble.OLD_CHUNKED,
        Trouble.HEADER_BYTES,
        Trouble.NO_INDEX,
        Trouble.HOST_REFUSED,
        Trouble.WRONG_PATH,
        Trouble.INFLATES,
    }
)
_LOCAL: Mapping[str, LocalError] = MappingProxyType(
    {
        **{trouble.value: LocalError.BAD_REQUEST for trouble in _CLIENTS},
        Trouble.NO_UPSTREAM.value: LocalError.NO_UPSTREAM,
        Trouble.UPSTREAM_TIMEOUT.value: LocalError.NO_UPSTREAM,
        Trouble.UPSTREAM_BROKE.value: LocalError.NO_UPSTREAM,
        Trouble.INTERNAL.value: LocalError.INTERNAL,
        Trouble.OVERLOADED.value: LocalError.SHED,
    }
)
_UPSTREAM: Mapping[str, UpstreamError] = MappingProxyType({kind.value: kind for kind in UpstreamError})
_REJECTED: Mapping[str, ConnectionRejected] = MappingProxyType({reason.value: reason for reason in ConnectionRejected})


class CountedEvents:
    """Writes the data plane's events to the metrics."""

    __slots__ = ("_metrics",)

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics

    def connections_changed(self, count: int) -> None:
        """How many client connections are open now."""
        self._metrics.connections.labels(Side.CLIENT.value).set(count)

    def connection_rejected(self, reason: str) -> None:
        """A client connection ended by us."""
        self._metrics.connections_rejected_total.labels(_REJECTED[reason].value).inc()

    def answered_locally(self, trouble: str) -> None:
        """An answer of our own went out."""
        self._metrics.local_error(_LOCAL[trouble])

    def upstream_failed(self, kind: str) -> None:
        """An exchange with the database failed."""
        self._metrics.upstream_failed(_UPSTREAM[kind])

    def client_failed(self, kind: str) -> None:
        """The client's side of an exchange failed: its own doing, seen in the access log as a request without a status."""
