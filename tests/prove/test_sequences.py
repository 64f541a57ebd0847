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


def unmet(found: list[Finding]) -> list[str]:
    return [each.criterion.partition(":")[0] for each in found if each.met is False]


async def test_a_few_sequences_keep_every_promise() -> None:
    found = await prove(replace(QUICK, sequences=15))
    assert unmet(found) == []
    assert all(each.met is not None for each in found)


async def test_everything_that_may_happen_in_a_sequence_happens_once() -> None:
    steps: list[Step] = [(Search(0, 3, None),), (Write(), Write("reset"), Write("hang-up"))]
    steps += [(Search(0, 3, None, name),) for name in WIDENED]
    steps += [(Search(2, 3, None, name, everywhere=True),) for name in EVERYWHERE]
    for number in range(len(CONFIGS)):
        steps += [Reload(number), HangUp(), (Search(1, 8, None), Search(1, 5, "off"))]
    found = Broken()
    await played({}, steps, found)
    assert found.wrong.total() == 0, found.first
    assert found.asked["improved"] > 0


async def test_a_fault_that_reaches_the_client_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    async def lost(*_: object, **__: object) -> None:
        raise ConnectionResetError

    monkeypatch.setattr(SearchService, "best_answer", lost)
    found = Broken()
    await played({}, [(FAULTY,), (PLAIN,)], found)
    assert found.wrong == {"F1": 1}
    assert "Search" in found.first["F1"]


async def test_a_write_that_is_sent_again_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    own = Upstream.open

    async def twice(self: Upstream, **asked: object) -> object:
        first = await own(self, **asked)  # type: ignore[arg-type]  # - handed through as it came
        await first.close()
        return await own(self, **asked)  # type: ignore[arg-type]  # - handed through as it came

    monkeypatch.setattr(Upstream, "open", twice)
    found = Broken()
    await played({}, [(Write(),)], found)
    assert found.wrong["W1"] == 1
    assert found.wrong["attempts"] == 1


async def test_a_write_that_was_never_sent_and_is_acknowledged_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    async def pretends(*_: object, **__: object) -> object:
        return RawResponse(200, "OK", [("Content-Length", "7")], body=b"written")

    monkeypatch.setattr(Relay, "relay", pretends)
    found = Broken()
    await played({}, [(Write(),)], found)
    assert found.wrong == {"W1": 1}
