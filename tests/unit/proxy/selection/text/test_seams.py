"""Overlapping chunks are found by spans, else by words, whatever cut the words at their ends; chance phrases are none."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.policies import TEXT_RULES
from vecsieve.proxy.selection.policy import TextRules
from vecsieve.proxy.selection.text import seams as seams_module
from vecsieve.proxy.selection.text.bounds import STEP_COST
from vecsieve.proxy.selection.text.features import text_of
from vecsieve.proxy.selection.text.reading import read
from vecsieve.proxy.selection.text.seams import COMPARED, PLACES, SEAM_WORDS, of_spans, overlaps, seams
from vecsieve.proxy.selection.text.tokens import Hashes, hashed
from vecsieve.proxy.selection.values import FloatMatrix, Metadata, finished

RULES = TextRules(
    identical=True, near=(), require=TEXT_RULES.require, span=None, reach=None, short_words=30, stitch=0.0
)
WORDS = [f"word{place}" for place in range(400)]


def shares(
    texts: list[str] | None = None, documents: list[str | None] | None = None, spans: list[list[float]] | None = None
) -> FloatMatrix:
    known = Metadata(
        texts=None if texts is None else tuple(map(text_of, texts)),
        documents=None if documents is None else tuple(documents),
        spans=None if spans is None else np.array(spans, np.float64),
    )
    each = np.arange(len(texts or documents or ()), dtype=np.intp)
    return finished(overlaps(read(known, RULES), each, each)).shares


def chunk(start: int, end: int) -> str:
    return " ".join(WORDS[start:end])


@pytest.mark.parametrize(
    ("one", "other", "share"),
    [
        ([0, 100], [80, 180], 0.2),
        ([80, 180], [0, 100], 0.2),
        ([0, 100], [100, 200], 0.0),
        ([0, 100], [20, 60], 1.0),
        ([0, 100], [0, 100], 1.0),
        ([0, 100], [101, 200], None),
        ([0, 0], [0, 100], None),
        ([np.nan, 5], [0, 100], None),
        ([0, np.inf], [0, 100], None),
        ([100, 0], [0, 100], None),
    ],
    ids=["overlap", "turned", "touch", "inside", "equal", "apart", "empty", "unknown", "endless", "backwards"],
)
def test_spans_of_one_document_share_what_both_cover(one: list[float], other: list[float], share: float | None) -> None:
    places = np.array([0]), np.array([1])
    found = of_spans(np.array([one, other], np.float64), *places)[0, 0]
    assert (None if np.isnan(found) else round(float(found), 6)) == share
    told = shares(documents=["a", "a"], spans=[one, other])[0, 1]
    assert (None if np.isnan(told) else round(float(told), 6)) == share
    assert np.isnan(shares(documents=["a", "b"], spans=[one, other])[0, 1])
    assert np.isnan(shares(documents=[None, "a"], spans=[one, other])[0, 1])


@given(st.integers(0, 60), st.integers(0, 3), st.integers(0, 3), st.integers(12, 80))
def test_the_end_of_one_is_the_beginning_of_the_other_wherever_the_splitter_cut(
    start: int, before: int, behind: int, overlap: int
) -> None:
    """Invariant: a seam of enough words is found to within two words, whichever letters are cut off at its ends."""
    length = 100
    first = chunk(start, start + length)
    second = chunk(start + length - overlap, start + 2 * length - overlap)
    cut_first = first[: len(first) - behind] if behind else first
    cut_second = second[before:] if before else second
    found = shares([cut_first, cut_second])
    assert found[0, 1] == found[1, 0]
    assert abs(float(found[0, 1]) - overlap / length) <= 2.5 / length


@pytest.mark.parametrize("overlap", range(1, SEAM_WORDS))
def test_a_short_phrase_is_no_seam(overlap: int) -> None:
    assert np.isnan(shares([chunk(0, 50), chunk(50 - overlap, 100)])[0, 1])


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (chunk(0, 100), chunk(200, 300)),
        (chunk(0, 100), chunk(50, 80) + " elsewhere " + chunk(300, 350)),
        (chunk(0, 100), chunk(200, 250) + " " + chunk(60, 100)),
        ("", chunk(0, 50)),
        ("a b c", "a b c d"),
    ],
    ids=["unlike", "a passage quoted", "both end alike", "no text", "too short"],
)
def test_what_is_no_seam(first: str, second: str) -> None:
    assert np.isnan(shares([first, second])[0, 1])


def test_a_chunk_within_another_overlaps_as_a_whole() -> None:
    assert shares([chunk(0, 100), chunk(30, 60)])[0, 1] == 1.0


def test_texts_of_two_documents_have_no_seam_and_spans_are_believed_where_both_are_known() -> None:
    texts = [chunk(0, 100), chunk(60, 160)]
    assert np.isnan(shares(texts, ["a", "b"])[0, 1])
    assert shares(texts, ["a", "a"])[0, 1] == pytest.approx(0.4)
    assert shares(texts, [None, "a"])[0, 1] == pytest.approx(0.4)
    assert shares(texts, ["a", "a"], [[0, 10], [8, 18]])[0, 1] == pytest.approx(0.2)
    assert np.isnan(shares(texts, ["a", "a"], [[0, 10], [20, 30]])[0, 1])
    assert shares(texts, ["a", "a"], [[0, 10], [np.nan, np.nan]])[0, 1] == pytest.approx(0.4)


@pytest.mark.parametrize("words", [["x"] * 3000, ["x", "y"] * 1500, ["a", "b", "c"] * 900])
def test_a_text_that_repeats_itself_costs_no_more_than_its_length(words: list[str]) -> None:
    many = hashed([" ".join(words)] * 20)
    assert len(finished(seams(many))) == 20 * 19


def test_a_step_compares_a_bounded_number_of_places(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fifty texts of "1, 1, 1" held the loop for 850 ms. No end of a text is the beginning of another here, so that all places are tried."""
    many = hashed(["1 " * 2000 + f"a{number} b{number}" for number in range(30)])
    compared, compare = [0], seams_module._seam

    def counted(first: Hashes, second: Hashes, start: int) -> float | None:
        compared[-1] += 1
        return compare(first, second, start)

    monkeypatch.setattr(seams_module, "_seam", counted)
    for _ in seams(many):
        compared.append(0)
    assert max(compared) <= STEP_COST // COMPARED + 1
    assert sum(compared) == 30 * 29 * PLACES


