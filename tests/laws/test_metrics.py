"""What holds of vectors whatever metric a collection is searched by, and wherever its origin lies."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.selection.policies import VECTORS
from support.selection.pools import page
from support.selection.texts import as_texts
from vecsieve.proxy.selection.metric import metric_of
from vecsieve.proxy.selection.single import select
from vecsieve.proxy.selection.values import Candidates, FloatMatrix, FloatVector, Metadata, Metric

DEFAULT = replace(VECTORS, chance=2.5e-6)
TOP_K, POOL, POINTS = 10, 50, 300
METRICS = (Metric.COSINE, Metric.DOT, Metric.EUCLIDEAN, Metric.MANHATTAN)
MEANS = (0.0, 10.0, 1000.0)
DIMENSIONS = (2, 3, 8, 32, 33, 64, 384, 1536)
CLOUDS: dict[str, Callable[[np.random.Generator, int, int], FloatVector]] = {
    "normal": lambda random, n, d: random.standard_normal((n, d)),
    "uniform": lambda random, n, d: random.uniform(-1.0, 1.0, (n, d)),
    "laplace": lambda random, n, d: random.laplace(size=(n, d)),
}


def ranked(metric: Metric, query: FloatVector, rows: FloatMatrix) -> tuple[FloatMatrix, FloatVector]:
    """The nearest of the rows to the query, as the database keeps them, and their scores."""
    stored = rows / np.linalg.norm(rows, axis=1, keepdims=True) if metric is Metric.COSINE else rows
    kept = stored.astype(np.float64)
    if metric is Metric.COSINE:
        scores, order = kept @ query / np.linalg.norm(query), -1.0
    elif metric is Metric.DOT:
        scores, order = kept @ query, -1.0
    elif metric is Metric.EUCLIDEAN:
        scores, order = np.linalg.norm(kept - query, axis=1), 1.0
    else:
        scores, order = np.abs(kept - query).sum(axis=1), 1.0
    best = np.argsort(order * scores, kind="stable")[:POOL]
    return stored[best].astype(np.float32), scores[best]


def pool_of(metric: Metric, query: FloatVector, rows: FloatMatrix, *, known: bool = True) -> Candidates:
    """The pool of one search. ``known``: whether the metric can be told from the request."""
    vectors, scores = ranked(metric, query, rows)
    direction = query.astype(np.float32) if known else None
    return Candidates(scores=scores, vectors=vectors, metric=metric_of(direction, vectors, scores), query=direction)


def plain_pages(metric: Metric, mean: float, dimensions: int, cloud: str, *, known: bool, pages: int) -> int:
    """How many of so many pages over points without copies come back as they are."""
    random = np.random.default_rng((METRICS.index(metric), int(mean), dimensions))
    draw, unchanged = CLOUDS[cloud], 0
    for _ in range(pages):
        rows = (draw(random, POINTS, dimensions) + mean).astype(np.float32)
        query = draw(random, 1, dimensions)[0] + mean
        outcome = select(pool_of(metric, query, rows, known=known), top_k=TOP_K, policy=DEFAULT)
        unchanged += outcome.keep.tolist() == list(range(TOP_K))
    return unchanged


@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize("mean", MEANS)
@pytest.mark.parametrize("metric", METRICS)
def test_points_without_copies_are_never_merged(metric: Metric, mean: float, known: bool) -> None:
    for dimensions in DIMENSIONS:
        # Of many dimensions, which cost the most to draw, fewer pages: chance merges none there.
        pages, excused = (20, 1) if dimensions < 100 else (5, 0) if dimensions < 1000 else (1, 0)
        assert plain_pages(metric, mean, dimensions, "normal", known=known, pages=pages) >= pages - excused


@pytest.mark.parametrize("cloud", ["uniform", "laplace"])
@pytest.mark.parametrize("metric", METRICS)
def test_clouds_of_other_shapes_are_never_merged(metric: Metric, cloud: str) -> None:
    for dimensions in (2, 8, 32, 64):
        assert plain_pages(metric, 10.0, dimensions, cloud, known=True, pages=20) >= 19


def clusters(random: np.random.Generator, spread: float, size: int, dimensions: int) -> FloatVector:
    """Twelve clusters of so many points, ``spread`` times as wide as the clusters are far apart."""
    centres = random.standard_normal((12, dimensions)).repeat(size, axis=0)
    return centres + spread * random.standard_normal((12 * size, dimensions))


@pytest.mark.parametrize("size", [12, 30])
@pytest.mark.parametrize("spread", [0.15, 0.2, 0.5])
@pytest.mark.parametrize("metric", METRICS)
def test_of_tight_clusters_nothing_is_merged(metric: Metric, spread: float, size: int) -> None:
    random, unchanged = np.random.default_rng((METRICS.index(metric), size)), 0
    for dimensions in (32, 64, 384):
        for _ in range(10):
            rows = clusters(random, spread, size, dimensions)
            query = rows[0] + 0.5 * spread * random.standard_normal(dimensions)
            outcome = select(pool_of(metric, query, rows.astype(np.float32)), top_k=TOP_K, policy=DEFAULT)
            unchanged += outcome.keep.tolist() == list(range(TOP_K))
    assert unchanged >= 29


@pytest.mark.parametrize(("copies", "noise", "stays"), [(8, 0.2, 1), (10, 0.2, 10), (30, 0.05, 1), (30, 0.0, 1)])
def test_up_to_eight_near_copies_and_any_number_of_nearly_equal_ones_are_one_result(
    copies: int, noise: float, stays: int
) -> None:
    random = np.random.default_rng(copies)
    for _ in range(10):
        rows = random.standard_normal((60, 384))
        family = rows[0] + noise * random.standard_normal((copies, 384))
        query = rows[0] + 0.5 * random.standard_normal(384)
        pool = pool_of(Metric.COSINE, query, np.concatenate((family, rows[1:])).astype(np.float32))
        outcome = select(pool, top_k=TOP_K, policy=DEFAULT)
        assert np.count_nonzero(outcome.keep < copies) == stays


@pytest.mark.deep
@pytest.mark.parametrize("cloud", sorted(CLOUDS))
@pytest.mark.parametrize("mean", MEANS)
@pytest.mark.parametrize("metric", METRICS)
def test_of_a_thousand_plain_pages_98_in_a_hundred_come_back_unchanged(metric: Metric, mean: float, cloud: str) -> None:
    for dimensions in DIMENSIONS:
        pages = 1000 if dimensions < 100 else 200
        assert plain_pages(metric, mean, dimensions, cloud, known=True, pages=pages) >= 0.98 * pages


def planted(random: np.random.Generator, dimensions: int) -> tuple[FloatVector, FloatVector]:
    """Points of which every fifth has near copies, and a query."""
    rows = random.standard_normal((60, dimensions))
    copies = rows[::5] + 0.01 * random.standard_normal((12, dimensions))
    return np.concatenate((rows, copies, copies)), random.standard_normal(dimensions)


def outcome_of(metric: Metric, query: FloatVector, rows: FloatVector) -> list[bool]:
    """Which candidates stay, in order of rank: the whole pool's representatives, and the page."""
    pool = pool_of(metric, query, rows.astype(np.float32))
    chosen = select(pool, top_k=TOP_K, policy=DEFAULT)
    return [*(chosen.representative == np.arange(pool.size)), *np.isin(np.arange(pool.size), chosen.keep)]


