"""A whole set: every contender on every query, judged beside the plain answer."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from support.jobs.labelled_folders import BY_VECTORS, CORPUS, QUERIES, labelled_folder
from vecsieve.proxy.jobs.evaluate.judging import SetOutcome, evaluated
from vecsieve.proxy.jobs.evaluate.reading import LabelledSet, read_set
from vecsieve.proxy.jobs.evaluate.searching import PLAIN, contenders


def outcome(labelled: LabelledSet, *given: str, every: int = 1) -> tuple[SetOutcome, int]:
    done: list[int] = []
    found = evaluated(
        labelled, contenders(given=given), top_k=3, every=every, clock=time.perf_counter, advance=done.append
    )
    return found, sum(done)


def test_a_set_worked_out_by_hand(tmp_path: Path) -> None:
    found, done = outcome(read_set(labelled_folder(tmp_path / "tiny")), f"own={BY_VECTORS}")
    assert (found.name, found.queries, done) == ("tiny", 2, 2)
    assert list(found.by_contender) == [PLAIN, "own"]
    plain, own = found.by_contender[PLAIN], found.by_contender["own"]
    assert plain.redundancy.tolist() == [pytest.approx(1 / 3), 0.0]
    assert plain.recall.tolist() == [0.5, 1.0]
    assert own.redundancy.tolist() == [0.0, 0.0]
    assert own.recall.tolist() == [1.0, 1.0]
    assert own.retained.tolist() == [1.0, 1.0]
    assert own.returned.tolist() == [3.0, 3.0]


def test_every_so_many_queries_are_asked(tmp_path: Path) -> None:
    labelled = read_set(
        labelled_folder(tmp_path / "tiny", queries=QUERIES * 3, query_vectors=[[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]] * 3)
    )
    whole, _ = outcome(labelled, f"own={BY_VECTORS}")
    some, done = outcome(labelled, f"own={BY_VECTORS}", every=4)
    assert (some.queries, done) == (2, 2)
    assert some.by_contender["own"].recall.tolist() == whole.by_contender["own"].recall[[0, 4]].tolist()


def test_only_contenders_take_time(tmp_path: Path) -> None:
    found, _ = outcome(read_set(labelled_folder(tmp_path / "tiny")), f"own={BY_VECTORS}")
    assert found.by_contender[PLAIN].added_seconds.tolist() == [0.0, 0.0]
    assert (found.by_contender["own"].added_seconds > 0.0).all()


def test_the_same_data_gives_the_same_answers_twice(tmp_path: Path) -> None:
    labelled = read_set(labelled_folder(tmp_path / "tiny"))
    one, other = (outcome(labelled, "a=classical", "b={}")[0] for _ in range(2))
    for name in ("a", "b"):
        assert one.by_contender[name].alpha_ndcg.tolist() == other.by_contender[name].alpha_ndcg.tolist()


def test_tenants_are_read_from_the_set_s_own_payload(tmp_path: Path) -> None:
    labelled = read_set(labelled_folder(tmp_path / "tiny", corpus=CORPUS))
    apart = BY_VECTORS.replace("{linkage", "{tenant_keys: [source], linkage")
    found, _ = outcome(labelled, f"own={BY_VECTORS}", f"apart={apart}")
    assert found.by_contender["own"].redundancy[0] == 0.0
    assert found.by_contender["apart"].redundancy[0] == pytest.approx(1 / 3)  # the copy is from another source
