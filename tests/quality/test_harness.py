"""The quick table over labelled sets: every set of an embedding, with the figures of `vecsieve evaluate`."""

from __future__ import annotations

from io import StringIO
from pathlib import Path

import pytest
from quality.harness import Work, chosen, embeddings, outcome, places, table, wrong_by_text
from rich.console import Console

from support.jobs.labelled_folders import labelled_folder
from vecsieve.proxy.jobs.evaluate.reading import read_set
from vecsieve.proxy.jobs.evaluate.searching import contenders
from vecsieve.proxy.jobs.evaluate.summary import summarised
from vecsieve.proxy.selection.policy import Short


def test_the_sets_of_an_embedding_are_found(tmp_path: Path) -> None:
    for place in ("tiny", "other", "models/e5/tiny", "fresh/e5/late"):
        labelled_folder(tmp_path / place)
    assert list(embeddings(tmp_path)) == ["minilm", "e5"]
    assert [(path.name, geometry) for path, geometry in places(tmp_path, "minilm", ())] == [
        ("other", None),
        ("tiny", None),
    ]
    other = tmp_path / "models" / "e5"
    assert [(path.name, geometry) for path, geometry in places(tmp_path, "e5", ("tiny", "late"))] == [
        ("tiny", other),
        ("late", None),
    ]


@pytest.mark.parametrize("preset", ["default", "classical"])
def test_a_preset_is_judged_and_shown(tmp_path: Path, preset: str) -> None:
    folder = labelled_folder(tmp_path / "tiny")
    summary = summarised([outcome(Work(preset, folder, None, True, 1))], draws=0, seed=0)[preset]
    console = Console(file=StringIO(), width=150)
    console.print(table("here", summary.sets, [("all", line) for line in summary.headlines.values()]))
    assert isinstance(console.file, StringIO)
    assert {"tiny", "all"} <= {line.strip("│ ").split(" ")[0] for line in console.file.getvalue().splitlines() if line}


def test_pages_are_filled_only_on_demand() -> None:
    assert chosen("default").policy.selection.short is Short.ALLOW
    assert chosen("default", is_filled=True).policy == contenders(given=("default={}",), pool=50)[0].policy


def test_a_drop_that_is_wrong_by_text_is_shown_with_what_is_missing(tmp_path: Path) -> None:
    """Vectors alone merge `b`, which says something else, with `a`."""
    labelled = read_set(labelled_folder(tmp_path / "tiny"))
    merging = "own={when: always, threshold: {fixed: 0.3}, linkage: average, texts: none, short: allow}"
    wrong_drops = list(wrong_by_text(labelled, contenders(given=(merging,))[0]))
    assert "tiny, query 0: 'beta'\n  missing: beta" in wrong_drops
    assert not any("query 0: 'Alpha'" in line for line in wrong_drops)
