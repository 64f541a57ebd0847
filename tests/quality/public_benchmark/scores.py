"""What a page says of the excerpts that answer a question.

By position, as the benchmark publishes it: an excerpt counts where a chunk of that very place came. By content: where its words came, from any place. A
remover of copies loses by position what is on the page as a copy (Fröbe et al., ECIR 2020), so both are told.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from .corpora import Chunk, Question, shingles

Range = tuple[int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Score:
    """Of one page. Shares from 0 to 1. ``recall``, ``precision``, ``iou``: by position, in characters. ``said``: the share of the excerpts' runs of words
    that the page has. ``answered``: whether it has all of them. ``twice``: the share of its runs that a chunk above has already.
    ``tokens``: its words.
    """

    recall: float
    precision: float
    iou: float
    said: float
    answered: bool
    twice: float
    tokens: int


def scored(question: Question, page: Sequence[Chunk]) -> Score:
    excerpts = union((each.start, each.end) for each in question.excerpts)
    read = [(chunk.start, chunk.end) for chunk in page if chunk.corpus == question.corpus]
    hit, length = overlap(excerpts, union(read)), sum(len(chunk.text) for chunk in page)
    expected, wanted = total(excerpts), [run for each in question.excerpts for run in shingles(each.text)]
    known: set[tuple[str, ...]] = set()
    again = runs = 0
    for chunk in page:
        again += len(known & chunk.shingles)
        runs += len(chunk.shingles)
        known |= chunk.shingles
    text = " ".join(" ".join(run) for run in wanted if len(run) < 5) and " ".join(chunk.text.lower() for chunk in page)
    came = sum(run in known or (len(run) < 5 and " ".join(run) in text) for run in wanted)
    return Score(
        recall=hit / expected,
        precision=hit / length if length else 0.0,
        iou=hit / (expected + length - hit),
        said=came / len(wanted),
        answered=came == len(wanted),
        twice=again / runs if runs else 0.0,
        tokens=sum(len(chunk.text.split()) for chunk in page),
    )


def union(ranges: Iterable[Range]) -> list[Range]:
    """Disjoint ranges, ascending, that cover the same."""
    found: list[Range] = []
    for start, end in sorted(ranges):
        if found and start <= found[-1][1]:
            found[-1] = found[-1][0], max(end, found[-1][1])
        else:
            found.append((start, end))
    return found


def total(ranges: Iterable[Range]) -> int:
    return sum(end - start for start, end in ranges)


def overlap(ranges: Sequence[Range], others: Sequence[Range]) -> int:
    """Characters that two lists of disjoint ranges share."""
    return sum(max(0, min(end, stop) - max(start, begin)) for start, end in ranges for begin, stop in others)
