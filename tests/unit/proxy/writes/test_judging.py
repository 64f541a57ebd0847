"""Which points of a write are copies. Several tests are defects of another tool for the same purpose, each proven there."""

from __future__ import annotations

import json

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from vecsieve.adapters.writes import Neighbours, NewPoints
from vecsieve.config.schema import Settings
from vecsieve.proxy.search.policy import Policies, ResolvedPolicy
from vecsieve.proxy.selection.values import finished
from vecsieve.proxy.telemetry.labels import WriteTier
from vecsieve.proxy.writes.judging import Verdict, judge, keys_of, tenant_of

SIZE = 64
AXES = np.eye(SIZE, dtype=np.float32)
Vector = npt.NDArray[np.float32]
Point = tuple[int, Vector, dict[str, object]]


def policy(**write: object) -> ResolvedPolicy:
    own = {key: write.pop(key) for key in ("tenant_keys", "text", "guards") if key in write}
    made = Settings.model_validate({"policy": {"write": {"mode": "observe", **write}, **own}})
    return Policies(made).resolve("qdrant", "c")


def at(similarity: float, axis: int = 1) -> Vector:
    """A direction with this cosine to the first axis."""
    made: Vector = (similarity * AXES[0] + np.sqrt(1.0 - similarity**2) * AXES[axis]).astype(np.float32)
    return made


def told(payload: dict[str, object], keys: tuple[str, ...]) -> tuple[bytes | None, ...]:
    return tuple(json.dumps(payload[key], ensure_ascii=False).encode() if key in payload else None for key in keys)


def judged(
    *each: Point,
    stored: dict[int, list[tuple[int, float, dict[str, object]]]] | None = None,
    by: ResolvedPolicy | None = None,
    vectors: dict[int, Vector] | None = None,
) -> list[Verdict]:
    """``stored``: by place, the neighbours' ids, scores and payloads. ``vectors``: by a neighbour's id; without them scores count."""
    by = by or policy()
    keys = keys_of(by)
    near = [(row, *one) for row, those in (stored or {}).items() for one in those]
    points = NewPoints(
        ids=tuple(b"%d" % identifier for identifier, _, _ in each),
        vectors=np.array([vector for _, vector, _ in each], np.float32),
        vector_name="",
        keys=keys,
        fields=tuple(told(payload, keys) for _, _, payload in each),
        document=None,
    )
    neighbours = Neighbours(
        of=np.array([row for row, *_ in near], np.intp),
        ids=tuple(b"%d" % identifier for _, identifier, _, _ in near),
        scores=np.array([score for _, _, score, _ in near], np.float64),
        vectors=np.array([vectors[i] for _, i, _, _ in near] if vectors else np.empty((len(near), 0)), np.float32),
        fields=tuple(told(payload, keys) for *_, payload in near),
    )
    return finished(judge(points, neighbours, by, is_cosine=vectors is None))


def text(words: str) -> dict[str, object]:
    return {"text": words}


@pytest.mark.parametrize(
    ("score", "tier"),
    [
        (0.98, "exact"),
        (0.9799, "semantic"),
        (0.90, "semantic"),
        (0.8999, "related"),
        (0.75, "related"),
        (0.7499, "unique"),
    ],
)
def test_the_tier_is_the_similaritys(score: float, tier: str) -> None:
    (found,) = judged((1, AXES[0], text("one")), stored={0: [(9, score, text("two"))]})
    assert found.tier == tier
    assert found.of == (b"9" if tier in {"exact", "semantic"} else None)


def test_a_point_without_neighbours_is_unique() -> None:
    assert judged((1, AXES[0], text("one"))) == [Verdict(WriteTier.UNIQUE)]


@pytest.mark.parametrize("least", ["exact", "semantic", "related"])
def test_a_copy_is_what_reaches_the_least_tier(least: str) -> None:
    scores = {"exact": 0.99, "semantic": 0.95, "related": 0.80}
    points = [(place, AXES[place], text(f"text {tier}")) for place, tier in enumerate(scores)]
    near = {place: [(90 + place, score, text("other words"))] for place, score in enumerate(scores.values())}
    found = judged(*points, stored=near, by=policy(least=least, exact=0.985))
    copies = [tier for tier, each in zip(scores, found, strict=True) if each.of is not None]
    assert copies == list(scores)[: list(scores).index(least) + 1]


