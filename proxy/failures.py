"""The two exceptions of the data plane, by whose fault they are.

    Exception
     ├─ UpstreamFailure   the database, or the way to it; .kind
     └─ ClientBodyError   the client's request body; .fault

Neither carries text: a library's message may hold a URL or a header value.
"""

from __future__ import annotations

from enum import StrEnum


class FailureKind(StrEnum):
    """How an exchange with the database failed. A closed set: every member is a metric label."""

    CONNECT = "connect"  # no connection, refused or not in time: nothing was sent
    DNS = "dns"
    TLS = "tls"
    TIMEOUT = "timeout"  # connected, then silent, stalled, or past the caller's deadline
    RESET = "reset"  # closed or reset before a whole reply head
    TRUNCATED = "truncated"  # closed, reset or misframed within the reply's body
    PROTOCOL = "protocol"  # bytes that are no HTTP reply we may pass on


class UpstreamFailure(Exception):  # noqa: N818 - it is named for what happened, like the metric that counts it
    """The database did not answer, or not to the end."""

    def __init__(self, kind: FailureKind) -> None:
        super().__init__(kind.value)
        self.kind = kind

    @property
    def before_sending(self) -> bool:
        """Whether not one byte of the request can have reached the database."""
        return self.kind in {FailureKind.CONNECT, FailureKind.DNS, FailureKind.TLS}


class ClientFault(StrEnum):
    """How a client's side failed. A closed set: every member is a metric label."""

    GONE = "gone"
    TOO_SLOW = "too_slow"
    MALFORMED = "malformed"


class ClientBodyError(Exception):
    """The request body did not arrive whole."""

    def __init__(self, fault: ClientFault) -> None:
        super().__init__(fault.value)
        self.fault = fault
