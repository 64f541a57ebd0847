from __future__ import annotations

from itertools import permutations

import pytest

from vecsieve.adapters.contract import Needs, Reason, UnsupportedError
from vecsieve.adapters.qdrant.ranking import Kind, Ranking, Shape, best, compared, decided

FUSED = Ranking(Kind.FUSED, "")


@pytest.mark.parametrize("kind", [Kind.DENSE, Kind.SPARSE, Kind.MULTI, Kind.REFERENCE])
def test_a_query_of_its_own_decides(kind: Kind) -> None:
    root = Ranking(kind, "a", (1, 2))
    assert decided(root, [Ranking(Kind.DENSE, "b")]) is root


def test_a_fused_query_is_compared_by_its_first_dense_prefetch() -> None:
    leaves = [Ranking(kind, kind.name) for kind in (Kind.MULTI, Kind.SPARSE, Kind.REFERENCE, Kind.DENSE)]
    assert [decided(FUSED, leaves[:count]).name for count in range(5)] == ["", "MULTI", "SPARSE", "REFERENCE", "DENSE"]
    assert decided(FUSED, [FUSED]) == Ranking(Kind.REFERENCE, "")
    first, second = Ranking(Kind.DENSE, "a"), Ranking(Kind.DENSE, "b")
    assert decided(FUSED, [first, second]) is first


@pytest.mark.parametrize("leaves", [[Ranking(Kind.CHOSEN, "")], [Ranking(Kind.DENSE, ""), Ranking(Kind.CHOSEN, "")]])
def test_an_order_the_client_chose_is_left_alone(leaves: list[Ranking]) -> None:
    for root, under in ((Ranking(Kind.CHOSEN, ""), []), (FUSED, leaves), (Ranking(Kind.DENSE, ""), leaves)):
        with pytest.raises(UnsupportedError) as refused:
            decided(root, under)
        assert refused.value.reason is Reason.ORDERING_CHOSEN


@pytest.mark.parametrize("wanted", [True, False, (), ("x",)])
@pytest.mark.parametrize("kind", [Kind.DENSE, Kind.REFERENCE, Kind.SPARSE, Kind.MULTI])
def test_the_vector_of_a_policy_comes_before_all_others(kind: Kind, wanted: bool | tuple[str, ...]) -> None:
    needs = Needs(vector_name="mine", vector_hint="learned")
    assert compared(Ranking(kind, "a"), needs, wanted) == "mine"


def test_a_hint_counts_only_where_the_request_does_not_tell() -> None:
    needs = Needs(vector_hint="learned")
    assert compared(Ranking(Kind.DENSE, "a"), needs, selection=False) == "a"
    assert compared(Ranking(Kind.SPARSE, "a"), needs, selection=False) == "learned"
    assert compared(Ranking(Kind.MULTI, "a"), needs, selection=("x",)) == "learned"


def test_without_a_hint_all_vectors_are_asked_for_unless_the_client_named_some() -> None:
    assert compared(Ranking(Kind.SPARSE, "a"), Needs(), selection=False) is None
    assert compared(Ranking(Kind.SPARSE, "a"), Needs(), selection=True) is None
    assert compared(Ranking(Kind.SPARSE, "a"), Needs(), selection=("x",)) == "a"


@pytest.mark.parametrize(
    ("shapes", "prefers", "expected"),
    [
        ({"d": Shape(Kind.DENSE, 2), "s": Shape(Kind.SPARSE), "m": Shape(Kind.MULTI)}, "s", "d"),
        ({"d": Shape(Kind.DENSE, 1), "": Shape(Kind.DENSE, 2)}, "d", ""),
        ({"d": Shape(Kind.DENSE, 3), "e": Shape(Kind.DENSE, 2)}, "d", "e"),
        ({"e": Shape(Kind.DENSE, 2), "d": Shape(Kind.DENSE, 2)}, "", "d"),
        ({"s": Shape(Kind.SPARSE), "t": Shape(Kind.SPARSE)}, "t", "t"),
        ({"m": Shape(Kind.MULTI), "t": Shape(Kind.SPARSE)}, "gone", "t"),
        ({"n": Shape(Kind.MULTI), "m": Shape(Kind.MULTI)}, "gone", "m"),
        ({"": Shape(Kind.MULTI), "s": Shape(Kind.SPARSE)}, "s", "s"),
        ({}, "s", None),
    ],
)
def test_the_best_vector_to_compare_by(shapes: dict[str, Shape], prefers: str, expected: str | None) -> None:
    for order in permutations(shapes.items()):
        assert best(dict(order), prefers) == expected
