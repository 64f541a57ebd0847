"""What kept texts say of a candidate: runs of common tokens, joined where one text goes on.

A candidate is covered if a chain of runs leads from its first token to its last. A run is evidence from six tokens on, or as whole sentences. Two runs
are joined from one kept text to another where the first ends and the second begins, as the chunks of one document do: with an overlap of eight tokens
or more, or none. Never at a mere border of sentences: pieces of three records would recombine to a fourth. Nor in one kept text across sentences that
the candidate has not: what stands between them says whose answer, whose price, or who "he" is.

All work is bounded: a gram that stands everywhere is followed only a few times, and a text beyond the bounds is not covered.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from ..reading.marks import CLOSERS, ENDS
from ..reading.text import OPENERS, Passage
from ..reading.words import word_set

# Tokens of a run from which on it is evidence.
RUN = 6
# Tokens by which two chunks overlap where one is continued by the other.
OVERLAP = 8
# From this many tokens on a text may be a window, whose ends fall anywhere.
LONG = 60

# The places of one gram that are followed: more copies of one passage than that on one page are rare, and a text of one word has thousands.
MOST_PLACES = 48
MOST_PLACES_OF_TEXT = 6
# The runs of one candidate, and the tokens compared for it.
MOST_RUNS = 96
MOST_COMPARED = 60_000

# A sentence that begins with one of these limits what the sentence before it says, or is about it: That was a lie.
_REFERRING = word_set(
    "unless except excepting exception exceptions only but not however provided otherwise this that these those außer ausnahme ausnahmen sofern nur aber "
    "jedoch ausgenommen dies diese dieser sauf hormis excepté exceptions seulement mais toutefois cela ceci cette ces salvo excepto excepciones sólo solo "
    "solamente pero esto eso esta tranne eccetto eccezioni ma però soltanto questo questa behalve maar tenzij dit deze кроме но только однако если это 但"
)

Gram = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Run:
    """The candidate's tokens from ``start`` to ``end`` are those of kept text ``text`` from ``at`` on. ``edits``: what was passed over within it
    (edits.py), as ((start, end) in the candidate, (start, end) in the kept text).
    """

    start: int
    end: int
    text: int
    at: int
    edits: tuple[tuple[tuple[int, int], tuple[int, int]], ...] = ()
    last: int = -1  # the end in the kept text; -1: as far from ``at`` as ``end`` from ``start``

    @property
    def until(self) -> int:
        """The end in the kept text."""
        return self.at + self.end - self.start if self.last < 0 else self.last

    def place(self, token: int) -> int:
        """The token of the kept text at a token of the candidate; -1 within an edit."""
        shift = self.at - self.start
        for (start, end), (_, theirs) in self.edits:
            if token < start:
                break
            if token < end:
                return -1
            shift = theirs - end
        return token + shift


@dataclass(frozen=True, slots=True)
class Chain:
    """Runs that cover a candidate up to ``reached``, the whole if ``is_whole``. ``joins``: how often the chain goes from one run to another.
    ``texts``: the kept texts in it, in its order.
    """

    is_whole: bool
    reached: int
    texts: tuple[int, ...] = ()
    joins: int = 0
    runs: tuple[Run, ...] = ()


# A place in a kept text as one number: the text's number, and the token.
_TOKENS = 1 << 20


@dataclass(slots=True)
class Index:
    """The passages of kept texts, and where each gram of six tokens and each shorter sentence stands in them. ``texts``: by number."""

    texts: dict[int, Passage] = field(default_factory=dict)
    whole: dict[Gram, int] = field(default_factory=dict)
    _first: dict[Gram, int] = field(default_factory=dict)  # the first place of each gram of six tokens
    _more: dict[int, list[int]] = field(default_factory=dict)  # by the first place, further ones
    _sentences: dict[Gram, list[int]] = field(default_factory=dict)  # the places of each shorter sentence

    def add(self, number: int, passage: Passage) -> None:
        """Add a kept text. Numbers ascend."""
        self.texts[number] = passage
        tokens, base = passage.tokens, (number + 1) * _TOKENS
        self.whole.setdefault(tokens, number)
        count = max(len(tokens) - RUN + 1, 0)
        places = dict(zip(grams_of(tokens), range(base, base + count), strict=True))
        if len(places) == count:
            for gram in self._first.keys() & places.keys():
                self._add(gram, places.pop(gram))
            self._first.update(places)
        else:
            of_text: dict[Gram, int] = {}
            for place, gram in enumerate(grams_of(tokens), base):
                of_text[gram] = of_text.get(gram, 0) + 1
                if of_text[gram] <= MOST_PLACES_OF_TEXT:
                    self._add(gram, place)
        for start, end in short_sentences(passage):
            known = self._sentences.setdefault(tokens[start:end], [])
            if len(known) < MOST_PLACES:
                known.append(base + start)

    def _add(self, gram: Gram, place: int) -> None:
        first = self._first.setdefault(gram, place)
        if first != place:
            more = self._more.setdefault(first, [])
            if len(more) < MOST_PLACES:
                more.append(place)

    def runs(self, passage: Passage) -> list[Run] | None:
        """All longest runs of the candidate's tokens; None beyond the bounds."""
        tokens = passage.tokens
        shared: list[Run] = []
        ends: dict[tuple[int, int], int] = {}  # by text and diagonal: up to where it is a run already
        compared = 0
        firsts = list(map(self._first.get, grams_of(tokens)))
        hits = [(place, first) for place, first in enumerate(firsts) if first is not None] if any(firsts) else []
        along, until = -1, -1  # the last run: its first place less the candidate's, and its end
        for place, first in hits:
            if first - place == along and place < until and first not in self._more:
                continue  # most places are within the run before them
            for there in (first, *self._more.get(first, ())):
                number, at = there // _TOKENS - 1, there % _TOKENS
                diagonal = (number, at - place)
                if ends.get(diagonal, -1) > place:
                    continue
                length = _common(tokens, place + RUN, self.texts[number].tokens, at + RUN) + RUN
                compared += length
                ends[diagonal] = until = place + length
                along = there - place
                shared.append(Run(place, place + length, number, at))
                if compared > MOST_COMPARED or len(shared) > 8 * MOST_RUNS:
                    return None
        for start, end in short_sentences(passage):
            for there in self._sentences.get(tokens[start:end], ()):
                number, at = there // _TOKENS - 1, there % _TOKENS
                if ends.get((number, at - start), -1) < end:
                    shared.append(Run(start, end, number, at))
        if len(shared) > MOST_RUNS:
            shared = sorted(shared, key=lambda run: (run.start - run.end, run.start, run.text))[:MOST_RUNS]
        shared.sort(key=lambda run: (run.end, run.start, run.text, run.at))
        return shared


