"""Two answers to one question, laid side by side: what stands for what, what was kept apart, what came in."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median

import numpy as np

from vecsieve.proxy.demo.corpus import Corpus, Vectors
from vecsieve.proxy.demo.database import Answer
from vecsieve.proxy.demo.reasons import Pool, Reasons, Verdict, explain
from vecsieve.proxy.selection.policy import Relative
from vecsieve.proxy.selection.thresholds import cuts
from vecsieve.proxy.selection.values import Link, Veto

# What it means that a result repeats an earlier one: by vector, and, independently of any vector, by wording.
#
# The yardstick for counting, the same for every list and not what VecSieve chooses by: a proxy that is judged by its own cut
# finds no repeat in its own answers. Both look only at the list as a reader meets it, from the top: the first of two copies
# is never the repeat.

RUN_WORDS = 3  # three words in a row rarely coincide by chance, and survive small edits better than longer runs
RETOLD_SHARE = 0.5  # half said before: less than half of the result is news
# One share for every place of the list. It was VecSieve's own cut until that grew down the page; now it is nobody's.
NEAR = Relative(factor=0.20, minimum=0.02, maximum=0.30)


@dataclass(frozen=True, slots=True, kw_only=True)
class Nearest:
    """The nearest earlier result: its place in the list (from 0) and its cosine distance."""

    place: int
    distance: float


def nearest_earlier(vectors: Vectors) -> tuple[Nearest | None, ...]:
    """Per row of (k, d) unit vectors the nearest row above it; of equals the higher one. None for the first row."""
    distances = 1.0 - vectors @ vectors.T
    found: list[Nearest | None] = []
    for row in range(len(vectors)):
        above = distances[row, :row]
        place = int(np.argmin(above)) if row else None
        found.append(None if place is None else Nearest(place=place, distance=max(0.0, float(above[place]))))
    return tuple(found)


@dataclass(frozen=True, slots=True, kw_only=True)
class Retold:
    """The earlier result that says most of a result's three-word runs: its place (from 0), and the share of them."""

    place: int
    share: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Repeat:
    """By what a result repeats one above it: by vector, by wording, or both; each None where it does not."""

    by_vector: Nearest | None
    by_wording: Retold | None

    @property
    def is_one(self) -> bool:
        """Whether it repeats anything."""
        return self.by_vector is not None or self.by_wording is not None


def nearness(median: float) -> float:
    """The cosine distance up to which two results count as one. ``median``: typical distance of the first candidates."""
    return cuts(NEAR, median, 1)[0]


def repeats(vectors: Vectors, texts: Sequence[str], threshold: float) -> tuple[Repeat, ...]:
    """Per result of a list, its ``vectors`` (k, d) of unit length and its k ``texts``: what it repeats."""
    return tuple(
        Repeat(
            by_vector=near if near is not None and near.distance <= threshold else None,
            by_wording=told if told is not None and told.share >= RETOLD_SHARE else None,
        )
        for near, told in zip(nearest_earlier(vectors), most_told_earlier(texts), strict=True)
    )


def most_told_earlier(texts: Sequence[str]) -> tuple[Retold | None, ...]:
    """Per text the single text above it that holds most of its three-word runs, of equals the higher one.

    None for the first, and for texts shorter than a run: they repeat nothing by wording.
    """
    runs = [_runs(text) for text in texts]
    found: list[Retold | None] = []
    for row, own in enumerate(runs):
        shared = [len(own & earlier) for earlier in runs[:row]]
        place = max(range(row), key=shared.__getitem__, default=None)
        told = None if place is None or not own else Retold(place=place, share=shared[place] / len(own))
        found.append(told)
    return tuple(found)


