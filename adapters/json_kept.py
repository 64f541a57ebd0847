"""Some of an array's elements, in another order, cut from the text they came in.

What stands around and between the elements stays: keeping all of them in order changes no byte.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from vecsieve.adapters.json_spans import Span
from vecsieve.adapters.json_vectors import Shortened

Edit = tuple[int, int, bytes]
"""Replace the bytes from start to end."""


def kept_inside(
    source: Shortened, array: Span, spans: Sequence[Span], kept: Sequence[int], edits: Callable[[int], list[Edit]]
) -> list[bytes]:
    """The inside of ``array`` with the elements at ``spans`` that ``kept`` names, in that order; join the pieces.

    An element brings the separator that stood before it. ``edits(i)``: what changes in element i, disjoint, any order.
    """
    start, end = array
    if not spans:
        return [source.cut(start + 1, end - 1)]
    if not kept:
        return []
    pieces = [source.cut(start + 1, spans[0][0])]
    for place, index in enumerate(kept):
        if place:
            pieces.append(source.cut(spans[index - 1][1], spans[index][0]) if index else b",")
        pieces += edited(source, spans[index], edits(index))
    pieces.append(source.cut(spans[-1][1], end - 1))
    return pieces


def edited(source: Shortened, span: Span, edits: Sequence[Edit]) -> list[bytes]:
    """The bytes of ``span`` with its edits, which are disjoint, in any order; join the pieces."""
    pieces: list[bytes] = []
    position = span[0]
    for start, end, replacement in sorted(edits):
        pieces += (source.cut(position, start), replacement)
        position = end
    pieces.append(source.cut(position, span[1]))
    return pieces
