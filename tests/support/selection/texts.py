"""Texts for tests: any Unicode, texts that share passages, and texts that are dear to read."""

from __future__ import annotations

from collections.abc import Iterable

from hypothesis import strategies as st

from vecsieve.proxy.selection.reading.text import TEXTS, Text, text_of

# Every code point, lone surrogates too: a JSON string may hold them.
ANY_TEXT = st.text(st.characters(exclude_categories=()))

# What goes wrong first: blanks of all kinds, hyphens at line ends, invisible characters, letters that fold to several.
ODD_TEXT = st.text(
    st.sampled_from(
        [*"aB1_-.\n\r\t ß", *"\u00ad\u200b\u00a0\u2028\u0390\u0345\u0301", "ﬁ", "漢", "ก", "क", "ि", "م", "👍"]
    )
)

WORDS = ("red", "green", "blue", "one", "two", "three", "漢", "ü", "x1")


def passages(*, smallest: int = 0) -> st.SearchStrategy[str]:
    """Texts of few different words, so that any two share some 3-grams."""
    return st.lists(st.sampled_from(WORDS), min_size=smallest, max_size=30).map(" ".join)


def as_texts(known: Iterable[str | None]) -> tuple[Text | None, ...]:
    """As selection takes them."""
    return tuple(None if raw is None else text_of(raw) for raw in known)


def forget() -> None:
    """Forget all texts, as if none had been seen."""
    TEXTS.clear()


# Cheap to store, dear to read.
HOSTILE = {
    "marks": "a" + "\u0301\u0323" * 49_500,
    "marks parted by invisible ones": ("a" + "\u0301\u0323" * 14 + "\u200b") * 3_000,
    "expansions": "\ufdfa" * 95_000,
    "a few expansions": "\ufdfa" * 5_000,
    "bidi": "\u202ea\u202c" * 33_000,
    "lone surrogates": "\ud800" * 99_000,
    "emoji": "👩\u200d👩\u200d👧\u200d👦\U0001f3fd" * 10_000,
    "flags": "\U0001f1e9\U0001f1ea" * 49_000,
    "a word": "a" * 1_000_000,
    "a word below the bound": "ß" * 99_999,
    "lines": "-\n" * 100_000,
    "lines below the bound": "a-\n" * 33_000,
    "blank lines": "\n" * 99_999,
    "returns": "\r" * 99_999,
    "digits": "1" * 99_999,
    "digits of all kinds": "1१１¹" * 24_999,
    "tags": "\U000e0041" * 99_000,
    "Chinese beyond the basic plane": "\U0002f800" * 99_000,
    "jamo": "\u1112\u1161\u11ab" * 33_000,
    "letters that fold apart": "\u0390" * 99_000,
    "nothing visible": "\u200b" * 99_999,
    "zeros": "\x00" * 99_999,
}


def hostile_text() -> st.SearchStrategy[str]:
    """Pieces of what is dear to read, repeated and mixed."""
    piece = st.tuples(
        st.sampled_from(
            [
                "\u0301\u0323",
                "\u0f73",
                "\uff9e",
                "\ufdfa",
                "\u0390",
                "\u200b",
                "\u202e",
                "\ud800",
                "👩\u200d",
                "-\n",
                "a-\nb",
                "漢",
                "1,",
                "no ",
            ]
        ),
        st.sampled_from([1, 2, 15, 31, 5_000]),
    )
    return st.lists(piece, max_size=4).map(lambda pieces: "".join(text * count for text, count in pieces))
