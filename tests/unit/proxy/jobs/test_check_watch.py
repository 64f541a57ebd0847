"""`check --watch` prints what the running VecSieve says, once for each new sentence, until it is go or no-go."""

from __future__ import annotations

import asyncio
import json

import pytest
from unit.proxy.jobs.test_check import database

from support.network.ports import free_ports
from vecsieve.config.schema import Settings
from vecsieve.proxy.jobs.check import CheckError, watch


def watched(*statuses: object) -> list[str]:
    """What it prints while the admin port answers these, one after another."""
    left, lines = [json.dumps(status).encode() for status in statuses], list[str]()
    with database(lambda _: (200, left.pop(0))) as url:
        settings = Settings.model_validate({"admin": url.removeprefix("http://")})
        asyncio.run(watch(settings, lines.append, every_seconds=0.0))
    assert left == []
    return lines


def status_of(decision: str, sentence: str) -> dict[str, object]:
    figures = {"decision": decision}
    return {"mode": "shadow", "verdict": {"sentence": sentence, "details": [["bytes", "36 kB"]], "figures": figures}}


def test_it_waits_until_the_verdict_decides() -> None:
    waiting = status_of("not enough yet", "Not enough yet: 3 of 20.")
    assert watched({"mode": "shadow", "verdict": None}, waiting, waiting, status_of("no-go", "No-go: nothing.")) == [
        "verdict      Not enough yet: no search is measured.",
        "verdict      Not enough yet: 3 of 20.",
        "verdict      No-go: nothing.",
        "bytes                  36 kB",
    ]


def test_a_long_sentence_is_printed_whole() -> None:
    sentence = f"Go: mode on would change {'72 % of pages, ' * 20}and it adds 8.0 ms."
    assert watched(status_of("go", sentence))[0] == f"verdict      {sentence}"


@pytest.mark.parametrize("mode", ["on", "off"])
def test_another_mode_measures_nothing(mode: str) -> None:
    with pytest.raises(CheckError, match=f"runs in mode {mode}; its mode shadow measures the verdict"):
        watched({"mode": mode})


def test_without_a_vecsieve_it_says_what_to_start() -> None:
    settings = Settings.model_validate({"admin": f"0.0.0.0:{free_ports(1)[0]}"})
    with pytest.raises(
        CheckError, match=r"no VecSieve answers at http://127\.0\.0\.1:\d+/status: start `vecsieve serve"
    ):
        asyncio.run(watch(settings, lambda _: None))


def test_what_is_no_status_is_no_vecsieve() -> None:
    with database(lambda _: (200, b"not JSON")) as url, pytest.raises(CheckError, match="no VecSieve answers"):
        asyncio.run(watch(Settings.model_validate({"admin": url.removeprefix("http://")}), lambda _: None))
