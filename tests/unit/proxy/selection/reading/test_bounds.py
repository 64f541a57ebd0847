"""What is read of texts is bounded before anything is done with them, whatever they hold."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.selection.texts import ANY_TEXT, HOSTILE, as_texts, hostile_text
from vecsieve.proxy.selection.reading import bounds, marks
from vecsieve.proxy.selection.reading.bounds import LONGEST, MOST_LINES, MOST_MARKS, POOL_COST, cost, readable
from vecsieve.proxy.selection.reading.text import text_of

MARKS = "\u0301\u0323"  # of two classes: to be sorted, which is what takes the time


@pytest.mark.parametrize("count", [MOST_MARKS + 1, 10_000, LONGEST - 1])
def test_a_run_of_marks_is_never_read(count: int) -> None:
    assert cost("a" + (MARKS * count)[:count]) is None


def test_as_many_marks_as_any_language_needs_are_read() -> None:
    assert cost("a" + (MARKS * MOST_MARKS)[:MOST_MARKS]) is not None


@pytest.mark.parametrize("between", ["\u200b", "\u00ad", "\ufeff\u2060"])
def test_invisible_characters_do_not_part_a_run(between: str) -> None:
    """They are taken out, and what they parted is one run then."""
    assert cost(f"a{(MARKS * 8 + between) * 3}") is None


@pytest.mark.parametrize("mark", ["\u0f73", "\uff9e", "\u0344", "\U0001d165"])
def test_what_becomes_a_mark_is_one(mark: str) -> None:
    assert cost(f"a{mark * MOST_MARKS}") is not None
    assert cost(f"a{mark * (MOST_MARKS + 1)}") is None


def test_the_length_and_the_lines_of_one_text_are_bounded() -> None:
    assert cost("a" * LONGEST) == LONGEST
    assert cost("a" * (LONGEST + 1)) is None
    assert cost("a\n" * MOST_LINES) is not None
    assert cost("a\n" * (MOST_LINES + 1)) is None
    assert cost("a\r" * (MOST_LINES + 1)) is None
    assert cost("") == 0


def test_a_letter_that_expands_costs_what_it_becomes() -> None:
    expanded = cost("\ufdfa" * 1_000)
    assert expanded is None or expanded >= 18_000


def test_the_texts_of_fifty_long_chunks_are_all_read() -> None:
    chunks = [f"{number} " + "the quick brown fox, " * 950 for number in range(50)]
    assert None not in readable(as_texts(chunks))[0]
    assert sum(map(len, chunks)) > 950_000


def test_the_best_ranked_texts_are_read_and_the_others_are_unknown() -> None:
    size = LONGEST - 10
    texts = ["a" * size, None, "b" * (LONGEST + 1), *[f"{number}{'c' * size}"[:size] for number in range(60)], "short"]
    readings = readable(as_texts(texts))[0]
    known = [place for place, text in enumerate(readings) if text is not None and text.cost() >= 0]
    assert known == [0, *range(3, 3 + POOL_COST // size - 1)]


def test_a_text_that_is_not_read_costs_its_length() -> None:
    """Else a thousand of them would be looked through."""
    bad = "\u00e9" + "a" * (LONGEST - 100) + MARKS * 20
    assert not any(text is not None and text.cost() >= 0 for text in readable(as_texts([bad] * 40 + ["short"]))[0])


# All that has a trait of its own, and every 97th of the others.
CODES = [*range(0xD800), *range(0xE000, bounds._TABLE_END), *range(bounds._TABLE_END, 0x110000, 97)]


def trait(code: int) -> int:
    """By its definition."""
    character = chr(code)
    apart, folded = unicodedata.normalize("NFKD", character), character.casefold()
    prices = [len(character.encode())]
    prices += [] if unicodedata.is_normalized("NFKC", character) else [2 * len(apart)]
    prices += [] if unicodedata.is_normalized("NFKC", folded) else [4 * len(folded)]
    is_invisible = any(first <= code <= last for first, last in bounds.INVISIBLE)
    return max(prices) + 64 * bool(unicodedata.combining(apart[0])) + 128 * is_invisible


def test_the_traits_hold_for_every_character_in_whatever_order_texts_show_them(monkeypatch: pytest.MonkeyPatch) -> None:
    expected = [trait(code) if code < bounds._TABLE_END else 8 for code in CODES]
    for order in (slice(None), slice(None, None, -1)):
        monkeypatch.setattr(bounds, "_TRAITS", bounds._known_traits())
        codes, traits = CODES[order], expected[order]
        for start in range(0, len(codes), 4096):
            text = "".join(map(chr, codes[start : start + 4096]))
            assert bounds._traits_of(text).tolist() == traits[start : start + 4096]
            assert bounds._traits_of(text).tolist() == traits[start : start + 4096]


def test_what_is_invisible_to_the_bounds_is_removed_when_read() -> None:
    """A character that only one of the two knew would join two runs of marks behind the bounds."""
    for first, last in bounds.INVISIBLE:
        for code in range(first, last + 1):
            assert marks.undressed(f"a{chr(code)}b") == "ab", hex(code)


@given(st.lists(ANY_TEXT | hostile_text(), max_size=6))
def test_what_is_read_is_bounded_and_depends_on_better_ranks_alone(texts: list[str]) -> None:
    """Read texts cost at most the budget together, are whole, and are the same with more texts behind them."""
    known = as_texts(texts)
    readings = readable(known)[0]
    priced = [text for text in readings if text is not None and text.cost() >= 0]
    assert sum(text.cost() for text in priced) <= POOL_COST
    assert all(text in known for text in priced)
    again = readable((*known, text_of("more")))[0][: len(texts)]
    assert [text is not None and text.cost() >= 0 for text in again] == [
        text is not None and text.cost() >= 0 for text in readings
    ]


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_text_has_a_price_or_none(name: str) -> None:
    price = cost(HOSTILE[name])
    assert price is None or 0 <= price <= 3 * LONGEST
