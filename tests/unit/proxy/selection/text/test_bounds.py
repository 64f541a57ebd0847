"""What is read of texts is bounded before anything is done with them, whatever they hold."""

from __future__ import annotations

import time
import unicodedata
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.texts import ANY_TEXT, HOSTILE, as_texts, forget, hostile_text, rules
from vecsieve.proxy.selection.text import bounds, canonical, features, margins, tokens
from vecsieve.proxy.selection.text.bounds import (
    LONGEST,
    LONGEST_WORD,
    MOST_MARKS,
    POOL_COST,
    POOL_WORDS,
    STEP_COST,
    TEXT_COST,
    cost,
    lengths_of,
    portions,
    readable,
    short,
)
from vecsieve.proxy.selection.text.features import text_of
from vecsieve.proxy.selection.text.matching import matches
from vecsieve.proxy.selection.text.reading import read
from vecsieve.proxy.selection.values import Metadata, finished

MARKS = "\u0301\u0323"  # of two classes: to be sorted, which is what takes the time
EVERYTHING = {"identical": True, "containment": 0.8, "jaccard": 0.9, "indel": 0.9, "minhash": 0.9, "simhash": 3}


class Counted:
    """How much work was done: characters normalised, lines cut off, words hashed."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.characters = self.lines = self.words = 0
        self._normalize, self._edges, self._hashed = unicodedata.normalize, margins.edges, tokens.hashed
        self._is_normalized = unicodedata.is_normalized
        monkeypatch.setattr(canonical, "unicodedata", self)
        monkeypatch.setattr(features, "edges", self.edges)
        monkeypatch.setattr(features, "hashed", self.hashed)

    def normalize(self, form: Any, text: str) -> str:
        found = self._normalize(form, text)
        self.characters += max(len(text), len(found))
        return found

    def is_normalized(self, form: Any, text: str) -> bool:
        self.characters += len(text)
        return self._is_normalized(form, text)

    def edges(self, text: str) -> Any:
        found = self._edges(text)
        self.lines += 0 if found is None else len(found.lines)
        return found

    def hashed(self, texts: Any) -> Any:
        found = self._hashed(texts)
        self.words += sum(map(len, found))
        return found


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> Iterator[Counted]:
    forget()
    yield Counted(monkeypatch)
    forget()


def compared(*texts: str) -> np.ndarray[Any, Any]:
    """The links of every two of these texts, by all signals."""
    each = np.arange(len(texts), dtype=np.intp)
    on = rules(**EVERYTHING)
    known = read(Metadata(texts=as_texts(texts)), on)
    return finished(matches(known, each, each, ~np.eye(len(texts), dtype=np.bool_), on)).links


@pytest.mark.parametrize("count", [MOST_MARKS + 1, 50_000, 99_000])
def test_a_run_of_marks_is_never_normalised(counted: Counted, count: int) -> None:
    text = "a" + (MARKS * count)[:count]
    assert not compared(text, text).any()
    assert counted.characters == 0


def test_as_many_marks_as_any_language_needs_are_read(counted: Counted) -> None:
    text = "a" + (MARKS * MOST_MARKS)[:MOST_MARKS]
    assert compared(text, text).any()
    assert counted.characters > 0


@pytest.mark.parametrize("between", ["\u200b", "\u00ad", "\ufeff\u2060"])
def test_invisible_characters_do_not_part_a_run(between: str) -> None:
    """They are taken out, and what they parted is one run then."""
    assert cost(f"a{(MARKS * 8 + between) * 3}") is None


@pytest.mark.parametrize("mark", ["\u0f73", "\uff9e", "\u0344", "\U0001d165"])
def test_what_becomes_a_mark_is_one(mark: str) -> None:
    assert cost(f"a{mark * MOST_MARKS}") is not None
    assert cost(f"a{mark * (MOST_MARKS + 1)}") is None


# Made by the test: together they are 60 MB, which every process that collects the tests would make.
HOSTILE_POOLS: dict[str, Callable[[], list[str]]] = {
    "50 texts that expand": lambda: ["\ufdfa" * 95_000] * 50,
    "50 texts that expand within the bound": lambda: [f"{number}{chr(0xFDFA) * 5_000}" for number in range(50)],
    "50 Chinese texts": lambda: [
        "".join(chr(0x4E00 + (place * step) % 20_000) for place in range(99_000)) for step in range(1, 51)
    ],
    "50 texts of lines": lambda: [f"{'-' + chr(10)}" * 49_900 + str(number) for number in range(50)],
    "1000 texts of one-letter words": lambda: ["a " * 5_000 + str(number) for number in range(1000)],
    "200 texts just below the bound": lambda: [f"{'x1.' * (LONGEST // 3 - 2)}{number}" for number in range(200)],
    "50 texts of letters that fold apart": lambda: [f"{chr(0x390) * 20_000}{number}" for number in range(50)],
}


@pytest.mark.parametrize("name", HOSTILE_POOLS)
def test_the_work_of_a_pool_is_bounded(counted: Counted, name: str) -> None:
    texts = HOSTILE_POOLS[name]()
    began = time.thread_time()
    compared(*texts)
    taken = time.thread_time() - began
    # Looked at before and after folding, composed in between.
    assert counted.characters <= 4 * POOL_COST
    assert counted.lines <= POOL_COST // 4
    assert counted.words <= POOL_COST
    assert taken < 1.0  # seconds it took before the bounds: 2 to 45; at most .08 with them


def test_the_texts_of_fifty_long_chunks_are_all_compared() -> None:
    chunks = [f"{number} " + "the quick brown fox, " * 950 for number in range(50)]
    assert None not in readable(as_texts(chunks))[0]
    assert sum(map(len, chunks)) > 950_000


def test_the_best_ranked_texts_are_read_and_the_others_are_unknown() -> None:
    texts = ["a" * 90_000, None, "b" * (LONGEST + 1), *[f"{number}{'c' * 90_000}" for number in range(20)], "short"]
    found = readable(as_texts(texts))[0]
    assert [text is None for text in found[:3]] == [False, True, True]
    read_on = [place for place, text in enumerate(found) if text is not None]
    assert read_on == [0, *range(3, 3 + POOL_COST // 90_001 - 1)]


def test_a_text_that_is_not_read_costs_its_length() -> None:
    """Else a thousand of them would be looked through."""
    bad = "é" + "a" * 90_000 + MARKS * 20
    assert readable(as_texts([bad] * 12 + ["short"]))[0] == (None,) * 13


def test_texts_beyond_the_words_of_a_pool_are_compared_by_their_whole_alone() -> None:
    texts = [f"{'a b c d e f g h i j ' * 2_500}{number // 2}" for number in range(20)]
    links = compared(*texts)
    with_words = POOL_WORDS // 25_001
    assert links[0, 1]
    assert links[0, 2:with_words].all()
    assert not links[0, with_words:].any()
    even = with_words + with_words % 2
    assert links[even, even + 1]  # the same text


@given(st.lists(st.one_of(st.none(), hostile_text()), max_size=20))
def test_portions_hold_all_places_in_order_and_no_more_than_a_step(texts: list[str | None]) -> None:
    """Invariant: every place once, in order; no portion costs more than STEP_COST unless one text alone does."""
    known, costs = readable(as_texts(texts))
    found = list(portions(costs, range(len(known))))
    assert [place for portion in found for place in portion] == list(range(len(texts)))
    for portion in found:
        prices = [max(text.cost(), 0) for place in portion if (text := known[place]) is not None]
        assert sum(prices) <= STEP_COST or sum(price > 0 for price in prices) == 1


def test_short_is_what_has_few_words_and_few_characters_counted_or_not() -> None:
    texts = [
        "two words",
        None,
        "",
        "w" * (2 * LONGEST_WORD),
        "w" * (2 * LONGEST_WORD + 1),
        "unknown",
        "three words are",
    ]
    counts = np.array([2, -1, -1, 1, 1, -1, 3])
    assert short(lengths_of(as_texts(texts)), counts, 2).tolist() == [True, False, False, True, False, True, False]


@pytest.mark.parametrize("name", HOSTILE_POOLS)
def test_the_texts_of_a_pool_are_read_in_steps(counted: Counted, name: str) -> None:
    """Counted: characters normalised, lines cut off and words hashed between two turns."""
    known = read(Metadata(texts=as_texts(HOSTILE_POOLS[name]())), rules(**EVERYTHING))
    steps = [0]
    for _ in known.reading(range(len(known))):
        steps.append(counted.characters + counted.lines + counted.words)
    steps.append(counted.characters + counted.lines + counted.words)
    largest = max((max(text.cost(), 0) for text in known.given if text is not None), default=0)
    assert max(np.diff(steps)) <= 4 * max(STEP_COST, largest)
    before = counted.characters + counted.lines + counted.words
    assert (known.word_counts >= 0).sum() == sum(text is not None for text in known.given)
    assert counted.characters + counted.lines + counted.words == before  # all of it was read


def test_one_text_does_not_take_what_all_may_cost() -> None:
    assert cost("漢" * LONGEST) == TEXT_COST
    assert cost("\U00020000" * LONGEST) is None
    assert cost("a" * LONGEST) == LONGEST
    assert cost("a" * (LONGEST + 1)) is None
    assert cost("") == 0


# All of the first planes where there is anything but Chinese, and every 97th of the others.
CODES = [
    *range(0x3400),
    *range(0x9F00, 0xAC10),
    *range(0xD700, 0x17000),
    *range(0x1AFF0, 0x20010),
    *range(0x3400, 0x110000, 97),
]


def test_the_traits_hold_for_every_character() -> None:
    for code in CODES:
        character = chr(code)
        apart = unicodedata.normalize("NFKD", character)
        trait = int(bounds._TRAITS[min(code, len(bounds._TRAITS) - 1)])
        assert bool(trait & 64) is bool(unicodedata.combining(apart[0])), hex(code)
        assert bool(trait & 128) is bool(canonical._INVISIBLE.match(character)), hex(code)
        assert trait & 63 >= len(character.encode("utf-8", "surrogatepass")), hex(code)
        assert unicodedata.is_normalized("NFKC", character) or trait & 63 >= 2 * len(apart), hex(code)


@given(st.lists(ANY_TEXT | hostile_text(), max_size=6))
def test_what_is_read_is_bounded_and_depends_on_better_ranks_alone(texts: list[str]) -> None:
    """Invariant: read texts cost at most the budget together, are whole, and are the same with more texts behind them."""
    given = as_texts(texts)
    found = readable(given)[0]
    assert all(each is None or each is text for text, each in zip(given, found, strict=True))
    assert sum(max(text.cost(), 0) for text in found if text is not None) <= POOL_COST
    assert readable((*given, text_of("more")))[0][: len(texts)] == found
    assert found == readable(given)[0]


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_text_is_read_or_not_and_never_raises(name: str) -> None:
    text = HOSTILE[name]
    forget()
    known = read(Metadata(texts=as_texts((text, text, "plain"))), rules(**EVERYTHING))
    assert known.canonical(0) == known.canonical(1)
    assert len(known.canonical(0) or "") <= 3 * LONGEST
    assert known.canonical(2) == "plain"
    compared(text, text, "plain")
    forget()
