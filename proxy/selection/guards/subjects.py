"""The subject that a text names at its beginning: a function, a release, an advisory, a ticket, a date.

Pages of a reference are written from one template: ``numpy.greater`` and ``numpy.greater_equal`` share nearly every word, and only the name
at the beginning distinguishes them. So two texts of any length that begin with different names are no copies, however much of the rest they
share.

The raw text is read, because a title that repeats in several chunks is removed from the canonical text as a header line.
"""

from __future__ import annotations

import re
import unicodedata
from itertools import pairwise

from ..text.bounds import cost

# A first line or sentence of at most this many words, with more text after it, is a title and is read completely. Of other texts only the
# first two words are read: further on, overlapping chunks of one document name different things.
TITLE_WORDS = 12
OPENING_WORDS = 2

# Characters at the head of a text that are read.
HEAD = 400

# Names and numbers with their inner signs; a call keeps its bracket, which tells a function from a word.
_TOKEN = re.compile(r"#?-{0,2}\w+(?:(?:::|[.\-–/:+#])\w+)*\(?")
_INNER_SIGN = re.compile(
    r"[^\W\d_][._]\w|\w[._][^\W\d_]|::|\d[-/:.]\d+[-/:.]\d|\d{4}[-–/]\d\d"
)  # names, releases, dates; no decimals
_CAMEL = re.compile(r"[a-z][A-Z]")
_ORDINAL = re.compile(r"\d+(?:st|nd|rd|th|s)")
_PAGE = re.compile(r"page \d+(?: of \d+)?", re.IGNORECASE)
# Words before a year or a quantity, which is then no name.
_PREPOSITIONS = frozenset(
    [
        "about",
        "after",
        "around",
        "at",
        "before",
        "between",
        "by",
        "during",
        "for",
        "from",
        "in",
        "into",
        "of",
        "on",
        "over",
        "since",
        "than",
        "the",
        "to",
        "under",
        "until",
        "with",
    ]
)
# An ASCII opening without any of these has no name. Most openings have none of them.
_MARK = re.compile(r"[\d(]|\w[._]\w|::|[a-z][A-Z]", re.ASCII)
# A line followed by another; or a sentence that ends before a capital letter, which an abbreviation seldom does.
_TITLE = re.compile(r"([^\n]++)\n|([^\n.!?]++)[.!?]\s+(?=[A-Z])")


Subject = frozenset[str]
NOTHING: Subject = frozenset()


def subject(head: str) -> Subject:
    """The names at the head of a text, in lower case; empty if it begins with none. ``head``: its first HEAD characters."""
    if not head.isascii():
        if cost(head) is None:
            return NOTHING
        head = unicodedata.normalize("NFKC", head)
    plain = head.strip()
    title = _TITLE.match(plain)
    words = plain.split(None, OPENING_WORDS) if title is None else (title[1] or title[2]).split()
    is_title = title is not None and len(words) <= TITLE_WORDS
    opening = " ".join(words if is_title else words[:OPENING_WORDS])
    is_line = title is not None and bool(title[1])
    if opening.isascii() and _MARK.search(opening) is None and not (is_line and len(words) == 1):
        return NOTHING
    tokens = _TOKEN.findall(_PAGE.sub(" ", opening))
    if is_line and len(words) == len(tokens) == 1:
        return frozenset({tokens[0].rstrip("(").lower()})
    found = {token.rstrip("(").lower() for token in tokens if _is_name(token)}
    return frozenset(found or _numbered(tokens if is_title else tokens[:2]))


def subjects_differ(one: Subject, other: Subject) -> bool:
    """Whether each of two texts begins with a name with which the other does not begin."""
    return bool(one and other and one - other and other - one)


def _is_name(token: str) -> bool:
    if token.isalpha() and token.islower():
        return False  # a word
    bare = token.rstrip("(")
    has_digit = any(map(str.isdigit, bare))
    has_letter = any(map(str.isalpha, bare))
    if token.endswith("(") and has_letter:
        return True
    if has_digit and has_letter:
        return not _ORDINAL.fullmatch(bare.lower())
    return bool(_INNER_SIGN.search(bare)) or (bool(_CAMEL.search(bare)) and has_letter)


def _numbered(tokens: list[str]) -> set[str]:
    """Words and their numbers: ``HTTP 404``, ``Error 53``, ``season 4``; and ``#4521`` at the beginning."""
    if tokens and tokens[0].startswith("#") and tokens[0][1:].isdigit():
        return {tokens[0]}
    pairs = pairwise(token.rstrip("(").lower() for token in tokens)
    return {
        f"{word} {number}"
        for word, number in pairs
        if word.isalpha() and number.isdigit() and word not in _PREPOSITIONS
    }
