"""What is left of a write without its copies, and what the journal gets: over the real adapter, without a database."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vecsieve.adapters.contract import Operation, UnsupportedError
from vecsieve.adapters.qdrant.rest_write import QdrantRestWrites
from vecsieve.adapters.writes import NewPoints, WriteNeeds
from vecsieve.config.schema import Settings
from vecsieve.proxy.search.policy import Policies, ResolvedPolicy
from vecsieve.proxy.telemetry.labels import WriteTier
from vecsieve.proxy.writes.journal import Kind
from vecsieve.proxy.writes.judging import Verdict
from vecsieve.proxy.writes.plans import Judged, Plan, merged, refusal, without_copies

WRITES = QdrantRestWrites()
UPSERT = Operation(backend="qdrant", name="upsert", collection="docs")
UNIQUE = Verdict(WriteTier.UNIQUE)


def point(identifier: int, text: str = "a") -> dict[str, Any]:
    return {"id": identifier, "vector": [1, identifier], "payload": {"text": text}}


def written(*ids: int) -> NewPoints:
    body = json.dumps({"points": [point(identifier, f"incoming {identifier}") for identifier in ids]}).encode()
    return WRITES.parse(UPSERT, body, WriteNeeds(vector_name=None, keys=("text",), most=100))


def judged(*each: tuple[int, int | None]) -> Judged:
    """Ids, and of which each is a copy."""
    verdicts = [UNIQUE if of is None else Verdict(WriteTier.EXACT, 0.99, b"%d" % of) for _, of in each]
    return Judged(written(*(identifier for identifier, _ in each)), verdicts)


def stored(*ids: int) -> dict[bytes, bytes]:
    return {b"%d" % identifier: json.dumps(point(identifier, "stored")).encode() for identifier in ids}


def policy(merge: str = "keep-newest") -> ResolvedPolicy:
    write = {"mode": "merge", "merge": merge}
    made = Settings.model_validate({"policy": {"write": write}, "journal": {"path": "j.db"}})
    return Policies(made).resolve("qdrant", "docs")


def planned(write: Judged, known: dict[bytes, bytes], merge: str = "keep-newest", *, waits: bool = True) -> Plan:
    return merged(WRITES, UPSERT, write, known, policy(merge), waits=waits)


def sent(plan: Plan) -> list[int] | None:
    return None if plan.body is None else [each["id"] for each in json.loads(plan.body)["points"]]


def noted(plan: Plan) -> list[tuple[str, bytes, bytes]]:
    return [(row.kind.value, row.id, row.survivor) for row in plan.rows]


def test_copies_are_left_out_but_for_updates() -> None:
    write = judged((1, None), (2, 9), (3, 9), (4, 1))
    plan = without_copies(WRITES, UPSERT, write, stored(3))
    assert sent(plan) == [1, 3]
    assert noted(plan) == [("left_out", b"2", b"9"), ("left_out", b"4", b"1")]
    assert [json.loads(row.point) for row in plan.rows] == [point(2, "incoming 2"), point(4, "incoming 4")]


def test_of_copies_alone_nothing_is_left() -> None:
    assert sent(without_copies(WRITES, UPSERT, judged((2, 9)), {})) is None


def test_a_point_that_comes_twice_is_an_update() -> None:
    write = judged((2, 9), (2, 9), (3, 9))
    assert write.concerned(is_merging=False) == [b"3"]
    assert noted(without_copies(WRITES, UPSERT, write, {})) == [("left_out", b"3", b"9")]


def test_points_whose_ids_the_database_makes_are_not_merged() -> None:
    write = judged((1, None), (2, 9))
    bare = replace(write, points=replace(write.points, has_ids=False))
    assert bare.concerned(is_merging=False) == []
    with pytest.raises(UnsupportedError):
        bare.concerned(is_merging=True)


def test_merging_needs_the_originals_as_well() -> None:
    assert judged((1, None), (2, 9), (3, 1)).concerned(is_merging=True) == [b"2", b"3", b"9", b"1"]


@pytest.mark.parametrize(
    ("merge", "rows", "body", "removed"),
    [
        ("keep-newest", [("removed", b"9", b"3"), ("left_out", b"2", b"3")], [1, 3], {b"9"}),
        ("keep-oldest", [("left_out", b"2", b"9"), ("left_out", b"3", b"9")], [1], set()),
        ("merge", [("removed", b"9", b"3"), ("left_out", b"2", b"3")], [1, 3], {b"9"}),
    ],
)
def test_of_each_family_one_stays(merge: str, rows: list[Any], body: list[int], removed: set[bytes]) -> None:
    plan = planned(judged((1, None), (2, 9), (3, 9)), stored(9), merge)
    assert (noted(plan), sent(plan), set(plan.removed)) == (rows, body, removed)


def test_a_point_that_is_merged_goes_out_changed_and_its_own_form_is_in_the_journal() -> None:
    known = {b"9": json.dumps({"id": 9, "vector": [5, 6], "payload": {"tags": ["x"]}}).encode()}
    plan = planned(judged((2, 9)), known, "merge")
    assert plan.body is not None
    (shown,) = json.loads(plan.body)["points"]
    assert shown == {"id": 2, "vector": [1, 2], "payload": {"tags": ["x"], "text": "incoming 2"}}
    removed, changed = plan.rows
    assert (removed.kind, removed.point) == (Kind.REMOVED, known[b"9"])
    assert (changed.kind, json.loads(changed.point)) == (Kind.CHANGED, point(2, "incoming 2"))
    assert json.loads(changed.became or b"") == shown


def test_an_original_of_the_same_write_may_be_left_out() -> None:
    plan = planned(judged((1, None), (2, 1)), {})
    assert (noted(plan), sent(plan)) == ([("left_out", b"1", b"2")], [2])
    assert plan.rows[0].tier == "exact"


@pytest.mark.parametrize(
    "known",
    [
        (1,),  # the original of the write is an update: left out, its old content would stay
        (1, 2),  # so is the copy
        (2,),
    ],
)
def test_updates_are_stored_as_they_came(known: tuple[int, ...]) -> None:
    assert planned(judged((1, None), (2, 1)), stored(*known)).rows == ()


def test_an_update_takes_no_other_points_place() -> None:
    """Else two writers that store two copies anew at once would each remove the other's."""
    assert planned(judged((2, 9)), stored(2, 9)).rows == ()


