"""Whether one text contains another, as strictly as a final deletion requires (selection/judging, ``Tier.EXACT``): the texts are equal, or one is
an unbroken run of the other, read exactly. A text that is not read contains only an equal text.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import islice

from ..selection.judging.judge import Judge
from ..selection.policy import Tier
from ..selection.reading.lines import lines_of
from ..selection.reading.marks import undressed
from ..selection.reading.text import Text
from ..selection.values import Link

# Words that the containing text must have, regardless of case. Markup or a line's end may divide a word.
_WORD = re.compile(r"[A-Za-z]{5,}", re.ASCII)
SCREENED = 8
# Texts up to this length may consist of markup and invisible characters.
SHORT = 256


def is_readable(text: Text) -> bool:
    """Whether a text is read and has tokens to compare."""
    if text.cost() < 0 or (len(text.raw) <= SHORT and not lines_of(undressed(text.raw))):
        return False
    return bool(text.passages(exact=True)[0].tokens)


class Holder:
    """A text that may contain others. It is read at its first use."""

    __slots__ = ("_judge", "_lower", "text")

    def __init__(self, text: Text) -> None:
        self.text = text
        self._lower: str | None = None
        self._judge: Judge | None = None

    def link(self, other: Text) -> Link:
        """EQUAL or CONTAINED if this text contains the other, else NONE."""
        if other.raw == self.text.raw:
            return Link.EQUAL
        if not self._may_hold(other) or not is_readable(other) or not is_readable(self.text):
            return Link.NONE
        if self._judge is None:
            self._judge = Judge(Tier.EXACT)
            self._judge.keep(0, self.text)
        return self._judge.verdict(other).link

    def _may_hold(self, other: Text) -> bool:
        """Whether this text has some words of the other. Most neighbours do not, and reading takes a hundred times as long."""
        if other.cost() < 0 or self.text.cost() < 0:
            return False
        if self._lower is None:
            self._lower = self.text.raw.lower()
        words = (match[0].lower() for match in _WORD.finditer(other.raw))
        return all(word in self._lower for word in islice(words, SCREENED))


def holds(staying: Text | None, leaving: Iterable[Text]) -> bool:
    """Whether a text contains all of these."""
    if staying is None:
        return False
    holder = Holder(staying)
    return all(holder.link(text) is not Link.NONE for text in leaving)
