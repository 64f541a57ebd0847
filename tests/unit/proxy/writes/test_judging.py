"""Which points of a write are copies. Several tests are defects of another tool for the same purpose, each proven there."""

from __future__ import annotations

import json

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.backends.two_facts import PLANTED, TWO_FACTS
from vecsieve.adapters.writes import Neighbours, NewPoints
from vecsieve.config.schema import Settings
from vecsieve.proxy.search.policy import Policies, ResolvedPolicy
from vecsieve.proxy.selection.values import finished
from vecsieve.proxy.telemetry.labels import WriteTier
from vecsieve.proxy.writes.judging import Verdict, has_bare_points, judge, keys_of, tenant_of

SIZE = 64
AXES = np.eye(SIZE, dtype=np.float32)
Vector = npt.NDArray[np.float32]
Point = tuple[int, Vector, dict[str, object]]


def policy(**write: object) -> ResolvedPolicy:
    settings = {key: write.pop(key) for key in ("tenant_keys", "texts") if key in write}
    made = Settings.model_validate(
        {"policy": {"write": {"mode": "observe", **write}, **settings}, "journal": {"path": "j.db"}}
    )
    return Policies(made).resolve("qdrant", "c")


def at(similarity: float, axis: int = 1) -> Vector:
    """A direction with this cosine to the first axis."""
    made: Vector = (similarity * AXES[0] + np.sqrt(1.0 - similarity**2) * AXES[axis]).astype(np.float32)
    return made


def values_of(payload: dict[str, object], keys: tuple[str, ...]) -> tuple[bytes | None, ...]:
    return tuple(json.dumps(payload[key], ensure_ascii=False).encode() if key in payload else None for key in keys)


def judged(
    *incoming: Point,
    stored: dict[int, list[tuple[int, float, dict[str, object]]]] | None = None,
    by: ResolvedPolicy | None = None,
    vectors: dict[int, Vector] | None = None,
    is_cosine: bool | None = None,
) -> list[Verdict]:
    """``stored``: by place, the neighbours' ids, scores and payloads. ``vectors``: by a neighbour's id. ``is_cosine``: without vectors, unless said."""
    by = by or policy()
    keys = keys_of(by)
    near = [(row, *one) for row, those in (stored or {}).items() for one in those]
    points = NewPoints(
        ids=tuple(b"%d" % identifier for identifier, _, _ in incoming),
        vectors=np.array([vector for _, vector, _ in incoming], np.float32),
        vector_name="",
        keys=keys,
        fields=tuple(values_of(payload, keys) for _, _, payload in incoming),
        document=None,
    )
    neighbours = Neighbours(
        of=np.array([row for row, *_ in near], np.intp),
        ids=tuple(b"%d" % identifier for _, identifier, _, _ in near),
        scores=np.array([score for _, _, score, _ in near], np.float64),
        vectors=np.array([vectors[i] for _, i, _, _ in near] if vectors else np.empty((len(near), 0)), np.float32),
        fields=tuple(values_of(payload, keys) for *_, payload in near),
    )
    verdicts, _ = finished(judge(points, neighbours, by, is_cosine=vectors is None if is_cosine is None else is_cosine))
    return verdicts


def text(words: str) -> dict[str, object]:
    return {"text": words}


@pytest.mark.parametrize(
    ("score", "tier"),
    [(1.0, "semantic"), (0.90, "semantic"), (0.8999, "related"), (0.75, "related"), (0.7499, "unique")],
)
def test_of_other_texts_the_tier_is_the_similaritys_and_makes_no_copy(score: float, tier: str) -> None:
    (verdict,) = judged((1, AXES[0], text("one")), stored={0: [(9, score, text("two"))]})
    assert (verdict.tier, verdict.of, verdict.holders) == (tier, None, ())


def test_a_point_without_neighbours_is_unique() -> None:
    assert judged((1, AXES[0], text("one"))) == [Verdict(WriteTier.UNIQUE)]


@pytest.mark.parametrize("least", ["exact", "semantic", "related"])
@pytest.mark.parametrize("mode", ["observe", "annotate", "skip", "merge", "reject"])
def test_a_copy_is_what_reaches_the_least_tier_where_nothing_is_left_out(mode: str, least: str) -> None:
    scores = {"exact": 0.8, "semantic": 0.999, "related": 0.80}
    words = ["the same words", *["other words"] * 2]
    points = [(place, AXES[place], text("The same words")) for place in range(3)]
    near = {place: [(90 + place, score, text(words[place]))] for place, score in enumerate(scores.values())}
    for place, point in enumerate(points):
        (verdict,) = judged(point, stored={0: near[place]}, by=policy(mode=mode, least=least))
        is_counted = place <= list(scores).index(least) and (mode in {"observe", "annotate"} or not place)
        assert (verdict.of is not None) == is_counted
        assert verdict.holders == ((b"90",) if not place else ())


