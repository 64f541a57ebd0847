"""The fuzz against the real engine notices what it is for, and finds nothing in a few hundred."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from prove.engine_requests import CLOUDS, Cloud, cloud
from prove.engine_searches import (
    APART,
    CHANCE,
    LEFT_OUT,
    SHUFFLED,
    TIES,
    TIES_VARY,
    TWO_MINDS,
    Description,
    Point,
    RequestRecorder,
    compared,
    findings,
    fuzzed,
    judge,
)
from prove.near_points import improbable
from support.exchanges.any_request import Request

ITEM = {"query": [1.0], "limit": 3}
REQUEST = Request("query", (ITEM,), is_batch=False, indent=None)
CLEAN = next(made for made in map(cloud, range(CLOUDS)) if not made.is_copied)
COPIED = next(made for made in map(cloud, range(12, CLOUDS)) if next(iter(made.sizes.values())) >= APART)


def ranking(*scored: tuple[int | str, float]) -> tuple[Point, ...]:
    return tuple(
        Point(name, score, json.dumps([name, score]).encode(), {"id": name, "score": score}) for name, score in scored
    )


def description(points: Sequence[Point], **changed: Any) -> Description:
    return replace(Description(200, b"".join(point.raw for point in points), (tuple(points),), {}), **changed)


DIRECT = ranking((1, 0.9), (2, 0.8), (3, 0.8))
ALL = (*DIRECT, *ranking((4, 0.7), (5, 0.6)))


def judged(mode: str, answer: Description, *direct: Sequence[Point], made: Cloud = CLEAN) -> RequestRecorder:
    """What is said of an answer beside a database that says these lists one after another, and then the last one again."""
    answers = [description(points) for points in direct]
    totals = RequestRecorder()
    judge(
        made,
        REQUEST,
        lambda query: description(ALL) if query is not REQUEST else answers.pop(0) if len(answers) > 1 else answers[0],
        {mode: answer},
        totals,
    )
    return totals


@pytest.mark.parametrize("mode", ["off", "shadow", "on"])
@pytest.mark.parametrize(
    "answer",
    [
        description(DIRECT, kind=503),
        description(DIRECT[:2]),
        description(DIRECT[::-1]),
        description(()),
        description((*DIRECT[:2], DIRECT[0])),
        description((DIRECT[0], DIRECT[1], replace(DIRECT[2], value={"id": 3, "score": 0.8, "payload": {}}))),
        description((DIRECT[0], DIRECT[1], ranking((9, 0.8))[0])),
        description(DIRECT, lists=None),
        description((DIRECT[0], DIRECT[1], ALL[3])),
    ],
    ids=["status", "shorter", "reversed", "empty", "twice", "payload", "stranger", "no lists", "left out"],
)
def test_an_answer_that_is_not_the_databases_is_noticed_in_every_mode(mode: str, answer: Description) -> None:
    totals = judged(mode, replace(answer, whole=b"other"), DIRECT)
    assert len(totals.stray) == 1
    assert not findings({"REST": totals})[0].met


def test_the_same_bytes_are_no_difference_and_members_in_another_order_have_a_reason() -> None:
    totals = judged("off", description(DIRECT), DIRECT)
    assert (totals.made, totals.stray, totals.reasons) == (1, [], {})
    totals = judged(
        "off", replace(description([replace(point, raw=b"{}") for point in DIRECT]), whole=b"other"), DIRECT
    )
    assert (totals.stray, dict(totals.reasons)) == ([], {f"off: {SHUFFLED}": 1})


def test_an_answer_that_the_database_gives_the_next_time_has_a_reason() -> None:
    tied = (DIRECT[0], DIRECT[2], DIRECT[1])
    assert dict(judged("shadow", description(tied), DIRECT, DIRECT, tied).reasons) == {f"shadow: {TWO_MINDS}": 1}
    other = ranking((1, 0.9), (3, 0.8), (7, 0.8))
    assert dict(judged("shadow", description(tied), DIRECT, other).reasons) == {f"shadow: {TIES_VARY}": 1}


def test_mode_on_may_order_equal_scores_as_the_longer_page_has_them() -> None:
    assert compared(CLEAN, ITEM, DIRECT, (DIRECT[0], DIRECT[2], DIRECT[1]), ALL) == ("", TIES)


def test_only_copies_may_be_left_out_and_only_behind_what_they_are_copies_of() -> None:
    families = list(COPIED.families.items())
    first, again = next(
        (one, two) for one, family in families for two, other in families if one != two and family == other
    )
    others = [name for name, family in families if family != COPIED.families[first]]
    everyone = ranking((first, 0.9), (again, 0.8), (others[0], 0.7), (others[1], 0.6))
    direct, through = everyone[:3], (everyone[0], everyone[2], everyone[3])
    assert compared(COPIED, ITEM, direct, through, everyone) == ("", LEFT_OUT)
    wrong, _ = compared(COPIED, ITEM, direct, (everyone[0], everyone[1], everyone[3]), everyone)
    assert wrong.startswith("left out and no copy")
    wrong, _ = compared(COPIED, ITEM, direct, (everyone[2], everyone[0], everyone[3]), everyone)
    assert wrong == "another order than its"


def test_what_lies_nearer_than_chance_explains_is_found_by_distance_and_by_direction() -> None:
    rows = np.random.default_rng(1).normal(size=(20, 16))
    assert improbable(rows) == set()
    assert improbable(np.vstack([rows, rows[3] + 1e-3])) == {3, 20}
    assert improbable(np.vstack([rows, rows[5] * 3])) == {5, 20}
    assert improbable(rows[:1]) == set()


def test_a_point_left_out_of_a_clean_cloud_has_a_reason_only_if_it_lies_near_by_chance() -> None:
    made = next(candidate for candidate in map(cloud, range(12)) if dict(candidate.sizes).get("") == 256)
    everyone = ranking(*((identifier, 1.0 - place / 200) for place, identifier in enumerate(made.families)))
    direct, through = everyone[:4], (everyone[0], *everyone[2:5])
    assert compared(made, ITEM, direct, through, everyone)[0] == "1 of 4 results left out of a cloud without copies"
    near = list(made.points)
    near[1] = {**near[1], "vector": {"": [number + 1e-5 for number in near[0]["vector"][""]]}}
    assert compared(replace(made, points=tuple(near)), ITEM, direct, through, everyone) == ("", CHANCE)


@pytest.mark.timeout(300)
@pytest.mark.parametrize("number", [2, pytest.param(4, marks=pytest.mark.deep)])
def test_some_requests_of_every_kind_show_no_difference_without_a_reason(number: int) -> None:
    """``number``: requests of a cloud, over REST and gRPC in turn."""
    tallies = fuzzed(CLOUDS * number)
    assert [totals.stray for totals in tallies.values()] == [[], []]
    assert sum(totals.made for totals in tallies.values()) == CLOUDS * number
    assert all(finding.met for finding in findings(tallies)), findings(tallies)


def groups(*scored: tuple[int, float]) -> Description:
    value = {"result": {"groups": [{"id": name, "hits": [{"id": name, "score": score}]} for name, score in scored]}}
    return Description(200, json.dumps(value).encode(), None, {}, value)


@pytest.mark.parametrize(
    ("again", "made", "is_stray"),
    [
        (groups((2, 0.9), (1, 0.9)), groups((2, 0.9), (1, 0.9)), False),
        (groups((2, 0.9), (1, 0.9)), groups((2, 0.9), (1, 0.8)), True),
        (groups((2, 0.9), (1, 0.9)), groups((1, 0.9)), True),
        (groups((1, 0.9), (2, 0.9)), groups((2, 0.9), (1, 0.9)), True),
    ],
    ids=["equal scores", "another score", "fewer", "the database is of one mind"],
)
def test_groups_may_differ_only_in_equal_scores_and_only_where_the_database_differs_itself(
    again: Description, made: Description, is_stray: bool
) -> None:
    answers = [groups((1, 0.9), (2, 0.9)), again]
    query = Request("query/groups", (ITEM,), is_batch=False, indent=None)
    totals = RequestRecorder()
    judge(CLEAN, query, lambda _: answers.pop(0) if len(answers) > 1 else answers[0], {"off": made}, totals)
    assert bool(totals.stray) is is_stray
