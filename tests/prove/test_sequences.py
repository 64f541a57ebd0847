"""Sequences judge every promise, and a proxy that breaks one is found."""

from __future__ import annotations

from dataclasses import replace

import pytest

from prove.finding import QUICK, Finding
from prove.sequences import CONFIGS, EVERYWHERE, WIDENED, Broken, HangUp, Reload, Search, Step, Write, played, prove
from vecsieve.proxy.http.answers import RawResponse
from vecsieve.proxy.http.relay import Relay
from vecsieve.proxy.http.upstream import Upstream
from vecsieve.proxy.search.service import SearchService

FAULTY = Search(0, 3, None, "empty")
PLAIN = Search(1, 3, "off")


def unmet(findings: list[Finding]) -> list[str]:
    return [finding.criterion.partition(":")[0] for finding in findings if finding.met is False]


async def test_a_few_sequences_keep_every_promise() -> None:
    findings = await prove(replace(QUICK, sequences=15))
    assert unmet(findings) == []
    assert all(finding.met is not None for finding in findings)


async def test_everything_that_may_happen_in_a_sequence_happens_once() -> None:
    steps: list[Step] = [(Search(0, 3, None),), (Write(), Write("reset"), Write("hang-up"))]
    steps += [(Search(0, 3, None, name),) for name in WIDENED]
    steps += [(Search(2, 3, None, name, everywhere=True),) for name in EVERYWHERE]
    for number in range(len(CONFIGS)):
        steps += [Reload(number), HangUp(), (Search(1, 8, None), Search(1, 5, "off"))]
    broken = Broken()
    await played({}, steps, broken)
    assert broken.wrong.total() == 0, broken.first
    assert broken.requested["improved"] > 0


async def test_a_fault_that_reaches_the_client_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    async def lost(*_: object, **__: object) -> None:
        raise ConnectionResetError

    monkeypatch.setattr(SearchService, "best_answer", lost)
    broken = Broken()
    await played({}, [(FAULTY,), (PLAIN,)], broken)
    assert broken.wrong == {"F1": 1}
    assert "Search" in broken.first["F1"]


async def test_a_write_that_is_sent_again_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    original = Upstream.open

    async def twice(self: Upstream, **options: object) -> object:
        first = await original(self, **options)  # type: ignore[arg-type]  # - handed through as it came
        await first.close()
        return await original(self, **options)  # type: ignore[arg-type]  # - handed through as it came

    monkeypatch.setattr(Upstream, "open", twice)
    broken = Broken()
    await played({}, [(Write(),)], broken)
    assert broken.wrong["W1"] == 1
    assert broken.wrong["attempts"] == 1


async def test_a_write_that_was_never_sent_and_is_acknowledged_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    async def pretends(*_: object, **__: object) -> object:
        return RawResponse(200, "OK", [("Content-Length", "7")], body=b"written")

    monkeypatch.setattr(Relay, "relay", pretends)
    broken = Broken()
    await played({}, [(Write(),)], broken)
    assert broken.wrong == {"W1": 1}
