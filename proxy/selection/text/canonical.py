"""The canonical form of a text: without everything in which copies differ although they say the same.

In the order of the recipe for duplicate collapse in retrieval (WFGY's problem map): compatibility composition (NFKC), soft hyphens and
zero-width characters, words split at a line's end, header and footer lines (margins.py), case, blanks. Lines must be kept until the margins
are removed, so there are two functions, before and after.

Whether a text may be read at all is decided before (bounds.py).

Measured on one set of articles from four pipelines: with margins, the same text from PDF, HTML and a plain page never had one canonical
form; without them 35 % of all duplicates do, and nothing else.
"""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache

import xxhash

from .bounds import FEW_OTHERS, INVISIBLE, beyond_ascii

_INVISIBLE = re.compile("[" + "".join(f"{chr(first)}-{chr(last)}" for first, last in INVISIBLE) + "]+")

# A letter, a hyphen, the line's end, a letter. Possessive, so that a column of blank lines takes linear time. One pattern for each hyphen:
# a pattern that begins with a character class takes thirty times as long.
_SPLIT_WORDS = {
    hyphen: re.compile(f"{hyphen}(?<=[^\\W\\d_].)[^\\S\\n]*+\\n\\s*+([^\\W\\d_])") for hyphen in ("-", "\u2010")
}


def unwrapped(text: str) -> str:
    """``text`` composed, without invisible characters, with words rejoined; its lines are kept, ended by a line feed.

    Only a lower-case letter continues a word: "1990-/1995" and "Anglo-/Saxon" keep their hyphen. A compound that was broken at its own
    hyphen ("well-/known") loses it, because the text does not show the difference.
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
    """``text`` (from ``unwrapped``) in folded case, with single blanks; empty if nothing is left."""
    if text.isascii():
        text, is_plain = text.lower(), not any(map(text.__contains__, _BLANKS))
    elif len(others := beyond_ascii(text)) <= FEW_OTHERS and _is_inert(others):
        # Takes a third of the time: casefold() looks up each character.
        text, is_plain = text.encode().lower().decode(), not any(map(text.__contains__, _BLANKS))
    else:
        text = _without_case(text)
        is_plain = text.isprintable() and "  " not in text  # a space is the only printable blank
    return text if is_plain and text.strip(" ") == text else " ".join(text.split())


# The blanks of ASCII, except a single space.
_BLANKS = ("  ", "\n", "\t", "\r", "\v", "\f", "\x1c", "\x1d", "\x1e", "\x1f")


@lru_cache(maxsize=4096)
def _is_inert(others: str) -> bool:
    """Whether a text with these non-ASCII characters is composed, whatever is between them, and has case and blanks in its ASCII only.
    Marks and conjoining letters of Korean combine with the character before them.
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
    # Folding decomposes some letters (U+0390) that are composed again, and the result may fold further. Without repeating it until nothing
    # changes, the canonical form of a canonical form would be another text.
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
    return _composed(bare)  # characters that an invisible one kept apart may combine now


def _joined(found: re.Match[str]) -> str:
    continuation = found[1]
    return continuation if continuation.islower() else found[0]


def content_hash(canonical: str) -> int:
    """xxh64 (seed 0) of the canonical text in UTF-8; lone surrogates, which JSON can contain, as three bytes each."""
    return xxhash.xxh64_intdigest(canonical.encode("utf-8", "surrogatepass"), seed=0)
