"""The walk down a ranking: each text in turn is judged by the texts that were kept before it.

Whether a text stays depends on better-ranked ones only, so the kept results do not depend on how many are asked for, and the walk ends when a page
is full: of fifty texts nine are read, usually. Under Overlap.EXCHANGE it depends on the rest of its block of ranks, too.

A splitter with overlap writes most sentences twice. Of three neighbouring chunks the outer two often say all of the middle one. If the first is on the
page and the middle one is next, the third takes its place, and the middle one leaves with the judge's proof. The page then says all that it would have
said, and the rest of the third; a sentence may stand in two pieces, in two results. A third chunk is looked for in the same block of ranks, so that a
longer page and a larger pool choose the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import islice

import numpy as np
import numpy.typing as npt

from ..geometry import SCALE_FROM
from ..policy import Overlap, Policy, Strategy, Tier
from ..reading.bounds import STEP_COST, readable
from ..reading.text import Text
from ..values import Candidates, FloatMatrix, Indices, Link, Steps
from .judge import Judge, Missing, Verdict

# Runs of three words that a text has in common with the page, before a third text is looked for: eight words in a row, as where chunks are joined.
SHARED = 6
# Characters at an end of a text. Splitters copy text as it is, so the third chunk has the middle one's first or last characters: that is
# found in a fraction of a microsecond a text, without reading it.
END = 48
# The share of a text's runs that neither the page nor the third text has, above which they are not compared: what is said has nearly all.
UNKNOWN = 0.1
# Texts that are compared for one result: more neighbours with the same end are copies of each other.
MOST_TRIALS = 4

Reword = Callable[[int, list[int]], tuple[int, float] | None]
"""Of a candidate and the kept ones before it: the one that it repeats in other words, and the doubt; None if none."""


@dataclass(slots=True)
class Walked:
    """What texts decide; arrays as in Selection. ``judged``: the candidates up to here were judged, the others stay as they are. ``has_text``:
    (n,) whether a candidate has a text, so that vectors do not decide about it and another with a text.
    """

    representative: Indices
    also: Indices
    links: npt.NDArray[np.int8]
    shares: FloatMatrix
    has_text: npt.NDArray[np.bool_]
    judged: int

    def leave(self, place: int, verdict: Verdict) -> None:
        """A candidate leaves for the first of the holders of its text."""
        self.representative[place] = verdict.holders[0]
        self.also[place] = verdict.holders[1] if len(verdict.holders) > 1 else -1
        self.links[place], self.shares[place] = verdict.link, verdict.share

    def reword(self, place: int, other: int, doubt: float) -> None:
        """A candidate leaves because another says it in other words."""
        self.representative[place] = other
        self.links[place], self.shares[place] = Link.REWORDED, 1.0 - doubt


def unjudged(size: int) -> Walked:
    """The state before the walk: everything stays."""
    return Walked(
        representative=np.arange(size, dtype=np.intp),
        also=np.full(size, -1, np.intp),
        links=np.zeros(size, np.int8),
        shares=np.full(size, np.nan, np.float32),
        has_text=np.zeros(size, np.bool_),
        judged=0,
    )


class Walk:
    """Judges the candidates of one pool in their order, as far as they are needed. ``kept``: the places that stay, in the order of the page: ascending,
    but for those in ``exchanged``, which took the places of better-ranked ones. ``exchanges``: whether candidates may.
    """

    __slots__ = (
        "_candidates",
        "_exchanges",
        "_judges",
        "_policy",
        "_reword",
        "_sources",
        "_texts",
        "_tier",
        "_unread",
        "exchanged",
        "kept",
        "walked",
    )

    def __init__(
        self, candidates: Candidates, policy: Policy, reword: Reword | None = None, *, exchanges: bool = False
    ) -> None:
        self._candidates, self._policy, self._reword = candidates, policy, reword
        size, given = candidates.size, candidates.metadata.texts
        self.walked = unjudged(size)
        self._unread: dict[tuple[int, str], int] = {}
        self._tier = policy.texts or Tier.EXACT
        self._texts: list[Text | None] = [None] * size
        if policy.texts is not None and given is not None:
            self._texts = list(readable(given)[0])
            self.walked.has_text = np.array([text is not None for text in given], np.bool_)
        self._judges: dict[int, Judge] = {}
        self.kept: list[int] = []
        self.exchanged: set[int] = set()
        self._exchanges = exchanges and policy.overlap is Overlap.EXCHANGE
        self._sources = candidates.metadata.sources if policy.keep_sources else None

    def steps(self, enough: int | None = None, *, stop: int | None = None) -> Steps[None]:
        """Judge the candidates up to rank ``stop``, until ``enough`` are kept; None: all."""
        stop = len(self._texts) if stop is None else stop
        spent, times = 0, 1 + MOST_TRIALS if self._exchanges else 1  # each trial reads a text of about the same length
        while self.walked.judged < stop and (enough is None or len(self.kept) < enough):
            place = self.walked.judged
            text = self._texts[place]
            if text is not None:
                spent += times * (text.known_cost + len(text.raw))
            if spent > STEP_COST:
                yield
                spent = 0
            if place not in self.exchanged:
                self._judge(place, text)
            self.walked.judged = place + 1

    def _judge(self, place: int, text: Text | None) -> None:
        if text is None:
            self._judge_unread(place)
            return
        judge = self._judge_of(place)
        if not self._is_source_kept(place):
            verdict = self.verdict(place, text, judge)
            if verdict.holders:
                self.walked.leave(place, verdict)
                return
            repeated = None if self._reword is None else self._reword(place, self.kept)
            if repeated is not None and self._unsaid(place, text, repeated[:1]) is None:
                self.walked.reword(place, *repeated)
                return
            if self._exchanges and self._exchange(place, text, judge):
                return
        judge.keep(place, text)
        self.kept.append(place)

    def verdict(self, place: int, text: Text, judge: Judge, *, explain: bool = False) -> Verdict:
        """The verdict on a text, by those kept results whose payloads say all else that the candidate's says."""
        verdict = judge.verdict(text, explain=explain)
        unsaid = self._unsaid(place, text, verdict.holders) if verdict.holders else None
        if unsaid is None:
            return verdict
        others = judge.among(number for number in judge.kept if self._unsaid(place, text, (number,)) is None)
        other = others.verdict(text, explain=explain)
        return other if other.holders or not explain else Verdict(Link.NONE, share=verdict.share, missing=unsaid)

    def _unsaid(self, place: int, text: Text, holders: Sequence[int]) -> Missing | None:
        """The first thing that the candidate's payload says besides its text, and one of these results does not. If the candidate may represent them,
        it says all that they do, too.
        """
        statements = self._candidates.statements
        if statements is None:
            return None
        unsaid = statements.unsaid(place, holders, text.raw)
        if unsaid is None and self._policy.representative is not Strategy.RANK:
            backward = (
                statements.unsaid(holder, (place,), theirs.raw)
                for holder in holders
                if (theirs := self._texts[holder]) is not None
            )
            unsaid = next(filter(None, backward), None)
        return None if unsaid is None else Missing(unsaid[0], "", unsaid[1])

    def _exchange(self, place: int, text: Text, judge: Judge) -> bool:
        """Whether another candidate takes the place of one that stays otherwise."""
        end = min(place + SCALE_FROM - place % SCALE_FROM, self._candidates.size)
        others = range(place + 1, end)
        replacement = successor(
            text,
            judge,
            (
                (other, its)
                for other in others
                if (its := self._texts[other]) is not None
                and other not in self.exchanged
                and self._judge_of(other) is judge
            ),
        )
        if replacement is None:
            return False
        other, its, verdict = replacement
        if self._unsaid(place, text, verdict.holders) is not None:
            return False
        self.walked.leave(
            place, replace(verdict, holders=(other, *[holder for holder in verdict.holders if holder != other]))
        )
        judge.keep(other, its)
        self.kept.append(other)
        self.exchanged.add(other)
        return True

    def _judge_unread(self, place: int) -> None:
        """A text that is not read says the same as one of the same characters, and is unknown otherwise. So is a missing one."""
        given, tenants = self._candidates.metadata.texts, self._candidates.tenants
        text = None if given is None or self._policy.texts is None else given[place]
        if text is not None and text.raw and not self._is_source_kept(place):
            first = self._unread.setdefault((0 if tenants is None else int(tenants[place]), text.raw), place)
            if first != place and self._unsaid(place, text, (first,)) is None:
                self.walked.leave(place, Verdict(Link.EQUAL, (first,), 1.0))
                return
        self.kept.append(place)

    def _is_source_kept(self, place: int) -> bool:
        """Whether the candidate's source keeps it on the page."""
        return self._sources is not None and self._sources[place] in self._policy.keep_sources

    def _judge_of(self, place: int) -> Judge:
        """The judge of the candidate's tenant."""
        tenants = self._candidates.tenants
        if tenants is None and self._judges:
            return self._judges[0]
        tenant = 0 if tenants is None else int(tenants[place])
        judge = self._judges.get(tenant)
        if judge is None:
            judge = self._judges[tenant] = Judge(self._tier)
        return judge


