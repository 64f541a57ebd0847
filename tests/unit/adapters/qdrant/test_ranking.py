from __future__ import annotations

import json
from itertools import permutations
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.backends.transports import reason_of
from vecsieve.adapters.contract import Needs, Reason, UnsupportedError
from vecsieve.adapters.qdrant.ranking import (
    Kind,
    Ranking,
    Shape,
    askable,
    best,
    check_excluded,
    compared,
    decided,
    forced,
    missing,
    of_query,
    of_reference,
    of_search,
)
from vecsieve.adapters.wire.json import members_of, whole

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
        assert reason_of(decided, root, under) is Reason.ORDERING_CHOSEN


@pytest.mark.parametrize("expected", [True, False, (), ("x",)])
@pytest.mark.parametrize("kind", [Kind.DENSE, Kind.REFERENCE, Kind.SPARSE, Kind.MULTI])
def test_the_vector_of_a_policy_comes_before_all_others(kind: Kind, expected: bool | tuple[str, ...]) -> None:
    needs = Needs(vector_name="mine", vector_hint="learned")
    assert compared(Ranking(kind, "a"), needs, expected) == "mine"


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


KEYS = st.sampled_from(["a", "b", "a.b", "b[]", '"a"', "größe", ""])


def test_optional_keys_that_need_quoting_or_come_anyway_are_not_asked_for() -> None:
    assert askable(("a", "a.b", "größe", "b", ""), ("b",)) == ("a",)


def test_all_payload_is_ours_where_the_client_wants_none() -> None:
    assert forced(("a",), ("b",)) == ("a", "b")
    assert forced((), ()) == ()
    with pytest.raises(UnsupportedError, match="payload_selector"):
        forced(("a.b",), ("b",))


def test_only_what_the_client_did_not_choose_is_added() -> None:
    assert missing(("a", "c.d"), ("a", "b"), ("c", "d")) == ("b", "d")
    assert missing(("a",), ("a",), ()) == ()
    assert missing((), (), ("d",)) == ("d",)


@pytest.mark.parametrize(
    ("chosen", "fields"),
    [
        (("a.b",), ("a",)),  # a part of it
        (("a[]",), ("a",)),
        (('"a"',), ("a",)),  # quoted
        (("a.b",), ("a.b",)),  # a key that reads like a path
        ((), ("a.b",)),  # one that cannot be asked for by name
    ],
)
def test_what_could_not_be_taken_out_again_is_refused(chosen: tuple[str, ...], fields: tuple[str, ...]) -> None:
    assert reason_of(missing, chosen, fields, ()) is Reason.PAYLOAD_SELECTOR


def test_a_part_beside_the_whole_is_the_whole() -> None:
    assert missing(("a.b", "a"), ("a",), ()) == ()


def test_what_the_client_hides_may_be_anything_but_what_is_needed() -> None:
    check_excluded(("b", "c.d"), ("a",))
    for hidden in ("a", "a.b", '"a"'):
        with pytest.raises(UnsupportedError, match="payload_selector"):
            check_excluded(("b", hidden), ("a",))


@given(chosen=st.lists(KEYS, max_size=3), fields=st.lists(KEYS, max_size=2), optional=st.lists(KEYS, max_size=2))
def test_what_is_added_was_not_chosen(chosen: list[str], fields: list[str], optional: list[str]) -> None:
    """Nothing is added that the client's own paths begin with, and every field is there afterwards."""
    try:
        added = missing(chosen, fields, askable(optional, fields))
    except UnsupportedError:
        return
    assert not [path for path in chosen for key in added if path.split(".")[0].split("[")[0] == key]
    assert set(fields) <= set(added) | set(chosen)


NESTING = 4
SPARSE = {"indices": [1], "values": [0.5]}


def ranking(body: dict[str, Any], read: Any = of_query) -> Ranking:
    text = json.dumps(body).encode()
    result: Ranking = read(text, members_of(text, whole(text)), NESTING)
    return result


