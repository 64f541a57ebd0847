"""A database that wants fewer requests is asked again, when it says and ever later."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from vecsieve.proxy.jobs import rest
from vecsieve.proxy.jobs.rest import FIRST_WAITS, RefusedError, Rest
from vecsieve.proxy.jobs.source import Access, SourceError


def sent(monkeypatch: pytest.MonkeyPatch, refusals: Sequence[tuple[int, str]]) -> tuple[list[float], int]:
    """The waits, and how many refusals were left when a request was answered or given up."""
    left, waits = list(refusals), list[float]()

    def exchanged(_request: object, _seconds: float) -> bytes:
        if left:
            status, retry_after = left.pop(0)
            raise RefusedError(status, b"", retry_after)
        return b"an answer"

    monkeypatch.setattr(rest, "_exchanged", exchanged)
    monkeypatch.setattr(rest, "sleep", waits.append)
    url = "http://127.0.0.1:1"
    client = Rest(Access(url=url, collection="c"), url, {})
    if len(refusals) > len(FIRST_WAITS) or {status for status, _ in refusals} - {429, 503}:
        with pytest.raises(SourceError):
            client.sent("GET", "/")
    else:
        assert client.sent("GET", "/") == b"an answer"
    return waits, len(left)


def test_it_is_asked_again_when_it_says_and_ever_later(monkeypatch: pytest.MonkeyPatch) -> None:
    refusals = [(429, "0"), (503, "30"), (429, ""), (429, "500"), (429, "Thu, 01 Jan 2026 00:00:00 GMT")]
    assert sent(monkeypatch, refusals) == ([1.0, 30.0, 4.0, 60.0, 16.0], 0)


def test_the_last_refusal_and_those_of_another_kind_are_errors(monkeypatch: pytest.MonkeyPatch) -> None:
    assert sent(monkeypatch, [(500, "1"), (429, "0")]) == ([], 1)
    assert sent(monkeypatch, [(429, "0")] * 20) == (list(FIRST_WAITS), 20 - len(FIRST_WAITS) - 1)
