"""The operator's page: everything it names exists, and every reason a counter can give is explained."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from support.deploy.promql import OF_LIBRARIES, spec_of
from support.jobs.reports import REPORT
from support.process.lines import RememberedLines
from vecsieve.adapters.contract import Reason
from vecsieve.proxy.grpc.connections import FLOODING_SECONDS, PAUSE_SECONDS
from vecsieve.proxy.search.context.canary import ADDED_SECONDS, BOUNDS, SLOWED_SECONDS, WINDOW
from vecsieve.proxy.telemetry.instruments import PREFIX
from vecsieve.proxy.telemetry.labels import Bypass, CanaryState, FailOpen, LocalError, Origin, Outcome, Retry
from vecsieve.proxy.telemetry.log import Access, AccessLog, Ended
from vecsieve.proxy.telemetry.metrics import Metrics

ROOT = Path(__file__).resolve().parents[3]
PAGE = (ROOT / "docs/operating.md").read_text(encoding="utf-8")
SETTINGS = (ROOT / "docs/settings.md").read_text(encoding="utf-8")
SOURCES = "\n".join(path.read_text(encoding="utf-8") for path in (ROOT / "proxy").rglob("*.py"))


def section(title: str) -> str:
    return PAGE.split(f"\n## {title}\n", 1)[1].split("\n## ", 1)[0]


def first_column(text: str) -> list[str]:
    """Without the headings of the tables."""
    cells = re.findall(r"^\| `([^`]+)` \|", text, re.MULTILINE)
    return [cell for cell in cells if cell not in {"reason", "kind"}]


def test_every_metric_it_names_exists() -> None:
    named = set(re.findall(r"\b(?:vecsieve|process)_[a-z_]+\b", PAGE))
    assert len(named) > 20
    whole = {PREFIX + spec.name for spec in Metrics.declared()}
    assert {name for name in named - whole if spec_of(name) is None and not OF_LIBRARIES.match(name)} == set()


def test_every_metric_is_documented() -> None:
    pages = "\n".join(path.read_text(encoding="utf-8") for path in (ROOT / "docs").glob("*.md"))
    named = set(re.findall(r"\bvecsieve_[a-z_]+\b", pages))
    names = {PREFIX + spec.name for spec in Metrics.declared()}
    assert {name for name in names - named if not OF_LIBRARIES.match(name)} == set()


def test_every_reason_is_explained_once() -> None:
    tables = section("Reasons").split("**Bypassed**")
    assert first_column(tables[0]) == [reason.value for reason in FailOpen]
    assert first_column(tables[1]) == [reason.value for reason in (*Bypass, *Reason)]


def test_every_kind_of_error_is_explained() -> None:
    assert sorted(first_column(section("Errors"))) == sorted(kind.value for kind in LocalError)


@pytest.mark.parametrize(
    "name", sorted(set(re.findall(r"`((?:limits|policy|upstream|shadow|pinecone)\.[a-z_.]+)`", PAGE)))
)
def test_every_setting_it_names_exists(name: str) -> None:
    assert f"`{name}" in SETTINGS


@pytest.mark.parametrize("line", [line for line in first_column(section("Log lines")) if line != "access"])
def test_every_log_line_it_quotes_is_written(line: str) -> None:
    assert line in SOURCES


def test_every_field_of_an_access_line_is_explained_once() -> None:
    sink = RememberedLines()
    access = Access(
        request_id="0123456789abcdef",
        operation="query",
        backend="qdrant",
        outcome=Outcome.DEDUP,
        seconds=0.01,
        ended=Ended("POST", 200, Origin.UPSTREAM, 0, 0, is_relayed=False, is_loopback=False),
        report=REPORT,
    )
    AccessLog(sink, share=1.0).write(access)
    table = section("Log lines").split("| of `access` |", 1)[1]
    rows = [line.split("|")[1] for line in table.splitlines() if line.startswith("| `")]
    explained = sorted(name for row in rows for name in re.findall(r"`(\w+)`", row))
    assert explained == sorted(set(sink.objects[0]) - {"ts", "level", "msg"})


def test_every_reason_to_ask_again_is_named_where_slow_requests_are_explained() -> None:
    (row,) = [line for line in section("Latency went up").splitlines() if "vecsieve_retries_total" in line]
    assert set(re.findall(r"`(\w+)`", row)) >= {reason.value for reason in Retry}


def test_every_link_within_the_page_leads_somewhere() -> None:
    titles = re.findall(r"^#{2,3} (.+)$", PAGE, re.MULTILINE)
    anchors = {re.sub(r"[^a-z0-9 -]", "", title.lower()).replace(" ", "-") for title in titles}
    assert set(re.findall(r"\]\(#([^)]+)\)", PAGE)) <= anchors


def test_the_figures_of_the_canary_and_of_a_flood_are_those_of_the_code() -> None:
    bounds = (CanaryState.ERRORS, CanaryState.SLOW, CanaryState.FAIL_OPEN, CanaryState.SHORT)
    page = " ".join(PAGE.split())
    for words in (
        f"Of the canary's last {WINDOW} searches",
        *(
            f"{BOUNDS[state]} {name}"
            for state, name in zip(bounds, ("answers", "searches", "fallbacks", "short pages"), strict=True)
        ),
        f"{ADDED_SECONDS:g} s longer than the slowest",
        f"or {SLOWED_SECONDS:g} s longer than usual",
        f"new gRPC connections of its address begin {PAUSE_SECONDS * 1000:g} ms apart",
    ):
        assert words in page
    assert FLOODING_SECONDS == 10
    assert "For ten seconds new gRPC" in page
