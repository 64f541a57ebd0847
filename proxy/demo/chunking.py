"""Overlapping windows over a stream of words, as document loaders cut them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

WINDOW_WORDS = 100
OVERLAP_WORDS = 25  # 25 %, the usual advice to loaders, and one of the two natural sources of near-copies here


@dataclass(frozen=True, slots=True)
class Word:
    """One word and the title it stands under."""

    text: str
    title: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """One chunk: ``position`` is its number within the document, ``title`` the one most of its words stand under."""

    text: str
    title: str
    position: int


def windows(words: Sequence[Word]) -> tuple[Window, ...]:
    """Cut ``words`` into windows of 100 with 25 in common; the last one may be shorter. No words, no windows."""
    stride = WINDOW_WORDS - OVERLAP_WORDS
    starts = range(0, max(1, len(words) - OVERLAP_WORDS), stride) if words else ()
    return tuple(_window(words[start : start + WINDOW_WORDS], position) for position, start in enumerate(starts))


def _window(words: Sequence[Word], position: int) -> Window:
    # most_common keeps insertion order among equals: of two titles with as many words, the first one in the text.
    title = Counter(word.title for word in words).most_common(1)[0][0]
    return Window(text=" ".join(word.text for word in words), title=title, position=position)
