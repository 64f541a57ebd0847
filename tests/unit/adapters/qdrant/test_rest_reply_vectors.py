from __future__ import annotations

import pytest

from vecsieve.adapters.qdrant.rest_reply import compare, find_best, named
from vecsieve.adapters.wire.json import Span


def best(*values: dict[str, bytes], prefers: str = "") -> str | None:
    text = b""
    points: list[dict[str, Span]] = []
    for value in values:
        points.append({})
        for name, vector in value.items():
            points[-1][name] = (len(text), len(text) + len(vector))
            text += vector
    return find_best(text, points, prefers)


def sparse(indices: list[int], values: list[float]) -> bytes:
    return f'{{"indices":{indices},"values":{values}}}'.encode()


def test_names_of_a_vector_value() -> None:
    assert named(b"[1,2]", (0, 5)) == {"": (0, 5)}
    assert named(b"null", (0, 4)) == {}
    assert named(b"{}", (0, 2)) == {}
    assert named(b'{"a":[1],"":[[2]]}', (0, 18)) == {"a": (5, 8), "": (12, 17)}
    with pytest.raises(ValueError, match="neither"):
        named(b"5", (0, 1))


@pytest.mark.parametrize(
    ("point", "prefers", "expected"),
    [
        ({"d": b"[1,2]", "s": sparse([1], [1.0]), "m": b"[[1]]"}, "s", "d"),
        ({"d": b"[1]", "": b"[1,2]"}, "d", ""),
        ({"d": b"[1,2,3]", "e": b"[1,2]"}, "d", "e"),
        ({"e": b"[1,2]", "d": b"[1,2]"}, "", "d"),
        ({"s": sparse([1], [1.0]), "t": sparse([1], [1.0])}, "t", "t"),
        ({"m": b"[[1]]", "t": sparse([1], [1.0])}, "gone", "t"),
        ({"n": b"[[1]]", "m": b"[ [1]]"}, "gone", "m"),
        ({"": b"[[1]]", "s": sparse([1], [1.0])}, "s", "s"),
        ({}, "s", None),
    ],
)
def test_the_best_vector_to_compare_by(point: dict[str, bytes], prefers: str, expected: str | None) -> None:
    assert best(point, prefers=prefers) == expected
    assert best({}, dict(reversed(point.items())), prefers=prefers) == expected


@pytest.mark.parametrize("values", [[], [None], [None, b"[]"], [b"null"], [b"[[]]"], [sparse([], [])]])
def test_a_pool_without_vectors_has_no_columns(values: list[bytes | None]) -> None:
    found = compare(values)
    assert found.vectors.shape == (len(values), 0)
    assert found.unusable == len(values)


def test_sparse_vectors_become_rows_over_the_union_of_their_indices() -> None:
    found = compare([sparse([70000, 3], [0.5, 1.0]), None, sparse([5], [2.0]), sparse([3], [1.0])])
    assert found.vectors[[0, 2, 3]].tolist() == [[1.0, 0.0, 0.5], [0.0, 2.0, 0.0], [1.0, 0.0, 0.0]]
    assert found.unusable == 1
    assert found.proven == (False,) * 4


def test_multivectors_are_not_compared() -> None:
    found = compare([b"[[1,2],[3,4]]", b"[[5,6]]", b"[[1,2],[3]]", b"[[1,null]]", b"[1,2]", b"[[true,1]]", None])
    assert found.vectors.shape == (7, 0)
    assert found.unusable == 7