@pytest.mark.parametrize(
    ("query", "kind"),
    [
        ([1.0], Kind.DENSE),
        ([], Kind.DENSE),
        ([[1.0]], Kind.MULTI),
        (SPARSE, Kind.SPARSE),
        (42, Kind.REFERENCE),
        ("5c56c793-69f3-4fbf-87e6-c4bf54c28c26", Kind.REFERENCE),
        ({"text": "hello", "model": "m", "options": {}}, Kind.REFERENCE),
        ({"image": "x", "model": "m"}, Kind.REFERENCE),
        ({"object": {}, "model": "m"}, Kind.REFERENCE),
        ({"nearest": [1.0]}, Kind.DENSE),
        ({"nearest": [1.0], "mmr": None}, Kind.DENSE),
        ({"nearest": [[1.0]]}, Kind.MULTI),
        ({"nearest": SPARSE}, Kind.SPARSE),
        ({"nearest": 42}, Kind.REFERENCE),
        ({"recommend": {"positive": [1]}}, Kind.REFERENCE),
        ({"discover": {"target": 1, "context": []}}, Kind.REFERENCE),
        ({"context": [{"positive": 1, "negative": 2}]}, Kind.REFERENCE),
        ({"relevance_feedback": {"target": 1, "feedback": []}}, Kind.REFERENCE),
    ],
)
def test_the_querys_own_json_tells_its_kind(query: object, kind: Kind) -> None:
    assert (ranking({"query": query, "using": "a"}).kind, ranking({"query": query, "using": "a"}).name) == (kind, "a")
    assert ranking({"query": query}).name == ""


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"query": None},
        {"query": {"order_by": "time"}},
        {"query": {"order_by": {"key": "time", "direction": "desc"}}},
        {"query": {"sample": "random"}},
        {"query": {"nearest": [1.0], "mmr": {"diversity": 0.4}}},
        {"query": {"nearest": [1.0], "mmr": {}}},
        {"query": {"fusion": "rrf"}, "prefetch": [{"query": [1]}, {"query": {"nearest": [1], "mmr": {}}}]},
        {"query": [1], "prefetch": {"prefetch": [{"query": {"nearest": 1, "mmr": {"diversity": 1}}}], "query": [1]}},
    ],
)
def test_a_query_that_chooses_the_order_is_left_alone(body: dict[str, Any]) -> None:
    assert reason_of(ranking, body) is Reason.ORDERING_CHOSEN


def test_a_sample_that_only_feeds_a_ranking_is_no_chosen_order() -> None:
    assert ranking({"query": [1], "prefetch": {"query": {"sample": "random"}}}).kind is Kind.DENSE


@pytest.mark.parametrize(
    ("query", "reason"),
    [
        ({"nearest": [1.0], "fusion": "rrf"}, Reason.AMBIGUOUS_FIELD),
        ({"nearest": [1.0], "diversity": 1}, Reason.UNSUPPORTED_FIELD),
        ({"recommend": {}, "mmr": {}}, Reason.UNSUPPORTED_FIELD),
        ({"nearest": None}, Reason.UNSUPPORTED_FIELD),
        ({"nearest": {"nearest": [1]}}, Reason.UNSUPPORTED_FIELD),
        ({"something_new": 1}, Reason.UNSUPPORTED_FIELD),
        ({"text": "a", "image": "b"}, Reason.UNSUPPORTED_FIELD),
        ({"indices": [1]}, Reason.UNSUPPORTED_FIELD),
        ({}, Reason.UNSUPPORTED_FIELD),
        (True, Reason.UNSUPPORTED_FIELD),
        (-1, Reason.UNSUPPORTED_FIELD),
    ],
)
def test_a_query_that_is_not_understood_is_left_alone(query: object, reason: Reason) -> None:
    assert reason_of(ranking, {"query": query}) is reason


@pytest.mark.parametrize("using", [1, ["a"], True, {"name": "a"}])
def test_a_vector_name_of_another_type_is_left_alone(using: object) -> None:
    assert reason_of(ranking, {"query": [1], "using": using}) is Reason.UNSUPPORTED_FIELD


