"""What adapters of writes share: the vector to compare by, ids that do not come, points by tenant."""

from __future__ import annotations

import pytest

from support.backends.transports import reason_of
from vecsieve.adapters.contract import Reason, UnsupportedError
from vecsieve.adapters.writes import Form, Inquiry, WriteNeeds, by_tenant, name_of, numbered


@pytest.mark.parametrize(
    ("vectors", "target", "expected"),
    [
        ([{"": 1}], None, ""),
        ([{}, {"a": 1}], None, "a"),
        ([{"a": 1, "b": 2}], "b", "b"),
        ([{"a": 1, "b": 2}], None, Reason.AMBIGUOUS_FIELD),
        ([{"a": 1}], "b", Reason.NOTHING_TO_DO),
        ([], None, Reason.NOTHING_TO_DO),
    ],
)
def test_the_vector_to_compare_by_is_the_named_one_or_the_only_one(
    vectors: list[dict[str, int]], target: str | None, expected: str | Reason
) -> None:
    if isinstance(expected, str) and not isinstance(expected, Reason):
        assert name_of(vectors, target) == expected
        return
    assert reason_of(name_of, vectors, target) is expected


def test_points_without_ids_have_their_places_before_they_are_stored_and_none_after() -> None:
    assert numbered(2, WriteNeeds(vector_name=None, keys=(), most=9)) == (b'"#0"', b'"#1"')
    with pytest.raises(UnsupportedError):
        numbered(2, WriteNeeds(vector_name=None, keys=(), most=9, is_stored=True))


def test_points_are_grouped_by_tenant_in_their_order() -> None:
    one, other = (("t", b'"x"'),), (("t", b"1"),)
    inquiry = Inquiry(which=(0, 2, 5, 7), tenants=(one, other, one, ()), count=3, vectors=False)
    assert dict(by_tenant(inquiry)) == {one: [0, 5], other: [2], (): [7]}


def test_a_point_with_anothers_vectors_has_none_of_its_own() -> None:
    form = Form("own", ("a", "b"))
    assert form.given({"id": 1, "a": [1], "own": {}}, {"n": 1}, {"id": 2, "b": [2]}) == {
        "id": 1,
        "b": [2],
        "own": {"n": 1},
    }
    assert (form.payload_of({"own": {"n": 1}}), form.payload_of({}), form.payload_of({"own": None})) == (
        {"n": 1},
        {},
        {},
    )
