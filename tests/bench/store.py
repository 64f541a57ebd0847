"""What the benchmark's database holds: points in topics, near-copies among them, questions, and the true ranking of each question.

Deterministic: the database and the side that asks build the same store, each in its own process.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from bench.passages import drawn
from bench.pools import COPY_NOISE, GROUPS

POINTS = {384: 20_000, 1536: 5_000}  # as JSON 80 and 85 MB
QUESTIONS = 1_000
NEIGHBOURS = 80  # a new pool is 50 of a question's 80 nearest points
TOPIC_POINTS = 100
WORDS = 80  # with the other members the payload comes to some 600 bytes
# Cosines: a passage to its topic and a question to its topic; a passage then lies some 0.6 from its question.
PASSAGE_IN_TOPIC, QUESTION_IN_TOPIC = 0.75, 0.85

Rows = npt.NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Store:
    """``neighbours``: (questions, 80) rows, best first; ``scores``: their cosines, float32 as a database computes them."""

    vectors: Rows
    texts: list[str]
    questions: Rows
    neighbours: npt.NDArray[np.intp]
    scores: Rows


def store(dimensions: int, *, points: int | None = None, questions: int = QUESTIONS) -> Store:
    """The store of this size. Same arguments, same store."""
    count = points or POINTS[dimensions]
    generator = np.random.default_rng(dimensions)
    sizes = np.tile(GROUPS, count // sum(GROUPS) + 1)
    passage = np.repeat(np.arange(len(sizes)), sizes)[:count]
    copy = (np.arange(count) - np.searchsorted(passage, passage)).tolist()
    topics = _unit(generator.standard_normal((count // TOPIC_POINTS + 1, dimensions)))
    topic = np.arange(count) // TOPIC_POINTS
    # A passage that crosses the end of a topic stays in the topic of its first copy.
    first = topic[np.searchsorted(passage, passage)]
    vectors = _near(topics[first], PASSAGE_IN_TOPIC, generator, same_for=passage)
    vectors = _unit(vectors + COPY_NOISE * _unit(generator.standard_normal(vectors.shape)))
    near_topics = _near(topics[generator.integers(0, topic[-1] + 1, questions)], QUESTION_IN_TOPIC, generator)
    words = drawn((int(passage[-1]) + 1) * WORDS, seed=dimensions)
    texts = [
        _text(words[place * WORDS : (place + 1) * WORDS], number) for place, number in zip(passage, copy, strict=True)
    ]
    order = generator.permutation(count)  # ids say nothing of who is whose copy
    rows, queries = vectors[order].astype(np.float32), near_topics.astype(np.float32)
    cosines = queries @ rows.T
    best = np.argsort(-cosines, axis=1, kind="stable")[:, :NEIGHBOURS]
    return Store(rows, [texts[place] for place in order], queries, best, np.take_along_axis(cosines, best, axis=1))


def _near(
    centres: npt.NDArray[np.float64],
    cosine: float,
    generator: np.random.Generator,
    *,
    same_for: npt.NDArray[np.intp] | None = None,
) -> npt.NDArray[np.float64]:
    """Unit rows at this cosine to their centres; rows of one group are the same row."""
    away = generator.standard_normal((len(centres) if same_for is None else int(same_for[-1]) + 1, centres.shape[1]))
    if same_for is not None:
        away = away[same_for]
    return _unit(cosine * centres + np.sqrt(1.0 - cosine**2) * _unit(away))


def _text(words: list[str], copy: int) -> str:
    """The first of a passage's copies as it is; the others the same, under a heading, or with some words replaced."""
    if copy == 2:
        return "From the handbook: " + " ".join(words)
    if copy == 3:
        return " ".join([*words[:20], "slightly", "reworded", *words[22:]])
    return " ".join(words)


def _unit(rows: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    unit: npt.NDArray[np.float64] = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    return unit
