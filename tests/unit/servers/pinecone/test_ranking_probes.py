""""""

from __future__ import annotations

import numpy as np
import pytest
from servers.pinecone.errors import RefusalError
from servers.pinecone.ranking import Probe, check_dense, checked, probe_of_id, ranked
from servers.pinecone.store import Dense, Sparse
from servers.pinecone.vectors import upsert

from support.emulated import call, index

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
