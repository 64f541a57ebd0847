"""The policies of mode merge, row by row. Several rows are defects of another tool for the same purpose, each proven there."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vecsieve.config.policy import WriteSettings
from vecsieve.proxy.writes.merging import Copy, CustomPolicyError, Settled, policy_of, settled, united

TEXTS = ("text", "doc.body")
NOTHING: dict[str, Any] = {}


def settings(merge: str, **more: Any) -> WriteSettings:
    return WriteSettings.model_validate({"merge": merge, **more})


@pytest.mark.parametrize(
    ("merge", "stored", "incoming", "stays"),
    [
        ("keep-newest", {"timestamp": 5}, {"timestamp": 9}, "incoming"),
        ("keep-newest", {"timestamp": 9}, {"timestamp": 5}, "stored"),
        ("keep-newest", {"timestamp": 5}, {"timestamp": 5}, "incoming"),
        ("keep-newest", NOTHING, NOTHING, "incoming"),
        ("keep-newest", {"timestamp": 9}, NOTHING, "incoming"),
        ("keep-newest", {"createdAt": 1_700_000_000_009}, {"createdAt": 1_700_000_000_005}, "stored"),
        ("keep-newest", {"timestamp": "2026-11-23"}, {"timestamp": "2025-01-01T10:00:00Z"}, "stored"),
        ("keep-newest", {"timestamp": "2026-11-23"}, {"timestamp": 5}, "incoming"),  # kinds that cannot be compared
        ("keep-newest", {"timestamp": "gestern"}, {"timestamp": 5}, "incoming"),
        ("keep-oldest", {"timestamp": 5}, {"timestamp": 9}, "stored"),
        ("keep-oldest", {"timestamp": 9}, {"timestamp": 5}, "incoming"),
        ("keep-oldest", NOTHING, NOTHING, "stored"),  # defect: without times it kept the newest
        ("keep-oldest", {"timestamp": 5}, NOTHING, "stored"),
        ("keep-longest", {"text": "long text"}, {"text": "short"}, "stored"),
        ("keep-longest", {"text": "short"}, {"text": "long text"}, "incoming"),
        ("keep-longest", {"doc": {"body": "long text"}}, {"text": "short"}, "stored"),
        ("keep-longest", {"text": "same", "timestamp": 9}, {"text": "size", "timestamp": 5}, "stored"),
        ("keep-longest", {"text": "same"}, {"text": "size"}, "incoming"),
        ("keep-longest", {"text": 7}, {"text": "a"}, "incoming"),
        ("keep-highest-confidence", {"confidence": 0.9}, {"confidence": 0.5}, "stored"),
        ("keep-highest-confidence", {"confidence": 0.5}, {"confidence": 0.9}, "incoming"),
        ("keep-highest-confidence", {"confidence": 0.9}, NOTHING, "incoming"),  # defect: no fallback to the newest
        ("keep-highest-confidence", {"confidence": 0.9, "timestamp": 9}, {"timestamp": 5}, "stored"),
        ("keep-highest-confidence", {"confidence": 1, "timestamp": 9}, {"confidence": 1.0, "timestamp": 5}, "stored"),
        ("keep-highest-confidence", {"confidence": True}, {"confidence": 0.1}, "incoming"),
    ],
)
def test_who_stays(merge: str, stored: dict[str, Any], incoming: dict[str, Any], stays: str) -> None:
    assert policy_of(settings(merge), TEXTS)(stored, incoming) == stays


def test_times_and_confidences_have_the_names_that_the_settings_give() -> None:
    named = settings("keep-newest", timestamps=("meta.made",), confidences=("sure",))
    assert policy_of(named, TEXTS)({"meta": {"made": 9}}, {"meta": {"made": 5}, "timestamp": 99}) == "stored"
    sure = settings("keep-highest-confidence", confidences=("sure",))
    assert policy_of(sure, TEXTS)({"sure": 9, "confidence": 0}, {"sure": 5, "confidence": 1}) == "stored"


@pytest.mark.parametrize(
    ("stored", "incoming", "both"),
    [
        ({"text": "the longer text"}, {"text": "a text"}, {"text": "the longer text"}),
        ({"text": "a text"}, {"text": "b text"}, {"text": "b text"}),
        ({"text": None}, {"text": "b"}, {"text": "b"}),
        ({"tags": ["a", "b"]}, {"tags": ["b", "c"]}, {"tags": ["a", "b", "c"]}),
        ({"tags": [1, {"k": [1]}]}, {"tags": [{"k": [1]}, True, 1.0]}, {"tags": [1, {"k": [1]}, True, 1.0]}),
        ({"n": 7}, {"n": 3.5}, {"n": 7}),
        ({"n": 2**63}, {"n": 2**63 + 1}, {"n": 2**63 + 1}),
        ({"n": True}, {"n": 0}, {"n": 0}),  # a boolean is no number
        ({"title": "old"}, {"title": "new"}, {"title": "new"}),  # defect: the existing value won
        ({"a": {"x": 1}}, {"a": {"y": 2}}, {"a": {"y": 2}}),
        ({"a": 1}, {"b": 2}, {"a": 1, "b": 2}),
        ({"tags": ["a"]}, {"tags": "b"}, {"tags": "b"}),
        ({"title": "a much longer title"}, {"title": "new"}, {"title": "new"}),  # no text field
    ],
)
def test_both_in_one(stored: dict[str, Any], incoming: dict[str, Any], both: dict[str, Any]) -> None:
    assert json.dumps(policy_of(settings("merge"), TEXTS)(stored, incoming)) == json.dumps(both)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=2), inner, max_size=3),
    max_leaves=5,
)
PAYLOAD = st.dictionaries(st.sampled_from(["text", "tags", "n", "other"]), JSON)


@given(PAYLOAD, PAYLOAD)
def test_a_merged_payload_has_all_keys_and_merging_again_changes_nothing(
    one: dict[str, Any], other: dict[str, Any]
) -> None:
    """Merging is idempotent, and no key and no element of an array is lost."""
    both = united(one, other, TEXTS)
    assert both.keys() == one.keys() | other.keys()
    assert united(both, other, TEXTS) == both
    for key in one.keys() & other.keys():
        if isinstance(one[key], list) and isinstance(other[key], list):
            assert all(value in both[key] for value in (*one[key], *other[key]))  # type: ignore[operator]  # - a list


def copy(identifier: int, row: int | None, payload: dict[str, Any], vector: tuple[float, ...] = (1.0, 2.0)) -> Copy:
    point = {"id": identifier, "vector": list(vector), "payload": payload}
    return Copy(b"%d" % identifier, row, json.dumps(point).encode())


def ids_of(result: Settled) -> tuple[bytes, list[bytes]]:
    return result.survivor.id, [other.id for other in result.others]


@pytest.mark.parametrize(
    ("merge", "survivor", "gone"),
    [
        ("keep-newest", b"3", [b"9", b"2"]),
        ("keep-oldest", b"9", [b"2", b"3"]),
        ("keep-longest", b"2", [b"9", b"3"]),
        ("merge", b"3", [b"9", b"2"]),
    ],
)
def test_of_a_family_one_stays(merge: str, survivor: bytes, gone: list[bytes]) -> None:
    family = [
        copy(9, None, {"text": "two words"}),
        copy(2, 0, {"text": "two   words"}),
        copy(3, 1, {"text": "two  words"}),
    ]
    assert ids_of(settled(family, settings(merge), TEXTS)) == (survivor, gone)


def test_a_merged_point_has_the_vector_of_the_text_it_keeps() -> None:
    stored = copy(9, None, {"text": "two   words", "n": 1}, (5.0, 6.0))
    result = settled([stored, copy(2, 0, {"text": "two words", "n": 0})], settings("merge"), TEXTS)
    assert json.loads(result.survivor.point) == {
        "id": 2,
        "vector": [5.0, 6.0],
        "payload": {"text": "two   words", "n": 1},
    }
    assert result.sent == copy(2, 0, {"text": "two words", "n": 0}).point
    respaced = settled([stored, copy(2, 0, {"text": "two      words"})], settings("merge"), TEXTS)
    assert json.loads(respaced.survivor.point)["vector"] == [1.0, 2.0]


PART, WHOLE = "The river rises in the spring.", "The river rises in the spring. The road is closed."


@pytest.mark.parametrize("merge", ["keep-newest", "keep-oldest", "keep-longest", "keep-highest-confidence", "merge"])
def test_the_survivor_says_all_that_goes_whatever_the_policy_chooses(merge: str) -> None:
    """A part of the original goes, the same text may take its place, and another text is no member at all."""
    family = [
        copy(9, None, {"text": WHOLE, "timestamp": 1}),
        copy(2, 0, {"text": PART, "timestamp": 9, "confidence": 1.0}),
        copy(3, 1, {"text": f" {WHOLE} ", "timestamp": 5}),
        copy(4, 2, {"text": "Another text altogether, longer than all.", "timestamp": 10}),
    ]
    result = settled(family, settings(merge), TEXTS)
    assert result.survivor.payload()["text"].strip() == WHOLE  # type: ignore[attr-defined]  # - a text
    assert {other.id for other in result.others} == {b"9", b"2", b"3"} - {result.survivor.id}


def test_a_payload_that_a_custom_policy_makes_is_the_users_word_and_its_choice_of_a_shorter_text_is_not() -> None:
    custom = settings("custom", custom=f"{__name__}:chosen")
    family = [copy(9, None, {"text": WHOLE}), copy(2, 0, {"text": PART, "choose": "incoming"})]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(WriteSettings, "custom_policy", lambda _: chosen)
        assert ids_of(settled(family, custom, TEXTS)) == (b"9", [b"2"])
        summary = [family[0], copy(2, 0, {"text": PART, "choose": {"text": "Closed in spring."}})]
        assert ids_of(settled(summary, custom, TEXTS)) == (b"2", [b"9"])


def test_what_is_left_out_of_a_family_is_what_the_client_sent() -> None:
    """Also where it had been merged with the one before."""
    first = copy(2, 0, {"tags": ["b"]})
    result = settled([copy(9, None, {"tags": ["a"]}), first, copy(3, 1, {"tags": ["c"]})], settings("merge"), TEXTS)
    assert result.survivor.payload() == {"tags": ["a", "b", "c"]}
    assert [other.point for other in result.others] == [copy(9, None, {"tags": ["a"]}).point, first.point]


def chosen(stored: dict[str, Any], incoming: dict[str, Any]) -> object:
    """A custom policy."""
    return incoming.get("choose", stored)


@pytest.mark.parametrize(
    ("choose", "survivor", "payload"),
    [("stored", b"9", {"a": 1}), ("incoming", b"2", {"choose": "incoming"}), ({"x": 1}, b"2", {"x": 1})],
)
def test_a_custom_policy_chooses_or_makes_a_payload(choose: object, survivor: bytes, payload: dict[str, Any]) -> None:
    custom = settings("custom", custom=f"{__name__}:chosen")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(WriteSettings, "custom_policy", lambda _: chosen)
        result = settled([copy(9, None, {"a": 1}), copy(2, 0, {"choose": choose})], custom, TEXTS)
    assert (result.survivor.id, result.survivor.payload()) == (survivor, payload)


@pytest.mark.parametrize("choose", [None, "other", 7, ["a"], {1: 2}])
def test_a_custom_policy_that_returns_anything_else_is_an_error(choose: object) -> None:
    custom = settings("custom", custom="builtins:print")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(WriteSettings, "custom_policy", lambda _: lambda *_: choose)
        with pytest.raises(CustomPolicyError):
            settled([copy(9, None, {"a": 1}), copy(2, 0, {})], custom, TEXTS)


def test_a_custom_policy_is_the_function_of_that_name() -> None:
    assert settings("custom", custom="operator:itemgetter").custom_policy() is __import__("operator").itemgetter
    assert settings("custom", custom="os:path.join").custom_policy() is __import__("os").path.join
