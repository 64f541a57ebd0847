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
from vecsieve.proxy.writes.judging import Verdict
from vecsieve.proxy.writes.plans import Judged, Known, Plan, merged, refusal, without_copies
from vecsieve.proxy.writes.rows import Kind

WRITES = QdrantRestWrites()
UPSERT = Operation(backend="qdrant", name="upsert", collection="docs")
UNIQUE = Verdict(WriteTier.UNIQUE)


SAME = "the words that all points have"


def point(identifier: int, text: str = SAME, **facts: Any) -> dict[str, Any]:
    return {"id": identifier, "vector": [1, identifier], "payload": {"text": text, **facts}}


def written(*points: dict[str, Any]) -> NewPoints:
    body = json.dumps({"points": points}).encode()
    return WRITES.parse(UPSERT, body, WriteNeeds(vector_name=None, keys=("text",), most=100))


def judged_points(*copies: tuple[dict[str, Any], int | None]) -> Judged:
    """Points, and of which stored or earlier one each is a copy; of copies of one point the later ones repeat the earlier ones, too."""
    verdicts: list[Verdict] = []
    for row, (_, of) in enumerate(copies):
        earlier = [b"%d" % made["id"] for made, other in copies[:row] if other == of]
        same = dict.fromkeys([] if of is None else [b"%d" % of, *earlier])
        verdicts.append(Verdict(WriteTier.EXACT, 0.99, b"%d" % of, holders=tuple(same)) if of is not None else UNIQUE)
    return Judged(written(*(made for made, _ in copies)), verdicts, ("text",))


def judged(*copies: tuple[int, int | None]) -> Judged:
    """Points of the same text by their ids, and of which each is a copy."""
    return judged_points(*((point(identifier), of) for identifier, of in copies))


def known(write: Judged, *stored: dict[str, Any], is_merging: bool = True) -> Known:
    """What the gate asks for of these stored points."""
    contents = {b"%d" % item["id"]: json.dumps(item).encode() for item in stored}
    candidates, holders = write.candidate_ids(is_merging=is_merging), write.stored_holders()
    return Known(
        updates={item: contents[item] for item in candidates if item in contents},
        holders={holder: contents[holder] for holder in holders if holder in contents},
    )


def stored(write: Judged, *ids: int, is_merging: bool = True) -> Known:
    return known(write, *map(point, ids), is_merging=is_merging)


def policy(
    mode: str = "merge", *, ignore: tuple[str, ...] = (), tenants: tuple[str, ...] = (), **write: Any
) -> ResolvedPolicy:
    policy = {"ignore": ignore, "tenant_keys": tenants, "write": {"mode": mode, **write}}
    made = Settings.model_validate({"policy": policy, "journal": {"path": "j.db"}})
    return Policies(made).resolve("qdrant", "docs")


def planned(write: Judged, known: Known, merge: str = "keep-newest", *, waits: bool = True, **more: Any) -> Plan:
    return merged(WRITES, UPSERT, write, known, policy(merge=merge, **more), waits=waits)


def skipped(write: Judged, known: Known, **more: Any) -> Plan:
    return without_copies(WRITES, UPSERT, write, known, policy("skip", **more))


def sent(plan: Plan) -> list[int] | None:
    return None if plan.body is None else [row["id"] for row in json.loads(plan.body)["points"]]


def noted(plan: Plan) -> list[tuple[str, bytes, bytes]]:
    return [(row.kind.value, row.id, row.survivor) for row in plan.rows]


def test_copies_are_left_out_but_for_updates() -> None:
    write = judged((1, None), (2, 9), (3, 9), (4, 1))
    plan = skipped(write, stored(write, 3, 9, is_merging=False))
    assert sent(plan) == [1, 3]
    assert noted(plan) == [("left_out", b"2", b"9"), ("left_out", b"4", b"1")]
    assert [json.loads(row.point) for row in plan.rows] == [point(2), point(4)]


