"""Headers and footers: first and last lines that three or more texts of a pool have, digits apart.

Pipelines put them around every chunk of a document: a running title, a breadcrumb, a notice. They are set aside only after the whole text was
judged. A text with a line of the same frame and another filling (Acme and Bolt, 2023 and 2024) says something else, so it covers nothing then.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from ..reading.text import Passage, Text

# Different texts that must have a line before it counts as a frame.
MEMBERS = 3
# Lines at each end.
DEPTH = 4
# Tokens of a frame's lines.
LONGEST = 60
# Tokens that must be left.
LEAST = 6

_DIGITS = re.compile("\\d+")
Key = tuple[bool, tuple[str, ...]]


class Frames:
    """The frames of a pool's texts, computed when a text first asks for its own: of most pools nobody does. ``texts``: those that are read."""

    __slots__ = ("_keys", "_texts")

    def __init__(self, texts: Sequence[Text | None] = ()) -> None:
        self._texts = [text for text in texts if text is not None and "\n" in text.raw]
        self._keys: frozenset[Key] | None = None

    def inside(self, text: Text, passage: Passage) -> tuple[int, int]:
        """The tokens of a passage between its header and its footer."""
        size = len(passage.tokens)
        if len(self._texts) < MEMBERS or len(passage.rows) <= 2:
            return 0, size
        if self._keys is None:
            self._keys = _shared(self._texts)
        start, end = 0, size
        for depth in range(1, _depth(passage) + 1):
            start = passage.rows[depth] if _key(passage, depth, is_footer=False) in self._keys else start
            end = passage.rows[-1 - depth] if _key(passage, depth, is_footer=True) in self._keys else end
        return (start, end) if end - start >= LEAST else (0, size)


NO_FRAMES = Frames()


def _shared(texts: Sequence[Text]) -> frozenset[Key]:
    """The outermost lines that three or more texts with different bodies have."""
    bodies: dict[Key, set[tuple[str, ...]]] = {}
    for text in texts:
        passage = text.passages()[0]
        for depth in range(1, _depth(passage) + 1):
            for is_footer in (False, True):
                border = passage.rows[-1 - depth] if is_footer else passage.rows[depth]
                body = passage.tokens[:border] if is_footer else passage.tokens[border:]
                if len(passage.tokens) - len(body) <= LONGEST:
                    bodies.setdefault(_key(passage, depth, is_footer=is_footer), set()).add(body)
    return frozenset(key for key, members in bodies.items() if len(members) >= MEMBERS)


def _depth(passage: Passage) -> int:
    """How many lines at each end may be a frame: not all."""
    return min(DEPTH, len(passage.rows) - 2)


def _key(passage: Passage, depth: int, *, is_footer: bool) -> Key:
    rows = passage.rows
    tokens = passage.tokens[rows[-1 - depth] :] if is_footer else passage.tokens[: rows[depth]]
    return is_footer, tuple(_DIGITS.sub("0", token) for token in tokens[: LONGEST + 1])


def has_another_filling(passage: Passage, start: int, end: int, other: Passage) -> bool:
    """Whether ``other`` has, at one of its ends, a line that is like one outside of ``start`` to ``end``, but not equal."""
    own = [line for line in _rows(passage, 0, start) + _rows(passage, end, len(passage.tokens)) if line]
    size = len(other.tokens)
    rows = other.rows
    theirs = [
        other.tokens[first:last]
        for place, (first, last) in enumerate(zip(rows, rows[1:], strict=False))
        if place < DEPTH or last > rows[-1 - min(DEPTH, len(rows) - 1)]
    ]
    return size > 0 and any(
        line != row and _are_alike(line, row) for line in own for row in theirs if line not in theirs
    )


def _rows(passage: Passage, start: int, end: int) -> list[tuple[str, ...]]:
    marks = [start, *(row for row in passage.rows if start < row < end), end]
    return [passage.tokens[first:last] for first, last in zip(marks, marks[1:], strict=False)]


def _are_alike(one: tuple[str, ...], other: tuple[str, ...]) -> bool:
    """Whether two lines have half of their tokens in common at their ends."""
    most = min(len(one), len(other))
    first = next((place for place in range(most) if one[place] != other[place]), most)
    last = next((place for place in range(most - first) if one[-1 - place] != other[-1 - place]), most - first)
    return 2 * (first + last) >= max(len(one), len(other))
