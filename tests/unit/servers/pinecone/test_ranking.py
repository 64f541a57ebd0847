from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from servers.pinecone.errors import RefusalError
from servers.pinecone.ranking import (
    Probe,
    check_dense,
    checked,
    embed_dense,
    embed_sparse,
    nearest,
    nearest_sparse,
    probe_of_id,
    ranked,
    relevance,
    reranked,
    sparse_dot,
    words,
)
from servers.pinecone.store import Dense, Namespace, Record, Sparse
from servers.pinecone.vectors import upsert

from support.pinecone.emulator import call, index

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


def test_words_are_lower_case_and_in_order() -> None:
    assert words("The Fox, the FOX-2!") == ["the", "fox", "the", "fox", "2"]


@given(st.text(), st.integers(1, 200))
def test_every_text_has_a_unit_vector_and_always_the_same(text: str, dimension: int) -> None:
    """|embed(t)| == 1 and embed(t) == embed(t)."""
    vector = embed_dense(text, dimension)
    assert vector.shape == (dimension,)
    assert vector.dtype == np.float32
    assert float(np.linalg.norm(vector)) == pytest.approx(1, abs=1e-5)
    assert np.array_equal(vector, embed_dense(text, dimension))


def test_texts_that_share_words_lie_closer_than_texts_that_share_none() -> None:
    base, near, far = (embed_dense(text, 512) for text in ("red big car", "red big bus", "cold sea water"))
    assert float(base @ near) > 0.5 > float(base @ far)


def test_the_vectors_are_the_same_in_every_process() -> None:
    assert embed_dense("a", 8).tolist() == [-1, 0, 0, 0, 0, 0, 0, 0]
    sparse = embed_sparse("a")
    assert sparse is not None
    assert sparse.indices == (966719552,)


def test_a_sparse_vector_counts_words() -> None:
    sparse = embed_sparse("sea sea ship")
    assert sparse is not None
    assert len(sparse.indices) == 2
    assert list(sparse.indices) == sorted(sparse.indices)
    assert sorted(sparse.values.tolist()) == pytest.approx([1.0, 1.0 + math.log(2)])
    assert embed_sparse("...") is None


DENSE = np.array([1, 0], dtype=np.float32)
SPARSE = Sparse(indices=(1,), values=np.array([1], dtype=np.float32))


@pytest.mark.parametrize(
    ("dimension", "metric", "probe", "words"),
    [
        (2, "cosine", Probe(), "Missing a query vector"),
        (2, "cosine", Probe(sparse=SPARSE), "only a sparse vector"),
        (2, "cosine", Probe(dense=DENSE, sparse=SPARSE), "does not support sparse values"),
        (3, "cosine", Probe(dense=DENSE), "Vector dimension 2 does not match the dimension of the index 3"),
        (None, "dotproduct", Probe(dense=DENSE), "sparse index with a dense vector"),
        (None, "dotproduct", Probe(dense=DENSE, sparse=SPARSE), "sparse index with a dense vector"),
    ],
)
def test_a_probe_must_fit_the_index(dimension: int | None, metric: str, probe: Probe, words: str) -> None:
    with pytest.raises(RefusalError, match=words):
        checked(index(dimension, metric).description, probe)


@pytest.mark.parametrize(
    ("dimension", "metric", "probe"),
    [
        (2, "cosine", Probe(dense=DENSE)),
        (2, "dotproduct", Probe(dense=DENSE, sparse=SPARSE)),
        (None, "dotproduct", Probe(sparse=SPARSE)),
    ],
)
def test_a_probe_that_fits_is_taken(dimension: int | None, metric: str, probe: Probe) -> None:
    assert checked(index(dimension, metric).description, probe) is probe


def test_the_dimension_is_checked_to_the_number() -> None:
    check_dense(Dense("_values", 2, "cosine"), 2)
    with pytest.raises(RefusalError):
        check_dense(Dense("_values", 2, "cosine"), 1)


def test_a_record_that_is_there_is_its_own_probe() -> None:
    target = index()
    call(upsert, target, {"vectors": [{"id": "a", "values": [1, 0]}]})
    found = probe_of_id(target, "", "a")
    assert found is not None
    assert [one.record.id for one in ranked(target, "", found, lambda _: True)] == ["a"]
    assert probe_of_id(target, "", "b") is None
    assert probe_of_id(target, "elsewhere", "a") is None


def test_nothing_is_found_where_nothing_is() -> None:
    assert ranked(index(), "ns", Probe(dense=DENSE), lambda _: True) == []
    target = index(None)
    call(upsert, target, {"vectors": [{"id": "a", "sparseValues": {"indices": [1], "values": [1]}}]})
    assert ranked(target, "", Probe(), lambda _: True) == []
    assert len(ranked(target, "", Probe(sparse=SPARSE), lambda _: True)) == 1


def test_the_text_with_more_of_the_words_comes_first_and_equals_keep_their_order() -> None:
    found = reranked("red car", ["blue sea", "red car", "a red bus", "a red bus"])
    assert [place for place, _ in found] == [1, 2, 3, 0]
    assert found[0][1] > found[1][1] > found[-1][1] == 0.0


def test_of_two_texts_with_the_same_words_the_shorter_wins() -> None:
    assert relevance("red", "red") > relevance("red", "red thing")


@given(st.text(), st.lists(st.text(), max_size=8))
def test_every_text_is_ranked_once(question: str, texts: list[str]) -> None:
    """The places are a permutation and the scores fall."""
    found = reranked(question, texts)
    assert sorted(place for place, _ in found) == list(range(len(texts)))
    scores = [score for _, score in found]
    assert scores == sorted(scores, reverse=True)
    assert all(0 <= score <= 1 for score in scores)
