"""Edited copies: which differences of long texts change nothing, and which never do."""

from __future__ import annotations

import pytest

from support.selection.judgements import leaves, verdict
from vecsieve.proxy.selection.policy import Tier
from vecsieve.proxy.selection.values import Link

LONG = (
    "The mill by the upper lake was built of grey stone in the year when the road to the valley was opened, and it is said that "
    "its wheel turned for ninety winters before the daughter of the miller sold the water rights to a company of the town. "
    "The company has never used them, because the spring dried up after a tunnel was driven through the ridge. "
    "Visitors can reach it on foot from the stop at the chapel, along a path which is closed to all of them in heavy snow."
)
SHORT = "The mill by the upper lake was built of grey stone and it is said that it stands."


def changed(one: str, other: str) -> str:
    assert LONG.count(one) == 1
    return LONG.replace(one, other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("it is said that its", "it is said its"),
        ("a path which is", "a path that is"),
        ("in the year when", "in year when"),
        ("a tunnel", "a tunne1"),
    ],
)
def test_function_words_may_differ_in_a_long_text(one: str, other: str) -> None:
    assert leaves(LONG, changed(one, other))


def test_an_edited_copy_says_what_was_passed_over() -> None:
    ruling = verdict(LONG, changed("said that its", "said its"), explain=True)
    assert ruling.link is Link.EDITED
    assert ruling.passed == (("", "that"),)
    assert ruling.share == 1.0 or 0.9 < ruling.share < 1.0


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("ninety winters", "eighty winters"),
        ("of grey stone", "of red stone"),
        ("has never used", "has used"),
        ("can reach", "must reach"),
        ("before the daughter", "after the daughter"),
        ("the chapel", "the harbour"),
        ("The company has", "The council has"),
        ("because the spring", "although the spring"),
        ("grey stone", "grey \u2020 stone"),
        ("in heavy snow", "in heavy snow at 5 degrees"),
        ("closed to all", "open to all"),
        ("upper lake", "lower lake"),
        ("dried up", "dried out"),
        ("water rights", "well water rights"),
        ("all of them", "both of them"),
        ("and it is", "it is"),
        ("heavy snow", "very heavy snow"),
        ("heavy snow", "such snow"),
        ("the spring", "there the spring"),
        ("on foot", "of foot"),
        ("sold the water rights to", "sold the water rights for"),
        ("causal" if "causal" in LONG else "ridge", "bridge"),
    ],
)
def test_facts_may_never_differ(one: str, other: str) -> None:
    assert not leaves(LONG, changed(one, other))
    assert not leaves(changed(one, other), LONG)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("notable", "not able"),
        ("nowhere", "now here"),
        ("database", "data base"),
        ("three-hundred-year-old trees", "three hundred-year-old trees"),
        ("twenty four-hour shifts", "twenty-four hour shifts"),
    ],
)
def test_a_blank_or_a_hyphen_elsewhere_may_make_another_word(one: str, other: str) -> None:
    mine, theirs = changed("grey stone", one), changed("grey stone", other)
    assert not leaves(mine, theirs)
    assert not leaves(theirs, mine)


def test_a_short_text_has_no_edited_copies() -> None:
    assert not leaves(SHORT, SHORT.replace("said that it", "said it"))


@pytest.mark.parametrize("tier", [Tier.EXACT, Tier.SAID])
def test_other_tiers_know_no_edits(tier: Tier) -> None:
    assert not leaves(LONG, changed("said that its", "said its"), tier=tier)


TURKISH = " ".join(
    f"Bu {n}. paragraf, de\u011firmenin eski sahiplerinin o y\u0131llarda neler anlatt\u0131\u011f\u0131n\u0131 ve neden kasabaya d\u00f6nd\u00fcklerini anlat\u0131yor." for n in range(5)
)  # fmt: skip
FINNISH = " ".join(
    f"T\u00e4m\u00e4 on kappale {n}, ja se kertoo vanhan myllyn omistajista sek\u00e4 siit\u00e4, miksi he palasivat kaupunkiin talvella." for n in range(5)
)  # fmt: skip


@pytest.mark.parametrize(
    ("text", "one", "other"),
    [
        (TURKISH, "eski sahiplerinin", "eski sahibinin"),
        (TURKISH + " Kap\u0131 a\u00e7\u0131l\u0131r.", "a\u00e7\u0131l\u0131r", "a\u00e7\u0131lmaz"),
        (FINNISH + " Ovi avataan talvella.", "avataan", "avatatta"),
        (FINNISH, "vanhan myllyn omistajista", "vanhan myllyn omistajasta"),
    ],
)
def test_endings_outside_english_count(text: str, one: str, other: str) -> None:
    assert not leaves(text, text.replace(one, other, 1) if text.count(one) == 1 else text.replace(one, other))


@pytest.mark.parametrize("number", range(6))
def test_long_clauses_that_differ_in_one_figure_all_stay(number: int) -> None:
    figures = ("EUR 250,000", "EUR 2,000,000", "24 hours", "15 minutes", "version 7", "version 8")
    clauses = [
        f"{LONG} In all of these cases the limit that applies to the party is {figure}, and no other limit."
        for figure in figures
    ]
    others = [clause for place, clause in enumerate(clauses) if place != number]
    assert not leaves(*others, clauses[number])
