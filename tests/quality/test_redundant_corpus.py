"""A redundant corpus in RARE's manner: what states a fact is in its group, what resembles it is not."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from quality.public_benchmark.corpora import Matrix
from quality.redundant_corpus import build

from vecsieve.proxy.jobs.evaluate.judging import evaluated
from vecsieve.proxy.jobs.evaluate.reading import read_set
from vecsieve.proxy.jobs.evaluate.searching import PLAIN, contenders

ROWS = {
    "a": "The bridge over the Elbe was built in 1893 by two brothers. It carries trams and carriages. Its toll ended after thirty years.",
    "b": "Two brothers from Riga founded a shipyard that made barges of steel. They built the bridge over the Elbe as well.",
    "c": "A recipe for soup wants leeks, potatoes, cream and an hour of patience on a small flame.",
}
WORDS = sorted({word for text in ROWS.values() for word in text.lower().split()})


def embed(texts: Sequence[str]) -> Matrix:
    """How often each word stands in each text."""
    return np.array([[text.lower().split().count(word) + 1e-3 for word in WORDS] for text in texts], np.float32)


def test_groups_have_what_states_a_fact_and_copies_leave_without_a_loss(tmp_path: Path) -> None:
    source, folder = tmp_path / "source", tmp_path / "built"
    source.mkdir()
    rows = [{"id": row, "text": text} for row, text in ROWS.items()]
    question = {
        "text": "who built the bridge over the Elbe, and what did they found",
        "subtopics": {"bridge": ["a"], "yard": ["b"]},
    }
    (source / "corpus.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (source / "queries.jsonl").write_text(json.dumps(question) + "\n")
    assert build(source, folder, embed) == (12, 8)
    built = json.loads((folder / "queries.jsonl").read_text())
    assert built["subtopics"] == {
        "bridge": ["a", "a.filing", "a.extract", "a.report", "b.report"],
        "yard": ["a.report", "b", "b.filing", "b.extract", "b.report"],
    }
    evaluation = evaluated(
        read_set(folder),
        contenders(given=("own=default",), config=None, pool=None),
        top_k=3,
        every=1,
        clock=lambda: 0.0,
        advance=lambda _: None,
    )
    plain, custom = evaluation.by_contender[PLAIN], evaluation.by_contender["own"]
    assert (custom.perfect[0], plain.perfect[0]) == (1.0, 1.0)
    assert custom.walked[0] > 0  # left out: other versions of both passages, and no sibling
    assert custom.walked_wrong_label[0] == custom.walked_wrong_text[0] == 0
