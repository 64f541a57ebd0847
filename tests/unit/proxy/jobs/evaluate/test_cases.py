"""Cases of what must stay: what counts as lost, what as a copy that stays, and what the command says of a file."""

from __future__ import annotations

import json
import time
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.jobs.labelled_folders import write_lines
from support.process.commands import command_line
from vecsieve.config.problems import SettingsError
from vecsieve.proxy.jobs.evaluate.cases import Case, CaseOutcome, judged, read_cases
from vecsieve.proxy.jobs.evaluate.searching import contenders

RED, BLUE = "The gate opens at nine in the morning.", "A train to the coast leaves from platform two."
KEEPS_ALL = "own={when: always, threshold: {fixed: 0.0}, linkage: average, texts: none, dpp: none, mmr: none}"
MERGES_ALL = "own={when: always, threshold: {fixed: 1.9}, linkage: average, texts: none, dpp: none, mmr: none}"


def case(count: int, *groups: tuple[int, ...]) -> Case:
    vectors = np.eye(max(count, 1), dtype=np.float32)
    texts = tuple(f"text {number}" for number in range(count))
    return Case(kind="k", name="n", texts=texts, groups=groups, either=False, vectors=vectors, query=vectors[0])


def file(folder: Path, *lines: dict[str, object], fillers: int = 0) -> Path:
    folder.mkdir(exist_ok=True)
    write_lines(folder / "cases.jsonl", lines)
    if fillers:
        write_lines(folder / "fillers.jsonl", [{"text": f"Filler number {place}"} for place in range(fillers)])
    return folder / "cases.jsonl"


def outcomes(path: Path, policy: str) -> tuple[CaseOutcome, ...]:
    (contender,) = contenders(given=(policy,))
    return judged(read_cases(path), contender, clock=time.perf_counter, advance=lambda _: None)


@pytest.mark.parametrize(
    ("groups", "page", "lost", "stayed"),
    [
        ((), (0, 1, 2), (), ()),
        ((), (0, 2), (1,), ()),
        (((0, 1),), (1, 2), (), ()),
        (((0, 1),), (2, 1, 0), (), (0,)),  # the first of the group on the page is the one that stays
        (((0, 1),), (2,), (0,), ()),
        (((0, 1),), (), (0, 2), ()),
        (((2,), (0, 2), (1, 2)), (2,), (), ()),  # one text says what two others say
        (((2,), (0, 2), (1, 2)), (0, 1), (2,), ()),
        (((2,), (0, 2), (1, 2)), (0, 1, 2), (), (0, 1)),
    ],
)
def test_what_is_lost_and_what_stays(
    groups: tuple[tuple[int, ...], ...], page: tuple[int, ...], lost: tuple[int, ...], stayed: tuple[int, ...]
) -> None:
    judged_case = case(3, *groups)
    assert judged_case.lost(page) == lost
    assert judged_case.staying(page) == stayed


@given(st.lists(st.sets(st.integers(0, 5), min_size=1).map(tuple), max_size=4), st.permutations(range(6)))
def test_without_the_copies_that_stay_nothing_is_lost(groups: list[tuple[int, ...]], page: list[int]) -> None:
    """Invariant: a page of all texts loses nothing, and neither does the page without its copies."""
    judged_case = case(6, *groups)
    assert judged_case.lost(page) == ()
    assert judged_case.lost([text for text in page if text not in judged_case.staying(page)]) == ()


def test_each_case_is_searched_in_both_orders_alone_and_beside_fillers(tmp_path: Path) -> None:
    path = file(tmp_path / "a", {"texts": [RED, BLUE]}, fillers=40)
    (outcome,) = outcomes(path, KEEPS_ALL)
    assert [(page.has_fillers, page.is_reversed) for page in outcome.pages] == [
        (False, False),
        (False, True),
        (True, False),
        (True, True),
    ]
    assert not outcome.loses
    (outcome,) = outcomes(file(tmp_path / "b", {"texts": [RED, BLUE]}), KEEPS_ALL)
    assert [page.is_reversed for page in outcome.pages] == [False, True]


def test_the_better_ranked_text_stays_in_either_order(tmp_path: Path) -> None:
    (outcome,) = outcomes(file(tmp_path / "a", {"texts": [RED, BLUE]}), MERGES_ALL)
    assert [page.lost for page in outcome.pages] == [(1,), (0,)]
    assert outcome.loses