SEEDS, WIDE = st.integers(0, 2**32 - 1), st.sampled_from([16, 64, 200])


@given(SEEDS, WIDE, st.sampled_from([Metric.EUCLIDEAN, Metric.MANHATTAN]), st.sampled_from([-300.0, 7.0, 1000.0]))
def test_moving_the_origin_changes_nothing(seed: int, dimensions: int, metric: Metric, shift: float) -> None:
    """A translation of a Euclidean or Manhattan collection changes no selection."""
    rows, query = planted(np.random.default_rng(seed), dimensions)
    rows, query = np.round(rows * 64) / 64, np.round(query * 64) / 64  # float32 holds these exactly at either place
    assert outcome_of(metric, query + shift, rows + shift) == outcome_of(metric, query, rows)


@given(SEEDS, WIDE, st.sampled_from([Metric.EUCLIDEAN, Metric.COSINE]))
def test_a_rotation_changes_nothing(seed: int, dimensions: int, metric: Metric) -> None:
    """A rotation of a Euclidean or cosine collection changes no selection."""
    random = np.random.default_rng(seed)
    rows, query = planted(random, dimensions)
    turn = np.linalg.qr(random.standard_normal((dimensions, dimensions)))[0]
    assert outcome_of(metric, query @ turn, rows @ turn) == outcome_of(metric, query, rows)


