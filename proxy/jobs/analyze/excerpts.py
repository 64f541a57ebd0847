"""A piece of a collection's text as it may be shown: on one line, short, and nothing in it that a terminal would act on."""

from __future__ import annotations

import unicodedata

TEXT_CHARACTERS = 240


def shortened(text: str) -> str:
    """On one line, without what a terminal would act on or a reader not see, cut with an ellipsis."""
    line = " ".join("".join(_visible(each) for each in text[: 8 * TEXT_CHARACTERS]).split())
    return line if len(line) <= TEXT_CHARACTERS else line[: TEXT_CHARACTERS - 1].rstrip() + "…"


def _visible(character: str) -> str:
    if character.isprintable():
        return character
    return "" if unicodedata.category(character) == "Cf" else " "  # joiners and direction marks: no gap where they were
