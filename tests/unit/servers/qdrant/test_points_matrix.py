"""The distance matrix of a sample: each sampled point's nearest among the sampled ones."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from servers.embedded.fields import RefusalError
from servers.qdrant import catalogue, points
from servers.qdrant.points import matrix_offsets, matrix_pairs

from support.qdrant.core import Core, full_core

COUNT = 12
VECTORS = np.random.default_rng(5).normal(size=(COUNT, 4)).astype(np.float32)


@pytest.fixture(scope="module")
def server() -> Iterator[Core]:
    with full_core() as made:
        made.call(catalogue.create, {"vectors": {"v": {"size": 4, "distance": "Dot"}}, "sparse_vectors": {"sp": {}}})
        rows = [{"id": n, "vector": {"v": VECTORS[n].tolist()}, "payload": {"even": n % 2 == 0}} for n in range(COUNT)]
        rows += [{"id": COUNT + n, "vector": {"sp": {"indices": [1], "values": [1.0 + n]}}} for n in range(3)]
        made.call(points.upsert, {"points": rows})
        yield made


def rows_of(pairs: list[dict[str, Any]]) -> dict[int, list[tuple[int, float]]]:
    rows: dict[int, list[tuple[int, float]]] = {}
    for pair in pairs:
        rows.setdefault(pair["a"], []).append((pair["b"], pair["score"]))
    return rows


def test_every_sampled_point_has_its_nearest_others_best_first(server: Core) -> None:
    rows = rows_of(server.call(matrix_pairs, {"sample": 100, "limit": 3, "using": "v"})["pairs"])
    scores = VECTORS @ VECTORS.T
    np.fill_diagonal(scores, -np.inf)
    assert list(rows) == list(range(COUNT))
    for point, nearest in rows.items():
        assert [other for other, _ in nearest] == np.argsort(-scores[point])[:3].tolist()
        assert [score for _, score in nearest] == pytest.approx(np.sort(scores[point])[::-1][:3].tolist(), rel=1e-5)


def test_offsets_say_what_pairs_say(server: Core) -> None:
    asked = {"sample": 100, "limit": 2, "using": "v", "filter": {"must": [{"key": "even", "match": {"value": True}}]}}
    pairs, offsets = server.call(matrix_pairs, asked)["pairs"], server.call(matrix_offsets, asked)
    ids = offsets["ids"]
    assert ids == list(range(0, COUNT, 2))
    said = zip(offsets["offsets_row"], offsets["offsets_col"], offsets["scores"], strict=True)
    assert [(ids[row], ids[column], score) for row, column, score in said] == [
        (pair["a"], pair["b"], pair["score"]) for pair in pairs
    ]
    assert len(pairs) == len(ids) * 2


def test_a_sample_is_as_large_as_asked_and_in_the_order_of_ids(server: Core) -> None:
    ids = server.call(matrix_offsets, {"sample": 5, "using": "v"})["ids"]
    assert len(ids) == 5
    assert all(one < other for one, other in pairwise(ids))
    assert len(server.call(matrix_offsets, {"using": "v"})["ids"]) == 10, "the server's default"


def test_points_without_the_vector_are_never_sampled(server: Core) -> None:
    rows = rows_of(server.call(matrix_pairs, {"sample": 100, "using": "sp"})["pairs"])
    assert set(rows) == {COUNT, COUNT + 1, COUNT + 2}
    assert all(len(nearest) == 2 for nearest in rows.values())


def test_fewer_than_two_points_make_no_matrix(server: Core) -> None:
    asked = {"sample": 4, "using": "v", "filter": {"must": [{"has_id": [1]}]}}
    assert server.call(matrix_pairs, asked) == {"pairs": []}
    assert server.call(matrix_offsets, asked) == {"offsets_row": [], "offsets_col": [], "scores": [], "ids": []}


@pytest.mark.parametrize(
    ("asked", "status"),
    [({"sample": 1}, 422), ({"limit": 0}, 422), ({"using": "ghost"}, 400), ({}, 400), ({"filter": 3}, 400)],
)
def test_what_the_server_refuses_is_refused(server: Core, asked: dict[str, object], status: int) -> None:
    with pytest.raises(RefusalError) as caught:
        server.call(matrix_pairs, asked)
    assert caught.value.status == status