def test_the_same_canonical_text_is_exact_whatever_the_model_thinks() -> None:
    (found,) = judged((1, AXES[0], text("Größe  ist EGAL")), stored={0: [(9, 0.8, text("größe ist egal"))]})
    assert (found.tier, found.of) == (WriteTier.EXACT, b"9")


@pytest.mark.parametrize(
    ("one", "other"),
    [("日本語のテキスト", "別の文章です"), ("Привет, мир", "Совсем другой текст"), ("🙂", "🙃"), ("\u200b", "\u200c")],
)
def test_texts_beyond_ascii_are_not_all_one_text(one: str, other: str) -> None:
    """Defect: they became "" and so one exact duplicate."""
    (found,) = judged((1, AXES[0], text(one)), stored={0: [(9, 0.8, text(other))]})
    assert found.tier is WriteTier.RELATED


def test_a_point_that_is_stored_again_is_no_copy_of_itself() -> None:
    """Defect: adding the same id again merged it with itself and evicted it."""
    (found,) = judged((1, AXES[0], text("one")), stored={0: [(1, 1.0, text("one"))]})
    assert found == Verdict(WriteTier.UNIQUE)


def test_a_stored_point_that_the_same_write_replaces_is_not_compared() -> None:
    found = judged((1, AXES[0], text("new")), (2, AXES[1], text("b")), stored={1: [(1, 1.0, text("b"))]})
    assert [each.of for each in found] == [None, None]


def test_an_original_that_is_stored_again_is_no_copy_of_its_own_copy() -> None:
    copy = {**text("one"), "_vecsieve": {"duplicate_of": 1, "similarity": 1.0, "tier": "exact"}}
    (found,) = judged((1, AXES[0], text("one")), stored={0: [(2, 1.0, copy)]})
    assert found.of is None


def test_later_points_see_earlier_ones() -> None:
    found = judged((1, AXES[0], text("a")), (2, AXES[1], text("b")), (3, AXES[0] * 5, text("a")))
    assert [each.of for each in found] == [None, None, b"1"]


def test_a_point_that_a_later_one_replaces_is_no_original() -> None:
    found = judged((1, AXES[0], text("a")), (2, AXES[0], text("a")), (1, AXES[1], text("b")))
    assert [each.of for each in found] == [None, None, None]


def test_all_copies_of_a_family_are_found() -> None:
    """Defect: a sweep stopped after the first match of each entry, so three copies left two."""
    found = judged(*((place, AXES[0], text("the same")) for place in range(1, 40)))
    assert [each.of for each in found] == [None, *[b"1"] * 38]


def test_copies_do_not_chain() -> None:
    """Defect: A~B and B~C made one family of A and C, which are not alike."""
    middle = at(0.92)
    far = (0.92 * middle + np.sqrt(1 - 0.92**2) * AXES[2]).astype(np.float32)
    found = judged((1, AXES[0], text("a")), (2, middle, text("b")), (3, far, text("c")))
    assert [each.of for each in found] == [None, b"1", None]
    assert found[2].similarity == pytest.approx(0.92**2, abs=1e-4)


def test_a_point_is_a_copy_of_the_most_similar_original() -> None:
    (found,) = judged((1, AXES[0], text("a")), stored={0: [(8, 0.93, text("b")), (9, 0.97, text("c"))]})
    assert (found.of, found.similarity) == (b"9", 0.97)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("The meeting is on October 15th", "The meeting is on October 16th"),
        ("We ship release 1.0 today", "We ship release 3.0 today"),
        ("The price is 20 EUR", "The price is 25 EUR"),
        ("The court bans the sale", "The court lifts ban on the sale"),
    ],
)
def test_the_guards_of_searches_keep_points_apart(one: str, other: str) -> None:
    (found,) = judged((1, AXES[0], text(one)), stored={0: [(9, 0.999, text(other))]})
    assert found == Verdict(WriteTier.EXACT, 0.999, None, is_held=True, nearest=b"9")


def test_behind_a_point_that_a_guard_keeps_apart_the_next_is_compared() -> None:
    near = [(8, 0.999, text("The price is 25 EUR")), (9, 0.99, text("the price is 20 EUR"))]
    (found,) = judged((1, AXES[0], text("The price is 20 EUR")), stored={0: near})
    assert found.of == b"9"


def test_a_guard_that_is_off_keeps_nothing_apart() -> None:
    (found,) = judged(
        (1, AXES[0], text("The price is 20 EUR")),
        stored={0: [(9, 0.999, text("The price is 25 EUR"))]},
        by=policy(guards={"amounts": False, "numbers": False}),
    )
    assert found.of == b"9"


