"""The judge of `make clients` itself: it lets honest answers through and names every way of being wrong."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from support.pinecone.planted import TOP_K
from support.pinecone.verdict import differences, faults, transported


def match(name: str, rank: int, *, whole: bool) -> dict[str, Any]:
    fields = {"id": name, "score": 1 - rank / 100, "values": [float(rank)], "sparse": None, "metadata": {"n": rank}}
    return fields if whole else {**fields, "values": [], "metadata": None}


def ranked(names: list[str], *, whole: bool) -> list[dict[str, Any]]:
    return [match(name, ALL.index(name), whole=whole) for name in names]


ALL = [f"f{base}-{copy_}" for base in range(20) for copy_ in range(3)]
DISTINCT = ALL[::3][:TOP_K]
DIRECT = {
    "stats": [1, 2],
    "clean.vector.bare": ranked(DISTINCT, whole=False),
    "copied.vector.bare": ranked(ALL[:TOP_K], whole=False),
    "copied.vector.all": ranked(ALL, whole=True),
    "copied.id.both": ranked(ALL[:TOP_K], whole=True),
    "copied.id.all": ranked(ALL, whole=True),
}
HONEST = {
    **DIRECT,
    "copied.vector.bare": ranked(DISTINCT, whole=False),
    "copied.vector.all": ranked(ALL[::3], whole=True),
    "copied.id.both": ranked(["f0-0", "f0-1", *ALL[3::3][: TOP_K - 2]], whole=True),
}


def changed(name: str, answer: object) -> dict[str, Any]:
    return {**copy.deepcopy(HONEST), name: answer}


def test_an_honest_proxy_has_no_faults() -> None:
    assert faults(DIRECT, HONEST) == []


def test_equal_observations_do_not_differ() -> None:
    assert differences(DIRECT, copy.deepcopy(DIRECT)) == []
    assert differences(DIRECT, HONEST) == ["copied.id.both", "copied.vector.all", "copied.vector.bare"]


@pytest.mark.parametrize(
    ("name", "answer", "message"),
    [
        ("stats", [1, 3], "not what it is directly"),
        ("clean.vector.bare", ranked(DISTINCT[1:], whole=False), "not what it is directly"),
        ("copied.vector.bare", DIRECT["copied.vector.bare"], "not distinct"),
        ("copied.vector.bare", ranked(DISTINCT[:-1], whole=False), "7 matches, not 8"),
        ("copied.vector.bare", ranked(ALL[3::3][:TOP_K], whole=False), "the best match is not the first"),
        ("copied.vector.bare", ranked([DISTINCT[0], *DISTINCT[:0:-1]], whole=False), "upstream's order"),
        (
            "copied.vector.bare",
            [*ranked(DISTINCT[:-1], whole=False), match("f0-0", 0, whole=False)],
            "upstream's order",
        ),
        ("copied.vector.bare", ranked(DISTINCT, whole=True), "is not told as upstream tells it"),
        ("copied.vector.bare", [{**one, "values": None} for one in ranked(DISTINCT, whole=False)], "is not told as"),
        ("copied.id.both", ranked(DISTINCT, whole=True), "swallowed its copies"),
        ("copied.id.both", ranked(ALL[:TOP_K], whole=True), "not distinct"),
    ],
)
def test_every_fault_is_named(name: str, answer: object, message: str) -> None:
    problems = faults(DIRECT, changed(name, answer))
    assert problems
    assert all(one.startswith(name) for one in problems)
    assert message in " ".join(problems)


def test_a_call_that_the_client_refuses_must_be_refused_through_the_proxy_too() -> None:
    refused = {"error": "ValueError", "status": None}
    direct = {**DIRECT, "copied.vector.bare": refused}
    assert faults(direct, changed("copied.vector.bare", refused)) == []
    assert faults(direct, HONEST) == [
        f"copied.vector.bare: directly {refused}, through the proxy {HONEST['copied.vector.bare']}"
    ]


def test_over_another_transport_only_the_spelling_of_numbers_and_the_class_of_an_error_may_differ() -> None:
    over_rest = {
        "query": [{"score": 0.1}],
        "stats": [2, 3.0],
        "wrong": {"error": "PineconeApiException", "status": 400},
    }
    over_grpc = {"query": [{"score": 0.10000000149011612}], "stats": [2, 3], "wrong": {"error": "PineconeException"}}
    assert transported(over_rest, over_grpc) == []
    assert transported(over_rest, {**over_grpc, "query": [{"score": 0.1000001}]}) == ["query"]
    assert transported(over_rest, {**over_grpc, "stats": {"error": "AttributeError"}}) == ["stats"]
    assert transported(over_rest, {**over_grpc, "wrong": []}) == ["wrong"]
