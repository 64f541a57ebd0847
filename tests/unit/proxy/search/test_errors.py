from __future__ import annotations

import asyncio
import errno
import ssl
from collections.abc import Awaitable, Callable

import pytest

from vecsieve.proxy.search.errors import (
    WORDING,
    ClientFault,
    FailureKind,
    Trouble,
    cause_of,
    first_success,
    trouble_of,
    words_of_tls,
)

Rung = Callable[[], Awaitable[str]]


def failing(error: Exception) -> Rung:
    async def rung() -> str:
        raise error

    return rung


async def standing() -> str:
    return "stands"


@pytest.mark.parametrize("error", [ValueError("x"), RecursionError(), MemoryError(), KeyError("k"), AssertionError()])
async def test_whatever_breaks_the_next_rung_answers_and_the_failure_is_heard(error: Exception) -> None:
    heard: list[Exception] = []
    assert await first_success([failing(error), standing], heard.append) == "stands"
    assert heard == [error]


async def test_a_standing_rung_leaves_the_lower_ones_alone() -> None:
    def untouchable() -> Awaitable[str]:
        raise AssertionError("the lower rung was entered")

    heard: list[Exception] = []
    assert await first_success([standing, untouchable], heard.append) == "stands"


async def test_when_all_fall_nothing_is_returned_and_each_is_heard_in_order() -> None:
    first, second = ValueError("first"), ValueError("second")
    heard: list[Exception] = []
    assert await first_success([failing(first), failing(second)], heard.append) is None
    assert heard == [first, second]


async def test_cancellation_passes_through_unheard() -> None:
    async def cancelled() -> str:
        raise asyncio.CancelledError

    heard: list[Exception] = []
    with pytest.raises(asyncio.CancelledError):
        await first_success([cancelled, standing], heard.append)
    assert heard == []


@pytest.mark.parametrize("cause", [*FailureKind, *ClientFault])
def test_every_failure_has_a_trouble(cause: FailureKind | ClientFault) -> None:
    status, _ = WORDING[trouble_of(cause)]
    assert status == (504 if cause is FailureKind.TIMEOUT else 502 if isinstance(cause, FailureKind) else status)
    assert 400 <= status < 600


@pytest.mark.parametrize("kind", FailureKind)
def test_every_failed_exchange_has_a_cause_that_names_the_database(kind: FailureKind) -> None:
    cause = cause_of(kind, "db:6333")
    assert "the database at db:6333" in cause
    assert not cause.endswith((":", ": "))
    assert ("cannot reach" in cause) == (trouble_of(kind) is Trouble.NO_UPSTREAM)


def test_a_cause_has_the_systems_own_words_where_their_number_is_known() -> None:
    cause = cause_of(FailureKind.CONNECT, "db:6333", number=errno.ECONNREFUSED)
    assert cause == "VecSieve cannot reach the database at db:6333: connection refused"
    # Numbers of a resolver are negative and have words of their own.
    assert cause_of(FailureKind.DNS, "db:1", number=-2).endswith(": the name is unknown (DNS)")


@pytest.mark.parametrize(
    ("reason", "words"),
    [
        ("WRONG_VERSION_NUMBER", "it answers without TLS: is its URL http://…?"),
        ("TLSV13_ALERT_CERTIFICATE_REQUIRED", "(upstream.client_certificate)?"),
        ("SSLV3_ALERT_HANDSHAKE_FAILURE", "(upstream.client_certificate)?"),
        ("DECRYPTION_FAILED_OR_BAD_RECORD_MAC", "the TLS handshake failed"),
    ],
)
def test_a_failed_handshake_is_told_in_fixed_words(reason: str, words: str) -> None:
    error = ssl.SSLError(1, f"[SSL] {reason} c4nary (_ssl.c:1)")
    error.reason = reason
    cause = words_of_tls(error)
    assert cause.endswith(words)
    assert "c4nary" not in cause


@pytest.mark.parametrize(
    ("code", "words"), [(10, "has expired"), (62, "another name"), (20, "upstream.ca_file"), (99, "")]
)
def test_a_certificate_that_is_refused_is_told_by_its_fault(code: int, words: str) -> None:
    error = ssl.SSLCertVerificationError(1, "certificate verify failed: c4nary")
    error.verify_code = code
    cause = words_of_tls(error)
    assert words in cause
    assert cause.startswith("its certificate ")
    assert "c4nary" not in cause
