"""Chunks of one text that overlap: by their spans in a document, or by words, if the end of one is the beginning of the other.

A splitter with an overlap writes the same passage into two adjacent chunks. It may cut at any character, so the first word of the second
chunk and the last word of the first may be incomplete: neither is compared.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ..geometry import Mask
from ..values import FloatMatrix, FloatVector, Indices, Steps
from .bounds import STEP_COST, STEP_WORDS
from .reading import Texts
from .tokens import Hashes

# The fewest whole words of a seam. Phrases of eight words may repeat in a text, but not at the end of one chunk and the beginning of
# another.
SEAM_WORDS = 8
# Places that are compared for one pair: the earliest, which are the longest seams. Only repetitive texts have more.
PLACES = 16
# The cost of comparing a place, 3 µs, and how many words cost as much as a character that is read: 50 texts of one repeated word have 39,000
# places. In one step they held the loop for 850 ms.
COMPARED, WORDS = 40, 100

_MULTIPLIERS = np.random.default_rng(20).integers(0, 1 << 63, SEAM_WORDS).astype(np.uint64) * np.uint64(2) + np.uint64(
    1
)


class Overlaps(NamedTuple):
    """The overlap of pairs (n, m) of candidates as a share of the shorter one, and whether it comes from spans. NaN for pairs that neither
    overlap nor touch.
    """

    shares: FloatMatrix
    by_spans: Mask


def overlaps(texts: Texts, rows: Indices, columns: Indices) -> Steps[Overlaps]:
    """The overlaps of spans of one document, else of texts whose end is the beginning of the other. In steps.

    Spans decide if both are known. Texts of two known documents have no seam.
    """
    shape = (len(rows), len(columns))
    shares, by_spans = np.full(shape, np.nan, np.float32), np.zeros(shape, np.bool_)
    may_have_seam = np.ones(shape, np.bool_)
    if texts.documents is not None:
        same = same_document(texts.documents, rows, columns)
        is_known: Mask = np.array([name is not None for name in texts.documents], dtype=np.bool_)
        may_have_seam = same | ~(is_known[rows][:, None] & is_known[columns][None, :])
        if texts.spans is not None and same.any():
            found = of_spans(texts.spans, rows, columns)
            by_spans = same & ~np.isnan(found)
            shares[by_spans] = found[by_spans]
            has_span = np.isfinite(texts.spans[:, 0] + texts.spans[:, 1])
            may_have_seam &= ~(same & has_span[rows][:, None] & has_span[columns][None, :])
    yield from _add_seams(shares, texts, rows, columns, may_have_seam)
    return Overlaps(shares, by_spans)


def same_document(documents: Sequence[str | None], rows: Indices, columns: Indices) -> Mask:
    """Which pairs (n, m) are known to be of one document."""
    numbers = _numbered(documents)
    mine = numbers[rows][:, None]
    same: Mask = (mine == numbers[columns][None, :]) & (mine >= 0)
    return same


def _numbered(documents: Sequence[str | None]) -> Indices:
    """Documents as numbers (n,), equal for equal documents; -1 without one."""
    known: dict[str, int] = {}
    numbers = [-1 if name is None else known.setdefault(name, len(known)) for name in documents]
    return np.array(numbers, dtype=np.intp)


def of_spans(spans: FloatVector, rows: Indices, columns: Indices) -> FloatMatrix:
    """The share (n, m) of the shorter span [start, end) that both cover: 0 if they touch, NaN if they are apart, or if one is unknown,
    infinite, empty or reversed.
    """
    # Halved, so that the length of any finite span is finite.
    start, end = spans[:, 0] / 2.0, spans[:, 1] / 2.0
    with np.errstate(
        invalid="ignore", over="ignore"
    ):  # far apart, and one has the smallest length of floats: minus infinity
        length = end - start
        length[~(np.isfinite(length) & (length > 0.0))] = np.nan
        both = np.minimum(end[rows][:, None], end[columns][None, :])
        both -= np.maximum(start[rows][:, None], start[columns][None, :])
        share = both / np.minimum(length[rows][:, None], length[columns][None, :])
        share[share < 0.0] = np.nan
    return share.astype(np.float32)


def _add_seams(shares: FloatMatrix, texts: Texts, rows: Indices, columns: Indices, may: Mask) -> Steps[None]:
    used, places = np.unique(np.concatenate((rows, columns)), return_inverse=True)
    hashes = texts.hashes(used.tolist())
    if not may.any():
        return
    found = yield from seams(hashes)
    if not found:
        return
    at_rows, at_columns = places[: len(rows)].tolist(), places[len(rows) :].tolist()
    for row, one in enumerate(at_rows):
        for column, other in enumerate(at_columns):
            share = found.get((one, other), found.get((other, one)))
            if share is not None and may[row, column]:
                shares[row, column] = share


def seams(hashes: Sequence[Hashes]) -> Steps[dict[tuple[int, int], float]]:
    """For (first, second), the share of the shorter text's words in their seam, if the first text's end is the second's beginning, or if
    the first contains the second completely. In steps.
    """
    windows, owners, starts = _windows(hashes)
    beginnings = [place for place, words in enumerate(hashes) if len(words) > SEAM_WORDS]
    if not len(windows) or not beginnings:
        return {}
    keys = np.array([_window(hashes[place][1 : 1 + SEAM_WORDS]) for place in beginnings], np.uint64)
    near = _first_places(windows, owners, np.isin(windows, keys).nonzero()[0])
    by_key: dict[int, list[tuple[int, int]]] = {}
    for key, first, start in zip(windows[near].tolist(), owners[near].tolist(), starts[near].tolist(), strict=True):
        by_key.setdefault(key, []).append((first, start))
    if len(windows) > STEP_WORDS:
        yield
    found: dict[tuple[int, int], float] = {}
    cost = 0
    for second, key in zip(beginnings, keys.tolist(), strict=True):
        for first, start in by_key.get(key, ()):
            if first == second or (first, second) in found:
                continue
            share = _seam(hashes[first], hashes[second], start)
            if share is not None:
                found[first, second] = share
            cost += COMPARED + len(hashes[second]) // WORDS
            if cost > STEP_COST:
                cost = 0
                yield
    return found


def _first_places(windows: Hashes, owners: Indices, near: Indices) -> Indices:
    """The first PLACES of these windows that are equal in one text, in order. In "1, 1, 1" all are."""
    order = np.lexsort((near, owners[near], windows[near]))
    window, owner = windows[near][order], owners[near][order]
    is_new = np.ones(len(order), np.bool_)
    is_new[1:] = (window[1:] != window[:-1]) | (owner[1:] != owner[:-1])
    begins = is_new.nonzero()[0]
    rank = np.arange(len(order)) - begins[is_new.cumsum() - 1] if len(order) else order
    kept: Indices = near[np.sort(order[rank < PLACES])]
    return kept


def _windows(hashes: Sequence[Hashes]) -> tuple[Hashes, Indices, Indices]:
    """Every run of SEAM_WORDS words as one number, its text, and its start."""
    counts = np.array([max(len(words) - SEAM_WORDS + 1, 0) for words in hashes], np.intp)
    values = [_runs(words) for words in hashes if len(words) >= SEAM_WORDS]
    owners = np.repeat(np.arange(len(hashes), dtype=np.intp), counts)
    starts = np.arange(len(owners), dtype=np.intp) - np.repeat(np.cumsum(counts) - counts, counts)
    return (np.concatenate(values) if values else np.empty(0, np.uint64)), owners, starts


def _runs(words: Hashes) -> Hashes:
    count = len(words) - SEAM_WORDS + 1
    found = np.zeros(count, np.uint64)
    for place, multiplier in enumerate(_MULTIPLIERS):
        found += words[place : place + count] * multiplier
    return found


def _window(words: Hashes) -> np.uint64:
    return np.uint64(_runs(words)[0])


def _seam(first: Hashes, second: Hashes, start: int) -> float | None:
    """The share of the seam whose second word of the second text is at ``start`` of the first; None if there is no seam."""
    whole = len(second) - 2  # its words without the first and the last
    behind = len(first) - start - 1  # the first text's words without the last
    length = min(behind, whole)
    if length < SEAM_WORDS - 1 or not np.array_equal(first[start : start + length], second[1 : 1 + length]):
        return None
    shorter = min(len(first), len(second))
    return min(length + 2, shorter) / shorter
