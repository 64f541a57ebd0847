"""Texts read lazily: the same whatever is remembered, whoever asks first, whatever stands beside them."""

from __future__ import annotations

import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.texts import ANY_TEXT, ODD_TEXT, forget, rules, texts
from vecsieve.proxy.selection.text import features
from vecsieve.proxy.selection.text.bounds import LONGEST
from vecsieve.proxy.selection.text.features import RECORD
from vecsieve.proxy.selection.text.memo import Memo
from vecsieve.proxy.selection.text.reading import Texts, ones, read
from vecsieve.proxy.selection.values import Metadata

BODY = "The garrison was moved to the northern fort, where the walls had been raised by two rows of stone in"


ISLANDS = ("none", "Amrum", "Föhr", "Sylt", "Pellworm")


def page(number: int) -> str:
    return f"Report, page {number}\n{BODY} {ISLANDS[number]}."


def everything(known: Texts) -> tuple[object, ...]:
    each = range(len(known))
    return (
        [known.canonical(i) for i in each],
        known.word_counts.tolist(),
        [numbers.tolist() for numbers in known.hashes(each)],
        *read_of(known),
    )


def read_of(known: Texts) -> tuple[object, ...]:
    each = range(len(known))
    return known.records.tobytes(), [known.marks(i) for i in each], [part.tolist() for part in known.vocabularies(each)]


def test_a_text_has_a_canonical_form_words_and_a_hash() -> None:
    known = texts("Flow  Control, v2", None)
    assert known.canonical(0) == "flow control, v2"
    assert known.word_counts.tolist() == [3, -1]
    assert len(known) == 2


@pytest.mark.parametrize("text", [None, "", " \n", "\u200b\u00ad"])
def test_a_blank_text_is_no_text(text: str | None) -> None:
    known = texts(text)
    assert everything(known) == ([None], [-1], [[]], bytes(RECORD.itemsize), [(frozenset(), frozenset())], [[], [0]])


def test_a_text_of_signs_has_words() -> None:
    assert texts("👍👍", "👎").word_counts.tolist() == [2, 1]


def test_a_text_beyond_any_chunk_is_not_read() -> None:
    known = texts("a" * LONGEST, "a" * (LONGEST + 1))
    assert known.word_counts.tolist() == [1, -1]
    assert known.canonical(1) is None


def test_headers_are_learnt_from_the_pool() -> None:
    known = texts(page(1), page(2), page(3))
    assert known.canonical(0) == f"{BODY} Amrum.".lower()


def test_headers_are_learnt_from_the_given_candidates_alone() -> None:
    known = texts(page(1), page(2), page(3), page(4), learn_from=slice(2))
    assert known.canonical(3) == f"report, page 4 {BODY} Pellworm.".lower()
    known = texts("x", page(1), page(2), page(3), page(4), learn_from=slice(4))
    assert known.canonical(4) == f"{BODY} Pellworm.".lower()


def test_a_text_beyond_any_chunk_teaches_nothing() -> None:
    long = f"Report, page 3\n{'a ' * LONGEST}"
    assert texts(page(1), page(2), long).canonical(0) == f"report, page 1 {BODY} Amrum.".lower()


def test_no_text_is_looked_at_before_somebody_asks(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[str] = []

    def spy(text: str) -> str:
        seen.append(text)
        return text

    monkeypatch.setattr(features, "folded", spy)
    forget()
    known = texts("one", "two", "three")
    assert seen == []
    assert known.word_counts.tolist() == [1, 1, 1]
    assert texts("two", "three").word_counts.tolist() == [1, 1]
    assert seen == ["one", "two", "three"]


def test_a_remembered_text_is_not_read_again(monkeypatch: pytest.MonkeyPatch) -> None:
    forget()
    before = read_of(texts("one\ntwo", "three é"))
    for name in ("unwrapped", "folded", "hashed"):
        monkeypatch.setattr(features, name, lambda *_: pytest.fail("read again"))
    assert read_of(texts("one\ntwo", "three é")) == before


def test_word_counts_cannot_be_changed_by_their_reader() -> None:
    counts = texts("a b").word_counts
    with pytest.raises(ValueError, match="read-only"):
        counts[0] = 5


def test_spans_are_kept_where_rules_look_at_them() -> None:
    metadata = Metadata(documents=("d", "d"), spans=np.array([[0.0, 1.0], [0.0, 1.0]]))
    known = read(metadata, rules(span=0.5))
    assert (len(known), known.documents, known.canonical(1)) == (2, ("d", "d"), None)
    assert read(metadata, rules()).spans is None


@given(st.lists(st.none() | ANY_TEXT | ODD_TEXT, max_size=8))
def test_what_is_remembered_changes_nothing(known: list[str | None]) -> None:
    """Invariant: cold, warm, with memos that hold nothing, and asked in any order: the same outcome for any Unicode."""
    forget()
    cold = everything(texts(*known))
    assert everything(texts(*known)) == cold
    backwards = texts(*known)
    for i in reversed(range(len(known))):
        backwards.hashes([i])
    assert everything(backwards) == cold
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(features, "TEXTS", Memo(0, lambda *_: 0))
        assert everything(texts(*known)) == cold


@given(
    st.lists(st.sampled_from([page(1), page(2), page(3), page(4), "a", "B b", "", "x\ny"]), max_size=9), st.randoms()
)
def test_the_order_of_candidates_does_not_matter(known: list[str], shuffled: random.Random) -> None:
    """Invariant: canonical forms move with their candidates."""
    order = list(range(len(known)))
    shuffled.shuffle(order)
    straight, moved = texts(*known), texts(*(known[i] for i in order))
    assert [moved.canonical(i) for i in range(len(known))] == [straight.canonical(i) for i in order]


@given(st.lists(st.lists(st.integers(0, 2**64 - 1), min_size=8, max_size=8), max_size=6))
def test_set_bits_are_counted_with_and_without_the_function_of_numpy_2(rows: list[list[int]]) -> None:
    """Invariant: a row's count is that of its numbers, up to all 512 bits."""
    bits = np.array([*rows, [2**64 - 1] * 8], np.uint64)
    wanted = [sum(number.bit_count() for number in row) for row in bits.tolist()]
    assert ones(bits).tolist() == wanted
    with pytest.MonkeyPatch.context() as patch:
        patch.delattr(np, "bitwise_count", raising=False)
        assert ones(bits).tolist() == wanted


def test_texts_that_were_read_before_are_gathered_as_they_are() -> None:
    """Forms, records and margins are the same whether a pool finds them or meets them again."""
    known = [page(1), page(2), page(3), "one line", None, "", page(4)]
    forget()
    cold = read_of(texts(*known))
    again = texts(*known)
    for _ in again.reading(range(len(again))):
        pass
    assert read_of(again) == cold
    assert again.canonical(0) == f"{BODY} Amrum.".lower()
