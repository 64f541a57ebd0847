"""The judge: what would a page miss without this text? Nothing: it leaves, and the verdict names the kept texts that say all of it. Something: it stays.

One judge decides searches, pages by offset, the API, the write gate, sweeps and reports. They differ only in the tier that they allow.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from ..policy import Tier
from ..reading.memo import Memo
from ..reading.outline import Outline
from ..reading.text import Passage, Text
from ..values import Link
from .covering import LONG, Chain, Cover, Index, Run
from .dress import Difference, difference
from .edits import extended


@dataclass(frozen=True, slots=True)
class Missing:
    """What the kept texts do not say. ``words``: of the candidate; empty if it only ends where a kept sentence goes on. ``instead``: of the kept text
    ``text`` at that place; empty if nothing. ``text``: -1 if no kept text has anything in common.
    """

    words: str
    instead: str
    text: int


@dataclass(frozen=True, slots=True)
class Verdict:
    """``holders``: the kept texts that hold it, the one with most of it first; () if it stays. ``share``: of its tokens that stand in them as they are.
    ``missing``: why it stays, None if it leaves. ``passed``: the differences that were passed over, as (candidate's words, kept words).
    """

    link: Link
    holders: tuple[int, ...] = ()
    share: float = 0.0
    missing: Missing | None = None
    passed: tuple[tuple[str, str], ...] = ()

    def renumbered(self, numbers: Sequence[int] | Mapping[int, int]) -> Verdict:
        """The same verdict with other numbers for its holders."""
        if not self.holders:
            return self
        holders = tuple([numbers[holder] for holder in self.holders])
        return Verdict(self.link, holders, self.share, self.missing, self.passed)


STAYS = Verdict(Link.NONE)
# Kept texts that may hold one candidate together. A person can check two, and three windows.
MOST_HOLDERS = 3
# A verdict depends on a text and on the kept ones that it meets alone, so it is kept by their contents, if they are few. 8 MB hold some four thousand.
MOST_MET = 8
VERDICTS: Memo[tuple[Tier | str, ...], Verdict] = Memo(8 << 20, lambda key, _: 300 + sum(map(sys.getsizeof, key[1:])))


@dataclass(slots=True)
class Judge:
    """Kept texts, and the verdict on the next."""

    tier: Tier
    kept: dict[int, Text] = field(default_factory=dict)
    _raw: dict[str, int] = field(default_factory=dict)
    _outlines: dict[int, Outline] = field(default_factory=dict)
    _known: set[int] = field(default_factory=set)
    _unread: dict[int, Text] = field(default_factory=dict)
    _plain: Index = field(default_factory=Index)
    _laid: Index = field(default_factory=Index)

    @property
    def is_exact(self) -> bool:
        """Whether texts are read without the differences that are none."""
        return self.tier is Tier.EXACT

    def keep(self, number: int, text: Text) -> None:
        """Add a text that stays. It is read when another one may be covered by it."""
        self.kept[number] = self._unread[number] = text
        self._raw.setdefault(text.raw, number)
        self._outlines[number] = outline = text.known_outline or text.outlined()
        self._known.update(outline.grams)

    def _read(self, number: int) -> None:
        plain, laid = self._unread.pop(number).passages(exact=self.is_exact)
        if plain.tokens:
            self._plain.add(number, plain)
            if laid is not None:
                self._laid.add(number, laid)

    def _met(self, text: Text) -> tuple[int, ...]:
        """The kept texts that may say some of this one; none if together they have too little in common with it to say all of it."""
        outline = text.known_outline or text.outlined()
        if outline.is_short:
            return tuple([number for number, kept in self._outlines.items() if outline.shares_words(kept)])
        if self._known.isdisjoint(outline.grams[: outline.enough]):
            return ()
        grams = self._known.intersection(outline.grams)
        return self._having(grams) if len(grams) >= outline.least else ()

    def _having(self, grams: set[int]) -> tuple[int, ...]:
        """The kept texts with any of these runs of three words."""
        return tuple([number for number, kept in self._outlines.items() if not grams.isdisjoint(kept.grams)])

    def known_runs(self, outline: Outline) -> set[int]:
        """The runs of three words that kept texts have."""
        return self._known.intersection(outline.grams)

    def among(self, numbers: Iterable[int], tier: Tier | None = None) -> Judge:
        """A judge who knows only these of the kept texts. ``tier``: None for the same."""
        judge = Judge(self.tier if tier is None else tier)
        for number in numbers:
            judge.keep(number, self.kept[number])
        return judge

    def verdict_with(self, text: Text, number: int, other: Text) -> Verdict:
        """The verdict on a text if another one stayed, too. Without edited copies, so that nothing of it is missing."""
        known = self.known_runs(text.known_outline or text.outlined())
        judge = self.among(self._having(known), min(self.tier, Tier.SAID))
        judge.keep(number, other)
        return judge.verdict(text)

    def verdict(self, text: Text, *, explain: bool = False) -> Verdict:
        """Whether a text leaves. ``explain``: name what is missing, or what was passed over."""
        equal = self._raw.get(text.raw)
        if equal is not None:
            return Verdict(Link.EQUAL, (equal,), 1.0)
        met = tuple(self.kept) if explain else self._met(text)
        if not met:
            return STAYS
        if explain or len(met) > MOST_MET:
            return self._compared(text, met, explain=explain)
        key: tuple[Tier | str, ...] = (self.tier, text.raw, *[self.kept[number].raw for number in met])
        known = VERDICTS.get(key)
        if known is not None:
            return known.renumbered(met)
        verdict = self._compared(text, met, explain=False)
        VERDICTS.keep(key, verdict.renumbered({number: place for place, number in enumerate(met)}))
        return verdict

    def _compared(self, text: Text, met: Sequence[int], *, explain: bool) -> Verdict:
        """The verdict by the kept texts ``met``."""
        for number in met:
            if number in self._unread:
                self._read(number)
        plain, laid = text.passages(exact=self.is_exact)
        if not plain.tokens:
            return STAYS  # nothing that can be compared
        counted = frozenset(met)
        if laid is not None and not counted.isdisjoint(self._laid.texts):
            verdict = self._judged(text, laid, self._laid, counted, explain=explain)
            if verdict.holders or (verdict.missing is not None and verdict.missing.text >= 0):
                return verdict
            counted -= self._laid.texts.keys()
        return self._judged(text, plain, self._plain, counted, explain=explain)

    def _judged(self, text: Text, passage: Passage, index: Index, counted: frozenset[int], *, explain: bool) -> Verdict:
        """``counted``: the kept texts that count here."""
        size = len(passage.tokens)
        equal = index.whole.get(passage.tokens)
        if equal is not None and equal in counted and self._agrees(text, passage, index, Run(0, size, equal, 0)):
            return Verdict(Link.EQUAL, (equal,), 1.0)
        runs = index.runs(passage)
        if runs is None:
            return STAYS
        if len(counted) < len(index.texts):
            runs = [run for run in runs if run.text in counted]
        if not runs:
            return self._missing(text, passage, index, Chain(is_whole=False, reached=0), runs) if explain else STAYS
        cover = Cover(index, passage, 0, size)
        whole_runs = [run for run in runs if run.end - run.start == size] if self.is_exact else runs
        chain = cover.chain(whole_runs)
        if self._holds(text, passage, index, chain):
            link = Link.CONTAINED if chain.joins == 0 else Link.JOINED
            return Verdict(link, _by_share(chain), 1.0)
        if self.tier is not Tier.EXACT:
            verdict = self._inside(text, passage, index, runs)
            if verdict is None and self.tier is Tier.EDITED:
                verdict = self._edited(text, passage, index, runs)
            if verdict is not None:
                return verdict
        return self._missing(text, passage, index, chain, runs) if explain else STAYS

    def _holds(self, text: Text, passage: Passage, index: Index, chain: Chain) -> bool:
        if not chain.is_whole or len(chain.texts) > MOST_HOLDERS:
            return False
        return self._agrees(text, passage, index, *chain.runs)

    def _agrees(self, text: Text, passage: Passage, index: Index, *runs: Run) -> bool:
        return self._difference(text, passage, index, runs) is None

    def _difference(self, text: Text, passage: Passage, index: Index, runs: Sequence[Run]) -> Difference | None:
        """Where the kept texts of these runs differ in what the tokens set aside."""
        raws = {run.text: self.kept[run.text].raw for run in runs}
        return difference(text.raw, passage, runs, index.texts, raws)

    def _inside(self, text: Text, passage: Passage, index: Index, runs: Sequence[Run]) -> Verdict | None:
        """The verdict on what stands between running titles; None if there are none, or something is missing."""
        start, end = passage.inside
        if end - start == len(passage.tokens):
            return None
        chain = Cover(index, passage, start, end).chain(_clipped(runs, start, end))
        if not self._holds(text, passage, index, chain):
            return None
        if self._has_another_title(passage, index, chain):
            return None
        link = Link.CONTAINED if chain.joins == 0 else Link.JOINED
        return Verdict(link, _by_share(chain), (end - start) / len(passage.tokens))

    def _has_another_title(self, passage: Passage, index: Index, chain: Chain) -> bool:
        """Whether a text of the chain has a running title, and not the candidate's anywhere."""
        titles = _titles(passage)
        for number in chain.texts if titles else ():
            text = index.texts[number]
            words = _words(text.tokens)
            if _titles(text) and not all(title in words for title in titles):
                return True
        return False

    def _edited(self, text: Text, passage: Passage, index: Index, runs: Sequence[Run]) -> Verdict | None:
        """The verdict on an edited copy; None if something is missing."""
        start, end = passage.inside
        size = end - start
        if size < LONG:
            return None
        prolonged = [extended(run, passage, index.texts[run.text], start, end) for run in _clipped(runs, start, end)]
        prolonged.sort(key=lambda run: (run.end, run.start, run.text, run.at))
        chain = Cover(index, passage, start, end).chain(prolonged)
        if not self._holds(text, passage, index, chain):
            return None
        if self._has_another_title(passage, index, chain):
            return None
        missing = sum(mine[1] - mine[0] for run in chain.runs for mine, _ in run.edits)
        passed = tuple(
            (passage.words(*mine), index.texts[run.text].words(*theirs))
            for run in chain.runs
            for mine, theirs in run.edits
        )
        return Verdict(Link.EDITED, _by_share(chain), (size - missing) / len(passage.tokens), passed=passed)

    def _missing(self, text: Text, passage: Passage, index: Index, chain: Chain, runs: Sequence[Run]) -> Verdict:
        """Name the first thing that the kept texts do not say."""
        size = len(passage.tokens)
        other = self._difference(text, passage, index, chain.runs) if chain.is_whole else None
        if other is not None:
            return Verdict(Link.NONE, share=1.0, missing=Missing(other.word, other.instead, other.text))
        reached = chain.reached
        if not runs:
            return Verdict(Link.NONE, missing=Missing(passage.words(0, size), "", -1))
        last = chain.runs[-1] if chain.runs else None
        following = min(
            (run for run in runs if run.end > reached and run.start >= reached), key=lambda run: run.start, default=None
        )
        until = size if following is None else following.start
        number = last.text if last is not None else following.text if following is not None else -1
        instead = ""
        if number >= 0:
            theirs = index.texts[number]
            begin = last.until if last is not None else 0
            stop = following.at if following is not None and following.text == number else len(theirs.tokens)
            if begin < stop:
                instead = theirs.words(begin, stop, most=6)
        share = sum(run.end - run.start for run in chain.runs) / size
        return Verdict(
            Link.NONE, share=share, missing=Missing(passage.words(reached, max(until, reached)), instead, number)
        )


def _by_share(chain: Chain) -> tuple[int, ...]:
    """The texts of a chain, the one with most tokens first; ties by rank."""
    tokens = dict.fromkeys(chain.texts, 0)
    for run in chain.runs:
        tokens[run.text] += run.end - run.start
    return tuple(sorted(tokens, key=lambda number: (-tokens[number], number)))


def _titles(passage: Passage) -> list[str]:
    """What is left of running titles."""
    start, end = passage.inside
    return [_words(title) for title in (passage.tokens[:start], passage.tokens[end:]) if title]


def _words(tokens: Sequence[str]) -> str:
    return f" {' '.join(tokens)} ".lower()


def _clipped(runs: Sequence[Run], start: int, end: int) -> list[Run]:
    """The runs within these tokens."""
    if start == 0:
        return [run if run.end <= end else Run(run.start, end, run.text, run.at) for run in runs if run.start < end]
    clipped: list[Run] = []
    for run in runs:
        first, last = max(run.start, start), min(run.end, end)
        if first < last:
            clipped.append(Run(first, last, run.text, run.at + first - run.start))
    return clipped
