"""Whether one text says all of another, as strictly as a final deletion asks (selection/judging, ``Tier.EXACT``): the text is equal, or one unbroken
run of the one that stays, read exactly. A text that is not read may say anything: it holds and is held by an equal one alone.
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

# Words that the text that stays must have. In a run of it each stands as it is, but for case, unless markup or a line's end divides it there.
_WORD = re.compile(r"[A-Za-z]{5,}", re.ASCII)
SCREENED = 8
# Characters of a text that may have nothing but markup and invisible ones.
SHORT = 256


def is_readable(text: Text) -> bool:
    """Whether a text is read, and has something to compare."""
    if text.cost() < 0 or (len(text.raw) <= SHORT and not lines_of(undressed(text.raw))):
        return False
    return bool(text.passages(exact=True)[0].tokens)


class Holder:
    """A text that stays. It is read when it is first needed."""

    __slots__ = ("_judge", "_lower", "text")

    def __init__(self, text: Text) -> None:
        self.text = text
        self._lower: str | None = None
        self._judge: Judge | None = None

    def link(self, other: Text) -> Link:
        """EQUAL or CONTAINED if it holds the other one, else NONE."""
        if other.raw == self.text.raw:
            return Link.EQUAL
        if not self._may_hold(other) or not is_readable(other) or not is_readable(self.text):
            return Link.NONE
        if self._judge is None:
            self._judge = Judge(Tier.EXACT)
            self._judge.keep(0, self.text)
        return self._judge.verdict(other).link

    def _may_hold(self, other: Text) -> bool:
        """Whether some words of the other one stand here: of most neighbours they do not, and reading takes a hundred times as long."""
        if other.cost() < 0 or self.text.cost() < 0:
            return False
        if self._lower is None:
            self._lower = self.text.raw.lower()
        words = (found[0].lower() for found in _WORD.finditer(other.raw))
        return all(word in self._lower for word in islice(words, SCREENED))


def holds(staying: Text | None, leaving: Iterable[Text]) -> bool:
    """Whether a text holds all of these."""
    if staying is None:
        return False
    holder = Holder(staying)
    return all(holder.link(each) is not Link.NONE for each in leaving)
