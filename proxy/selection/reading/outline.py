"""The outline of a text: its words, and its runs of three words. Where two outlines have too little in common, neither text says the other.

A text is outlined in a fifth of the time that it takes to read it. An outline is approximate: it folds more than reading does, and sees no accents
apart, no compounds, no spellings. So it never proves that a text leaves; it only shows that reading it is in vain. A text that is not read stays.
"""

from __future__ import annotations

import html
import math
import re
import unicodedata
from array import array

from .marks import BROKEN_WORD, REMOVED
from .words import IS_SPACELESS, SPACELESS

# Bytes of UTF-8: letters of ASCII without case, digits, and blanks for all other ASCII.
_FOLDED = bytes(ord(chr(code).lower()) if chr(code).isalnum() else 0x20 for code in range(0x80)) + bytes(
    range(0x80, 0x100)
)
_TAG = re.compile("<[^<>]{1,300}+>")
# Marks of prose beyond ASCII.
_MARKS = re.compile("[\u2000-\u206f\u00a0«»·]")
_WORD = re.compile(f"[{SPACELESS}]|[^\\W{SPACELESS}]+")

# Texts of so few words are always read: one other spelling is in most of their runs of three. Longer ones are read beside them if they share words.
FEW_WORDS = 12
# The share of a text that must be known before it is read. What is covered has all of its runs in common but for those at joins and edits: in five
# labelled sets .95 and more. Lines may be set aside as header and footer: then it was .40 and more.
_SHARE, _SHARE_OF_LINES = 0.6, 0.25
_SHARE_OF_WORDS = 0.5


class Outline:
    """``grams``: distinct hashes of its runs of three words, in a tenth of the bytes of a set, because thousands of outlines are kept. ``least``: how many
    of them must be known, or it is not covered; ``enough``: of so many one is known then.
    """

    __slots__ = ("_words", "enough", "grams", "is_short", "least", "raw")

    def __init__(self, raw: str) -> None:
        """``raw``: a text that can be encoded, as every text with a cost can be."""
        words = _words(raw)
        self.raw, self._words = raw, frozenset[str]()
        self.is_short = len(words) < FEW_WORDS
        self.grams = array("q", [*set(map(hash, zip(words, words[1:], words[2:], strict=False)))])
        self.least = (_SHARE_OF_LINES if "\n" in raw else _SHARE) * len(self.grams)
        self.enough = len(self.grams) - math.ceil(self.least) + 1

    @property
    def words(self) -> frozenset[str]:
        """Its words."""
        if not self._words:
            self._words = frozenset(_words(self.raw))
        return self._words

    def shares_words(self, other: Outline) -> bool:
        """Whether the other text may say some of this one, which is short."""
        return other.is_short or len(self.words & other.words) >= _SHARE_OF_WORDS * len(self.words)


def _words(raw: str) -> list[str]:
    """The words in order, without case, markup and English articles; characters of scripts without blanks."""
    if "<" in raw:
        raw = _TAG.sub(" ", raw)
    if "&" in raw:
        raw = html.unescape(raw)
    if "-" in raw and "\n" in raw:
        raw = BROKEN_WORD.sub("", raw)
    if raw.isascii():
        folded = raw.encode().translate(_FOLDED).decode()
    else:
        folded = _MARKS.sub(" ", REMOVED.sub("", unicodedata.normalize("NFC", raw)))
        if IS_SPACELESS.search(folded):
            return _WORD.findall(folded.lower())
        folded = folded.encode().translate(_FOLDED).decode().lower()
    folded = f" {folded} "
    for article in (" the ", " a ", " an "):
        folded = folded.replace(article, " ")
    return folded.split()