def successor(text: Text, judge: Judge, others: Iterable[tuple[int, Text]]) -> tuple[int, Text, Verdict] | None:
    """Of ``others``, candidates with their texts, the first that takes the place of a text which stays, because it and the page say that text together;
    and the verdict on that text then. None if none does.
    """
    outline = text.known_outline or text.outlined()
    known = judge.known_runs(outline)
    if len(known) < SHARED:
        return None
    unknown = set(outline.grams) - known
    whole = text.raw.strip()
    first, last = whole[:END], whole[-END:]
    alike = ((place, other) for place, other in others if last in other.raw or first in other.raw)
    for place, other in islice(alike, MOST_TRIALS):
        if len(unknown.difference((other.known_outline or other.outlined()).grams)) > UNKNOWN * len(outline.grams):
            continue
        verdict = judge.verdict_with(text, place, other)
        if place in verdict.holders and len(verdict.holders) > 1 and not judge.verdict(other).holders:
            return place, other, verdict
    return None


def explained(candidates: Candidates, policy: Policy, kept: Indices) -> dict[int, Verdict]:
    """Why each candidate with a text stays or leaves, by the results ``kept`` before it, ascending; in words. For people: it reads every text.

    Where results are exchanged, one that left is judged by all that stay.
    """
    walk = Walk(candidates, policy)
    judge_of, texts, standing = walk._judge_of, walk._texts, set(kept.tolist())  # noqa: SLF001 - of this module
    verdicts: dict[int, Verdict] = {}
    places = list(range(candidates.size))
    if policy.overlap is Overlap.EXCHANGE:
        places.sort(key=lambda place: place not in standing)
    for place in places:
        text = texts[place]
        if text is None:
            continue
        judge = judge_of(place)
        verdicts[place] = walk.verdict(place, text, judge, explain=True)
        if place in standing:
            judge.keep(place, text)
    return verdicts
