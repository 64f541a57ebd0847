"""README is short, its commands are those that are run, and every link of the documents leads somewhere."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

from support.sources import ROOT
from vecsieve.config.backends import TRAITS
from vecsieve.config.load import load

README = (ROOT / "README.md").read_text(encoding="utf-8")
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/*.md")])
LINK = re.compile(r"\]\((?!https?://)([^)#\s]+)(?:#[^)]*)?\)")


def test_it_is_read_in_four_minutes() -> None:
    assert len(README.splitlines()) <= 110
    assert len(README.split()) <= 900


def blocks() -> list[list[str]]:
    section = README.partition("## Two commands")[2].partition("\n## ")[0]
    return [block.strip().splitlines() for block in section.split("```")[1::2]]


def test_the_first_command_installs_what_the_demo_needs_and_the_second_what_the_tests_need() -> None:
    first, second = blocks()
    assert len(first) == 1
    assert "'.[demo]'" in first[0]
    assert first[0].endswith("vecsieve demo")
    assert "'.[dev]'" in second[0]
    assert second[1].startswith(".venv/bin/python -m pytest")


def test_the_check_of_a_change_runs_the_test_command_of_readme() -> None:
    script = (ROOT / ".ci/run").read_text(encoding="utf-8")
    pattern = r"^\.venv/bin/python -m pytest.*$"
    assert r"\.venv\/bin\/python -m pytest" in script
    assert re.findall(pattern, README, re.MULTILINE) == [blocks()[1][1]]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_every_link_leads_to_a_file(page: Path) -> None:
    named = LINK.findall(page.read_text(encoding="utf-8"))
    assert [link for link in named if not (page.parent / link).exists()] == []


def anchors(page: Path) -> set[str]:
    """As GitHub makes them from headings, and those that are written out."""
    text = page.read_text(encoding="utf-8")
    titles = re.findall(r"^#{1,4} (.+)$", text, re.MULTILINE)
    made = {re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in titles}
    return made | set(re.findall(r'<a id="([^"]+)">', text))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_every_link_to_a_section_leads_to_one(page: Path) -> None:
    links = re.findall(r"\]\((?!https?://)([^)#\s]*)#([^)\s]+)\)", page.read_text(encoding="utf-8"))
    assert [link for link in links if link[1] not in anchors(page.parent / link[0] if link[0] else page)] == []


def test_the_index_names_every_page() -> None:
    index = README.partition("\n## Documentation\n")[2]
    pages = {path.relative_to(ROOT).as_posix() for path in PAGES} - {"README.md"}
    assert set(re.findall(r"\]\(([\w/-]+\.md)\)", index)) == pages


def test_the_documents_stay_short() -> None:
    words = {page: len(page.read_text(encoding="utf-8").split()) for page in ROOT.glob("docs/*.md")}
    assert len(words) <= 20  # one of them, calls.md, is generated
    assert sum(words.values()) <= 45_000


def test_every_backend_is_shown_with_a_command_that_its_settings_accept() -> None:
    started = re.findall(r"^\| \w+ \| `serve ([^`]+)` \|", README, re.MULTILINE)
    assert len(started) == len(TRAITS)
    names = {"--upstream": "upstream.url", "--backend": "backend", "--grpc-upstream": "grpc.upstream"}
    for words in map(str.split, started):
        flags = {names[flag]: value for flag, value in zip(words[::2], words[1::2], strict=True)}
        assert load(file=None, environment={}, flags=flags).backend == flags.get("backend", "qdrant")


def test_the_picture_asks_no_other_host() -> None:
    picture = (ROOT / "docs/images/before-after.svg").read_text(encoding="utf-8")
    addresses = set(re.findall(r"""(?:href|src|url)\W{1,3}(https?://[^"')]+)""", picture))
    assert addresses == set()
    assert "@font-face" not in picture


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_every_block_of_yaml_is_yaml(page: Path) -> None:
    for block in re.findall(r"```ya?ml\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL):
        yaml.safe_load(block)
