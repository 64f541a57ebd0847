"""What a page says of the excerpts that answer a question.

By position, as the benchmark publishes it: an excerpt counts where a chunk of that very place came. By content: where its words came, from any place. A
remover of copies loses by position what is on the page as a copy (Fröbe et al., ECIR 2020), so both are told.

By content, chunks of one source that overlap, or of which one begins where the other ends, count as the passage that they are. Else no chunking without
overlap could have an excerpt across a border, though all of it is on the page. How many excerpts stand in one chunk is told beside it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from .corpora import SHINGLE, Chunk, Question, shingles

Range = tuple[int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Score:
    """Of one page. Shares from 0 to 1. ``recall``, ``precision``, ``iou``: by position, in characters. ``stated``: the share of the excerpts' runs of words
    that the page has. ``answered``: whether it has all of them. ``unbroken``: whether single chunks have all of them. ``twice``: the share of its runs
    that a chunk above has already. ``tokens``: its words.
    """

    recall: float
    precision: float
    iou: float
    stated: float
    answered: bool
    unbroken: bool
    twice: float
    tokens: int


def scored(question: Question, page: Sequence[Chunk], corpora: Mapping[str, str]) -> Score:
    """``corpora``: their texts, by name."""
    excerpts = union((excerpt.start, excerpt.end) for excerpt in question.excerpts)
    read = [(chunk.start, chunk.end) for chunk in page if chunk.corpus == question.corpus]
    hit, length = overlap(excerpts, union(read)), sum(len(chunk.text) for chunk in page)
    expected, expected_runs = total(excerpts), [run for excerpt in question.excerpts for run in shingles(excerpt.text)]
    known: set[tuple[str, ...]] = set()
    again = runs = 0
    for chunk in page:
        again += len(known & chunk.shingles)
        runs += len(chunk.shingles)
        known |= chunk.shingles
    pieces = [chunk.text for chunk in page]
    joined = passages(page, corpora)
    came = [_came(expected_runs, known, pieces), _came(expected_runs, known.union(*map(shingles, joined)), joined)]
    return Score(
        recall=hit / expected,
        precision=hit / length if length else 0.0,
        iou=hit / (expected + length - hit),
        stated=came[1] / len(expected_runs),
        answered=came[1] == len(expected_runs),
        unbroken=came[0] == len(expected_runs),
        twice=again / runs if runs else 0.0,
        tokens=sum(len(chunk.text.split()) for chunk in page),
    )


def _came(runs: Sequence[tuple[str, ...]], known: AbstractSet[tuple[str, ...]], texts: Sequence[str]) -> int:
    """How many of these runs are known; the whole of a shorter excerpt is looked for in the texts."""
    text = " ".join(texts).lower() if any(len(run) < SHINGLE for run in runs) else ""
    return sum(run in known or (len(run) < SHINGLE and " ".join(run) in text) for run in runs)


def passages(page: Sequence[Chunk], corpora: Mapping[str, str]) -> list[str]:
    """The text of the page's chunks, as one piece where they overlap or nothing but blanks stands between them."""
    pieces: list[str] = []
    for corpus in dict.fromkeys(chunk.corpus for chunk in page):
        text = corpora[corpus]
        begun = -1
        end = 0
        for start, stop in union((chunk.start, chunk.end) for chunk in page if chunk.corpus == corpus):
            if begun >= 0 and text[end:start].strip():
                pieces.append(text[begun:end])
                begun = -1
            begun, end = start if begun < 0 else begun, stop
        pieces.append(text[begun:end])
    return pieces


def union(ranges: Iterable[Range]) -> list[Range]:
    """Disjoint ranges, ascending, that cover the same."""
    merged: list[Range] = []
    for start, end in sorted(ranges):
        if merged and start <= merged[-1][1]:
            merged[-1] = merged[-1][0], max(end, merged[-1][1])
        else:
            merged.append((start, end))
    return merged


def total(ranges: Iterable[Range]) -> int:
    return sum(end - start for start, end in ranges)


def overlap(ranges: Sequence[Range], others: Sequence[Range]) -> int:
    """Characters that two lists of disjoint ranges share."""
    return sum(max(0, min(end, stop) - max(start, begin)) for start, end in ranges for begin, stop in others)
