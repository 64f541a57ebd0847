"""docs/architecture.md, CONTRIBUTING.md and README.md name files, functions and commands that exist."""

from __future__ import annotations

import re

import pytest

from support.sources import ROOT, SOURCES, functions

PAGES = ("docs/architecture.md", "CONTRIBUTING.md", "README.md", "docs/policies.md")
PATH = re.compile(r"`((?:adapters|config|deploy|docs|proxy|tests)/[\w./-]+)`")
STEP = re.compile(r"^ *((?:search|selection|http|grpc|telemetry|writes)/\w+(?:/\w+)?)(?:\.(\w+))?", re.MULTILINE)


@pytest.mark.parametrize("page", PAGES)
def test_every_path_it_names_exists(page: str) -> None:
    named = set(PATH.findall((ROOT / page).read_text(encoding="utf-8")))
    assert named, f"{page} names no path: this test looks at nothing"
    assert {path for path in named if not (ROOT / path).exists()} == set()


@pytest.mark.parametrize("page", PAGES)
def test_every_target_of_make_it_names_exists(page: str) -> None:
    targets = set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    named = set(re.findall(r"`make ([\w-]+)", (ROOT / page).read_text(encoding="utf-8")))
    assert named - targets == set()


def test_every_step_of_a_search_is_a_module_with_that_function() -> None:
    text = (ROOT / "docs/architecture.md").read_text(encoding="utf-8")
    drawing = text.partition("## One search")[2].split("```")[1]
    steps = STEP.findall(drawing)
    assert len(steps) >= 8, steps
    files = {
        path.relative_to(ROOT / "proxy").with_suffix("").as_posix(): path
        for path in SOURCES
        if path.is_relative_to(ROOT / "proxy")
    }
    for module, function in steps:
        assert module in files, module
        assert not function or function in {node.name for node in functions(files[module])}, f"{module}.{function}"
