"""Rewordings, for the preset meaning: what speaks against two sentences saying the same, and what may stand for what."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from support.selection.policies import VECTORS
from support.selection.pools import pool
from support.selection.texts import as_texts
from vecsieve.proxy.selection import grouping
from vecsieve.proxy.selection.judging.rewordings import sentence_of, speaks_against
from vecsieve.proxy.selection.policy import Tier
from vecsieve.proxy.selection.reading.text import text_of
from vecsieve.proxy.selection.single import select
from vecsieve.proxy.selection.values import Candidates, Fate, Link, Metadata

MEANING = replace(VECTORS, texts=Tier.EDITED, rewordings=0.36)


def against(one: str, other: str) -> bool:
    first, second = sentence_of(text_of(one)), sentence_of(text_of(other))
    assert first is not None, one
    assert second is not None, other
    assert speaks_against(first, second) == speaks_against(second, first)
    return speaks_against(first, second)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("How can I get a new card?", "What do I need to do when my card is lost and has to be replaced?"),
        ("Is the office open on the weekend?", "Can I come by when the week is over?"),
        ("Wie kann ich das \u00e4ndern lassen?", "Ich m\u00f6chte es anders haben, geht das bei euch"),
        ("C\u00f3mo puedo cambiar mi clave", "Quiero poner una contrase\u00f1a nueva en la cuenta"),
    ],
)
def test_nothing_speaks_against_the_same_in_other_words(one: str, other: str) -> None:
    assert not against(one, other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("I want to pay 20 euros for it", "It is to be paid by me with 30 euros"),
        ("I need two of the tickets", "Could you get me three seats for it"),
        ("Does it open on Monday for us", "Is it that we may come by on Tuesday"),
        ("It is not allowed in the hall", "You may do it in the big room"),
        ("We eat before the film in the hall", "After the movie we have our meal"),
        ("He left with his dog", "He went away without his animal"),
        ("I want more of the light in it", "There is to be less brightness for me"),
        ("Which fees do I have for top-ups", "Which fees do I have for transfers"),
        ("I met Anna in the hall today", "In the big room I came across Berta"),
        ("It is for the visa card of mine", "It is for the discovery card of mine"),
        ("Is it \U0001f44d for you and me", "For both of us, is it \U0001f44e then"),
        ("Der Zug f\u00e4hrt nach Mailand ab", "Aus Mailand kommt der Zug nicht an"),
    ],
)
def test_a_fact_or_the_wording_speaks_against(one: str, other: str) -> None:
    assert against(one, other)


@pytest.mark.parametrize(
    "text",
    [
        "Stop.",
        "The mill stands. It is old.",
        "word " * 60 + "is the last",
        "\u6cf5\u5728\u8fd0\u884c",
        "qwe rty uio pas dfg",
        "",
    ],
)
def test_what_is_no_sentence_of_a_known_language_has_no_rewordings(text: str) -> None:
    assert sentence_of(text_of(text)) is None


def near(*texts: str) -> Candidates:
    """Equal vectors for all of these texts, among forty others."""
    random = np.random.default_rng(4)
    others = random.standard_normal((40, 64))
    rows = np.concatenate((np.repeat(others[:1], len(texts), axis=0), others[1:]))
    filler = [f"In the case of item w{n}a it is the part w{n}b that we have to see for w{n}c" for n in range(39)]
    return pool(rows, metadata=Metadata(texts=as_texts([*texts, *filler])))


QUESTIONS = (
    "How can I get a new card?",
    "What do I need to do when my card is lost and has to be replaced?",
    "Where do they give me another card for the broken card of mine",
)


def test_a_rewording_leaves_under_the_preset_alone() -> None:
    assert select(near(*QUESTIONS), top_k=5, policy=VECTORS).links[1] == Link.NONE
    selection = select(near(*QUESTIONS), top_k=5, policy=replace(MEANING, rewordings=1.0))
    assert selection.links[1] == Link.REWORDED
    assert selection.representative[1] == 0
    assert 0.0 <= selection.similarities[1] <= 1.0


def test_a_denial_keeps_a_sentence_whatever_the_doubt() -> None:
    texts = ("It is allowed in the hall of the house", "In the big room you may not do it at all")
    assert select(near(*texts), top_k=5, policy=replace(MEANING, rewordings=1.0)).links[1] == Link.NONE


def test_a_rewording_needs_a_third_that_says_the_same() -> None:
    assert select(near(*QUESTIONS[:2]), top_k=5, policy=replace(MEANING, rewordings=1.0)).links[1] == Link.NONE


def test_a_rewording_fills_a_short_page() -> None:
    whole = near(*QUESTIONS)
    texts = (whole.metadata.texts or ())[:12]
    few = replace(whole, scores=whole.scores[:12], vectors=whole.vectors[:12], metadata=Metadata(texts=texts))
    selection = select(few, top_k=12, policy=replace(MEANING, rewordings=1.0))
    assert Link.REWORDED in selection.links
    assert set(selection.fates[selection.links == Link.REWORDED].tolist()) == {Fate.FILLED}
    assert selection.keep.tolist() == list(range(12))


@pytest.mark.parametrize("top_k", [1, 2, 3, 7])
def test_a_page_is_the_beginning_of_a_longer_one(top_k: int) -> None:
    policy = replace(MEANING, rewordings=1.0)
    longer = select(near(*QUESTIONS), top_k=20, policy=policy)
    assert 1 not in longer.keep
    assert select(near(*QUESTIONS), top_k=top_k, policy=policy).keep.tolist() == longer.keep[:top_k].tolist()


def test_texts_that_are_no_sentences_need_no_vectors_and_are_read_until_the_page_is_full(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def measured(*_: object, **__: object) -> object:
        raise AssertionError("vectors were compared")

    monkeypatch.setattr(grouping, "relative_distances", measured)
    paragraph = "It is the part w{0} that we have to see in the hall of the house, and it is not for us. " * 4
    texts = as_texts([paragraph.format(place) for place in range(12)])
    selection = select(pool(np.eye(12), metadata=Metadata(texts=texts)), top_k=3, policy=MEANING)
    assert selection.keep.tolist() == [0, 1, 2]
    assert [text is not None and text.known_outline is not None for text in texts] == [True] * 3 + [False] * 9
