""""""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from servers.pinecone.ranking import nearest, nearest_sparse, sparse_dot
from servers.pinecone.store import Dense, Namespace, Record, Sparse

MATRICES = arrays(np.float32, st.tuples(st.integers(1, 12), st.just(3)), elements=st.integers(-4, 4))


def filled(matrix: object) -> Namespace:
    namespace = Namespace()
    rows = np.asarray(matrix, dtype=np.float32)
    namespace.put(Record(id=str(number), dense={"_values": row}) for number, row in enumerate(rows))
    return namespace


def vector(*values: float) -> np.ndarray:
    return np.array(values, dtype=np.float32)


def weights(**values: float) -> Sparse:
    return Sparse(indices=tuple(int(name[1:]) for name in values), values=vector(*values.values()))


@pytest.mark.parametrize(
    ("metric", "order", "scores"),
    [
        ("cosine", ["0", "2", "1"], [1.0, 0.70710677, 0.0]),
        ("dotproduct", ["2", "0", "1"], [3.0, 1.0, 0.0]),
        ("euclidean", ["0", "1", "2"], [0.0, 2.0, 13.0]),
    ],
)
def test_each_metric_has_its_order_and_its_score(metric: str, order: list[str], scores: list[float]) -> None:
    namespace = filled([[1, 0], [0, 1], [3, 3]])
    found = nearest(namespace, Dense("_values", 2, metric), vector(1, 0), lambda _: True)
    assert [one.record.id for one in found] == order
    assert [one.score for one in found] == pytest.approx(scores)


@given(
    MATRICES, arrays(np.float32, 3, elements=st.integers(-4, 4)), st.sampled_from(["cosine", "dotproduct", "euclidean"])
)
def test_every_record_is_ranked_once_best_first_and_equals_in_their_order(
    matrix: np.ndarray, probe: np.ndarray, metric: str
) -> None:
    """A permutation, sorted by score, stable."""
    found = nearest(filled(matrix), Dense("_values", 3, metric), probe, lambda _: True)
    assert sorted(int(one.record.id) for one in found) == list(range(len(matrix)))
    sign = 1 if metric == "euclidean" else -1
    keys = [(sign * one.score, int(one.record.id)) for one in found]
    assert keys == sorted(keys)


def test_a_zero_vector_is_at_no_angle_to_anything() -> None:
    found = nearest(filled([[0, 0]]), Dense("_values", 2, "cosine"), vector(1, 0), lambda _: True)
    assert found[0].score == 0.0


def test_only_passing_records_are_found() -> None:
    found = nearest(filled([[1, 0], [0, 1]]), Dense("_values", 2, "cosine"), vector(1, 0), lambda one: one.id == "1")
    assert [one.record.id for one in found] == ["1"]
    assert nearest(Namespace(), Dense("_values", 2, "cosine"), vector(1, 0), lambda _: True) == []


def test_a_hybrid_score_is_the_sum_of_both_dot_products() -> None:
    namespace = Namespace()
    namespace.put(
        [
            Record(id="plain", dense={"_values": vector(1, 0)}),
            Record(id="both", dense={"_values": vector(0.5, 0)}, sparse={"_sparse_values": weights(i7=2.0)}),
        ]
    )
    field = Dense("_values", 2, "dotproduct")
    found = nearest(namespace, field, vector(1, 0), lambda _: True, sparse=weights(i7=0.5, i9=1.0))
    assert [(one.record.id, one.score) for one in found] == [("both", 1.5), ("plain", 1.0)]


def test_a_sparse_search_finds_what_shares_nothing_last() -> None:
    namespace = Namespace()
    namespace.put(
        Record(id=name, sparse={"_sparse_values": own})
        for name, own in (("none", weights(i1=1.0)), ("some", weights(i2=1.0)), ("more", weights(i2=1.0, i3=1.0)))
    )
    namespace.put([Record(id="dense", dense={"_values": vector(1)})])
    found = nearest_sparse(namespace, "_sparse_values", weights(i2=2.0, i3=1.0), lambda _: True)
    assert [(one.record.id, one.score) for one in found] == [("more", 3.0), ("some", 2.0), ("none", 0.0)]


def test_a_missing_sparse_vector_adds_nothing() -> None:
    assert sparse_dot(weights(i1=1.0), None) == 0.0
    assert sparse_dot(weights(i1=2.0, i5=1.0), weights(i5=3.0, i1=0.5)) == 4.0
