"""docs/sweep.md as a stranger follows it: its extra alone is installed, and its commands are run as they are written."""

from __future__ import annotations

import re
import shlex
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
from qdrant_client import QdrantClient

from support.deploy.alone import installed_by, with_extras_alone
from support.qdrant import planted
from support.qdrant.embedded import start_embedded_process
from support.sources import ROOT

PAGE = (ROOT / "docs/sweep.md").read_text(encoding="utf-8")
BLOCKS = [block.strip().splitlines() for block in PAGE.split("```")[1::2]]
(EXTRA,) = re.findall(r"^pip install -e '\.\[(\w+)\]'$", "\n".join(BLOCKS[0]), re.MULTILINE)
COMMANDS = [line for block in BLOCKS for line in block if line.startswith("vecsieve ")]
TEXTS = [f"Article {number} of the manual says what one must know about part {number} of it." for number in range(30)]


@pytest.fixture
def database() -> Iterator[str]:
    with start_embedded_process() as url:
        client = QdrantClient(url=url, timeout=30)
        texts = enumerate([*TEXTS, *TEXTS[:5]])
        planted.fill(client, "docs", [(number, [1.0, number / 30], {"text": text}) for number, text in texts])
        client.close()
        yield url


def test_every_command_of_the_page_runs_with_its_extra_alone(database: str, tmp_path: Path) -> None:
    assert [command.split()[1] for command in COMMANDS] == ["analyze", "sweep", "sweep", "undo"]
    for command in COMMANDS:
        arguments = shlex.split(command.replace("http://127.0.0.1:6333", database))[1:]
        done = with_extras_alone([EXTRA], arguments, tmp_path)
        assert done.returncode == 0, (command, done.stderr)
    written = {path.name for path in tmp_path.iterdir()}
    assert {"docs.html", "docs.jsonl", "docs.json", "docs.db"} <= written


@pytest.mark.parametrize("command", ["analyze", "sweep", "compact"])
def test_without_the_extra_a_job_names_it(command: str, tmp_path: Path) -> None:
    done = with_extras_alone([], (command, "--url", "http://127.0.0.1:9", "--collection", "docs"), tmp_path)
    assert done.returncode == 1
    assert f"the extra {EXTRA}: in a checkout, pip install -e '.[{EXTRA}]'" in done.stderr


def test_the_base_alone_has_neither_client_nor_engine() -> None:
    """Otherwise the tests above could not fail."""
    assert not installed_by([]) & {"qdrant-client", "duckdb", "qdrant-edge-py"}
    assert "duckdb" in installed_by([EXTRA])


def test_an_extra_is_added_to_the_editable_installation_of_readme() -> None:
    """Without -e it would be replaced by a copy, which has no emulator and does not change with the checkout."""
    for page in [*ROOT.glob("*.md"), *ROOT.glob("docs/*.md")]:
        for options in re.findall(r"pip install ([^`\n]*)'\.\[", page.read_text("utf-8")):
            assert "-e" in options.split(), page.name


def test_every_extra_that_a_page_names_exists() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    pages = [*ROOT.glob("*.md"), *ROOT.glob("docs/*.md")]
    named = {name for page in pages for name in re.findall(r"extra `(\w+)`|'\.\[(\w+)\]'", page.read_text("utf-8"))}
    assert {name for pair in named for name in pair if name} <= extras.keys()