SENTENCES = "The river rises in the spring. The road to the house is closed then. Nobody lives there."


@pytest.mark.parametrize(
    ("mine", "theirs", "is_equal"),
    [
        ("THE WATER  IS RISING FAST", "The water is rising fast", True),
        ("The road to the house is closed then.", SENTENCES, False),
        ("Nobody lives there.", SENTENCES, False),
    ],
)
def test_a_text_that_another_holds_is_exact_whatever_the_model_thinks(mine: str, theirs: str, is_equal: bool) -> None:
    (verdict,) = judged((1, AXES[0], text(mine)), stored={0: [(9, 0.8, text(theirs))]})
    assert (verdict.tier, verdict.of, verdict.is_equal, verdict.holders) == (WriteTier.EXACT, b"9", is_equal, (b"9",))


def test_a_text_that_says_more_than_each_other_one_is_no_copy() -> None:
    halves = [text("The river rises in the spring. The road to the house is closed then."), text("Nobody lives there.")]
    (verdict,) = judged((1, AXES[0], text(SENTENCES)), stored={0: [(8, 0.99, halves[0]), (9, 0.99, halves[1])]})
    assert (verdict.tier, verdict.of) == (WriteTier.SEMANTIC, None)


@pytest.mark.parametrize(
    ("one", "other"),
    [("日本語のテキスト", "別の文章です"), ("Привет, мир", "Совсем другой текст"), ("🙂", "🙃"), ("\u200b", "\u200c")],
)
def test_texts_beyond_ascii_are_not_all_one_text(one: str, other: str) -> None:
    """Defect: they became "" and so one exact duplicate."""
    (verdict,) = judged((1, AXES[0], text(one)), stored={0: [(9, 0.8, text(other))]})
    assert verdict.tier is WriteTier.RELATED


def test_a_point_that_is_stored_again_is_no_copy_of_itself() -> None:
    """Defect: adding the same id again merged it with itself and evicted it."""
    (verdict,) = judged((1, AXES[0], text("one")), stored={0: [(1, 1.0, text("one"))]})
    assert verdict == Verdict(WriteTier.UNIQUE)


def test_a_stored_point_that_the_same_write_replaces_is_not_compared() -> None:
    verdicts = judged((1, AXES[0], text("new")), (2, AXES[1], text("b")), stored={1: [(1, 1.0, text("b"))]})
    assert [verdict.of for verdict in verdicts] == [None, None]


def test_an_original_that_is_stored_again_is_no_copy_of_its_own_copy() -> None:
    copy = {**text("one"), "_vecsieve": {"duplicate_of": 1, "similarity": 1.0, "tier": "exact"}}
    (verdict,) = judged((1, AXES[0], text("one")), stored={0: [(2, 1.0, copy)]})
    assert verdict.of is None


def test_later_points_see_earlier_ones() -> None:
    verdicts = judged((1, AXES[0], text("a")), (2, AXES[1], text("b")), (3, AXES[0] * 5, text("a")))
    assert [verdict.of for verdict in verdicts] == [None, None, b"1"]


def test_a_point_that_a_later_one_replaces_is_no_original() -> None:
    verdicts = judged((1, AXES[0], text("a")), (2, AXES[0], text("a")), (1, AXES[1], text("b")))
    assert [verdict.of for verdict in verdicts] == [None, None, None]


def test_all_copies_of_a_family_are_found() -> None:
    """Defect: a sweep stopped after the first match of each entry, so three copies left two."""
    verdicts = judged(*((place, AXES[0], text("the same")) for place in range(1, 40)))
    assert [verdict.of for verdict in verdicts] == [None, *[b"1"] * 38]


def test_copies_do_not_chain() -> None:
    """Defect: A~B and B~C made one family of A and C, which are not alike."""
    middle = at(0.92)
    far = (0.92 * middle + np.sqrt(1 - 0.92**2) * AXES[2]).astype(np.float32)
    points = (1, AXES[0], text("a")), (2, middle, text("b")), (3, far, text("c"))
    verdicts = judged(*points, by=policy(least="semantic"))
    assert [verdict.of for verdict in verdicts] == [None, b"1", None]
    assert verdicts[2].similarity == pytest.approx(0.92**2, abs=1e-4)