@given(st.lists(st.lists(st.sampled_from("ab"), max_size=40).map(" ".join), min_size=1, max_size=4))
def test_the_first_places_of_a_beginning_are_those_that_a_search_finds(texts: list[str]) -> None:
    """Invariant: for each two texts the longest seam among the first places, as looking at each place in turn finds it."""
    hashes = hashed(texts)
    found = finished(seams(hashes))
    wanted = {}
    for first, mine in enumerate(hashes):
        for second, theirs in enumerate(hashes):
            if first == second or len(theirs) <= SEAM_WORDS:
                continue
            beginning = theirs[1 : 1 + SEAM_WORDS].tolist()
            runs = range(len(mine) - SEAM_WORDS + 1)
            places = [start for start in runs if mine[start : start + SEAM_WORDS].tolist() == beginning][:PLACES]
            shares = [share for start in places if (share := seams_module._seam(mine, theirs, start)) is not None]
            if shares:
                wanted[first, second] = shares[0]
    assert found == wanted


def test_a_batch_of_texts_finds_what_each_pair_finds_alone() -> None:
    texts = [chunk(start, start + 60) for start in range(0, 300, 40)]
    together = shares(texts)
    for one in range(len(texts)):
        for other in range(len(texts)):
            if one != other:
                assert together[one, other] == pytest.approx(shares([texts[one], texts[other]])[0, 1], nan_ok=True)
