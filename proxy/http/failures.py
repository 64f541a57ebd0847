"""The one table that reads aiohttp's exceptions."""

from __future__ import annotations

import ssl

import aiohttp

from vecsieve.proxy.failures import FailureKind

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