def test_a_point_is_a_copy_of_the_most_similar_original() -> None:
    near = [(8, 0.93, text("a")), (9, 0.97, text("A")), (7, 0.99, text("b"))]
    (verdict,) = judged((1, AXES[0], text("a")), stored={0: near})
    assert (verdict.of, verdict.similarity, verdict.holders) == (b"8", 0.93, (b"8",))
    (verdict,) = judged(
        (1, AXES[0], text("a word")), stored={0: [(8, 0.93, text(" a word")), (9, 0.97, text("a  word"))]}
    )
    assert (verdict.of, verdict.holders) == (b"9", (b"9", b"8"))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("The meeting is on October 15th", "The meeting is on October 16th"),
        ("We ship release 1.0 today", "We ship release 3.0 today"),
        ("The price is 20 EUR", "The price is 25 EUR"),
        ("The court bans the sale", "The court lifts ban on the sale"),
        ("It runs at 5 mW", "It runs at 5 MW"),
    ],
)
def test_texts_that_differ_in_one_word_are_no_copies(one: str, other: str) -> None:
    (verdict,) = judged((1, AXES[0], text(one)), stored={0: [(9, 0.999, text(other))]})
    assert verdict == Verdict(WriteTier.SEMANTIC, 0.999, None, nearest=b"9")


@pytest.mark.parametrize("mode", ["observe", "skip", "merge", "reject"])
@pytest.mark.parametrize("name", TWO_FACTS)
def test_no_record_is_a_copy_of_another_of_its_kind(name: str, mode: str) -> None:
    points = [(place, at(0.9999, 1 + place), text(fact)) for place, fact in enumerate(TWO_FACTS[name])]
    near = {place: [(90 + place, 0.9999, text(TWO_FACTS[name][place - 1]))] for place in range(len(points))}
    verdicts = judged(*points, stored=near, by=policy(mode=mode))
    assert [(verdict.of, verdict.holders) for verdict in verdicts[:-1]] == [(None, ())] * (len(points) - 1)
    assert {verdict.tier for verdict in judged(*points, by=policy(mode=mode))[1:]} == {WriteTier.SEMANTIC}


@pytest.mark.parametrize(("part", "whole"), PLANTED)
def test_a_planted_copy_is_one(part: str, whole: str) -> None:
    (stored,) = judged((1, AXES[0], text(part)), stored={0: [(9, 0.8, text(whole))]}, by=policy(mode="skip"))
    assert stored.holders == (b"9",)
    assert [verdict.holders for verdict in judged((1, AXES[0], text(whole)), (2, AXES[0], text(part)))] == [(), (b"1",)]


def test_behind_a_point_that_says_something_else_the_next_is_compared() -> None:
    near = [(8, 0.999, text("The price is 25 EUR")), (9, 0.99, text("the price is 20 EUR"))]
    (verdict,) = judged((1, AXES[0], text("The price is 20 EUR")), stored={0: near})
    assert verdict.of == b"9"


def test_a_text_that_is_too_long_to_be_read_is_a_copy_of_nothing() -> None:
    (verdict,) = judged((1, AXES[0], text("word " * 30_000)), stored={0: [(9, 1.0, text("a"))]})
    assert (verdict.tier, verdict.of) == (WriteTier.SEMANTIC, None)


def test_of_a_text_that_comes_with_several_facts_all_points_before_it_are_named_as_holders_where_some_may_go() -> None:
    points = [(place, AXES[0], text("the same")) for place in range(4)]
    assert judged(*points, by=policy(mode="skip"))[3].holders == (b"0", b"1", b"2")
    assert judged(*points)[3].holders == (b"0",)


def test_another_tenants_point_is_never_an_original() -> None:
    by = policy(tenant_keys=("tenant",))
    mine, theirs = ({**text("a"), "tenant": verdict} for verdict in "mt")
    verdicts = judged((1, AXES[0], theirs), (2, AXES[0], mine), (3, AXES[0], mine), stored={0: [(9, 1.0, mine)]}, by=by)
    assert [verdict.of for verdict in verdicts] == [None, None, b"2"]


def test_a_point_without_a_tenant_is_compared_with_none() -> None:
    by = policy(tenant_keys=("tenant",))
    verdicts = judged((1, AXES[0], text("a")), (2, AXES[0], text("a")), by=by)
    assert [verdict.of for verdict in verdicts] == [None, None]


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        (b'"M\\u00fcller"', '"Müller"'.encode()),
        (b"7", b"7"),
        (b"true", b"true"),
        (b"7.5", None),
        (b"null", None),
        (b'["a"]', None),
        (b"{", None),
        (None, None),
    ],
)
def test_a_tenant_is_a_text_a_number_or_a_boolean_in_one_spelling(raw: bytes | None, expected: bytes | None) -> None:
    assert tenant_of(("t",), (raw,)) == (None if expected is None else (("t", expected),))


