"""The page on deploying: its sizes follow from the figures of docs/benchmarks.md, and what it tells people to type exists."""

from __future__ import annotations

import math
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
PAGE = (ROOT / "docs/deployment.md").read_text(encoding="utf-8")
FIGURES = (ROOT / "docs/benchmarks.md").read_text(encoding="utf-8")
ROW = re.compile(r"^\| [^|]+ \| (\d+) \| ([\d,]+) kB \| (\d+) \| ([\d.]+) Gbit/s \|$", re.MULTILINE)
ROWS = [tuple(float(value.replace(",", "")) for value in row) for row in ROW.findall(PAGE)]

NEEDED_PER_SECOND = 10_000
UTILISATION = 0.6
GIGABITS_PER_KILOBYTE = 8 / 1e6


def test_searches_that_were_seen_and_that_were_not_are_there() -> None:
    assert len(ROWS) == 4


@pytest.mark.parametrize("row", ROWS, ids=str)
def test_searches_per_second_and_bytes_are_those_of_the_benchmarks(row: tuple[float, ...]) -> None:
    figures = [line for line in FIGURES.splitlines() if f"| {row[0]:,.0f} |" in line]
    assert any(line.count(f"| {row[1]:,.0f} kB |") for line in figures), figures


@pytest.mark.parametrize("row", ROWS, ids=str)
def test_replicas_and_network_follow_from_searches_and_bytes(row: tuple[float, ...]) -> None:
    per_second, kilobytes, replicas, gigabits = row
    assert replicas == math.ceil(NEEDED_PER_SECOND / (per_second * UTILISATION))
    assert gigabits == round(kilobytes * NEEDED_PER_SECOND * GIGABITS_PER_KILOBYTE, 1)


def test_files_and_targets_that_are_named_exist() -> None:
    assert all((ROOT / path).exists() for path in re.findall(r"deploy/[\w./-]+", PAGE))
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    assert set(re.findall(r"`make ([a-z]+)`", PAGE)) <= targets
    assert all((ROOT / "docs" / name).exists() for name in re.findall(r"\]\(([\w.]+)\)", PAGE))


def test_connections_have_the_age_that_the_page_says() -> None:
    (seconds,) = re.findall(r"`limits\.connection_age_seconds` to (\d+)", PAGE)
    overlays = ROOT / "deploy/kubernetes/overlays"
    variable = "VECSIEVE_LIMITS_CONNECTION_AGE_SECONDS"
    files = {path: path.read_text(encoding="utf-8") for path in overlays.rglob("*.yaml")}
    assert {path.parent.name for path, text in files.items() if variable in text} == {"service"}, "none in a sidecar"
    assert f'{{name: {variable}, value: "{seconds}"}}' in files[overlays / "service/deployment.yaml"]
    assert f"connectionAgeSeconds: {seconds}\n" in (ROOT / "deploy/helm/values.yaml").read_text(encoding="utf-8")
