"""Which of the listed questions is asked: by number, or by the words of a free text. No model is shipped."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

_NUMBER = re.compile(r"[+-]?\d{1,100}")  # int() refuses texts of thousands of digits
_WORD = re.compile(r"[a-z0-9]+")


class UnknownQuestion(Exception):  # noqa: N818 - names what is wrong with the argument
    """What was asked for is not among the questions. The message lists them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """``index``: row of the question. ``remark``: what the reader must know about how it was chosen, or None."""

    index: int
    remark: str | None = None


def choose(questions: Sequence[str], query: str) -> Choice:
    """The question with that number (from 1), or the one that shares the most telling words with a free text.

    Raises UnknownQuestion for a number out of range and for a text that shares no word with any question.
    """
    if _NUMBER.fullmatch(query.strip()):
        return _by_number(questions, int(query))
    return _by_words(questions, query)


def _by_number(questions: Sequence[str], number: int) -> Choice:
    if not 1 <= number <= len(questions):
        raise UnknownQuestion(_listing(questions, f"no question {number}: want 1 to {len(questions)}"))
    return Choice(index=number - 1)


def _by_words(questions: Sequence[str], text: str) -> Choice:
    wanted = _words(text)
    bags = [_words(question) for question in questions]
    weights = _idf(bags)
    # sorted(): a sum of floats depends on its order, and a set has none.
    overlaps = [sum(weights[word] for word in sorted(wanted & bag)) for bag in bags]
    best = max(range(len(questions)), key=overlaps.__getitem__, default=None)
    if best is None or overlaps[best] == 0.0:
        raise UnknownQuestion(_listing(questions, f"no listed question shares a telling word with {text!r}"))
    if wanted == bags[best]:
        return Choice(index=best)
    remark = (
        "The demo ships no embedding model, so it cannot embed your text: "
        f"instead it asks listed question {best + 1}, the nearest by common words."
    )
    return Choice(index=best, remark=remark)


def _words(text: str) -> frozenset[str]:
    return frozenset(_WORD.findall(text.lower()))


def _idf(bags: Sequence[frozenset[str]]) -> dict[str, float]:
    """Rare words weigh more; a word of more than half of the questions ("how", "do", "a") weighs nothing."""
    counts = Counter(word for bag in bags for word in bag)
    half = len(bags) / 2
    return {word: 0.0 if count > half else math.log(1 + len(bags) / count) for word, count in counts.items()}


def _listing(questions: Sequence[str], problem: str) -> str:
    lines = [f"  {number:2}  {question}" for number, question in enumerate(questions, 1)]
    return "\n".join([problem, "The questions are:", *lines])