def test_without_cosine_scores_vectors_are_compared_and_length_counts() -> None:
    twice, near = {9: AXES[0] * 2}, {9: at(0.99)}
    (far,) = judged((1, AXES[0], text("a")), stored={0: [(9, 2.0, text("b"))]}, vectors=twice)
    (close,) = judged((1, AXES[0], text("a")), stored={0: [(9, 0.99, text("b"))]}, vectors=near)
    assert far.tier is WriteTier.RELATED
    assert far.similarity == pytest.approx(0.8, abs=1e-4)
    assert (close.tier, close.of) == (WriteTier.SEMANTIC, None)


def test_positions_far_from_the_origin_are_copies_by_their_texts_alone_if_they_have_any() -> None:
    """Two places on earth, by their degrees, have a similarity of nearly 1 whatever lies between them."""
    munich, vienna = np.full(SIZE, 48.1, np.float32), np.full(SIZE, 48.2, np.float32)
    for second, words, tier in (
        (vienna, "b", WriteTier.SEMANTIC),
        (munich, "b", WriteTier.SEMANTIC),
        (vienna, "a", WriteTier.EXACT),
    ):
        (verdict,) = judged((1, munich, text("a")), stored={0: [(9, 0.1, text(words))]}, vectors={9: second})
        assert verdict.tier is tier


@pytest.mark.parametrize(
    ("mine", "theirs", "vector", "is_cosine", "is_copy"),
    [
        ({}, {}, AXES[0], False, True),
        ({}, {}, AXES[0] * 2, True, True),
        ({}, {}, AXES[0] * 2, False, False),
        ({}, {}, at(0.9999), True, False),
        ({}, text("a"), AXES[0], True, False),
        (text("a"), {}, AXES[0], True, False),
        ({"text": 7}, {}, AXES[0], True, True),
    ],
)
def test_without_texts_only_equal_vectors_are_copies(
    mine: dict[str, object], theirs: dict[str, object], vector: Vector, is_cosine: bool, is_copy: bool
) -> None:
    near, vectors = {0: [(9, 1.0, theirs)]}, {9: np.asarray(vector, np.float32)}
    (verdict,) = judged((1, AXES[0], mine), stored=near, vectors=vectors, is_cosine=is_cosine)
    assert (verdict.of is not None) == is_copy
    _, within = judged((9, np.asarray(vector, np.float32), theirs), (1, AXES[0], mine), vectors={}, is_cosine=is_cosine)
    assert (within.of is not None) == is_copy


def test_whether_vectors_are_asked_for_depends_on_points_without_texts() -> None:
    by = policy()
    cases: list[tuple[dict[str, object], bool]] = [({}, True), (text("a"), False), ({"text": None}, True)]
    for payload, is_bare in cases:
        keys = keys_of(by)
        points = NewPoints(
            ids=(b"1",), vectors=AXES[:1], vector_name="", keys=keys, fields=(values_of(payload, keys),), document=None
        )
        assert has_bare_points(points, by) is is_bare


@pytest.mark.parametrize("vector", [np.zeros(SIZE), np.full(SIZE, np.nan)])
def test_a_point_without_a_usable_vector_is_a_copy_of_nothing(vector: Vector) -> None:
    verdicts = judged((1, vector, text("a")), (2, vector, text("a")), stored={0: [(9, 1.0, text("a"))]})
    assert [verdict.of for verdict in verdicts] == [None, None]


def test_a_policy_that_reads_no_texts_compares_vectors_alone() -> None:
    by = policy(texts=None)
    near = {0: [(9, 0.99, text("25 EUR"))]}
    (verdict,) = judged((1, AXES[0], text("20 EUR")), stored=near, by=by, vectors={9: at(0.99)}, is_cosine=True)
    assert verdict.of is None
    (verdict,) = judged((1, AXES[0], text("20 EUR")), stored=near, by=by, vectors={9: AXES[0]}, is_cosine=True)
    assert verdict.of == b"9"


@given(st.lists(st.integers(0, 5), min_size=1, max_size=40))
def test_every_family_has_one_original_which_comes_first(families: list[int]) -> None:
    """Each copy names the first point of its family, which is itself no copy."""
    verdicts = judged(*((place, AXES[family], text(f"family {'x' * family}")) for place, family in enumerate(families)))
    for place, family in enumerate(families):
        first = families.index(family)
        assert verdicts[place].of == (None if first == place else b"%d" % first)