def test_of_copies_alone_nothing_is_left() -> None:
    write = judged((2, 9))
    assert sent(skipped(write, stored(write, 9))) is None


def test_a_point_that_comes_twice_is_an_update() -> None:
    write = judged((2, 9), (2, 9), (3, 9))
    assert write.candidate_ids(is_merging=False) == [b"3"]
    assert noted(skipped(write, stored(write, 9))) == [("left_out", b"3", b"9")]


def test_a_point_whose_original_is_gone_is_stored_and_the_next_is_its_copy() -> None:
    write = judged((2, 9), (3, 9))
    assert noted(skipped(write, stored(write))) == [("left_out", b"3", b"2")]


@pytest.mark.parametrize(
    ("payload", "other", "ignore", "goes"),
    [
        ({"file": "a"}, {"file": "a"}, (), True),
        ({"file": "a"}, {"file": "b"}, (), False),
        ({"file": "a"}, {}, (), False),
        ({}, {"file": "a"}, (), False),
        ({"n": 1}, {"n": 1.0}, (), True),
        ({"file": None}, {"_vecsieve": {"duplicate_of": 3}}, (), True),
        ({"file": "a"}, {"file": "b"}, ("file",), True),
        ({"file": "a", "page": 1}, {"file": "b", "page": 2}, ("file",), False),
        ({"file": "a", "page": 1}, {"file": "b", "page": 2}, ("*",), True),
        ({"meta": {"file": "a", "page": 1}}, {"meta": {"file": "b", "page": 1}}, ("meta.file",), True),
        ({"meta": {"file": "a", "page": 1}}, {"meta": {"file": "b", "page": 1}}, (), False),
    ],
)
@pytest.mark.parametrize("text", [SAME, f"Some words more. {SAME.capitalize()}."])
def test_equal_texts_with_other_facts_are_two_facts(
    payload: dict[str, Any], other: dict[str, Any], ignore: tuple[str, ...], text: str, goes: bool
) -> None:
    write = judged_points((point(2, SAME, **payload), 9))
    known_points = known(write, point(9, text, **other))
    assert bool(skipped(write, known_points, ignore=ignore).rows) == goes
    within = judged_points((point(1, text, **other), None), (point(2, SAME, **payload), 1))
    assert sent(skipped(within, known(within), ignore=ignore)) == ([1] if goes else None)


def test_of_several_points_that_hold_a_text_the_one_with_its_facts_stands_for_it() -> None:
    write = judged_points(
        (point(2, file="a"), 9), (point(3, file="b"), 9), (point(4, file="b"), 9), (point(5, file="a"), 9)
    )
    plan = skipped(write, known(write, point(9, file="c")))
    assert noted(plan) == [("left_out", b"4", b"3"), ("left_out", b"5", b"2")]
    assert plan.left_out == {2: 1, 3: 0}


def test_where_all_fields_may_differ_payloads_are_not_compared() -> None:
    write = judged_points((point(2, SAME, file="a"), 9))
    assert noted(skipped(write, known(write, point(9, SAME, file="b")), ignore=("*",))) == [("left_out", b"2", b"9")]


def test_an_original_that_says_something_else_by_now_leaves_nothing_out() -> None:
    write = judged_points((point(2, SAME), 9))
    assert not skipped(write, known(write, point(9, "quite another text by now"))).rows


def test_points_whose_ids_the_database_makes_are_not_merged() -> None:
    write = judged((1, None), (2, 9))
    bare = replace(write, points=replace(write.points, has_ids=False))
    assert bare.candidate_ids(is_merging=False) == []
    with pytest.raises(UnsupportedError):
        planned(bare, stored(bare, 9))


def test_merging_needs_the_originals_of_the_write_as_well() -> None:
    write = judged((1, None), (2, 9), (3, 1))
    assert write.candidate_ids(is_merging=True) == [b"2", b"3", b"1"]
    assert write.candidate_ids(is_merging=False) == [b"2", b"3"]
    assert write.stored_holders() == [b"9"]


