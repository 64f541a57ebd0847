"""The page on deploying: its sizes follow from the figures of docs/benchmarks.md, and what it tells people to type exists."""

from __future__ import annotations

import math
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
PAGE = (ROOT / "docs/deployment.md").read_text(encoding="utf-8")
FIGURES = (ROOT / "docs/benchmarks.md").read_text(encoding="utf-8")
ROW = re.compile(
    r"^\| 50 × (\d+) \| (\d+) \| ([\d.]+) MB · ([\d.]+) MB \| (\d+) \| (\d+) · (\d+) Gbit/s \|$", re.MULTILINE
)
ROWS = [tuple(map(float, row)) for row in ROW.findall(PAGE)]

WANTED_PER_SECOND = 10_000
UTILISATION = 0.6
GIGABITS_PER_MEGABYTE = 8 / 1000


def test_both_measured_sizes_are_there() -> None:
    assert [row[0] for row in ROWS] == [384, 1536]


@pytest.mark.parametrize("row", ROWS, ids=str)
def test_searches_per_second_are_those_of_the_benchmarks(row: tuple[float, ...]) -> None:
    assert f"| searches, 50 × {row[0]:.0f} | {row[1]:.0f}/s |" in FIGURES


@pytest.mark.parametrize("row", ROWS, ids=str)
def test_replicas_and_network_follow_from_searches_and_bytes(row: tuple[float, ...]) -> None:
    dimensions, per_second, as_json, as_grpc, replicas, json_gigabits, grpc_gigabits = row
    assert replicas == math.ceil(WANTED_PER_SECOND / (per_second * UTILISATION))
    assert as_grpc == round(50 * dimensions * 4 / 1e6, 2)
    for megabytes, gigabits in ((as_json, json_gigabits), (as_grpc, grpc_gigabits)):
        # The page rounds both; half of each last digit is what they may differ by.
        assert abs(gigabits - megabytes * WANTED_PER_SECOND * GIGABITS_PER_MEGABYTE) <= 0.5 + 0.005 * 80


def test_files_and_targets_that_are_named_exist() -> None:
    assert all((ROOT / path).exists() for path in re.findall(r"deploy/[\w./-]+", PAGE))
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    assert set(re.findall(r"`make ([a-z]+)`", PAGE)) <= targets
    assert all((ROOT / "docs" / name).exists() for name in re.findall(r"\]\(([\w.]+)\)", PAGE))
