"""The page of figures is short, and names sections of the proof and targets of make that exist."""

from __future__ import annotations

import re

from support.sources import ROOT

PAGE = (ROOT / "docs/reliability.md").read_text(encoding="utf-8")
ROWS = [line.strip("| ").split(" | ") for line in PAGE.splitlines() if line.startswith("| ")]
SECTIONS = set(re.findall(r'^    "([\w-]+)": \w+\.prove,$', (ROOT / "tests/prove/run.py").read_text(), re.MULTILINE))
TARGETS = set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))


def test_it_is_short() -> None:
    assert len(PAGE.splitlines()) <= 60


def test_every_figure_has_a_section_of_the_proof_or_a_command() -> None:
    figures = [row for row in ROWS if row[-1] not in {"section", "command"}]
    assert len(figures) > 30
    sources = [re.findall(r"`([^`]+)`", row[-1]) for row in figures]
    assert all(sources)
    commands = {name for names in sources for name in names}
    assert {name for name in commands if not name.startswith("make ")} <= SECTIONS
    assert {name.split()[1] for name in commands if name.startswith("make ")} <= TARGETS