def test_a_text_that_is_too_long_to_be_read_is_a_copy_of_nothing() -> None:
    (found,) = judged((1, AXES[0], text("word " * 30_000)), stored={0: [(9, 1.0, text("a"))]})
    assert (found.of, found.is_held) == (None, True)


def test_another_tenants_point_is_never_an_original() -> None:
    by = policy(tenant_keys=("tenant",))
    mine, theirs = ({**text("a"), "tenant": each} for each in "mt")
    found = judged((1, AXES[0], theirs), (2, AXES[0], mine), (3, AXES[0], mine), stored={0: [(9, 1.0, mine)]}, by=by)
    assert [each.of for each in found] == [None, None, b"2"]


def test_a_point_without_a_tenant_is_compared_with_none() -> None:
    by = policy(tenant_keys=("tenant",))
    found = judged((1, AXES[0], text("a")), (2, AXES[0], text("a")), by=by)
    assert [each.of for each in found] == [None, None]


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
    (far,) = judged((1, AXES[0], text("a")), stored={0: [(9, 2.0, text("a b"))]}, vectors=twice)
    (same,) = judged((1, AXES[0], text("a")), stored={0: [(9, 0.99, text("a b"))]}, vectors=near)
    assert far.tier is WriteTier.RELATED
    assert far.similarity == pytest.approx(0.8, abs=1e-4)
    assert (same.tier, same.of) == (WriteTier.EXACT, b"9")


def test_positions_far_from_the_origin_are_not_left_out_unless_they_are_equal() -> None:
    """Two places on earth, by their degrees, have a similarity of nearly 1 whatever lies between them."""
    munich, vienna, by = np.full(SIZE, 48.1), np.full(SIZE, 48.2), policy(least="exact")
    for first, second, words, tier in (
        (munich, vienna, "b", WriteTier.SEMANTIC),
        (munich, munich, "b", WriteTier.EXACT),
        (munich, vienna, "a", WriteTier.EXACT),
    ):
        (stored,) = judged(
            (1, first, text("a")), stored={0: [(9, 0.1, text(words))]}, by=by, vectors={9: second.astype(np.float32)}
        )
        assert stored.tier is tier
        assert (stored.of is None) == (tier is WriteTier.SEMANTIC)
    other = {0: [(9, 0.0, text("z"))]}
    points = (1, munich, text("a")), (2, vienna, text("b"))
    _, within = judged(*points, stored=other, by=by, vectors={9: AXES[0]})
    assert within.of is None


@pytest.mark.parametrize("vector", [np.zeros(SIZE), np.full(SIZE, np.nan)])
def test_a_point_without_a_usable_vector_is_a_copy_of_nothing(vector: Vector) -> None:
    found = judged((1, vector, text("a")), (2, vector, text("a")), stored={0: [(9, 1.0, text("a"))]})
    assert [each.of for each in found] == [None, None]


def test_a_policy_that_reads_no_texts_compares_vectors_alone() -> None:
    by = policy(text=None)
    (found,) = judged((1, AXES[0], text("The price is 20 EUR")), stored={0: [(9, 0.99, text("25 EUR"))]}, by=by)
    assert found.of == b"9"


@given(st.lists(st.integers(0, 5), min_size=1, max_size=40))
def test_every_family_has_one_original_which_comes_first(families: list[int]) -> None:
    """Each copy names the first point of its family, which is itself no copy."""
    found = judged(*((place, AXES[family], text(f"family {'x' * family}")) for place, family in enumerate(families)))
    for place, family in enumerate(families):
        first = families.index(family)
        assert found[place].of == (None if first == place else b"%d" % first)


def test_texts_that_are_read_together_are_judged_as_two_by_two() -> None:
    words = [f"the report of unit {letter} about the weather and the harvest" for letter in "abcdefghijkl"]
    points = [
        (place, AXES[place % 12] + np.float32(0.01) * AXES[20 + place], text(words[place % 12].upper()))
        for place in range(40)
    ]
    together = judged(*points)
    assert [each.of for each in together] == [None] * 12 + [b"%d" % (place % 12) for place in range(12, 40)]
    for place in (12, 25, 39):
        (alone,) = judged(points[place % 12], points[place])[1:]
        assert together[place]._replace(similarity=0.0) == alone._replace(similarity=0.0)