@pytest.mark.parametrize(
    ("merge", "rows", "body", "removed"),
    [
        ("keep-newest", [("removed", b"9", b"3"), ("left_out", b"2", b"3")], [1, 3], {b"9"}),
        ("keep-oldest", [("left_out", b"2", b"9"), ("left_out", b"3", b"9")], [1], set()),
        ("merge", [("removed", b"9", b"3"), ("left_out", b"2", b"3")], [1, 3], {b"9"}),
    ],
)
def test_of_each_family_one_stays(merge: str, rows: list[Any], body: list[int], removed: set[bytes]) -> None:
    write = judged((1, None), (2, 9), (3, 9))
    plan = planned(write, stored(write, 9), merge)
    assert (noted(plan), sent(plan), set(plan.removed)) == (rows, body, removed)


def test_a_point_that_is_merged_goes_out_changed_and_its_own_form_is_in_the_journal() -> None:
    write = judged((2, 9))
    earlier = {"id": 9, "vector": [5, 6], "payload": {"text": SAME, "tags": ["x"]}}
    plan = planned(write, known(write, earlier), "merge")
    assert plan.body is not None
    (sent_point,) = json.loads(plan.body)["points"]
    assert sent_point == {"id": 2, "vector": [1, 2], "payload": {"tags": ["x"], "text": SAME}}
    removed, changed = plan.rows
    assert (removed.kind, json.loads(removed.point)) == (Kind.REMOVED, earlier)
    assert (changed.kind, json.loads(changed.point)) == (Kind.CHANGED, point(2))
    assert json.loads(changed.became or b"") == sent_point


@pytest.mark.parametrize(
    ("merge", "payload", "other", "merges"),
    [
        ("keep-newest", {"timestamp": 1}, {"timestamp": 2}, True),
        ("keep-newest", {"file": "a"}, {"file": "b"}, False),
        ("keep-highest-confidence", {"confidence": 0.5}, {"confidence": 0.7}, True),
        ("keep-highest-confidence", {"file": "a"}, {"file": "b"}, False),
        ("merge", {"tags": ["x"]}, {"tags": ["y"]}, True),
        ("merge", {"lang": "de"}, {}, True),
        ("merge", {"file": "a"}, {"file": "b"}, False),
        ("merge", {"price": 1}, {"price": 2}, False),
    ],
)
def test_what_a_policy_decides_by_or_unites_may_differ_and_nothing_else(
    merge: str, payload: dict[str, Any], other: dict[str, Any], merges: bool
) -> None:
    write = judged_points((point(2, **payload), 9))
    known_points = known(write, point(9, **other))
    assert bool(planned(write, known_points, merge).rows) == merges
    assert planned(write, known_points, merge, ignore=("file", "price")).rows


@pytest.mark.parametrize("merge", ["keep-newest", "keep-oldest", "keep-longest", "merge"])
def test_a_text_that_holds_another_stays_whatever_the_policy_says(merge: str) -> None:
    whole = f"Some words more. {SAME.capitalize()}."
    write = judged_points((point(2, f"{SAME}{' ' * 40}"), 9))
    plan = planned(write, known(write, point(9, whole)), merge)
    assert (noted(plan), plan.removed) == ([("left_out", b"2", b"9")], {})


def test_an_original_of_the_same_write_may_be_left_out() -> None:
    write = judged((1, None), (2, 1))
    plan = planned(write, stored(write))
    assert (noted(plan), sent(plan)) == ([("left_out", b"1", b"2")], [2])
    assert plan.rows[0].tier == "exact"


@pytest.mark.parametrize(
    "there",
    [
        (1,),  # the original of the write is an update: left out, its old content would stay
        (1, 2),  # so is the copy
        (2,),
    ],
)
def test_updates_are_stored_as_they_came(there: tuple[int, ...]) -> None:
    write = judged((1, None), (2, 1))
    assert planned(write, stored(write, *there)).rows == ()


