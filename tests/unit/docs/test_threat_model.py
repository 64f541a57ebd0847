"""The threat model and the page on reporting: every test, file and setting they name exists, and no threat stands without a test."""

from __future__ import annotations

import ast
import re
import tomllib
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
MODEL = (ROOT / "THREAT_MODEL.md").read_text(encoding="utf-8")
REPORTING = (ROOT / "SECURITY.md").read_text(encoding="utf-8")
BOTH = MODEL + REPORTING
SETTINGS = (ROOT / "docs/settings.md").read_text(encoding="utf-8")
NAMED_TESTS = sorted(set(re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", MODEL)))


@cache
def functions_in(path: Path) -> frozenset[str]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return frozenset(node.name for node in tree.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))


def rows(text: str, letter: str) -> dict[str, str]:
    """Rows of the tables by what stands in their first cell, such as T1."""
    return dict(re.findall(rf"^\| ({letter}[0-9]+) \| (.+) \|$", text, re.MULTILINE))


def test_every_test_it_names_is_one() -> None:
    assert len(NAMED_TESTS) > 50
    absent = [
        f"{file}::{name}"
        for file, name in NAMED_TESTS
        if not name.startswith("test_") or not (ROOT / file).is_file() or name not in functions_in(ROOT / file)
    ]
    assert absent == [], "no such tests: were they renamed?"


def test_every_threat_has_an_answer_and_a_test() -> None:
    pattern = re.compile(r"[^|]+ \| [^|]+ \| `tests/[\w/]+\.py::\w+`( `tests/[\w/]+\.py::\w+`)*")
    assert [threat for threat, row in rows(MODEL, "T").items() if not pattern.fullmatch(row)] == []


@pytest.mark.parametrize("letter", ["A", "B", "T"])
def test_assets_boundaries_and_threats_are_numbered_without_a_gap(letter: str) -> None:
    listed = list(rows(MODEL, letter))
    assert listed == [f"{letter}{number}" for number in range(1, len(listed) + 1)]
    assert len(listed) > 5


def test_every_boundary_has_threats_and_whatever_is_referred_to_exists() -> None:
    headings = " ".join(re.findall(r"^### (.+)$", MODEL, re.MULTILINE))
    assert set(re.findall(r"B[0-9]+", headings)) == set(rows(MODEL, "B"))
    assert set(re.findall(r"\(T[0-9]+\)", MODEL)) <= {f"({threat})" for threat in rows(MODEL, "T")}


def test_every_file_they_name_exists() -> None:
    named = set(re.findall(r"`((?:deploy|docs|tests)/[\w./-]+|pyproject\.toml)`", BOTH))
    assert named
    assert [path for path in sorted(named) if not (ROOT / path).exists()] == []


def test_every_link_leads_to_a_file() -> None:
    links = set(re.findall(r"\]\(([^)#]+)\)", BOTH))
    assert links
    assert [path for path in sorted(links) if not (ROOT / path).is_file()] == []


def test_every_setting_they_name_exists() -> None:
    named = set(
        re.findall(
            r"`((?:(?:limits|policy|grpc|pinecone|explain)\.[a-z_.]+|forbidden_overrides))(?:: [\w\[\]]+)?`", BOTH
        )
    )
    assert named
    assert [name for name in sorted(named) if f"`{name}`" not in SETTINGS] == []


def test_the_supported_version_is_the_one_there_is() -> None:
    version = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
    assert f"| {version.rpartition('.')[0]}.x, the newest | yes |" in REPORTING