@given(SEEDS, WIDE, st.sampled_from(METRICS), st.sampled_from([2.0**-20, 0.25, 1024.0]))
def test_a_uniform_scaling_changes_nothing(seed: int, dimensions: int, metric: Metric, factor: float) -> None:
    """A collection in other units, query and all, has the same selection under every metric."""
    rows, query = planted(np.random.default_rng(seed), dimensions)
    assert outcome_of(metric, query * factor, rows * factor) == outcome_of(metric, query, rows)


@pytest.mark.parametrize("terms", [(2, 4), (6, 12), (30, 60)])
@pytest.mark.parametrize("known", [True, False])
def test_sparse_vectors_without_copies_are_never_merged(terms: tuple[int, int], known: bool) -> None:
    random, unchanged = np.random.default_rng(terms), 0
    for _ in range(20):
        rows = np.zeros((POINTS + 1, 4 * terms[1]), np.float32)
        for row in rows:
            count = random.integers(*terms, endpoint=True)
            row[random.choice(len(row), count, replace=False)] = random.uniform(0.1, 2.0, count)
        pool = pool_of(Metric.DOT, rows[0].astype(np.float64), rows[1:], known=known)
        unchanged += select(pool, top_k=TOP_K, policy=DEFAULT).keep.tolist() == list(range(TOP_K))
    assert unchanged >= 19


FLAT = [
    (metric, mean, free)
    for metric in METRICS
    for mean in (0.0, 10.0)
    for free in (1, 2, 5)
    if (metric, mean, free) != (Metric.COSINE, 0.0, 1)  # on a line through the origin all have one direction
]


@pytest.mark.parametrize(("metric", "mean", "free"), FLAT)
def test_a_few_coordinates_stretched_over_many_dimensions_are_as_few(metric: Metric, mean: float, free: int) -> None:
    random = np.random.default_rng(free)
    for dimensions in (16, 64, 384):
        turn = random.standard_normal((free, dimensions))
        rows = (random.standard_normal((POINTS, free)) @ turn + mean).astype(np.float32)
        pool = pool_of(metric, random.standard_normal(free) @ turn + mean, rows)
        assert select(pool, top_k=TOP_K, policy=DEFAULT).keep.tolist() == list(range(TOP_K))
        assert page(pool, top_k=TOP_K, offset=0, policy=DEFAULT, exhausted=False).keep.tolist() == list(range(TOP_K))


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("mean", MEANS)
def test_near_copies_are_found_wherever_the_origin_lies(metric: Metric, mean: float) -> None:
    random = np.random.default_rng(8)
    rows = random.standard_normal((60, 64)) + mean
    copies = rows + 0.02 * random.standard_normal((60, 64))
    query = random.standard_normal(64) + mean
    chosen = select(
        pool_of(metric, query, np.concatenate((rows, copies)).astype(np.float32)), top_k=TOP_K, policy=DEFAULT
    )
    assert chosen.acted
    assert chosen.distinct <= 32


