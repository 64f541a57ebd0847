"""Which result takes the place of one that the page has a part of: chunks that overlap.

A splitter with overlap writes most sentences twice. Of three neighbouring chunks the outer two often say all of the middle one. If the first is on the
page and the middle one is next, the third takes its place, and the middle one leaves with the judge's proof. The page then says all that it would have
said, and the rest of the third. So no score is weighed against a text, and nothing is lost; a sentence may stand in two pieces, in two results.

A third chunk is looked for in the same block of ranks, so that a longer page and a larger pool choose the same.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice

from ..reading.text import Text
from .judge import Judge, Verdict

# Runs of three words that a text has in common with the page, before a third text is looked for: eight words in a row, as where chunks are joined.
SHARED = 6
# Characters at an end of a text. Splitters copy text as it is, so the third chunk has the middle one's first or last characters: that is
# found in a fraction of a microsecond a text, without reading it.
END = 48
# The share of a text's runs that neither the page nor the third text has, above which they are not compared: what is said has nearly all.
UNKNOWN = 0.1
# Texts that are compared for one result: more neighbours with the same end are copies of each other.
MOST_TRIALS = 4


def successor(text: Text, judge: Judge, others: Iterable[tuple[int, Text]]) -> tuple[int, Text, Verdict] | None:
    """Of ``others``, candidates with their texts, the first that takes the place of a text which stays, because it and the page say that text together;
    and the verdict on that text then. None if none does.
    """
    outline = text.known_outline or text.outlined()
    known = judge.known_runs(outline)
    if len(known) < SHARED:
        return None
    unknown = outline.grams - known
    whole = text.raw.strip()
    first, last = whole[:END], whole[-END:]
    alike = ((place, other) for place, other in others if last in other.raw or first in other.raw)
    for place, other in islice(alike, MOST_TRIALS):
        if len(unknown - (other.known_outline or other.outlined()).grams) > UNKNOWN * len(outline.grams):
            continue
        verdict = judge.verdict_beside(text, place, other)
        if place in verdict.holders and len(verdict.holders) > 1 and not judge.verdict(other).holders:
            return place, other, verdict
    return None
