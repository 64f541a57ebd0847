"""Which pairs are copies, by which rule, and what combining rules means."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.texts import ANY_TEXT, ODD_TEXT, as_texts, matched, passages, rules
from vecsieve.proxy.selection.policy import Require
from vecsieve.proxy.selection.text.matching import matches
from vecsieve.proxy.selection.text.reading import read
from vecsieve.proxy.selection.values import Link, Metadata, finished

WORDS = [f"w{i}" for i in range(100)]
LONG = " ".join(WORDS)
EDITED = " ".join([*WORDS[:50], "other", *WORDS[51:]])  # 97 words around it: 95 of 98 3-grams
HALF = " ".join(WORDS[:60])
SPANS = np.array([[0.0, 100.0], [10.0, 110.0]])

NEAR: list[dict[str, Any]] = [{"containment": 0.8}, {"jaccard": 0.8}, {"indel": 0.8}, {"minhash": 0.8}, {"simhash": 12}]


def link(one: str, other: str, **on: Any) -> tuple[Link, float]:
    found = matched(Metadata(texts=as_texts((one, other))), 2, rules(**on))
    return Link(int(found.links[0, 1])), float(found.similarities[0, 1])


@pytest.mark.parametrize(
    ("on", "wanted", "similarity"),
    [
        ({"identical": True}, Link.NONE, None),
        ({"containment": 0.8}, Link.CONTAINMENT, 95 / 98),
        ({"jaccard": 0.8}, Link.JACCARD, 95 / 101),
        ({"indel": 0.8}, Link.INDEL, 0.99),
        ({"minhash": 0.8}, Link.MINHASH, 95 / 101),
        ({"containment": 0.98}, Link.NONE, None),
        ({"jaccard": 0.95}, Link.NONE, None),
        ({"indel": 0.995}, Link.NONE, None),
        ({"minhash": 0.95}, Link.NONE, None),
        ({"simhash": 0}, Link.NONE, None),
        ({}, Link.NONE, None),
    ],
)
def test_each_rule_on_its_own(on: dict[str, Any], wanted: Link, similarity: float | None) -> None:
    found, value = link(LONG, EDITED, **on)
    assert found is wanted
    assert np.isnan(value) if similarity is None else value == pytest.approx(similarity)


def test_simhash_gives_the_share_of_equal_bits() -> None:
    found, value = link(LONG, EDITED, simhash=12)
    assert found is Link.SIMHASH
    assert 1 - 12 / 64 <= value < 1.0


def test_a_threshold_is_met_by_what_equals_it() -> None:
    assert link("a b c d", "a b c e", indel=0.75) == (Link.INDEL, 0.75)
    assert link("a b c", "a b c", simhash=0, identical=False) == (Link.SIMHASH, 1.0)
    five = "a b c d e f g", "a b c d e f x"  # 4 of 6 3-grams
    assert link(*five, jaccard=4 / 6)[0] is Link.JACCARD


def test_identical_texts_are_named_so_whatever_else_they_are() -> None:
    everything: dict[str, Any] = {"identical": True, "containment": 0.1, "jaccard": 0.1, "indel": 0.1, "simhash": 64}
    assert link(LONG, LONG.upper(), **everything) == (Link.IDENTICAL, 1.0)


@pytest.mark.parametrize("first", range(len(NEAR)))
def test_of_several_signals_the_first_one_is_named(first: int) -> None:
    on = {name: value for each in NEAR[first:] for name, value in each.items()}
    wanted = Link[next(iter(NEAR[first])).upper()]
    assert link(LONG, EDITED, **on)[0] is wanted
    assert link(LONG, EDITED, **on, require=Require.ALL)[0] is wanted


def test_one_signal_is_enough_unless_all_are_required() -> None:
    on: dict[str, Any] = {"containment": 0.8, "jaccard": 0.8}
    assert link(LONG, HALF, **on) == (Link.CONTAINMENT, 1.0)
    assert link(LONG, HALF, **on, require=Require.ALL)[0] is Link.NONE


def test_all_does_not_bind_identical_texts_and_spans() -> None:
    on: dict[str, Any] = {"containment": 0.8, "jaccard": 0.8, "require": Require.ALL}
    assert link("short", "SHORT", identical=True, **on)[0] is Link.IDENTICAL
    metadata = Metadata(texts=as_texts(("one", "two")), documents=("d", "d"), spans=SPANS)
    assert matched(metadata, 2, rules(span=0.8, **on)).links[0, 1] == Link.SPAN


def test_spans_need_no_text() -> None:
    found = matched(Metadata(documents=("d", "d"), spans=SPANS), 2, rules(span=0.9))
    assert found.links.tolist() == [[0, Link.SPAN], [Link.SPAN, 0]]
    assert found.similarities[0, 1] == pytest.approx(0.9)
    assert not matched(Metadata(documents=("d", "d"), spans=SPANS), 2, rules(span=0.91)).links.any()


def test_a_span_threshold_of_zero_does_not_link_what_does_not_overlap() -> None:
    metadata = Metadata(documents=("d", "d"), spans=np.array([[0.0, 10.0], [10.0, 20.0]]))
    assert not matched(metadata, 2, rules(span=0.0)).links.any()


def test_nothing_known_is_nothing_matched() -> None:
    assert not matched(Metadata(), 3, rules(identical=True, containment=0.8, span=0.8)).links.any()


def test_only_compared_pairs_are_looked_at() -> None:
    known = read(Metadata(texts=as_texts(("a", "a", "a"))), rules())
    each = np.arange(3, dtype=np.intp)
    compared = np.zeros((3, 3), np.bool_)
    compared[0, 2] = True
    found = finished(matches(known, each, each, compared, rules(identical=True)))
    assert np.argwhere(found.links).tolist() == [[0, 2]]


def test_rows_and_columns_may_be_different_candidates() -> None:
    known = read(Metadata(texts=as_texts(("a", "b", "a", "c", "b"))), rules())
    found = finished(
        matches(known, np.array([4, 3]), np.array([0, 1, 2]), np.ones((2, 3), np.bool_), rules(identical=True))
    )
    assert found.links.tolist() == [[0, Link.IDENTICAL, 0], [0, 0, 0]]


def test_texts_without_words_in_common_with_nothing_are_not_equal() -> None:
    on = rules(identical=True, containment=0.5, jaccard=0.5, indel=0.5, minhash=0.5, simhash=3)
    for known in (
        ("👍", "👎"),
        ("日本語の本文", "中文的内容"),
        ("Москва", "Лондон"),
        ("", " "),
        (None, None),
        ("!", "?"),
    ):
        assert not matched(Metadata(texts=as_texts(known)), 2, on).links.any(), known


@pytest.mark.parametrize(
    "script",
    [
        "漢字仮名交じり文の見本として十分な長さの本文をここに置く",
        "привет мир это текст который длиннее восьми слов и ещё",
    ],
)
def test_near_copies_are_found_in_any_script(script: str) -> None:
    for on in NEAR[:3]:
        assert link(script, f"{script}。", **on)[0] is not Link.NONE


@given(st.lists(st.none() | ANY_TEXT | ODD_TEXT | passages(), max_size=8), st.sampled_from(list(Require)))
def test_any_texts_can_be_matched(known: list[str | None], require: Require) -> None:
    """Invariant: no Unicode raises; links and similarities are symmetric; a similarity exactly where there is a link."""
    on = rules(identical=True, containment=0.3, jaccard=0.3, indel=0.3, minhash=0.3, simhash=20, require=require)
    found = matched(Metadata(texts=as_texts(known)), len(known), on)
    assert np.array_equal(found.links, found.links.T)
    assert np.array_equal(found.similarities, found.similarities.T, equal_nan=True)
    assert np.array_equal(np.isnan(found.similarities), found.links == Link.NONE)
    inside = found.similarities[found.links != Link.NONE]
    assert ((inside >= 0.3) & (inside <= 1.0)).all()


@given(st.lists(passages(), max_size=8), st.randoms())
def test_the_order_of_candidates_does_not_matter_but_for_containment(known: list[str], shuffled: random.Random) -> None:
    """Invariant: moving candidates moves links and similarities with them (containment asks who stands first)."""
    on = rules(identical=True, jaccard=0.3, indel=0.4, minhash=0.3, simhash=20)
    order = list(range(len(known)))
    shuffled.shuffle(order)
    straight = matched(Metadata(texts=as_texts(known)), len(known), on)
    moved = matched(Metadata(texts=as_texts(known[i] for i in order)), len(known), on)
    block = np.ix_(order, order)
    assert np.array_equal(moved.links, straight.links[block])
    assert np.array_equal(moved.similarities, straight.similarities[block], equal_nan=True)


@given(st.lists(passages(), max_size=8))
def test_all_is_what_every_single_signal_finds(known: list[str]) -> None:
    """Invariant: require all = the intersection of the signals alone, require any = their union."""
    each: list[dict[str, Any]] = [
        {"containment": 0.5},
        {"jaccard": 0.3},
        {"indel": 0.5},
        {"minhash": 0.3},
        {"simhash": 15},
    ]
    metadata, n = Metadata(texts=as_texts(known)), len(known)
    alone = [matched(metadata, n, rules(**on)).links != Link.NONE for on in each]
    together: dict[str, Any] = {name: value for on in each for name, value in on.items()}
    every = matched(metadata, n, rules(**together, require=Require.ALL)).links != Link.NONE
    some = matched(metadata, n, rules(**together)).links != Link.NONE
    assert np.array_equal(every, np.logical_and.reduce(alone))
    assert np.array_equal(some, np.logical_or.reduce(alone))