@pytest.mark.parametrize("paged", [True, False])
def test_the_nearest_places_by_latitude_and_longitude_stay(paged: bool) -> None:
    random = np.random.default_rng(1)
    places = (np.array([52.52, 13.405]) + random.uniform(-0.5, 0.5, (400, 2))).astype(np.float32)
    pool = pool_of(Metric.EUCLIDEAN, np.array([52.52, 13.405]), places)
    if paged:
        chosen = page(pool, top_k=8, offset=0, policy=DEFAULT, exhausted=False)
    else:
        chosen = select(pool, top_k=8, policy=DEFAULT)
    assert chosen.keep.tolist() == list(range(8))


def test_a_pool_of_nothing_but_copies_that_differ_by_rounding_is_collapsed_once_something_else_is_in_it() -> None:
    random = np.random.default_rng(2)
    one = random.standard_normal(384)
    crowd = one * (1.0 + 1e-6 * random.standard_normal((45, 384)))
    rows = np.concatenate((crowd, random.standard_normal((5, 384)))).astype(np.float32)
    for metric in METRICS:
        chosen = select(pool_of(metric, one, rows), top_k=8, policy=DEFAULT)
        assert chosen.distinct == 6


def test_where_the_metric_is_unknown_neither_length_nor_direction_may_differ() -> None:
    random = np.random.default_rng(6)
    base = random.standard_normal((20, 64)).astype(np.float32)
    longer, turned = base * 3, base + 4 * random.standard_normal((20, 64)).astype(np.float32)
    rows = np.concatenate((base, longer, turned))
    falling = np.linspace(1.0, 0.1, len(rows))
    pool = Candidates(scores=falling, vectors=rows, metric=Metric.UNKNOWN)
    assert select(pool, top_k=TOP_K, policy=DEFAULT).distinct >= len(rows) - 3
    assert select(replace(pool, metric=Metric.COSINE), top_k=TOP_K, policy=DEFAULT).distinct < len(rows)


@pytest.mark.parametrize("metric", [Metric.EUCLIDEAN, Metric.MANHATTAN])
@pytest.mark.parametrize("away", [5.0, 30.0, 1e6])
@pytest.mark.parametrize("size", [12, 24, 40])
def test_one_far_point_makes_no_copies_of_the_others(metric: Metric, away: float, size: int) -> None:
    """A small collection without copies, of whose points one lies ``away`` typical distances from the others, comes back as it is."""
    random = np.random.default_rng((size, int(away)))
    letters = np.array([*"bdfgklmnprst"])
    texts = as_texts(" ".join("".join(word) for word in random.choice(letters, (20, 6))) for _ in range(size))
    for dimensions in (16, 128):
        rows = random.standard_normal((size, dimensions))
        rows[-1] += away * np.sqrt(2.0)
        query = rows[0] + 0.5 * random.standard_normal(dimensions)
        for known in (None, texts):
            pool = replace(pool_of(metric, query, rows.astype(np.float32)), metadata=Metadata(texts=known))
            assert select(pool, top_k=TOP_K, policy=DEFAULT).keep.tolist() == list(range(TOP_K))


@pytest.mark.parametrize("unequal", [0.7, 1.5])
@pytest.mark.parametrize("size", [12, 24, 50])
def test_short_vectors_of_different_directions_are_no_copies_under_inner_product(unequal: float, size: int) -> None:
    """Beside long vectors all short ones are near the origin, and so near each other."""
    random = np.random.default_rng(size)
    for dimensions in (16, 128):
        lengths = np.exp(unequal * random.standard_normal((size, 1)))
        rows = (lengths * random.standard_normal((size, dimensions))).astype(np.float32)
        pool = pool_of(Metric.DOT, rows[0].astype(np.float64), rows)
        assert select(pool, top_k=TOP_K, policy=DEFAULT).keep.tolist() == list(range(TOP_K))
