"""What is removed and what counts as left out when the database has answered a changed write."""

from __future__ import annotations

import pytest

from support.backends.writes import samples
from vecsieve.adapters.writes import MergesPoints, Receipt, WriteNeeds
from vecsieve.proxy.writes.rows import Kind, LeftOut
from vecsieve.proxy.writes.settling import Change, Removal

SAMPLE = next(sample for sample in samples() if sample.name == "weaviate REST")
VICTIMS = {b'"x"': b"{}", b'"y"': b"{}"}


def row(identifier: bytes, survivor: bytes, kind: Kind = Kind.REMOVED) -> LeftOut:
    return LeftOut(
        collection="Docs", partition=b"", id=identifier, survivor=survivor, tier="exact", similarity=1.0, point=b"{}", kind=kind
    )  # fmt: skip


def removal() -> Removal:
    """The first point of the write takes the place of x; y goes for another."""
    verbs = SAMPLE.adapter
    assert isinstance(verbs, MergesPoints)
    needs = WriteNeeds(vector_name=None, keys=(), most=9, known=SAMPLE.known)
    return Removal(verbs, SAMPLE.adapter.parse(SAMPLE.write, SAMPLE.body, needs), VICTIMS)


@pytest.mark.parametrize(
    ("receipt", "expected"),
    [
        (None, VICTIMS),
        (Receipt(body=b""), VICTIMS),
        (Receipt(body=b"", failed=frozenset({0})), {b'"y"': b"{}"}),
    ],
)
def test_a_point_stays_where_its_survivor_was_not_taken(receipt: Receipt | None, expected: dict[bytes, bytes]) -> None:
    made = removal()
    rows = [row(b'"x"', made.points.ids[0]), row(b'"y"', b'"other"'), row(b'"z"', b'"w"', Kind.LEFT_OUT)]
    result = made.after(receipt, rows)
    assert result is not None
    assert result.victims == expected


def test_nothing_is_removed_where_no_survivor_was_taken() -> None:
    made = removal()
    rows = [row(victim, made.points.ids[0]) for victim in VICTIMS]
    assert made.after(Receipt(body=b"", failed=frozenset({0})), rows) is None


def test_points_whose_originals_were_not_taken_are_not_left_out() -> None:
    rows = (row(b'"x"', b'"a"', Kind.LEFT_OUT), row(b'"r"', b'"a"'), row(b'"y"', b'"b"', Kind.LEFT_OUT))
    change = Change(left_out=rows, left_out_places=(3, 5))
    assert change.lost(None) == []
    assert change.lost(Receipt(body=b"", refused=frozenset({5}))) == [rows[2]]
