"""The vector a job reads: named, unnamed or the only one; what cannot be read is told with what can."""

from __future__ import annotations

import pytest
from qdrant_client import models

from vecsieve.proxy.jobs.qdrant import shape_of
from vecsieve.proxy.jobs.source import SourceError

LATE = models.MultiVectorConfig(comparator=models.MultiVectorComparator.MAX_SIM)


def dense(size: int = 4) -> models.VectorParams:
    return models.VectorParams(size=size, distance=models.Distance.DOT)


def late() -> models.VectorParams:
    return models.VectorParams(size=2, distance=models.Distance.COSINE, multivector_config=LATE)


def test_the_unnamed_vector_is_chosen_without_a_word() -> None:
    found = shape_of(dense(), wanted=None, collection="docs", points=9)
    assert (found.vector_name, found.dimension, found.distance) == ("", 4, "Dot")
    assert shape_of(dense(), wanted="", collection="docs", points=9) == found


def test_the_only_dense_one_is_chosen_beside_multivectors() -> None:
    assert shape_of({"late": late(), "body": dense(7)}, wanted=None, collection="docs", points=9).dimension == 7


def test_of_several_the_unnamed_one_is_the_default_and_any_can_be_asked_for() -> None:
    declared = {"title": dense(3), "": dense(5)}
    assert shape_of(declared, wanted=None, collection="docs", points=9).dimension == 5
    assert shape_of(declared, wanted="title", collection="docs", points=9).dimension == 3


@pytest.mark.parametrize(
    ("vectors", "wanted", "said"),
    [
        (None, None, "only sparse vectors"),
        ({}, None, "only sparse vectors"),
        ({"late": late()}, None, "only multivectors"),
        ({"b": dense(), "a": dense()}, None, "say which with --vector: a, b"),
        ({"b": dense(), "late": late()}, "late", "holds several vectors a point; wanted one of: b"),
        ({"b": dense()}, "c", "no dense vector 'c'; it has: b"),
        (dense(), "c", "no dense vector 'c'; it has: \"\" (unnamed)"),
    ],
)
def test_what_cannot_be_read_is_told(
    vectors: dict[str, models.VectorParams] | models.VectorParams | None, wanted: str | None, said: str
) -> None:
    with pytest.raises(SourceError) as caught:
        shape_of(vectors, wanted=wanted, collection="docs", points=9)
    assert said in str(caught.value)
