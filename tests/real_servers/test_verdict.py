"""The verdict on a real server finds what must not be, tried on answers made by hand."""

from __future__ import annotations

import uuid
from typing import Any

import grpc
import pytest

from real_servers.verdict import PRINTED, Verdict, explained
from real_servers.weaviate_verdict import differences, faults, is_part, is_same, page_fault
from support.grpc.calls import Seen
from support.weaviate.messages import message_type


def page(*objects: tuple[int, int], text: str = "t") -> list[dict[str, Any]]:
    """Objects by family and copy."""
    return [{"id": str(uuid.UUID(int=1 + family * 100 + copy)), "text": text} for family, copy in objects]


WHOLE = page((1, 0), (1, 1), (2, 0), (2, 1), (3, 0))
DIRECT = WHOLE[:3]


def test_the_first_of_each_family_in_the_servers_order_is_right() -> None:
    assert page_fault(DIRECT, page((1, 0), (2, 0), (3, 0)), WHOLE, []) == ""


@pytest.mark.parametrize(
    ("made", "words"),
    [
        (page((2, 0), (1, 0), (3, 0)), "order"),
        (page((1, 0), (2, 0), (4, 0)), "order"),
        (page((1, 0), (2, 0), (3, 0), text="other"), "order"),
        (page((1, 0), (2, 0)), "2 results"),
        (page((1, 0), (1, 1), (2, 0)), "copies"),
        ({"error": "Unavailable"}, "through the proxy"),
    ],
    ids=["another order", "a stranger", "another text", "too few", "copies", "an error"],
)
def test_a_page_that_is_wrong_is_told(made: Any, words: str) -> None:
    assert words in page_fault(DIRECT, made, WHOLE, [])


def test_the_object_that_a_search_is_made_by_may_stand_beside_its_copy() -> None:
    assert page_fault(DIRECT, page((1, 0), (1, 1), (2, 0)), WHOLE, page((1, 0))[0]["id"].split()) == ""


def test_calls_without_a_ranking_and_collections_without_copies_may_not_change() -> None:
    plain = {
        "Clean.near": DIRECT,
        "Clean.near.all": WHOLE,
        "Copied.list": DIRECT,
        "Copied.near": DIRECT,
        "Copied.near.all": WHOLE,
    }
    good = {**plain, "Copied.near": page((1, 0), (2, 0), (3, 0))}
    assert list(faults(plain, good, frozenset())) == []
    bad = {**good, "Clean.near": good["Copied.near"], "Copied.list": []}
    assert [fault.partition(":")[0] for fault in faults(plain, bad, frozenset())] == ["Clean.near", "Copied.list"]
    assert list(differences(plain, bad, frozenset({"Copied.near"}))) == ["Clean.near", "Copied.list"]


def reply(*identifiers: str, took: float = 0.0, profile: bool = False) -> Seen:
    made = message_type("SearchReply")(took=took, generative_grouped_result="" if not profile else "x")
    for identifier in identifiers:
        result = made.results.add()
        result.metadata.id = identifier
        for name in ("b", "a") if took else ("a", "b"):
            result.metadata.vectors.add(name=name, vector_bytes=b"1234")
    return Seen((made.SerializeToString(),), grpc.StatusCode.OK, "", (), ())


def failed(details: str) -> Seen:
    return Seen((), grpc.StatusCode.UNKNOWN, details, (), ())


def test_two_answers_are_the_same_where_only_time_and_the_order_of_maps_differ() -> None:
    assert is_same(reply("x", "y"), reply("x", "y", took=1.0), reply()) == ""
    assert is_same(failed("vectors [a b]"), failed("vectors [b a]"), reply()) == ""
    assert is_same(reply("x", "y"), reply("y", "x"), reply()) != ""
    assert is_same(failed("vectors [a b]"), failed("vectors [a c]"), reply()) != ""


def test_a_part_of_the_ranking_in_its_order_is_right_and_anything_else_is_not() -> None:
    whole = reply("x", "y", "z")
    assert is_part(reply("x", "y"), reply("x", "z"), whole) == ""
    assert "order" in is_part(reply("x", "y"), reply("z", "x"), whole)
    assert "around" in is_part(reply("x", "y"), reply("x", "z", profile=True), whole)
    assert "directly" in is_part(reply("x", "y"), failed("no"), whole)


def test_each_difference_is_said_and_many_are_counted() -> None:
    messages = tuple(f"call {number}" for number in range(PRINTED + 2))
    verdict = Verdict(
        server="S",
        version="1",
        client="c",
        calls=9,
        distinct=0,
        unstable=0,
        faults={"off": (), "shadow": (), "on": messages},
    )
    lines = explained(verdict)
    assert not verdict.is_good
    assert len(lines) == PRINTED + 2
    assert f"{PRINTED + 2} differences" in lines[-2]
    assert "nothing was seen" in lines[-1]