def test_nothing_is_removed_for_a_write_that_may_still_fail() -> None:
    assert planned(judged((2, 9)), stored(9), waits=False).rows == ()
    assert noted(planned(judged((2, 9)), stored(9), "keep-oldest", waits=False)) == [("left_out", b"2", b"9")]


def test_where_the_original_is_gone_one_of_its_copies_is_stored() -> None:
    assert planned(judged((2, 9)), {}).rows == ()
    plan = planned(judged((2, 9), (3, 9)), {}, "keep-oldest")
    assert (noted(plan), sent(plan)) == ([("left_out", b"3", b"2")], [2])


@given(
    st.lists(st.tuples(st.integers(1, 6), st.none() | st.integers(7, 9)), min_size=1, max_size=8),
    st.sets(st.integers(1, 9)),
    st.sampled_from(["keep-newest", "keep-oldest", "keep-longest", "merge"]),
    st.booleans(),
)
def test_every_point_is_sent_or_in_the_journal_with_a_survivor_that_stays(
    each: list[tuple[int, int | None]], known: set[int], merge: str, waits: bool
) -> None:
    """No point is lost, none is both, and each survivor is sent or stays stored."""
    plan = planned(judged(*each), stored(*known), merge, waits=waits)
    ids = [identifier for identifier, _ in each]
    out = [int(row.id) for row in plan.rows if row.kind is Kind.LEFT_OUT]
    body = ids if not plan.rows else sent(plan) or []
    assert sorted([*body, *out]) == sorted(ids)
    assert {int(identifier) for identifier in plan.removed} == {
        int(row.id) for row in plan.rows if row.kind is Kind.REMOVED
    }
    stays = {*body, *known} - {int(identifier) for identifier in plan.removed}
    assert {int(row.survivor) for row in plan.rows} <= stays


def test_a_refusal_names_the_first_copies() -> None:
    rows = without_copies(WRITES, UPSERT, judged(*((n, 9) for n in range(1, 8)), (8, None)), {}).rows
    words = refusal(rows, 8)
    assert words.startswith("7 of 8 points are copies, which are rejected here: 1 of 9 (exact, 0.9900), 2 of 9")
    assert words.endswith("5 of 9 (exact, 0.9900) and 2 more. Nothing was stored")


class Typed(QdrantRestWrites):
    """Of a collection whose texts are no longer than that of point 2."""

    def holds(self, _points: NewPoints, row: int, point: bytes) -> bool:
        return len(json.loads(point)["payload"]["text"]) <= len("incoming 2")


def test_copies_whose_merged_point_the_collection_cannot_hold_are_stored_as_they_came() -> None:
    """The families beside it are merged."""
    long = {
        b"9": json.dumps({**point(9, "longer than incoming"), "payload": {"text": "longer than incoming"}}).encode()
    }
    known = {**long, b"8": json.dumps({"id": 8, "vector": [1, 8], "payload": {"n": 1}}).encode()}
    plan = merged(Typed(), UPSERT, judged((2, 9), (3, 8)), known, policy("merge"), waits=True)
    assert (plan.unheld, sent(plan), set(plan.removed)) == (1, [2, 3], {b"8"})
    alone = merged(Typed(), UPSERT, judged((2, 9)), known, policy("merge"), waits=True)
    assert (alone.unheld, alone.rows, alone.body) == (1, (), None)
