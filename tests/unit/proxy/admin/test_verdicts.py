"""The verdict of all processes: on the status page, once an hour in the log, and at the end."""

from __future__ import annotations

import asyncio
import json
import logging
from pathlib import Path

import pytest

from support.selection.inspections import no_egress, no_pools
from vecsieve.proxy.admin import verdicts
from vecsieve.proxy.admin.knowledge import Answer, Knowledge, Question, ask_of_workers, open_to_admin
from vecsieve.proxy.admin.recent import Recent
from vecsieve.proxy.admin.verdicts import hourly, last_words, leave_rows, left_rows, verdict_page
from vecsieve.proxy.runtime.loop import background
from vecsieve.proxy.telemetry.verdict import Measured, verdict_of

ROWS = [
    Measured(name, is_warm=True, results=8, changed=True, proven=2, arrived=2, added_ms=1.0, plain_ms=5.0)
    for name in ("docs", "docs", "faq")
    for _ in range(20)
]


def knowledge(rows: list[Measured]) -> Knowledge:
    return Knowledge(Recent(3, now=lambda: 1000.0), no_pools(), no_egress(), measured=rows)


async def test_the_status_has_the_verdict_of_all_and_of_each_collection() -> None:
    page = await verdict_page(knowledge(ROWS).ask)
    assert page is not None
    assert page["sentence"] == verdict_of(ROWS).sentence
    assert page["figures"]["decision"] == "go"
    assert [(collection["collection"], collection["figures"]["pages"]) for collection in page["collections"]] == [
        ("docs", 40),
        ("faq", 20),
    ]
    assert json.loads(json.dumps(page))["details"] == [list(detail) for detail in verdict_of(ROWS).details]


async def test_the_searches_of_all_workers_count(tmp_path: Path) -> None:
    servers = [await open_to_admin(tmp_path, place, knowledge(ROWS)) for place in range(2)]
    page = await verdict_page(ask_of_workers(tmp_path, 2))
    for server in servers:
        server.close()
    assert page is not None
    assert page["figures"]["pages"] == 2 * len(ROWS)


def test_what_workers_left_is_in_the_last_words(tmp_path: Path) -> None:
    for place in range(2):
        leave_rows(tmp_path, place, ROWS)
    assert last_words(left_rows(tmp_path)) == verdict_of(ROWS + ROWS).line


def test_a_full_disk_costs_the_words_alone(tmp_path: Path) -> None:
    leave_rows(tmp_path / "gone", 0, ROWS)
    assert left_rows(tmp_path) == []


async def test_the_log_has_it_once_an_hour(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    monkeypatch.setattr(verdicts, "EVERY_SECONDS", 0.0)
    requested = asyncio.Event()

    async def ask(question: Question) -> list[Answer]:
        if caplog.records:
            requested.set()
        return await knowledge(ROWS).ask(question)

    with background(hourly(ask)):
        await asyncio.wait_for(requested.wait(), 10)
    assert caplog.records[0].getMessage() == verdict_of(ROWS).line
    assert "docs" not in caplog.text