def test_an_update_takes_no_other_points_place() -> None:
    """Else two writers that store two copies anew at once would each remove the other's."""
    write = judged((2, 9))
    assert planned(write, stored(write, 2, 9)).rows == ()


def test_nothing_is_removed_for_a_write_that_may_still_fail() -> None:
    write = judged((2, 9))
    assert planned(write, stored(write, 9), waits=False).rows == ()
    assert noted(planned(write, stored(write, 9), "keep-oldest", waits=False)) == [("left_out", b"2", b"9")]


def test_where_the_original_is_gone_one_of_its_copies_is_stored() -> None:
    write = judged((2, 9))
    assert planned(write, stored(write)).rows == ()
    write = judged((2, 9), (3, 9))
    plan = planned(write, stored(write), "keep-oldest")
    assert (noted(plan), sent(plan)) == ([("left_out", b"3", b"2")], [2])


@given(
    st.lists(st.tuples(st.integers(1, 6), st.none() | st.integers(7, 9)), min_size=1, max_size=8),
    st.sets(st.integers(1, 9)),
    st.sampled_from(["keep-newest", "keep-oldest", "keep-longest", "merge"]),
    st.booleans(),
)
def test_every_point_is_sent_or_in_the_journal_with_a_survivor_that_stays(
    copies: list[tuple[int, int | None]], there: set[int], merge: str, waits: bool
) -> None:
    """No point is lost, none is both, and each survivor is sent or stays stored."""
    write = judged(*copies)
    plan = planned(write, stored(write, *there), merge, waits=waits)
    ids = [identifier for identifier, _ in copies]
    out = [int(row.id) for row in plan.rows if row.kind is Kind.LEFT_OUT]
    body = ids if not plan.rows else sent(plan) or []
    assert sorted([*body, *out]) == sorted(ids)
    assert {int(identifier) for identifier in plan.removed} == {
        int(row.id) for row in plan.rows if row.kind is Kind.REMOVED
    }
    stays = {*body, *there} - {int(identifier) for identifier in plan.removed}
    assert {int(row.survivor) for row in plan.rows} <= stays


def test_a_refusal_names_the_first_copies() -> None:
    write = judged(*((n, 9) for n in range(1, 8)), (8, None))
    rows = skipped(write, stored(write, 9)).rows
    words = refusal(rows, 8)
    assert words.startswith("7 of 8 points are copies, which are rejected here: 1 of 9 (exact, 0.9900), 2 of 9")
    assert words.endswith("5 of 9 (exact, 0.9900) and 2 more. Nothing was stored")


class Typed(QdrantRestWrites):
    """Of a collection that has one tag for each point."""

    def holds(self, _points: NewPoints, row: int, point: bytes) -> bool:
        return len(json.loads(point)["payload"].get("tags", [])) <= 1


def test_copies_whose_merged_point_the_collection_cannot_hold_are_stored_as_they_came() -> None:
    """The families beside it are merged."""
    write = judged_points((point(2, tags=["x"]), 9), (point(3), 8))
    known_points = known(write, point(9, tags=["y"]), point(8, tags=["z"]))
    plan = merged(Typed(), UPSERT, write, known_points, policy(merge="merge"), waits=True)
    assert (plan.unheld, sent(plan), set(plan.removed)) == (1, [2, 3], {b"8"})
    write = judged_points((point(2, tags=["x"]), 9))
    alone = merged(Typed(), UPSERT, write, known(write, point(9, tags=["y"])), policy(merge="merge"), waits=True)
    assert (alone.unheld, alone.rows, alone.body) == (1, (), None)


@pytest.mark.parametrize("team", ["x", "y"])
def test_a_stored_point_that_has_another_tenant_by_now_is_no_original(team: str) -> None:
    """The search that found it may show an earlier content, whatever fields may differ."""
    write = judged_points((point(1, team="x"), 2))
    plan = skipped(write, known(write, point(2, team=team)), ignore=("*",), tenants=("team",))
    assert bool(plan.rows) is (team == "x")
