"""Reading: a whole collection by its sketches, a sample by searches, and the same pairs where both can know them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from support.analyzed import no_bar
from support.memory_source import families, points
from support.searched_source import SearchedSource, numbered
from vecsieve.proxy.jobs.analyze.reading import (
    LONGEST_NAME,
    NEIGHBOURS,
    FieldNames,
    Gathered,
    Known,
    gathered_sample,
    gathered_whole,
    source_name,
)
from vecsieve.proxy.jobs.pairs.ids import spread
from vecsieve.proxy.jobs.pairs.sketches import directions
from vecsieve.proxy.jobs.pairs.store import Store
from vecsieve.proxy.jobs.source import Point, SourceError
from vecsieve.proxy.selection.geometry import measure

FIELDS = FieldNames(text=("text",), source=("source", "metadata.source"))
CUT = 0.1

Whole = Callable[..., Gathered]


@pytest.fixture
def whole(tmp_path: Path) -> Whole:
    def read(source: SearchedSource, count: int, widest: float = CUT) -> Gathered:
        dimension = source.shape().dimension
        by = directions(np.zeros((1, dimension), np.float32), count, widest)
        with Store(tmp_path, dimension, {}) as store:
            return gathered_whole(source, numbered(count), store, by, FIELDS, widest, no_bar)

    return read


def sampled(source: SearchedSource, count: int, limit: int | None = None, cut: float = CUT) -> Gathered:
    return gathered_sample(source, numbered(count), spread(count, limit), FIELDS, cut, no_bar)


def pairs_of(gathered: Gathered, cut: float = CUT) -> dict[tuple[int, int], float]:
    near = gathered.distances <= cut
    pairs, distances = gathered.pairs[near].tolist(), gathered.distances[near].tolist()
    return {(one, other): far for (one, other), far in zip(pairs, distances, strict=True)}


@pytest.mark.parametrize("distance", ["Cosine", "Dot", "Euclid"])
def test_a_whole_collection_has_the_pairs_of_a_matrix(whole: Whole, distance: str) -> None:
    vectors = families(120, 4)
    far = measure(vectors, magnitude=distance != "Cosine").distance
    wanted = {(one, two): float(far[one, two]) for one, two in np.argwhere(np.triu(far <= CUT, 1)).tolist()}
    source = SearchedSource(points(vectors), distance=distance)
    gathered = whole(source, 480)
    assert pairs_of(gathered) == pytest.approx(wanted, abs=1e-5)
    assert source.calls == ["read"] * 2  # pages of 256: every point once, and no search
    assert gathered.whole
    assert gathered.vectors.all()
    assert np.isinf(gathered.listed).all()


def test_searches_and_sketches_know_the_same_of_a_small_collection(whole: Whole) -> None:
    payloads = [{"text": f"text {place % 30}", "source": f"s{place % 3}"} for place in range(48)]
    held = points(families(12, 4), payloads)
    held[7] = Point(id=7, vector=None, payload=payloads[7])
    held[9] = Point(id=9, vector=held[9].vector, payload={})
    held[11] = Point(id=11, vector=None, payload={})
    one, other = whole(SearchedSource(held), 48), sampled(SearchedSource(held), 48)
    assert pairs_of(one) == pytest.approx(pairs_of(other), abs=1e-5)
    for name in ("looked", "keys", "known", "sources", "source_names", "vectors"):
        assert np.array_equal(getattr(one, name), getattr(other, name)), name
    assert one.known[[7, 9, 11]].tolist() == [Known.TEXT, Known.VECTOR, Known.NOTHING]


@pytest.mark.parametrize("by_searches", [False, True])
def test_points_without_a_vector_are_noted_all_the_same(whole: Whole, *, by_searches: bool) -> None:
    held = [Point(id=place, vector=None, payload={"text": "same", "source": "a"}) for place in range(3)]
    source = SearchedSource(held)
    gathered = (sampled if by_searches else whole)(source, 3)
    assert not gathered.vectors.any()
    assert gathered.known.tolist() == [Known.TEXT] * 3
    assert len(set(gathered.keys.tolist())) == 1
    assert "nearest" not in source.calls


@pytest.mark.parametrize("by_searches", [False, True])
def test_a_point_that_is_gone_is_in_no_pair(whole: Whole, *, by_searches: bool) -> None:
    held = points(families(1, 4))
    gathered = (sampled if by_searches else whole)(SearchedSource([held[0], held[1], held[3]]), 4)
    assert gathered.known.tolist() == [Known.TEXT, Known.TEXT, Known.UNSEEN, Known.TEXT]
    assert gathered.vectors.tolist() == [True, True, False, True]
    assert list(pairs_of(gathered)) == [(0, 1), (0, 3), (1, 3)]


def test_a_point_written_since_is_in_no_pair() -> None:
    assert sampled(SearchedSource(points(families(1, 5))), 3).pairs.max() == 2


def test_equal_vectors_without_direction_are_in_no_pair(whole: Whole) -> None:
    gathered = whole(SearchedSource(points(np.zeros((3, 8), np.float32))), 3)
    assert not len(gathered.pairs)
    assert gathered.vectors.all()


def test_a_sample_keeps_as_many_neighbours_of_each_point_as_it_asked_for() -> None:
    vectors = np.tile(families(1, 1), (60, 1))  # a list of 21 among 60 equal ones holds the first 21
    gathered = sampled(SearchedSource(points(vectors)), 60, limit=1)
    assert gathered.pairs.tolist() == [[0, each] for each in range(1, NEIGHBOURS + 1)]
    assert gathered.listed.tolist() == [0.0]
    assert np.isinf(sampled(SearchedSource(points(families(3, 1))), 3).listed).all()


def test_a_page_that_fails_is_read_again_and_nothing_before_it(whole: Whole) -> None:
    with pytest.raises(SourceError):
        whole(SearchedSource(points(families(300, 2)), fails_after=2), 600)
    source = SearchedSource(points(families(300, 2)))
    gathered = whole(source, 600)
    assert source.calls == ["read"]
    assert len(pairs_of(gathered)) == 300


def test_a_sample_reads_its_copies_that_are_not_in_it() -> None:
    held = points(families(10, 2))
    assert sampled(SearchedSource(held), 20, limit=10).known.all()
    assert sampled(SearchedSource(held), 20, limit=10, cut=1e-6).known.tolist() == [Known.TEXT, Known.UNSEEN] * 10
    source = SearchedSource(held)
    sampled(source, 20)
    assert source.calls == ["read", "nearest"]


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
