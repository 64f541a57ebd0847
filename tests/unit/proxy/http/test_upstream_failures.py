""""""

from __future__ import annotations

import ssl
from types import SimpleNamespace
from typing import Any, cast

import aiohttp
import pytest
from aiohttp.client_reqrep import ConnectionKey

from vecsieve.proxy.http.upstream import kind_of
from vecsieve.proxy.search.errors import FailureKind

KEY = cast(ConnectionKey, SimpleNamespace(ssl=True, host="h", port=1, is_ssl=True))
INFO = cast(Any, None)


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (aiohttp.ClientConnectorError(KEY, OSError(111, "refused")), FailureKind.CONNECT),
        (aiohttp.ConnectionTimeoutError(), FailureKind.CONNECT),
        (aiohttp.ClientConnectorDNSError(KEY, OSError(-2, "unknown")), FailureKind.DNS),
        (aiohttp.ClientConnectorSSLError(KEY, OSError(1, "tls")), FailureKind.TLS),
        (aiohttp.ClientConnectorCertificateError(KEY, ssl.CertificateError("bad")), FailureKind.TLS),
        (aiohttp.SocketTimeoutError(), FailureKind.TIMEOUT),
        (TimeoutError(), FailureKind.TIMEOUT),
        (aiohttp.ServerDisconnectedError(), FailureKind.RESET),
        (aiohttp.ClientOSError(104, "reset"), FailureKind.RESET),
        (ConnectionResetError(), FailureKind.RESET),
        (aiohttp.ClientPayloadError(), FailureKind.TRUNCATED),
        (aiohttp.ClientResponseError(INFO, ()), FailureKind.PROTOCOL),
        (aiohttp.InvalidURL("x"), FailureKind.PROTOCOL),
    ],
)
def test_each_of_aiohttps_failures_has_its_kind(error: BaseException, kind: FailureKind) -> None:
    assert kind_of(error) is kind
