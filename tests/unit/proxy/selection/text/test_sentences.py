"""Sentences: where they end, what counts of one, and what another text has of them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given

from support.policies import TEXT_RULES
from support.texts import as_texts, hostile_text, passages
from vecsieve.proxy.selection.text import sentences as sentences_module
from vecsieve.proxy.selection.text.bounds import STEP_COST
from vecsieve.proxy.selection.text.features import Form
from vecsieve.proxy.selection.text.reading import Texts, read
from vecsieve.proxy.selection.text.sentences import (
    MOST_CHARACTERS,
    MOST_SENTENCES,
    SENTENCE_COST,
    sentence_shares,
    sentences_of,
)
from vecsieve.proxy.selection.values import FloatMatrix, Indices, Metadata, finished

FIRST = "The old harbour was closed in spring because the wall had sunk."
SECOND = "Ships that bring timber land at the new pier behind the station now."
THIRD = "A ferry to the islands leaves every morning at the hour of the tide."
FOURTH = "Nobody knows yet who will pay for the repair of the broken wall."


def texts_of(*texts: str) -> Texts:
    found = read(Metadata(texts=as_texts(texts)), TEXT_RULES)
    finished(found.reading(range(len(texts))))
    return found


def share(later: str, earlier: str) -> float:
    return float(finished(sentence_shares(texts_of(earlier, later), np.array([0]), np.array([1])))[0, 0])


@pytest.mark.parametrize(
    ("text", "count"),
    [
        (f"{FIRST} {SECOND}", 2),
        (f'"{FIRST}" {SECOND}', 2),
        (f"{FIRST}\n{SECOND}\n\n{THIRD}", 3),
        ("See numpy.add and version 1.2.3 of it", 1),
        ("港は閉まった。船は来ない。", 2),
        ("क्या यह सच है। हाँ यह सच है।", 2),
    ],
)
def test_a_sentence_ends_at_its_mark_and_at_the_end_of_a_line(text: str, count: int) -> None:
    assert len(sentences_of([Form(text)]).weights) == count


@pytest.mark.parametrize(
    ("later", "earlier", "expected"),
    [
        (f"{FIRST} {SECOND}", f"{THIRD} {FIRST} {SECOND}", 1.0),
        (f"{FIRST} {SECOND}", f"{SECOND} {THIRD}", 0.5),
        (f"{FIRST} {SECOND}", f"{THIRD} {FOURTH}", 0.0),
        (f"{FIRST} {SECOND} {THIRD} {FOURTH}", f"{FOURTH} and more", 0.25),
        (FIRST, FIRST.upper(), 1.0),
    ],
)
def test_the_share_counts_sentences_that_the_earlier_text_has(later: str, earlier: str, expected: float) -> None:
    assert share(later, earlier) == pytest.approx(expected)


def test_a_sentence_is_there_with_half_of_its_3_grams() -> None:
    words = SECOND.split()
    assert share(f"{FIRST} {SECOND}", " ".join(words[:9])) == pytest.approx(0.5)
    assert share(f"{FIRST} {SECOND}", " ".join(words[:6])) == 0.0


def test_the_piece_of_a_sentence_that_a_border_leaves_counts_by_its_words() -> None:
    assert share(f"the broken wall. {FIRST}", FIRST) == pytest.approx(1.0 / 1.3)


def test_pairs_are_told_together_as_they_are_alone() -> None:
    known = [f"{FIRST} {SECOND}", f"{SECOND} {THIRD}", f"{THIRD} {FOURTH} {FIRST}", "", FOURTH]
    texts = texts_of(*known)
    first, second = np.triu_indices(len(known), 1)
    first, second = first[(first != 3) & (second != 3)], second[(first != 3) & (second != 3)]
    together = finished(sentence_shares(texts, first, second)).ravel().tolist()
    assert together == [share(known[later], known[earlier]) for earlier, later in zip(first, second, strict=True)]


def test_the_later_ranked_one_is_meant_whichever_is_named_first() -> None:
    texts = texts_of(f"{FIRST} {SECOND} {THIRD}", FIRST)
    first, second = np.array([0, 1]), np.array([1, 0])
    assert finished(sentence_shares(texts, first, second)).ravel().tolist() == [1.0, 1.0]


def test_of_a_very_long_text_the_beginning_is_read() -> None:
    lines = "".join(f"line {number} of many in a file that has no end at all.\n" for number in range(20_000))
    assert len(sentences_of([Form(lines)]).weights) < MOST_CHARACTERS / 40


def test_of_a_text_of_very_short_sentences_the_first_ones_are_read() -> None:
    known = sentences_of([Form("A b. " * 9_000), Form("C d! " * 9_000)])
    assert known.borders.tolist() == [0, MOST_SENTENCES, 2 * MOST_SENTENCES]


@pytest.mark.parametrize("text", ["Aa. " * 9_000, "a b " * 9_000], ids=["sentences", "words"])
def test_a_step_reads_a_bounded_number_of_sentences_and_looks_up_a_bounded_number_of_grams(
    text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Fifty texts of the shortest sentences held the loop for 200 ms."""
    known = texts_of(*(f"{number} {text}" for number in range(20)))
    first, second = np.triu_indices(20, 1)
    read, looked_up = [0], [0]
    sentences, shares = sentences_module.sentences_of, sentences_module._shares

    def counted(forms: Sequence[Form]) -> sentences_module.Sentences:
        found = sentences(forms)
        read[-1] += len(found.weights)
        return found

    def counted_shares(
        known: sentences_module.Sentences, which: Indices, texts: Texts, earlier: Indices
    ) -> FloatMatrix:
        looked_up[-1] += int(known.sizes[which].sum())
        return shares(known, which, texts, earlier)

    monkeypatch.setattr(sentences_module, "sentences_of", counted)
    monkeypatch.setattr(sentences_module, "_shares", counted_shares)
    for _ in sentence_shares(known, first, second):
        read.append(0)
        looked_up.append(0)
    assert max(read) <= STEP_COST // SENTENCE_COST
    assert sum(read) >= 19, "each text once"
    assert sum(read) <= 19 * (MOST_SENTENCES + 1)
    assert max(looked_up) <= STEP_COST


@given(passages().filter(str.strip), passages().filter(str.strip))
def test_a_share_is_a_share_and_a_text_has_its_own_sentences(one: str, other: str) -> None:
    """Invariant: from 0 to 1, and 1 of a text itself."""
    assert 0.0 <= share(one, other) <= 1.0
    if len(sentences_of([Form(one)]).weights):
        assert share(one, one) == pytest.approx(1.0)


@given(hostile_text())
def test_any_text_has_sentences_that_weigh_at_most_one(text: str) -> None:
    """Invariant: no text breaks the reading, and no sentence counts more than a whole one."""
    found = sentences_of([Form(text)])
    assert ((found.weights > 0.0) & (found.weights <= 1.0)).all()
    assert len(found.values) == len(found.owners)
