"""Headers and footers: first and last lines that three or more texts of a pool have, digits apart.

Pipelines put them around every chunk of a document: a running title, a breadcrumb, a notice. They are set aside only after the whole text was
judged. A text with a line of the same frame and another filling (Acme and Bolt, 2023 and 2024) says something else, so it covers nothing then.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

from ..reading.text import Passage, Text
from ..reading.words import word_set

# Different texts that must have a line before it counts as a frame.
MEMBERS = 3
# Lines at each end.
DEPTH = 4
# Tokens of a frame's lines.
LONGEST = 60
# Tokens that must be left.
LEAST = 6

# Words that begin a line of metadata within a text. Where it comes from is no part of what it says, there as in a payload.
_PROVENANCE = word_set(
    "source sourcedocument source_document file filename file_name file_path filepath path url uri link published created modified updated crawled retrieved indexed"
)

_DIGITS = re.compile("\\d+")


class Frames:
    """The frames of a pool's texts, computed when a text first asks for its own: of most pools nobody does. ``texts``: those that are read."""

    __slots__ = ("_keys", "_texts", "is_asked")

    def __init__(self, texts: Sequence[Text | None] = ()) -> None:
        self.is_asked = False  # whether a verdict depends on these texts
        self._texts = [text for text in texts if text is not None and "\n" in text.raw]
        self._keys: frozenset[int] | None = None

    def inside(self, text: Text, passage: Passage) -> tuple[int, int]:
        """The tokens of a passage between its header and its footer."""
        start, end = 0, len(passage.tokens)
        if len(passage.rows) <= 2:
            return start, end
        self.is_asked = True
        if len(self._texts) < MEMBERS:
            return start, end
        if self._keys is None:
            self._keys = _shared(self._texts)
        if not self._keys:
            return start, end
        for edge in edges_of(text):
            if edge.key in self._keys and edge.depth < len(passage.rows) - 1:
                if edge.is_footer:
                    end = passage.rows[-1 - edge.depth]
                else:
                    start = passage.rows[edge.depth]
        return (start, end) if end - start >= LEAST else (0, len(passage.tokens))


class Edge(NamedTuple):
    """The outermost lines of a text. ``key``: equal for lines that are equal but for digits; ``body``: for equal rests. Both within this process."""

    is_footer: bool
    depth: int
    key: int
    body: int


def edges_of(text: Text) -> tuple[Edge, ...]:
    """The edges of a text, the smallest first; kept with it."""
    if text.edges is None:
        text.edges = tuple(_edges(text.passages()[0]))
    return text.edges


def _edges(passage: Passage) -> Iterator[Edge]:
    rows, tokens = passage.rows, passage.tokens
    for is_footer in (False, True):
        for depth in range(1, min(DEPTH, len(rows) - 2) + 1):
            border = rows[-1 - depth] if is_footer else rows[depth]
            lines, body = (tokens[border:], tokens[:border]) if is_footer else (tokens[:border], tokens[border:])
            if len(lines) > LONGEST:
                break
            key = _DIGITS.sub("0", "\n".join(lines).lower())
            yield Edge(is_footer, depth, hash((is_footer, key)), hash(body))


def _shared(texts: Sequence[Text]) -> frozenset[int]:
    """The edges that three or more texts with different bodies have."""
    bodies: dict[int, set[int]] = {}
    for text in texts:
        for edge in edges_of(text):
            bodies.setdefault(edge.key, set()).add(edge.body)
    return frozenset(key for key, members in bodies.items() if len(members) >= MEMBERS)


def has_another_filling(passage: Passage, start: int, end: int, other: Passage) -> bool:
    """Whether ``other`` has, at one of its ends, another line that is like one outside of ``start`` to ``end``, or begins with another subject."""
    own = [line for line in _rows(passage, 0, start) + _rows(passage, end, len(passage.tokens)) if _names(line)]
    size = len(other.tokens)
    rows = other.rows
    theirs = [
        other.tokens[first:last]
        for place, (first, last) in enumerate(pairwise(rows))
        if place < DEPTH or last > rows[-1 - min(DEPTH, len(rows) - 1)]
    ]
    return size > 0 and (
        any(line != row and _are_alike(line, row) for line in own for row in theirs if line not in theirs)
        or (start > 0 and _is_another_subject(passage, other))
    )


def _is_another_subject(passage: Passage, other: Passage) -> bool:
    """Whether both begin with a short line, and these have no word in common: Berlin and Munich."""
    one, subject = passage.tokens[: passage.rows[1]], other.tokens[: other.rows[1]]
    return (
        max(len(one), len(subject)) < LEAST and _names(one) and _names(subject) and not {*subject} & {*passage.tokens}
    )


def _names(line: tuple[str, ...]) -> bool:
    """Whether a line may say what a text is about: neither where it comes from nor a page number."""
    return bool(line) and line[0].lower() not in _PROVENANCE and any(map(str.isalpha, line))


def _rows(passage: Passage, start: int, end: int) -> list[tuple[str, ...]]:
    marks = [start, *(row for row in passage.rows if start < row < end), end]
    return [passage.tokens[first:last] for first, last in pairwise(marks)]


def _are_alike(one: tuple[str, ...], other: tuple[str, ...]) -> bool:
    """Whether two lines have half of their tokens in common at their ends."""
    most = min(len(one), len(other))
    first = next((place for place in range(most) if one[place] != other[place]), most)
    last = next((place for place in range(most - first) if one[-1 - place] != other[-1 - place]), most - first)
    return 2 * (first + last) >= max(len(one), len(other))
