"""Reading: a whole collection by hashes that texts share, a sample by searches, and the same pairs where both can know them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.jobs.memory_source import families, points
from support.jobs.searched_source import SearchedSource, numbered
from support.selection.texts import HOSTILE
from vecsieve.proxy.jobs.analyze.reading import (
    LONGEST_NAME,
    NEIGHBOURS,
    FieldNames,
    Gathered,
    Known,
    gathered_sample,
    gathered_whole,
    key,
    source_name,
)
from vecsieve.proxy.jobs.pairs.ids import spread
from vecsieve.proxy.jobs.pairs.sketches import directions
from vecsieve.proxy.jobs.pairs.store import Store
from vecsieve.proxy.jobs.source import Point, SourceError, Vectors

FIELDS = FieldNames(text=("text",), source=("source", "metadata.source"))
CUT = 1e-4
SENTENCE = "Orders may be returned within thirty days of delivery."

Whole = Callable[..., Gathered]


@pytest.fixture
def whole(tmp_path: Path) -> Whole:
    def read(source: SearchedSource, count: int) -> Gathered:
        by = directions(np.zeros((1, source.shape().dimension), np.float32), count)
        with Store(tmp_path, source.shape().dimension, {}) as store:
            return gathered_whole(source, numbered(count), store, by, FIELDS, CUT)

    return read


def sampled(source: SearchedSource, count: int, limit: int | None = None) -> Gathered:
    return gathered_sample(source, numbered(count), spread(count, limit), FIELDS, CUT)


def evidence_by_pair(gathered: Gathered) -> dict[tuple[int, int], int]:
    pairs, evidence = gathered.coverings.pairs.tolist(), gathered.coverings.evidence.tolist()
    return {(one, other): number for (one, other), number in zip(pairs, evidence, strict=True)}


def texts(count: int) -> list[dict[str, object]]:
    """Families of three: a text, the same with a sentence more, and the text again."""
    return [
        {
            "text": f"Rule {place // 3}: {SENTENCE.lower()}" + f" Clause {place // 3} has more." * (place % 3 == 1),
            "source": f"s{place % 2}",
        }
        for place in range(count)
    ]


def test_searches_and_hashes_know_the_same_of_a_small_collection(whole: Whole) -> None:
    stored = points(families(6, 3), texts(18))
    stored[7] = Point(id=7, vector=None, payload=stored[7].payload)
    stored[9] = Point(id=9, vector=stored[9].vector, payload={})
    stored[11] = Point(id=11, vector=None, payload={})
    one, other = whole(SearchedSource(stored), 18), sampled(SearchedSource(stored), 18)
    # What only hashes know: a point without a vector is found by its text.
    without = {pair: evidence for pair, evidence in evidence_by_pair(one).items() if 7 not in pair}
    assert without == evidence_by_pair(other)
    assert len(evidence_by_pair(one)) > len(without)
    for name in ("examined", "keys", "known", "sources", "source_names", "vectors"):
        assert np.array_equal(getattr(one, name), getattr(other, name)), name
    assert one.known[[7, 9, 11]].tolist() == [Known.TEXT, Known.VECTOR, Known.NOTHING]


def test_a_whole_collection_is_read_once_and_not_searched(whole: Whole) -> None:
    source = SearchedSource(points(families(100, 3), texts(300)))
    gathered = whole(source, 300)
    assert source.calls == ["read"] * 2  # pages of 256
    assert gathered.whole
    assert gathered.vectors.all()
    assert not gathered.full.any()
    assert (
        len(evidence_by_pair(gathered)) == 100 * 4
    )  # both ways of the equal ones, and each of them by the longer text


@pytest.mark.parametrize("by_searches", [False, True])
def test_points_without_a_vector_are_noted_all_the_same(whole: Whole, *, by_searches: bool) -> None:
    stored = [Point(id=place, vector=None, payload={"text": "same", "source": "a"}) for place in range(3)]
    source = SearchedSource(stored)
    gathered = (sampled if by_searches else whole)(source, 3)
    assert not gathered.vectors.any()
    assert gathered.known.tolist() == [Known.TEXT] * 3
    assert len(set(gathered.keys.tolist())) == 1
    assert "neighbours" not in source.calls


@pytest.mark.parametrize("by_searches", [False, True])
def test_a_point_that_is_gone_is_in_no_pair(whole: Whole, *, by_searches: bool) -> None:
    stored = points(families(1, 4), [{"text": SENTENCE}] * 4)
    gathered = (sampled if by_searches else whole)(SearchedSource([stored[0], stored[1], stored[3]]), 4)
    assert gathered.known.tolist() == [Known.TEXT, Known.TEXT, Known.UNSEEN, Known.TEXT]
    assert gathered.vectors.tolist() == [True, True, False, True]
    assert 2 not in np.unique(gathered.coverings.pairs)


def test_a_point_written_since_is_in_no_pair() -> None:
    stored = points(families(1, 5), [{"text": SENTENCE}] * 5)
    assert sampled(SearchedSource(stored), 3).coverings.pairs.max() == 2


def test_vectors_without_direction_repeat_nothing(whole: Whole) -> None:
    gathered = whole(SearchedSource(points(np.zeros((3, 8), np.float32), [{}] * 3)), 3)
    assert not len(gathered.coverings.pairs)
    assert gathered.known.tolist() == [Known.NOTHING] * 3


def test_a_sample_compares_as_many_neighbours_of_each_point_as_it_asked_for() -> None:
    stored = points(np.tile(families(1, 1), (60, 1)), [{"text": SENTENCE}] * 60)  # a list of 21 among 60 equal ones
    gathered = sampled(SearchedSource(stored), 60, limit=1)
    assert len(np.unique(gathered.coverings.pairs)) == NEIGHBOURS + 1
    assert gathered.full.tolist() == [True]
    assert not sampled(SearchedSource(points(families(3, 1))), 3).full.any()


def test_a_page_that_fails_is_read_again_and_nothing_before_it(whole: Whole) -> None:
    with pytest.raises(SourceError):
        whole(SearchedSource(points(families(300, 2)), fails_after=2), 600)
    source = SearchedSource(points(families(300, 2)))
    whole(source, 600)
    assert source.calls == ["read"]


def test_a_sample_knows_its_neighbours_that_are_not_in_it() -> None:
    stored = points(families(10, 2))
    assert sampled(SearchedSource(stored), 20, limit=10).known.all()
    source = SearchedSource(stored)
    sampled(source, 20)
    assert source.calls == ["read", "neighbours"] * 2


@pytest.mark.parametrize(
    ("payload", "name"),
    [
        ({"source": "web"}, "web"),
        ({"metadata": {"source": " pdf "}}, "pdf"),
        ({"source": "", "metadata": {"source": "pdf"}}, "pdf"),
        ({"source": 7}, "7"),
        ({"source": True}, "true"),
        ({"source": ["web"]}, None),
        ({"source": {"name": "web"}}, None),
        ({}, None),
        ({"source": "x" * 500}, "x" * LONGEST_NAME),
        ({"source": "a\x1b[31m\nb\ud800"}, "a [31m b"),
    ],
)
def test_the_source_is_the_first_field_that_holds_a_name(payload: dict[str, object], name: str | None) -> None:
    assert source_name(Point(id=0, vector=None, payload=payload), FIELDS.source) == name


# Equal points share a key, and nothing else does.

KEY_FIELDS = ("text",)
VECTOR = np.array([1.0, 0.0], np.float32)


def point(text: object, vector: Vectors | None = VECTOR) -> Point:
    return Point(id=1, vector=vector, payload={"text": text})


@given(st.text())
def test_whatever_the_text_there_is_a_key_of_64_bits(text: str) -> None:
    """Total over any Unicode; the same text gives the same key whatever vector it stands beside."""
    kind, number = key(point(text), KEY_FIELDS)
    assert 0 <= number < 2**64
    assert kind in {Known.TEXT, Known.VECTOR}
    if kind is Known.TEXT:
        assert key(point(text, None), KEY_FIELDS) == (kind, number)


@pytest.mark.parametrize(
    "other", ["some  Kitten\nslept", "SOME KITTEN SLEPT", " some kitten slept ", "some kit\u00adten sl-\nept"]
)
def test_case_blanks_and_hyphens_do_not_make_another_text(other: str) -> None:
    assert key(point(other), KEY_FIELDS) == key(point("some kitten slept"), KEY_FIELDS)


def test_without_a_text_the_very_vector_counts() -> None:
    kind, number = key(point(None), KEY_FIELDS)
    assert kind is Known.VECTOR
    assert key(point("  ", np.array([1.0, -0.0], np.float32)), KEY_FIELDS) == (kind, number)
    assert key(point(None, np.array([1.0, 1e-7], np.float32)), KEY_FIELDS) != (kind, number)


def test_with_neither_a_point_is_a_copy_of_nothing() -> None:
    assert key(point(None, None), KEY_FIELDS)[0] is Known.NOTHING


def test_half_a_surrogate_pair_is_a_text_too() -> None:
    assert key(point("x\ud800"), KEY_FIELDS) != key(point("x\ud801"), KEY_FIELDS)


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_text_has_a_key_without_being_read(name: str) -> None:
    assert key(point(HOSTILE[name]), KEY_FIELDS) == key(point(HOSTILE[name]), KEY_FIELDS)
    assert key(point(HOSTILE[name]), KEY_FIELDS) != key(point(HOSTILE[name] + "x"), KEY_FIELDS)
