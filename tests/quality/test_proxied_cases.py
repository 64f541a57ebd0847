"""No result that must stay is lost through the running proxy, whatever the layout of its payload."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from quality.proxied_cases import LAYOUTS, WAYS, judged, losses

from support.jobs.eval_data import NEEDS_CASES, cases
from support.jobs.labelled_folders import write_lines
from vecsieve.proxy.jobs.evaluate.cases import read_cases

APART = ["The gate opens at nine in the morning.", "A train to the coast leaves from platform two."]


def test_what_the_proxy_leaves_is_seen_in_every_way(tmp_path: Path) -> None:
    write_lines(tmp_path / "cases.jsonl", [{"texts": APART}, {"texts": [*APART, APART[0]], "groups": [[0, 2]]}])
    write_lines(tmp_path / "fillers.jsonl", [{"text": f"Filler {chr(97 + place) * 9}"} for place in range(20)])
    seen = judged(read_cases(tmp_path / "cases.jsonl"), ["text"])
    assert [(outcome.is_neighbour, outcome.is_reversed) for outcome in seen[::2]] == list(WAYS)
    assert losses(seen) == []
    assert {outcome.lacking for outcome in seen} == {0}
    assert not any(outcome.stayed for outcome in seen if outcome.is_neighbour)
    gone = replace(seen[0], lost=(0,))
    assert losses([gone, replace(gone, case=replace(gone.case, either=True))]) == [gone]


@NEEDS_CASES
@pytest.mark.timeout(
    300
)  # half a minute on a quiet machine. All of them: what a proxy has learnt depends on what it was asked before
def test_no_result_that_must_stay_is_lost_through_the_proxy() -> None:
    path = cases()
    assert path is not None
    file = read_cases(path)
    seen = judged(file, list(LAYOUTS))
    lost = {f"{loss.layout}: {loss.case.kind}, {loss.case.name}" for loss in losses(seen)}
    assert not lost
    assert not [
        f"{outcome.layout}: {outcome.case.name}" for outcome in seen if outcome.lacking and not outcome.case.copies
    ]


@NEEDS_CASES
def test_no_result_is_lost_while_only_short_texts_were_seen_under_an_unknown_key() -> None:
    """Every seventh case: no pool is then long enough to show that `passage` is a text, and an uncased model has one vector for two symbols."""
    path = cases()
    assert path is not None
    file = read_cases(path)
    assert losses(judged(replace(file, cases=file.cases[::7]), ["passage"])) == []
