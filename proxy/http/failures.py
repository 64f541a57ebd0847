"""The two exceptions of the data plane, by whose fault they are, and the one table that reads aiohttp's.

    Exception
     ├─ UpstreamFailure   the database, or the way to it; .kind
     └─ ClientBodyError   the client's request body; .fault

Neither carries text: a message of aiohttp's may hold a URL or a header value.
"""

from __future__ import annotations

import ssl
from enum import StrEnum

import aiohttp


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


# First match wins: aiohttp's classes inherit from several of the later ones.
_KINDS: tuple[tuple[type[BaseException], FailureKind], ...] = (
    (aiohttp.ClientConnectorCertificateError, FailureKind.TLS),
    (aiohttp.ClientConnectorSSLError, FailureKind.TLS),
    (aiohttp.ClientSSLError, FailureKind.TLS),
    (ssl.SSLError, FailureKind.TLS),
    (aiohttp.ClientConnectorDNSError, FailureKind.DNS),
    (aiohttp.ConnectionTimeoutError, FailureKind.CONNECT),
    (aiohttp.ClientConnectorError, FailureKind.CONNECT),
    (TimeoutError, FailureKind.TIMEOUT),
    (aiohttp.ClientPayloadError, FailureKind.TRUNCATED),
    (aiohttp.ClientResponseError, FailureKind.PROTOCOL),
    (aiohttp.ClientConnectionError, FailureKind.RESET),
    (OSError, FailureKind.RESET),
)


def kind_of(error: BaseException) -> FailureKind:
    """The kind that a failure of aiohttp's client is counted as; what is not in the table broke the protocol."""
    return next((kind for family, kind in _KINDS if isinstance(error, family)), FailureKind.PROTOCOL)
