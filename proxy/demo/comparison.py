"""Two answers to one question side by side: which results are said by others, which stay beside one like them, which are new; and the summary.

Repeats are counted by one fixed rule for both lists, by vector and by wording, and not by VecSieve's own cut: a proxy judged
by its own cut finds no repeat in its answers. Lists are read from the top: the first of two copies is never the repeat.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from statistics import median

import numpy as np

from ..admin.reasons import why_left, why_stays
from ..admin.recent import DOUBTFUL
from ..selection.grouping import cuts
from ..selection.policy import Relative
from ..selection.values import Link
from .corpus import Corpus, Vectors
from .database import Answer
from .reasons import Pool, Reasons, Verdict, explain

RUN_WORDS = 3  # three words in a row are rarely equal by chance, and survive small edits better than longer runs
WORDING_SHARE = 0.5  # half of a result is in an earlier one
# The same share of the median distance for every rank.
NEAR = Relative(factor=0.20, minimum=0.02, maximum=0.30)


@dataclass(frozen=True, slots=True, kw_only=True)
class Nearest:
    """The nearest earlier result. ``place``: from 0. ``distance``: cosine."""

    place: int
    distance: float


def nearest_earlier(vectors: Vectors) -> tuple[Nearest | None, ...]:
    """For each row of (k, d) unit vectors the nearest row above it, the first of equal ones. None for the first row."""
    distances = 1.0 - vectors @ vectors.T
    neighbours: list[Nearest | None] = []
    for row in range(len(vectors)):
        above = distances[row, :row]
        place = int(np.argmin(above)) if row else None
        neighbours.append(None if place is None else Nearest(place=place, distance=max(0.0, float(above[place]))))
    return tuple(neighbours)


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedWording:
    """The earlier result with most of a result's three-word runs. ``place``: from 0. ``share``: of the runs."""

    place: int
    share: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Repeat:
    """The results above that a result repeats; None if it repeats none."""

    by_vector: Nearest | None
    by_wording: SharedWording | None

    @property
    def is_repeat(self) -> bool:
        return self.by_vector is not None or self.by_wording is not None


def nearness(median: float) -> float:
    """The cosine distance up to which a result repeats another. ``median``: of the first candidates' distances."""
    return cuts(NEAR, median, 1)[0]


def repeats(vectors: Vectors, texts: Sequence[str], threshold: float) -> tuple[Repeat, ...]:
    """What each result of a list repeats. ``vectors``: (k, d) of unit length; k ``texts``."""
    return tuple(
        Repeat(
            by_vector=near if near is not None and near.distance <= threshold else None,
            by_wording=shared if shared is not None and shared.share >= WORDING_SHARE else None,
        )
        for near, shared in zip(nearest_earlier(vectors), most_shared_earlier(texts), strict=True)
    )


def most_shared_earlier(texts: Sequence[str]) -> tuple[SharedWording | None, ...]:
    """For each text the single text above it that has most of its three-word runs, the first of equal ones.

    None for the first text, and for a text shorter than a run.
    """
    runs = [_runs(text) for text in texts]
    wordings: list[SharedWording | None] = []
    for row, run in enumerate(runs):
        shared = [len(run & earlier) for earlier in runs[:row]]
        place = max(range(row), key=shared.__getitem__, default=None)
        wordings.append(
            None if place is None or not run else SharedWording(place=place, share=shared[place] / len(run))
        )
    return tuple(wordings)


def _runs(text: str) -> frozenset[tuple[str, ...]]:
    words = text.lower().split()
    return frozenset(tuple(words[at : at + RUN_WORDS]) for at in range(len(words) - RUN_WORDS + 1))


class Sign(StrEnum):
    """What a note says of a result."""

    COPY = "="  # results above say all of it: left out, or repeated to fill the page
    STAYS = "!"  # it is like a result above, which does not say all of it
    ALIKE = "~"  # it repeats a result above by the counting rule, but VecSieve keeps it
    PASSED_OVER = (
        "-"  # not in the other answer, although no result represents it: a diversifier or a cap preferred others
    )
    CAME_IN = "+"  # not among the direct results


