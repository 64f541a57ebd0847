"""Reasons in words: what a result that left is in, what a page would miss without one that stays, and no word of a text where none may be shown."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import orjson
import pytest

from support.selection.kept_pools import EDITED, SENTENCES, kept, pool_of
from vecsieve.proxy.admin.pools import KeptPool
from vecsieve.proxy.admin.reasons import QUOTED, in_words, quoted, why_left, why_stays
from vecsieve.proxy.search.collections.statements import PoolStatements
from vecsieve.proxy.selection.judging.judge import Missing
from vecsieve.proxy.selection.single import select
from vecsieve.proxy.selection.values import Link, Selection


def selected(pool: KeptPool) -> Selection:
    return select(pool.candidates(), top_k=pool.top_k, policy=pool.policy)


def reasons(*texts: str, has_words: bool = True) -> dict[int, str]:
    pool = kept(pool_of(*texts), top_k=len(texts))
    return dict(in_words(pool, selected(pool), has_words=has_words))


def test_an_equal_text_with_another_question_stays_for_the_question() -> None:
    raws = [orjson.dumps({"answer": "One.", "question": f"Who is it, the {who}?"}) for who in ("cook", "smith")]
    statements = PoolStatements(lambda rows: [raws[row] for row in rows], 2)
    pool = kept(replace(pool_of("One.", "One."), statements=statements), top_k=2)
    assert pool.now.keep.tolist() == [0, 1]
    assert dict(in_words(pool, selected(pool), has_words=True)) == {1: "stays: adds 'Who is it, the smith?' to 1"}


@pytest.mark.parametrize(
    ("link", "numbers", "similarity", "cut", "words"),
    [
        (Link.EQUAL, [12], 1.0, math.nan, "says the same as 12"),
        (Link.CONTAINED, [7], 1.0, math.nan, "all of it is in 7"),
        (Link.JOINED, [7, 9], 1.0, math.nan, "all of it is in 7 and 9"),
        (Link.JOINED, [7, 9, 12], 1.0, math.nan, "all of it is in 7, 9 and 12"),
        (Link.EDITED, [7], 0.96, math.nan, "an edited copy of 7"),
        (Link.REWORDED, [7], 0.79, math.nan, "repeats 7 in other words (doubt .21)"),
        (Link.DISTANCE, [7], 1.0, 0.9999, "nearly the same vector as 7"),
        (Link.DISTANCE, [7], 0.91, 0.85, "a vector near that of 7 (.91, cut .85)"),
        (Link.DISTANCE, [7], math.nan, 0.85, "in one cluster with 7 by their vectors"),
        (Link.DISTANCE, [7], 1.0, math.nan, "a vector near that of 7 (1.00)"),
    ],
)
def test_every_link_has_its_words(link: Link, numbers: list[int], similarity: float, cut: float, words: str) -> None:
    assert why_left(link, numbers, similarity, cut) == words


@pytest.mark.parametrize(
    ("missing", "with_words", "without"),
    [
        (Missing("40 mg", "20 mg", 6), "stays: '40 mg' for '20 mg' in 7", "stays: says something else than 7"),
        (Missing("Unpaid leave …", "", 6), "stays: adds 'Unpaid leave …' to 7", "stays: says more than 7"),
        (
            Missing("", "unless …", 6),
            "stays: in 7 the sentence goes on: 'unless …'",
            "stays: in 7 the sentence goes on",
        ),
        (Missing("", "", 6), "stays: only a part of it is in 7", "stays: only a part of it is in 7"),
        (
            Missing("Return the left", "Return the right", 6),
            "stays: 'left' for 'right' in 7",
            "stays: says something else than 7",
        ),
        (Missing("a", "a b", 6), "stays: 'a' for 'a b' in 7", "stays: says something else than 7"),
    ],
)
def test_what_stays_names_what_would_be_missing_but_no_word_where_none_may_be_shown(
    missing: Missing, with_words: str, without: str
) -> None:
    assert why_stays(missing, 7, has_words=True) == with_words
    assert why_stays(missing, 7, has_words=False) == without


def test_a_long_word_is_cut() -> None:
    assert quoted("x" * 500) == f"'{'x' * QUOTED} …'"
    assert quoted("short …") == "'short …'"


def test_equal_texts_name_what_was_passed_over() -> None:
    plain = "Insert item x in list a and keep it sorted."
    reason_lines = reasons(
        plain, plain, plain.replace("item x", "the item x"), plain.upper(), "An entirely different matter."
    )
    assert reason_lines[1] == "says the same as 1"
    assert reason_lines[2] == "says the same as 1 but for 'the'"
    assert reason_lines[3] == "says the same as 1 but for its layout"
    assert set(reason_lines) == {1, 2, 3}


def test_spellings_are_told_from_each_other() -> None:
    reason_lines = reasons("The colour of the item is set by its owner.", "The color of the item is set by its owner.")
    assert reason_lines == {1: "says the same as 1 but for 'color' for 'colour'"}


def test_what_several_results_hold_names_them_all() -> None:
    reason_lines = reasons(" ".join(SENTENCES[:3]), " ".join(SENTENCES[1:]), " ".join(SENTENCES), SENTENCES[1])
    assert reason_lines[2] == "all of it is in 1 and 2"
    assert reason_lines[3] == "all of it is in 1"


def test_an_edited_copy_says_what_was_edited() -> None:
    long, edited = EDITED
    assert reasons(long, edited) == {1: "an edited copy of 1: 'that' left out"}
    assert reasons(long, edited, has_words=False) == {}


@pytest.mark.parametrize(
    ("one", "other", "words"),
    [
        (
            "Take 20 mg of the drug in the morning.",
            "Take 40 mg of the drug in the morning.",
            "stays: '40 mg' for '20 mg' in 1",
        ),
        ("The rule applies to part-time staff.", "The rule does not apply to part-time staff.", None),
        (
            "Leave is granted by the head of the department.",
            "Leave is granted by the head of the department. Unpaid leave needs a letter.",
            "stays: adds 'Unpaid leave needs letter.' to 1",
        ),
        (
            "The fee is refunded within 14 days, unless the goods were used.",
            "The fee is refunded within 14 days.",
            "stays: in 1 the sentence goes on: 'unless goods were used.'",
        ),
        ("It does not open on Sundays and holidays.", "It does open on Sundays and holidays.", None),
    ],
)
def test_what_stays_beside_one_like_it_says_why(one: str, other: str, words: str | None) -> None:
    reason_lines = reasons(one, other, "An entirely different matter.")
    assert set(reason_lines) == {1}
    assert reason_lines[1].startswith("stays: ")
    assert words is None or reason_lines[1] == words


def test_an_omission_does_not_look_like_the_end_of_a_sentence() -> None:
    reason_lines = reasons("The shop does not open on Sundays.", "The shop does open on Sundays.")
    assert reason_lines == {1: "stays: 'open' for 'not open' in 1"}


def test_without_words_of_texts_the_kinds_are_left() -> None:
    reason_lines = reasons("Take 20 mg of the drug.", "Take 40 mg of the drug.", has_words=False)
    assert reason_lines == {1: "stays: says something else than 1"}
    assert not any(word in str(reason_lines) for word in ("mg", "40", "drug"))


def test_a_policy_that_reads_no_texts_has_no_words() -> None:
    pool = kept(pool_of("one text", "one text"), preset="vectors")
    assert in_words(pool, selected(pool), has_words=True) == {}


def test_texts_of_another_tenant_are_like_nothing() -> None:
    texts = ("Take 20 mg of the drug in the morning.", "Take 40 mg of the drug in the morning.")
    pool = kept(pool_of(*texts, tenants=np.array([1, 2])), top_k=2)
    assert in_words(pool, selected(pool), has_words=True) == {}