def test_a_copy_that_leaves_is_no_loss_and_nothing_is_wrong_either_way(tmp_path: Path) -> None:
    lines = [{"texts": [RED, f"{RED} "], "groups": [[0, 1]]}, {"texts": [RED, BLUE], "either": True}]
    same, either = outcomes(file(tmp_path / "a", *lines), MERGES_ALL)
    assert [(page.lost, page.stayed) for page in same.pages] == [((), ()), ((), ())]
    assert [page.lost for page in either.pages] == [(1,), (0,)]
    assert not either.loses
    same, _ = outcomes(file(tmp_path / "b", *lines), KEEPS_ALL)
    assert [page.stayed for page in same.pages] == [(1,), (0,)]


def test_vectors_beside_the_file_are_used(tmp_path: Path) -> None:
    path = file(tmp_path / "a", {"texts": [RED, BLUE], "first_vector": 1, "query_vector": 0}, fillers=2)
    np.save(path.parent / "vectors.npy", np.array([[1, 0, 0], [0, 2, 0], [0, 0, 3]], np.float32))
    cases = read_cases(path)
    assert cases.cases[0].query.tolist() == [1, 0, 0]
    assert cases.cases[0].vectors.tolist() == [[0, 1, 0], [0, 0, 1]]
    assert cases.filler_vectors.shape == (2, 3)


def test_without_vectors_the_texts_of_a_case_are_near_and_fillers_are_not(tmp_path: Path) -> None:
    cases = read_cases(file(tmp_path / "a", {"texts": [RED, BLUE]}, fillers=3))
    (only,) = cases.cases
    assert float(only.vectors[0] @ only.vectors[1]) > 0.8
    assert np.abs(cases.filler_vectors @ only.query).max() < 0.6


@pytest.mark.parametrize(
    ("line", "seen"),
    [
        ({"texts": []}, "no text"),
        ({"texts": [RED], "groups": [[]]}, "a group without texts"),
        ({"texts": [RED], "groups": [[0, 1]]}, "not among the 1"),
        ({"texts": [RED], "groups": [[-1]]}, "not among the 1"),
        ({"texts": [RED], "query_vector": 0}, "one of first_vector and query_vector"),
        ({"text": RED}, "texts"),
    ],
)
def test_a_wrong_line_is_named(tmp_path: Path, line: dict[str, object], seen: str) -> None:
    path = file(tmp_path / "a", {"texts": [RED]}, line)
    with pytest.raises(SettingsError) as caught:
        read_cases(path)
    assert "line 2" in str(caught.value)
    assert seen in str(caught.value)


def test_vectors_that_are_not_there_are_named(tmp_path: Path) -> None:
    path = file(tmp_path / "a", {"texts": [RED, BLUE], "first_vector": 0, "query_vector": 2})
    with pytest.raises(SettingsError, match=r"vectors\.f16\.npy"):
        read_cases(path)
    np.save(path.parent / "vectors.npy", np.eye(2, dtype=np.float32))
    with pytest.raises(SettingsError, match="row 2 of 2 vectors"):
        read_cases(path)


def test_the_command_fails_if_a_result_is_lost_and_names_it(tmp_path: Path) -> None:
    path = file(tmp_path / "a", {"kind": "[red]", "name": "gate", "texts": [RED, BLUE]}, {"texts": [BLUE]})
    done = command_line("evaluate", "--cases", str(path), "--policy", MERGES_ALL)
    assert done.returncode == 1
    assert "2 cases, policy own" in done.stdout
    assert f"lost: [red], gate: {RED}" in " ".join(done.stdout.split())
    done = command_line("evaluate", "--cases", str(path), "--policy", KEEPS_ALL, "--json", str(tmp_path / "found.json"))
    assert done.returncode == 0
    content = json.loads((tmp_path / "found.json").read_bytes())
    assert content["passed"] is True
    assert [policy_case["name"] for policy_case in content["policies"]["own"]] == ["gate", ""]


def test_the_command_takes_cases_alone(tmp_path: Path) -> None:
    done = command_line("evaluate", str(tmp_path), "--cases", "cases.jsonl")
    assert done.returncode == 2
    assert "--cases" in done.stderr
