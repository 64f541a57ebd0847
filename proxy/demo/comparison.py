"""Two answers to one question, laid side by side: what stands for what, what was kept apart, what came in."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from vecsieve.proxy.demo.corpus import Corpus
from vecsieve.proxy.demo.reasons import Pool, Reasons, Verdict, explain
from vecsieve.proxy.demo.repeats import Repeat, nearness, repeats
from vecsieve.proxy.demo.store import Answer
from vecsieve.proxy.selection.values import Link, Veto


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