@dataclass(frozen=True, slots=True, kw_only=True)
class Note:
    """``words``: results are numbered as the reader sees them, from 1. ``place``: of the result that it is like, from 0 in the same list.
    ``link``, ``similarity``: of a copy, as in Selection.
    """

    sign: Sign
    words: str
    place: int = -1
    link: Link = Link.NONE
    similarity: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """How many results of one list repeat one above them: by vector, by wording, by either.

    ``say_more``: of the last, those that stay because a result above does not say all of them.
    """

    results: int
    by_vector: int
    by_wording: int
    by_either: int
    say_more: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """One of the two lists. ``rows``: corpus rows, in order."""

    rows: tuple[int, ...]
    texts: tuple[str, ...]
    notes: tuple[tuple[Note, ...], ...]
    counts: Counts


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """``yardstick``: the distance by which repeats are counted.

    Results are compared by text, not by id: chunks of equal text have equal scores, which engines may order differently for another limit.
    """

    direct: Side
    proxied: Side
    yardstick: float

    @property
    def changed(self) -> bool:
        return self.direct.texts != self.proxied.texts

    @property
    def first_kept(self) -> bool:
        return self.direct.texts[:1] == self.proxied.texts[:1]


def compare(corpus: Corpus, pool: Pool, *, direct: Answer, proxied: Answer) -> Comparison:
    reasons = explain(corpus, pool, direct)
    yardstick = nearness(reasons.median)
    return Comparison(
        direct=_side(corpus, reasons, direct.rows, proxied.rows, yardstick=yardstick, is_direct=True),
        proxied=_side(corpus, reasons, proxied.rows, direct.rows, yardstick=yardstick, is_direct=False),
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
        if texts[place] not in elsewhere and (near is None or near.sign is not Sign.COPY):
            verdict = _verdict(corpus, reasons, rows[:place], row)
            beyond = "came in from further down"  # beyond the pool
            words = beyond if verdict is None else f"came in, was number {verdict.rank}"
            moved = PASSED_OVER if is_direct else Note(sign=Sign.CAME_IN, words=words)
        notes.append(tuple(note for note in (moved, near) if note is not None))
    return Side(rows=rows, texts=texts, notes=tuple(notes), counts=_counts(counted, notes))


PASSED_OVER = Note(sign=Sign.PASSED_OVER, words="left out, nothing stands for it")


def _nearness_note(corpus: Corpus, reasons: Reasons, rows: tuple[int, ...], repeat: Repeat) -> Note | None:
    """The note on the last of ``rows``, in relation to those above it."""
    *above, row = rows
    verdict = _verdict(corpus, reasons, above, row)
    if verdict is not None:
        note = _copy(corpus, above, verdict) or _stays(corpus, above, verdict)
        if note is not None:
            return note
    near, shared = repeat.by_vector, repeat.by_wording
    seen = near or shared
    if seen is None:
        return None
    number = seen.place + 1
    if isinstance(seen, Nearest):
        words = f"like {number}: {seen.distance:.3f} apart"
    else:
        words = f"{seen.share:.0%} of its words are in {number}"
    return Note(sign=Sign.ALIKE, words=words, place=seen.place)


def _verdict(corpus: Corpus, reasons: Reasons, above: Sequence[int], row: int) -> Verdict | None:
    """The verdict on ``row``, or on its representative if that has the same text and is not in the list above."""
    verdict = reasons.verdicts.get(row)
    head = None if verdict is None or not verdict.holders else verdict.holders[0]
    if head is None or corpus.chunks[head].text != corpus.chunks[row].text or _place(corpus, above, head) is not None:
        return verdict
    return reasons.verdicts[head]


def _copy(corpus: Corpus, above: Sequence[int], verdict: Verdict) -> Note | None:
    """None if it has no representative, or that is not above it in this list."""
    places = [_place(corpus, above, row) for row in verdict.holders]
    if not places or places[0] is None:
        return None
    numbers = [place + 1 for place in places if place is not None]
    words = why_left(verdict.link, numbers, verdict.similarity, verdict.cut, but=verdict.but)
    return Note(sign=Sign.COPY, words=words, place=places[0], link=verdict.link, similarity=verdict.similarity)


def _stays(corpus: Corpus, above: Sequence[int], verdict: Verdict) -> Note | None:
    place = None if verdict.like is None else _place(corpus, above, verdict.like.row)
    if verdict.like is None or place is None:
        return None
    words = why_stays(verdict.like.missing, place + 1, has_words=True)
    return Note(sign=Sign.STAYS, words=words, place=place)


def _place(corpus: Corpus, rows: Sequence[int], chunk: int) -> int | None:
    """The first place in ``rows`` with the text of ``chunk``."""
    texts = _texts(corpus, rows)
    text = corpus.chunks[chunk].text
    return texts.index(text) if text in texts else None


def _counts(counted: Sequence[Repeat], notes: Sequence[tuple[Note, ...]]) -> Counts:
    stay = [any(note.sign is Sign.STAYS for note in of_result) for of_result in notes]
    return Counts(
        results=len(counted),
        by_vector=sum(repeat.by_vector is not None for repeat in counted),
        by_wording=sum(repeat.by_wording is not None for repeat in counted),
        by_either=sum(repeat.is_repeat for repeat in counted),
        say_more=sum(repeat.is_repeat and stays for repeat, stays in zip(counted, stay, strict=True)),
    )


def _texts(corpus: Corpus, rows: Sequence[int]) -> tuple[str, ...]:
    return tuple(corpus.chunks[row].text for row in rows)


@dataclass(frozen=True, slots=True, kw_only=True)
class Doubtful:
    """A direct result that left without a proof. ``row``, ``above``: corpus rows, of it and of its representative. ``note``: why."""

    row: int
    above: int
    note: Note


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """All questions. Pairs are (directly, through VecSieve). ``results``: returned directly.

    ``word_for_word``: results whose text is that of one above. ``with_repeats``: questions with a repeat. ``left_out``: direct results that are represented by another, by link; ``doubtful``: those of
    them that left without a proof, each pair once, the least similar first. ``say_more``: repeats in the proxy's answers that are not said whole.
    """

    questions: int
    results: int
    word_for_word: tuple[int, int]
    by_vector: tuple[int, int]
    by_wording: tuple[int, int]
    by_either: tuple[int, int]
    with_repeats: tuple[int, int]
    changed: int
    first_kept: int
    left_out: Mapping[Link, int]
    doubtful: tuple[Doubtful, ...]
    say_more: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """Medians over ``rounds`` pairs of calls, client included."""

    rounds: int
    direct_milliseconds: float
    proxied_milliseconds: float


def summarise(comparisons: Sequence[Comparison]) -> Summary:
    direct = [comparison.direct.counts for comparison in comparisons]
    proxied = [comparison.proxied.counts for comparison in comparisons]
    notes = [note for comparison in comparisons for of_result in comparison.direct.notes for note in of_result]

    def both(of: Callable[[Counts], int]) -> tuple[int, int]:
        return sum(map(of, direct)), sum(map(of, proxied))

    return Summary(
        questions=len(comparisons),
        results=sum(counts.results for counts in direct),
        word_for_word=(
            sum(map(_word_for_word, (comparison.direct for comparison in comparisons))),
            sum(map(_word_for_word, (comparison.proxied for comparison in comparisons))),
        ),
        by_vector=both(lambda counts: counts.by_vector),
        by_wording=both(lambda counts: counts.by_wording),
        by_either=both(lambda counts: counts.by_either),
        with_repeats=both(lambda counts: counts.by_either > 0),
        changed=sum(comparison.changed for comparison in comparisons),
        first_kept=sum(comparison.first_kept for comparison in comparisons),
        left_out=Counter(note.link for note in notes if note.sign is Sign.COPY),
        doubtful=_doubtful(comparisons),
        say_more=sum(counts.say_more for counts in proxied),
    )


def _word_for_word(side: Side) -> int:
    return len(side.texts) - len({" ".join(text.split()) for text in side.texts})


def _doubtful(comparisons: Sequence[Comparison]) -> tuple[Doubtful, ...]:
    """A pair that several questions have counts by its smallest similarity."""
    pairs: dict[tuple[int, int], Doubtful] = {}
    for side in (comparison.direct for comparison in comparisons):
        for row, notes in zip(side.rows, side.notes, strict=True):
            for note in notes:
                if note.link in DOUBTFUL:
                    pair = Doubtful(row=row, above=side.rows[note.place], note=note)
                    known = pairs.setdefault((pair.row, pair.above), pair)
                    if note.similarity < known.note.similarity:
                        pairs[pair.row, pair.above] = pair
    return tuple(sorted(pairs.values(), key=lambda pair: (pair.note.similarity, pair.row, pair.above)))


def timing(pairs: Sequence[tuple[Answer, Answer]]) -> Timing:
    """``pairs``: of a direct and a proxied call, at least one."""
    return Timing(
        rounds=len(pairs),
        direct_milliseconds=median(direct.milliseconds for direct, _ in pairs),
        proxied_milliseconds=median(proxied.milliseconds for _, proxied in pairs),
    )
