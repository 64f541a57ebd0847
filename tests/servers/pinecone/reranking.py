"""A toy reranker: the share of the question's words that a text has, and a little for being short."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from servers.pinecone.embedding import words


def relevance(question: str, text: str) -> float:
    """From 0 to 1, a float32 widened to a Python float; the same texts always score the same."""
    wanted, given = set(words(question)), words(text)
    shared = wanted & set(given)
    if not shared:
        return 0.0
    return float(np.float32(0.99 * len(shared) / len(wanted) + 0.01 / len(given)))


def reranked(question: str, texts: Sequence[str]) -> list[tuple[int, float]]:
    """Places and scores, the most relevant first; equals keep their order."""
    scored = [(place, relevance(question, text)) for place, text in enumerate(texts)]
    return sorted(scored, key=lambda item: -item[1])