def _runs(text: str) -> frozenset[tuple[str, ...]]:
    words = text.lower().split()
    return frozenset(tuple(words[at : at + RUN_WORDS]) for at in range(len(words) - RUN_WORDS + 1))


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyOf:
    """VecSieve lets the result at ``place`` (from 0, in the same list) stand for this one, and why.

    ``similarity``: by that link, as Selection has it. ``cut``: the cosine distance that counted as near for these two.
    ``is_longer``: whether this one's text is the longer of the two, and so holds the other rather than being held.
    """

    place: int
    link: Link
    similarity: float
    cut: float
    is_longer: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptApart:
    """It looks like the result at ``place``, and a guard says that it is another.

    ``from_copy``: that guard spoke of a copy for which the result at ``place`` stands: whoever differs from one of a
    cluster is not of it.
    """

    place: int
    veto: Veto
    from_copy: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Alike:
    """It repeats the result at ``place`` by the yardstick, and VecSieve keeps it.

    ``distance``: of their vectors, and ``cut``: what counted as near (None: not looked at). ``share``: of its wording that
    stands there, None where it is the vectors by which it repeats.
    """

    place: int
    distance: float
    cut: float | None
    share: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class PassedOver:
    """Not in the other answer, although nothing stands for it: a diversifier or a cap preferred others."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CameIn:
    """Not among the direct results. ``rank``: its direct rank, from 1; None when it lies beyond the pool looked at."""

    rank: int | None


Note = CopyOf | KeptApart | Alike | PassedOver | CameIn


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """How many results of one list repeat one above them by the yardstick: by vector, by wording, by either.

    ``kept_apart``: how many of the last are in the list because a guard says that they are no copies. ``beyond``: copies to
    VecSieve that repeat nothing by the yardstick.
    """

    results: int
    by_vector: int
    by_wording: int
    by_either: int
    kept_apart: int
    beyond: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """One of the two lists: corpus rows in order, their texts, what there is to say of each, and its counts."""

    rows: tuple[int, ...]
    texts: tuple[str, ...]
    notes: tuple[tuple[Note, ...], ...]
    counts: Counts


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """``cuts``: the cosine distances that count as near below the first result of the page and below all but its last;
    for two short texts ``short_factor`` times as much. ``yardstick``: the distance by which repeats are counted.

    Results are told apart by their texts, not by their ids: chunks of equal text have equal scores, and which of those
    comes first the engine decides anew for every limit.
    """

    direct: Side
    proxied: Side
    cuts: tuple[float, float]
    short_factor: float
    yardstick: float

    @property
    def changed(self) -> bool:
        """Whether the answers differ in any text."""
        return self.direct.texts != self.proxied.texts

    @property
    def first_kept(self) -> bool:
        """Whether both answers begin with the same text."""
        return self.direct.texts[:1] == self.proxied.texts[:1]


def compare(corpus: Corpus, pool: Pool, *, direct: Answer, proxied: Answer) -> Comparison:
    """Lay the answers side by side, with the reasons of selection and counted by the yardstick."""
    reasons = explain(corpus, pool, direct)
    yardstick = nearness(reasons.median)
    return Comparison(
        direct=_side(corpus, reasons, direct.rows, proxied.rows, yardstick=yardstick, is_direct=True),
        proxied=_side(corpus, reasons, proxied.rows, direct.rows, yardstick=yardstick, is_direct=False),
        cuts=reasons.cuts,
        short_factor=reasons.short_factor,
        yardstick=yardstick,
    )


def _side(
    corpus: Corpus,
    reasons: Reasons,
    rows: tuple[int, ...],
    others: tuple[int, ...],
    *,
    yardstick: float,
    is_direct: bool,
) -> Side:
    texts, elsewhere = _texts(corpus, rows), _texts(corpus, others)
    counted = repeats(corpus.vectors[list(rows)], texts, yardstick)
    notes: list[tuple[Note, ...]] = []
    for place, row in enumerate(rows):
        near = _nearness_note(corpus, reasons, rows[: place + 1], counted[place])
        moved: Note | None = None
        if texts[place] not in elsewhere and not isinstance(near, CopyOf):
            verdict = _verdict(corpus, reasons, rows[:place], row)
            moved = PassedOver() if is_direct else CameIn(rank=None if verdict is None else verdict.rank)
        notes.append(tuple(note for note in (moved, near) if note is not None))
    return Side(rows=rows, texts=texts, notes=tuple(notes), counts=_counts(counted, notes))


def _nearness_note(corpus: Corpus, reasons: Reasons, rows: tuple[int, ...], repeat: Repeat) -> Note | None:
    """What there is to say of the last of ``rows`` beside those above it."""
    *above, row = rows
    verdict = _verdict(corpus, reasons, above, row)
    if verdict is not None:
        note = _copy(corpus, reasons, above, row, verdict) or _kept_apart(corpus, reasons, above, verdict)
        if note is not None:
            return note
    near, told = repeat.by_vector, repeat.by_wording
    seen = near or told
    if seen is None:
        return None
    distance = max(0.0, 1.0 - float(corpus.vectors[row] @ corpus.vectors[above[seen.place]]))
    share = told.share if near is None and told is not None else None
    return Alike(place=seen.place, distance=distance, cut=reasons.cut(row, above[seen.place]), share=share)


def _verdict(corpus: Corpus, reasons: Reasons, above: Sequence[int], row: int) -> Verdict | None:
    """The verdict on ``row``; where a row of the same text was chosen in our place and none stands above, the verdict on that."""
    verdict = reasons.verdicts.get(row)
    head = None if verdict is None else verdict.stands_for_it
    if head is None or corpus.chunks[head].text != corpus.chunks[row].text or _place(corpus, above, head) is not None:
        return verdict
    return reasons.verdicts[head]


def _copy(corpus: Corpus, reasons: Reasons, above: Sequence[int], row: int, verdict: Verdict) -> CopyOf | None:
    """None where nothing stands for it, or what does is not above it in this list."""
    head = verdict.stands_for_it
    place = None if head is None else _place(corpus, above, head)
    cut = None if head is None else reasons.cut(row, head)
    if head is None or place is None or cut is None:
        return None
    is_longer = len(corpus.chunks[row].text.split()) > len(corpus.chunks[head].text.split())
    return CopyOf(place=place, link=verdict.link, similarity=verdict.similarity, cut=cut, is_longer=is_longer)


def _kept_apart(corpus: Corpus, reasons: Reasons, above: Sequence[int], verdict: Verdict) -> KeptApart | None:
    heads = (reasons.verdicts[partner].stands_for_it for partner in verdict.apart_from)
    named = [(partner, False) for partner in verdict.apart_from]
    for row, from_copy in (*named, *((head, True) for head in heads if head is not None)):
        place = _place(corpus, above, row)
        if place is not None:
            return KeptApart(place=place, veto=verdict.veto, from_copy=from_copy)
    return None


def _place(corpus: Corpus, rows: Sequence[int], wanted: int) -> int | None:
    """Where in ``rows`` the text of ``wanted`` stands first."""
    texts = _texts(corpus, rows)
    text = corpus.chunks[wanted].text
    return texts.index(text) if text in texts else None


def _counts(counted: Sequence[Repeat], notes: Sequence[tuple[Note, ...]]) -> Counts:
    are_apart = [any(isinstance(note, KeptApart) for note in each) for each in notes]
    are_copies = [any(isinstance(note, CopyOf) for note in each) for each in notes]
    return Counts(
        results=len(counted),
        by_vector=sum(repeat.by_vector is not None for repeat in counted),
        by_wording=sum(repeat.by_wording is not None for repeat in counted),
        by_either=sum(repeat.is_one for repeat in counted),
        kept_apart=sum(repeat.is_one and apart for repeat, apart in zip(counted, are_apart, strict=True)),
        beyond=sum(copy and not repeat.is_one for repeat, copy in zip(counted, are_copies, strict=True)),
    )


def _texts(corpus: Corpus, rows: Sequence[int]) -> tuple[str, ...]:
    return tuple(corpus.chunks[row].text for row in rows)


# What all questions together show, and what the detour costs: plain arithmetic over comparisons and waiting times.


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """Pairs are (directly, through VecSieve). ``results``: how many were returned directly over all questions.

    ``with_repeats``: questions with a result that repeats one above it. ``left_out``: per link how many direct results
    another stands for, ``beyond``: how many of those repeat nothing by the yardstick. ``kept_apart``: repeats in the
    proxy's answers that a guard says are none.
    """

    questions: int
    results: int
    by_vector: tuple[int, int]
    by_wording: tuple[int, int]
    by_either: tuple[int, int]
    with_repeats: tuple[int, int]
    changed: int
    first_kept: int
    left_out: Mapping[Link, int]
    beyond: int
    kept_apart: int

    @property
    def unchanged(self) -> int:
        """Questions whose two answers are the same."""
        return self.questions - self.changed


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """Medians over ``rounds`` pairs of calls, as the client waits."""

    rounds: int
    direct_milliseconds: float
    proxied_milliseconds: float

    @property
    def added_milliseconds(self) -> float:
        """The difference of the medians."""
        return self.proxied_milliseconds - self.direct_milliseconds


def summarise(comparisons: Sequence[Comparison]) -> Summary:
    """Add up; no comparisons give zeros."""
    direct = [comparison.direct.counts for comparison in comparisons]
    proxied = [comparison.proxied.counts for comparison in comparisons]
    notes = [note for comparison in comparisons for each in comparison.direct.notes for note in each]
    return Summary(
        questions=len(comparisons),
        results=sum(counts.results for counts in direct),
        by_vector=(sum(counts.by_vector for counts in direct), sum(counts.by_vector for counts in proxied)),
        by_wording=(sum(counts.by_wording for counts in direct), sum(counts.by_wording for counts in proxied)),
        by_either=(sum(counts.by_either for counts in direct), sum(counts.by_either for counts in proxied)),
        with_repeats=(sum(counts.by_either > 0 for counts in direct), sum(counts.by_either > 0 for counts in proxied)),
        changed=sum(comparison.changed for comparison in comparisons),
        first_kept=sum(comparison.first_kept for comparison in comparisons),
        left_out=Counter(note.link for note in notes if isinstance(note, CopyOf)),
        beyond=sum(counts.beyond for counts in direct),
        kept_apart=sum(counts.kept_apart for counts in proxied),
    )


def timing(pairs: Sequence[tuple[Answer, Answer]]) -> Timing:
    """From pairs of a direct and a proxied call, at least one."""
    return Timing(
        rounds=len(pairs),
        direct_milliseconds=median(direct.milliseconds for direct, _ in pairs),
        proxied_milliseconds=median(proxied.milliseconds for _, proxied in pairs),
    )
