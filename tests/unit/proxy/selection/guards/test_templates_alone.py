"""Pairs of texts that are kept apart without a third text: other words at one place, and vectors that differ too."""

from __future__ import annotations

import numpy as np
import pytest

from support.templates import POLICY, chosen
from support.texts import as_texts
from vecsieve.proxy.selection.guards import templates
from vecsieve.proxy.selection.guards.templates import from_one_template
from vecsieve.proxy.selection.single import select
from vecsieve.proxy.selection.text.reading import read
from vecsieve.proxy.selection.values import Candidates, FloatMatrix, Indices, Metadata, Metric, Veto, finished

assert POLICY.text is not None
TEXT = POLICY.text
LONGER = " ".join(
    ["Guests enjoy a generous breakfast every morning, and the reception is staffed around the clock."] * 4
)

# Distances between two of these are about 0.3 of the typical one.
OTHERWISE = 0.4
RECIPE = "Whisk three eggs with a pinch of salt, fold in grated cheese, and bake them until golden. Serve them warm, with a green salad and some bread."


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("The capital of Norway is Oslo", "The capital of Finland is Helsinki"),
        ("Press the green button to start the machine.", "Press the yellow button to start the machine."),
        ("How do I upgrade my membership?", "How do I renew my membership?"),
        (RECIPE, RECIPE.replace("grated cheese", "smoked salmon")),
    ],
)
def test_other_words_in_a_gap_count_where_vectors_differ_too(one: str, other: str) -> None:
    assert chosen([one, other], apart=OTHERWISE).keep.tolist() == [0, 1]
    assert 1 not in chosen([one, other]).keep.tolist()


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Return all users of the group", "Return all active users of the group"),
        (
            "The bank charges a fee for transfers to a card",
            "The bank charges a fee for international transfers to a card",
        ),
        ("Returns users that have access", "Returns all active users that have access"),
    ],
)
def test_words_inside_a_short_text_that_another_lacks_count_where_vectors_differ_too(one: str, other: str) -> None:
    assert chosen([one, other], apart=OTHERWISE).keep.tolist() == [0, 1]
    assert chosen([other, one], apart=OTHERWISE).keep.tolist() == [0, 1]
    assert 1 not in chosen([one, other]).keep.tolist()


@pytest.mark.parametrize(
    "edited",
    [
        "Bees make honey from nectar - Alpha News",
        "Alpha News: Bees make honey from nectar",
        "Bees do make the honey from nectar",
    ],
    ids=["a source behind it", "a source before it", "words without a meaning"],
)
def test_words_at_an_end_name_a_source(edited: str) -> None:
    assert Veto.TEMPLATE not in chosen(["Bees make honey from nectar", edited], apart=OTHERWISE).vetoes.tolist()


@pytest.mark.parametrize(
    "edited",
    [
        RECIPE.replace("some bread", "some fresh bread"),
        RECIPE.replace(" and some bread", ""),
        RECIPE.replace("with a green", "beside the green"),
        f"{RECIPE} Enjoy your meal.",
    ],
    ids=["a word more", "words less", "words without a meaning", "a sentence more"],
)
def test_beyond_short_texts_only_words_on_both_sides_of_a_gap_are_a_substitution(edited: str) -> None:
    one, other = (f"{text} You will find more of our recipes in the book." for text in (RECIPE, edited))
    assert min(len(one.split()), len(other.split())) > templates.SHORT
    assert Veto.TEMPLATE not in chosen([one, other], apart=OTHERWISE).vetoes.tolist()


def test_in_longer_texts_a_third_text_must_show_the_gap() -> None:
    long = f"{RECIPE} {LONGER}"
    assert len(long.split()) > templates.SUBSTITUTED
    substituted = long.replace("grated cheese", "smoked salmon")
    assert Veto.TEMPLATE not in chosen([long, substituted], apart=OTHERWISE).vetoes.tolist()


def test_which_pairs_are_far_apart_is_asked_for_substitutions_alone() -> None:
    texts = [RECIPE, RECIPE.replace("grated cheese", "smoked salmon"), f"{RECIPE} Enjoy.", "Bees make honey"]
    known = read(Metadata(texts=as_texts(texts)), TEXT)
    finished(known.reading(range(len(texts))))
    asked: list[tuple[list[int], list[int]]] = []

    def apart(first: Indices, second: Indices) -> FloatMatrix:
        asked.append((first.tolist(), second.tolist()))
        return np.array([2 * templates.FAR] * len(first), np.float32)

    pairs = np.triu_indices(len(texts), 1)
    assert finished(from_one_template(known, *pairs, apart)) == [0, 3]  # 0 and 1, 1 and 2
    assert asked == [([0, 1], [1, 2])]


def test_many_pairs_are_measured_in_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Steps and their size change no verdict, and the pairs beyond the most are not compared."""
    texts = [f"the {word} of the old house is painted anew today" for word in ("door", "roof", "wall", "gate", "barn")]
    known = read(Metadata(texts=as_texts(texts)), TEXT)
    finished(known.reading(range(len(texts))))
    pairs = np.triu_indices(len(texts), 1)
    sizes: list[int] = []

    def apart(first: Indices, second: Indices) -> FloatMatrix:
        sizes.append(len(first))
        return np.where(first % 2 == 0, 1.0, 0.0).astype(np.float32)

    monkeypatch.setattr(templates, "MEASURED", 3)
    reader = templates._Reader(known)
    each = list(zip(*map(np.ndarray.tolist, pairs), strict=True))
    found = finished(templates._substituted(reader, each, apart))
    assert sizes == [3, 3, 3, 1]
    assert found == [place for place, (one, _) in enumerate(each) if one % 2 == 0]
    monkeypatch.setattr(templates, "MOST_DIRECT", 2)
    assert finished(templates._substituted(reader, each, apart)) == [0, 1]


def test_without_vectors_other_words_in_a_gap_count() -> None:
    texts = ["Press the green button to start the machine.", "Press the yellow button to start the machine."]
    known = Metadata(texts=as_texts([*texts, texts[0]]))
    rows = np.full((3, 4), np.nan, np.float32)
    pool = Candidates(scores=np.array([0.9, 0.8, 0.7]), vectors=rows, metric=Metric.COSINE, metadata=known)
    assert select(pool, top_k=2, policy=POLICY).keep.tolist() == [0, 1]
