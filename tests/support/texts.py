"""Texts for tests: any Unicode, texts that share passages, and rules with only what a test asks for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from hypothesis import strategies as st

from vecsieve.proxy.selection.policy import Require, TextRules
from vecsieve.proxy.selection.text.matching import Matches, matches
from vecsieve.proxy.selection.text.reading import Texts, read
from vecsieve.proxy.selection.values import Metadata

# Every code point, lone surrogates too: a JSON string may hold them.
ANY_TEXT = st.text(st.characters(exclude_categories=()))

# What goes wrong first: blanks of all kinds, hyphens at line ends, invisible characters, letters that fold to several.
ODD_TEXT = st.text(
    st.sampled_from(
        [*"aB1_-.\n\r\t ß", *"\u00ad\u200b\u00a0\u2028\u0390\u0345\u0301", "ﬁ", "漢", "ก", "क", "ि", "م", "👍"]
    )
)

WORDS = ("red", "green", "blue", "one", "two", "three", "漢", "ü", "x1")


def passages(*, smallest: int = 0, largest: int = 30) -> st.SearchStrategy[str]:
    """Texts of few different words, so that any two share some 3-grams."""
    return st.lists(st.sampled_from(WORDS), min_size=smallest, max_size=largest).map(" ".join)


def rules(**on: Any) -> TextRules:
    """Text rules with everything switched off but ``on``."""
    off: dict[str, Any] = {
        "identical": False,
        "containment": None,
        "jaccard": None,
        "simhash": None,
        "minhash": None,
        "indel": None,
        "require": Require.ANY,
        "span": None,
        "reach": None,
        "short_words": 0,
        "short_factor": 1.0,
    }
    return TextRules(**{**off, **on})


def texts(*known: str | None, learn_from: slice = slice(None)) -> Texts:
    """These texts, read."""
    return read(Metadata(texts=known), rules(), learn_from=learn_from)


def matched(metadata: Metadata, count: int, on: TextRules) -> Matches:
    """All pairs of ``count`` candidates but each with itself."""
    each = np.arange(count, dtype=np.intp)
    return matches(read(metadata, on), each, each, ~np.eye(count, dtype=np.bool_), on)


def gram_sets(known: Sequence[Sequence[str]]) -> list[set[tuple[str, ...]]]:
    """The 3-grams of texts given as words, the slow way: fewer than three words are one gram of what there is."""
    return [{tuple(words[i : i + 3]) for i in range(max(len(words) - 2, 1))} if words else set() for words in known]