@pytest.mark.parametrize(
    "root", [{"fusion": "rrf"}, {"fusion": "dbsf"}, {"rrf": {"k": 1}}, {"formula": {}, "defaults": {}}]
)
@pytest.mark.parametrize(
    ("prefetch", "kind", "name"),
    [
        (
            [{"query": SPARSE, "using": "sp"}, {"query": [1], "using": "d"}, {"query": [1], "using": "e"}],
            Kind.DENSE,
            "d",
        ),
        ([{"query": 5, "using": "a"}, {"query": {"nearest": [1]}}], Kind.DENSE, ""),
        ([{"query": SPARSE, "using": "sp"}, {"query": {"text": "x"}, "using": "t"}], Kind.REFERENCE, "t"),
        ([{"query": {"fusion": "rrf"}, "prefetch": [{"query": [1], "using": "deep"}]}], Kind.DENSE, "deep"),
        (
            [{"query": 1, "using": "r", "prefetch": {"query": [1], "using": "in"}}, {"query": [1], "using": "out"}],
            Kind.DENSE,
            "in",
        ),
        ([{"query": [[1]], "using": "m"}, {"query": SPARSE, "using": "sp"}], Kind.SPARSE, "sp"),
        ([{"query": [[1]], "using": "m"}], Kind.MULTI, "m"),
        ({"query": [1], "using": "one"}, Kind.DENSE, "one"),
        ([{"filter": {}}], Kind.REFERENCE, ""),
        ([], Kind.REFERENCE, ""),
        (None, Kind.REFERENCE, ""),
    ],
)
def test_a_fused_ranking_takes_its_vector_from_the_prefetches(
    root: dict[str, Any], prefetch: object, kind: Kind, name: str
) -> None:
    result = ranking({"query": root, "prefetch": prefetch})
    assert (result.kind, result.name, result.dense) == (kind, name, None)


def test_a_rescoring_root_names_its_own_vector() -> None:
    assert ranking({"query": [1], "using": "d", "prefetch": {"query": [2], "using": "e"}}).name == "d"


@pytest.mark.parametrize("prefetch", [5, "x", [5], [[]], True])
def test_a_prefetch_of_another_shape_is_left_alone(prefetch: object) -> None:
    assert reason_of(ranking, {"query": [1], "prefetch": prefetch}) is Reason.UNSUPPORTED_FIELD


def test_prefetches_are_followed_as_deep_as_they_may_be() -> None:
    def nested(depth: int) -> dict[str, Any]:
        body: dict[str, Any] = {"query": [1], "using": "d"}
        for _ in range(depth):
            body = {"query": {"fusion": "rrf"}, "prefetch": [body]}
        return body

    assert ranking(nested(NESTING)).name == "d"
    assert reason_of(ranking, nested(NESTING + 1)) is Reason.TOO_DEEP


def test_the_span_of_a_dense_query_is_its_list() -> None:
    text = b'{"query": {"nearest": [1, 2] }}'
    result = of_query(text, members_of(text, whole(text)), NESTING)
    assert result.dense is not None
    assert text[result.dense[0] : result.dense[1]] == b"[1, 2]"


@pytest.mark.parametrize(
    ("vector", "kind", "name"),
    [
        ([1.0], Kind.DENSE, ""),
        ({"name": "a", "vector": [1.0]}, Kind.DENSE, "a"),
        ({"name": "a", "vector": SPARSE}, Kind.SPARSE, "a"),
    ],
)
def test_a_legacy_search_names_its_vector_beside_it(vector: object, kind: Kind, name: str) -> None:
    result = ranking({"vector": vector}, of_search)
    assert (result.kind, result.name) == (kind, name)


@pytest.mark.parametrize(
    "vector", [None, 5, "id", [[1.0]], {"name": "a"}, {"name": 1, "vector": [1]}, {"name": "a", "vector": 5}]
)
def test_a_legacy_search_of_another_shape_is_left_alone(vector: object) -> None:
    assert reason_of(ranking, {"vector": vector}, of_search) is Reason.UNSUPPORTED_FIELD


def test_recommend_and_discover_look_for_what_using_names() -> None:
    assert ranking({"positive": [1], "using": "a"}, of_reference) == Ranking(Kind.REFERENCE, "a")
    assert ranking({"target": 1}, of_reference) == Ranking(Kind.REFERENCE, "")
