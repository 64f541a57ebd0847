"""Our reader, ranking and measures against those that come with the labelled sets, written by other hands."""

from __future__ import annotations

import importlib.util
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from support.jobs.eval_data import NEEDS_EVAL_DATA, folder
from vecsieve.proxy.jobs.evaluate.judging import Judge, evaluated
from vecsieve.proxy.jobs.evaluate.reading import read_set
from vecsieve.proxy.jobs.evaluate.searching import PLAIN, Contender, TrialOutcome, contenders, neighbours
from vecsieve.proxy.jobs.evaluate.summary import SetSummary, summarised

DATA = folder()
pytestmark = [
    NEEDS_EVAL_DATA,
    pytest.mark.skipif(
        DATA is not None and not (DATA / "quality.py").exists(), reason="these sets bring no quality.py"
    ),
]
# Versions of documents, closed lists, distractors from another set, several needs a query.
SETS = ("docs_versions", "dirty", "xquad_multi", "perspectrum")
POOL = 40
TOP_K = 8
EVERY = 10


@pytest.fixture(scope="module")
def theirs() -> Any:
    assert DATA is not None
    spec = importlib.util.spec_from_file_location("labelled_set_metrics", DATA / "quality.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def collection(theirs: Any, name: str) -> Any:
    assert DATA is not None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)  # their reader leaves its files to the garbage collector
        return theirs.Collection(str(DATA / name))


def answers(name: str, contender: Contender) -> tuple[SetSummary, list[list[int]], list[list[int]]]:
    """Our figures of every tenth query, and the lists that they are of: the policy's and the plain ones."""
    assert DATA is not None
    run: list[list[int]] = []
    original = Judge.judged

    def recorded(judge: Judge, result: TrialOutcome) -> Any:
        run.append(list(result.rows))
        return original(judge, result)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Judge, "judged", recorded)
        outcome = evaluated(
            read_set(DATA / name),
            [contender],
            top_k=TOP_K,
            every=EVERY,
            clock=time.perf_counter,
            advance=lambda _done: None,
        )
    summary = summarised([outcome], draws=0, seed=0)
    assert list(summary) == [PLAIN, contender.name]
    return summary[contender.name].sets[0], run[1::2], run[::2]


@pytest.mark.parametrize("name", SETS)
def test_our_ranking_is_theirs(theirs: Any, name: str) -> None:
    assert DATA is not None
    rows, scores = collection(theirs, name).knn(POOL)
    for number, ranking in neighbours(read_set(DATA / name), every=EVERY):
        ours = ranking.first(POOL)
        there = rows[number] >= 0
        assert len(ours) == there.sum()
        # Their float32 products tell copies apart by a last bit, ours do not: place by place the scores are the same.
        np.testing.assert_allclose(ranking.similarities[ours], scores[number][there], atol=1e-6)
        np.testing.assert_allclose(ranking.similarities[rows[number][there]], scores[number][there], atol=1e-6)


@pytest.mark.parametrize("policy", ["own=classical", "own={short: allow}"])
@pytest.mark.parametrize("name", SETS)
def test_our_measures_are_theirs(theirs: Any, name: str, policy: str) -> None:
    judged, run, plain = answers(name, contenders(given=[policy])[0])
    their = collection(theirs, name)
    their.queries = their.queries[::EVERY]
    scores = theirs.evaluate(their, run, plain, TOP_K)
    ours = {
        "n": judged.returned,
        "redundancy": judged.redundancy,
        "collapse": judged.collapsed,
        "unique_doc": judged.documents,
        "s_recall": judged.recall,
        "alpha_ndcg": judged.alpha_ndcg,
        "ndcg": judged.ndcg,
        "hit": judged.hit,
        "retain": judged.retention.value,
        "retain_sub": judged.retained_subtopics,
    }
    np.testing.assert_allclose([ours[key] for key in ours], [scores[key] for key in ours], rtol=1e-12)
    assert judged.plain_redundancy == pytest.approx(
        theirs.evaluate(their, plain, plain, TOP_K)["redundancy"], rel=1e-12
    )


def test_the_folder_is_the_one_that_was_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("VECSIEVE_EVAL_DATA", str(tmp_path))
    assert folder() is None