def grams_of(tokens: Sequence[str]) -> Iterator[Gram]:
    """The grams of six tokens, in order."""
    return zip(tokens, tokens[1:], tokens[2:], tokens[3:], tokens[4:], tokens[5:], strict=False)


def short_sentences(passage: Passage) -> list[tuple[int, int]]:
    """The sentences that are shorter than a run, and the whole text if it is."""
    bounds = passage.bounds
    sentences = [(start, end) for start, end in pairwise(bounds) if end - start < RUN]
    if len(bounds) > 2 and bounds[-1] < RUN:
        sentences.append((0, bounds[-1]))
    return sentences


def _common(tokens: Gram, place: int, theirs: Gram, at: int) -> int:
    """How many tokens are equal from here on."""
    length, most = 0, min(len(tokens) - place, len(theirs) - at)
    step = 16
    while (
        length + step <= most
        and tokens[place + length : place + length + step] == theirs[at + length : at + length + step]
    ):
        length += step
    while length < most and tokens[place + length] == theirs[at + length]:
        length += 1
    return length


class Cover:
    """Finds the chain of runs over the tokens ``start`` to ``end`` of a candidate."""

    __slots__ = ("end", "index", "is_long", "is_window", "opens_inside", "passage", "start")

    def __init__(self, index: Index, passage: Passage, start: int, end: int) -> None:
        self.index, self.passage, self.start, self.end = index, passage, start, end
        self.is_long = end - start >= LONG
        self.is_window = self.is_long and not (start == 0 and passage.has_title)
        self.opens_inside = passage.opens_inside(start)

    def chain(self, runs: Sequence[Run]) -> Chain:
        """The first chain that covers all, by the order of ``runs`` (by their ends); else the one that reaches farthest."""
        entries: list[int] = []  # for each run, the first token from which it continues a chain; -1: none
        before: list[int] = []  # for each run, the run that it continues; -1: it begins the chain
        farthest, best = self.start, -1
        for number, run in enumerate(runs):
            entry, previous = self._entered(number, run, runs, entries)
            entries.append(entry)
            before.append(previous)
            if entry < 0:
                continue
            if run.end == self.end and self._may_end(run) and self._is_evidence(entry, run.end):
                return self._built(runs, before, number, is_whole=True)
            if run.end > farthest:
                farthest, best = run.end, number
        if best < 0:
            return Chain(is_whole=False, reached=self.start)
        return self._built(runs, before, best, is_whole=False)

    def _built(self, runs: Sequence[Run], before: Sequence[int], last: int, *, is_whole: bool) -> Chain:
        path = [last]
        while before[path[-1]] >= 0:
            path.append(before[path[-1]])
        chosen = tuple(runs[number] for number in reversed(path))
        return Chain(
            is_whole=is_whole,
            reached=self.end if is_whole else chosen[-1].end,
            texts=tuple(dict.fromkeys(run.text for run in chosen)),
            joins=len(chosen) - 1,
            runs=chosen,
        )

    def _entered(self, number: int, run: Run, runs: Sequence[Run], entries: Sequence[int]) -> tuple[int, int]:
        """The first token from which a run continues a chain, and the run that it continues, -1 for none."""
        if run.start == self.start and self._may_begin(run):
            return run.start, -1
        best = (-1, -1)
        for earlier in range(number):
            entry = entries[earlier]
            if entry < 0:
                continue
            at = self._joined(runs[earlier], entry, run)
            if at >= 0 and (best[0] < 0 or at < best[0]):
                best = (at, earlier)
        return best

    def _joined(self, one: Run, entry: int, other: Run) -> int:
        """The first token from which ``other`` continues ``one``, which is entered at ``entry``; -1: it does not."""
        if other.end <= one.end or one.end < other.start:
            return -1
        if one.text == other.text or not self.is_long:
            return -1
        overlap = one.end - other.start
        if (overlap == 0 or overlap >= OVERLAP) and self._ends_text(one) and self._begins_text(other):
            return other.start if self._is_evidence(entry, one.end) else -1
        return -1

    def _ends_text(self, run: Run) -> bool:
        text = self.index.texts[run.text]
        return run.until in (len(text.tokens), text.inside[1])

    def _begins_text(self, run: Run) -> bool:
        return run.at in (0, self.index.texts[run.text].inside[0])

    def _is_evidence(self, start: int, end: int) -> bool:
        if end - start >= RUN:
            return True
        passage = self.passage
        return (
            end > start
            and (passage.is_bound(start) or start == self.start)
            and (passage.is_bound(end) or end == self.end)
        )

    def _may_begin(self, run: Run) -> bool:
        """Whether nothing that changes the meaning stands before the run in the kept text: a sentence begins there, or a window was cut."""
        text = self.index.texts[run.text]
        if run.at >= text.quote and run.start < self.passage.quote:
            return False  # somebody else says it there
        if self._begins_text(run):
            return True
        if text.is_bound(run.at):
            return text.origins[run.at - 1].rstrip(CLOSERS).endswith(tuple(ENDS))
        if not self.is_window or text.is_inside_word(run.at) or text.origins[run.at - 1].endswith((":", "：")):
            return False
        if run.end == self.end and self._ends_text(run) and run.at < min(text.bounds[1], LONG):
            return False  # they end alike, and begin in one sentence: Keine Mitglieder dürfen, Mitglieder dürfen
        # A window that begins with a name begins with a capital, too; but then the name has it inside the kept sentence.
        return self.opens_inside or text.origins[run.at].lstrip(OPENERS)[:1].isupper()

    def _may_end(self, run: Run) -> bool:
        """Whether nothing that changes the meaning follows the run in the kept text."""
        text, until = self.index.texts[run.text], run.until
        if text.is_bound(until):
            return until == len(text.tokens) or text.tokens[until].lower() not in _REFERRING
        if self._ends_text(run) or (self.passage.is_cut and self.end == len(self.passage.tokens)):
            return True
        if not self.is_long or text.is_inside_word(until):
            return False
        if run.start == self.start and self._begins_text(run) and until > max(text.bounds[-2], len(text.tokens) - RUN):
            return False  # a last word that denies: nicht, ない, değil
        return not (self.passage.closes and self.end == len(self.passage.tokens))
