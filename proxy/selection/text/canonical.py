"""The canonical form of a text: what is left when everything is gone that a copy may differ in without saying anything else.

In the order of the recipe for duplicate collapse in retrieval (WFGY's problem map): compatibility composition (NFKC),
soft hyphens and zero-width characters, words split at a line's end, header and footer lines (margins.py), case, blanks.
Lines must still be lines until the margins are off, so there are two functions with the margins in between.

Whether a text may be read at all is known before (bounds.py): nothing here holds on to a text that is not.

Measured on one set of articles from four pipelines: without the margins the same text out of PDF, HTML and a plain
page never had one canonical form; with them 35 % of all duplicates do, and nothing else.
"""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache

import xxhash

from .bounds import FEW_OTHERS, INVISIBLE, beyond_ascii

_INVISIBLE = re.compile("[" + "".join(f"{chr(first)}-{chr(last)}" for first, last in INVISIBLE) + "]+")

# A letter, a hyphen, the line's end, a letter. Possessive, so that a column of blank lines costs one look at each. A pattern for
# each hyphen: one that begins with a class of characters takes thirty times as long.
_SPLIT_WORDS = {
    hyphen: re.compile(f"{hyphen}(?<=[^\\W\\d_].)[^\\S\\n]*+\\n\\s*+([^\\W\\d_])") for hyphen in ("-", "\u2010")
}


def unwrapped(text: str) -> str:
    """``text`` composed, without invisible characters, with words whole; its lines are kept, ended by a line feed.

    Only a lower-case letter continues a word: "1990-/1995" and "Anglo-/Saxon" keep their hyphen. A compound that was broken
    at its own hyphen ("well-/known") loses it, since nothing in the text tells the two apart.
    """
    if not text.isascii():
        text = _composed(text)
    if "\r" in text:
        text = text.replace("\r\n", "\n").replace("\r", "\n")
    if "\n" in text:
        for hyphen, split in _SPLIT_WORDS.items():
            if hyphen in text:
                text = split.sub(_joined, text)
    return text


def folded(text: str) -> str:
    """``text`` (from ``unwrapped``) without case, every run of blanks one space; empty where nothing is left."""
    if text.isascii():
        text, is_plain = text.lower(), not any(map(text.__contains__, _BLANKS))
    elif len(others := beyond_ascii(text)) <= FEW_OTHERS and _is_inert(others):
        # A third of the time: what Python folds, it looks up character by character.
        text, is_plain = text.encode().lower().decode(), not any(map(text.__contains__, _BLANKS))
    else:
        text = _without_case(text)
        is_plain = text.isprintable() and "  " not in text  # no blank but a space is printable
    return text if is_plain and text.strip(" ") == text else " ".join(text.split())


# What ASCII has of blanks, but for a single space.
_BLANKS = ("  ", "\n", "\t", "\r", "\v", "\f", "\x1c", "\x1d", "\x1e", "\x1f")


@lru_cache(maxsize=4096)
def _is_inert(others: str) -> bool:
    """Whether a text with these characters beyond ASCII is composed, whatever stands between them, and only its ASCII has case and
    blanks. Marks and conjoining letters of Korean compose with what stands before them.
    """
    return all(map(_is_inert_alone, others))


@lru_cache(maxsize=4096)
def _is_inert_alone(character: str) -> bool:
    return (
        unicodedata.is_normalized("NFKC", character)
        and unicodedata.category(character)[0] not in "MC"
        and not unicodedata.combining(character)
        and not "\u1100" <= character <= "\u11ff"
        and character.casefold() == character
        and not character.isspace()
        and not _INVISIBLE.match(character)
    )


def _without_case(text: str) -> str:
    text = text.casefold()
    if unicodedata.is_normalized("NFKC", text):
        return text
    # Folding takes some letters apart (U+0390) that are composed again, and what is composed may fold further. Without
    # going on to where nothing changes, the canonical form of a canonical form would be another text.
    text = unicodedata.normalize("NFKC", text)
    while (once := unicodedata.normalize("NFKC", text.casefold())) != text:
        text = once
    return text


def _composed(text: str) -> str:
    if len(others := beyond_ascii(text)) <= FEW_OTHERS and _is_inert(others):
        return text
    if not unicodedata.is_normalized("NFKC", text):
        text = unicodedata.normalize("NFKC", text)
    if not _INVISIBLE.search(beyond_ascii(text)):
        return text
    bare = _INVISIBLE.sub("", text)
    if unicodedata.is_normalized("NFKC", bare):
        return bare
    return _composed(bare)  # what an invisible character kept apart may compose now


def _joined(found: re.Match[str]) -> str:
    continuation = found[1]
    return continuation if continuation.islower() else found[0]


def content_hash(canonical: str) -> int:
    """xxh64 (seed 0) of the canonical text in UTF-8; lone surrogates, which JSON can carry, as three bytes each."""
    return xxhash.xxh64_intdigest(canonical.encode("utf-8", "surrogatepass"), seed=0)
