"""Families: a leader, and the points all of which the leader says."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from support.jobs.memory_source import families as planted
from support.jobs.searched_source import gathered_of
from vecsieve.proxy.jobs.analyze.families import (
    MOST_SOURCES,
    NO_SOURCE,
    OTHERS,
    Repeats,
    Sources,
    firsts_of,
    grouped,
    name_of,
    repeats,
    sources,
)
from vecsieve.proxy.jobs.analyze.reading import Known
from vecsieve.proxy.jobs.sweep.judging import Evidence
from vecsieve.proxy.selection.values import Indices

ONE = "Orders may be returned within thirty days of delivery."
TWO = "Refunds are paid to the card that was charged for them."
THREE = "The depot closes at four on working days."
LONG = " ".join(f"The depot in the {word} sends parcels by van and closes at four on any working day." for word in (
    "north", "south", "east", "west", "hills", "valley"
))  # fmt: skip


def test_the_longest_text_leads_and_holds_the_others() -> None:
    gathered = gathered_of([ONE, f"{ONE} {TWO}", TWO, ONE.upper(), THREE])
    groups = grouped(gathered)
    assert groups.heads.tolist() == [1, 1, 1, 1, 4]
    contained, none = Evidence.CONTAINED, Evidence.NONE
    assert groups.evidence.tolist() == [contained, none, contained, contained, none]
    assert repeats(gathered, groups) == Repeats(points=3, equal=0, contained=3, edited=0, vectors=0)


def test_of_equal_texts_the_first_stays() -> None:
    gathered = gathered_of([ONE, TWO, ONE, ONE])
    groups = grouped(gathered)
    assert groups.heads.tolist() == [0, 1, 0, 0]
    assert repeats(gathered, groups) == Repeats(points=2, equal=2, contained=0, edited=0, vectors=0)


def test_an_edited_copy_is_a_repeat_that_a_sweep_leaves() -> None:
    gathered = gathered_of([LONG, LONG.replace("van and", "van &", 1)])
    groups = grouped(gathered)
    assert repeats(gathered, groups) == Repeats(points=1, equal=0, contained=0, edited=1, vectors=0)
    assert sorted(name_of(place) for place in groups.evidence.tolist()) == ["edited", "none"]


def test_texts_that_differ_are_no_repeats_however_near_their_vectors() -> None:
    gathered = gathered_of(["The fee is EUR 20.", "The fee is EUR 30.", ""])
    assert not grouped(gathered).leaving.any()


def test_nearly_equal_vectors_of_points_without_texts_are_repeats() -> None:
    vectors = np.array([[1, 0, 0, 0], [1, 1e-3, 0, 0], [1, 0.2, 0, 0], [0, 1, 0, 0]], np.float32)
    gathered = gathered_of([None] * 4, vectors)
    groups = grouped(gathered)
    assert groups.heads.tolist() == [0, 0, 2, 3]
    assert repeats(gathered, groups) == Repeats(points=1, equal=0, contained=0, edited=0, vectors=1)


def test_a_repeat_of_a_repeat_is_no_member() -> None:
    """A window overlaps the next one: none is said by another alone."""
    sentences = LONG.split(". ")
    windows = [". ".join(sentences[first : first + 3]) for first in range(4)]
    assert not grouped(gathered_of(windows)).leaving.any()


@given(st.lists(st.sampled_from([ONE, TWO, f"{ONE} {TWO}", f"{TWO} {THREE}", LONG, None]), max_size=9))
def test_every_member_is_held_by_its_leader_and_leaders_lead_themselves(texts: list[str | None]) -> None:
    """For any texts: leaders are their own heads, and a member's evidence is that of a pair with its leader."""
    gathered = gathered_of(texts)
    groups = grouped(gathered)
    assert (groups.heads[groups.heads] == groups.heads).all()
    assert ((groups.evidence == Evidence.NONE) == ~groups.leaving).all()
    counts = repeats(gathered, groups)
    assert sum(count for _, count in counts.parts) == counts.points


def test_a_text_and_a_vector_with_the_same_number_are_not_equal() -> None:
    gathered = gathered_of([ONE, ONE, ONE])
    gathered.known[:] = [Known.TEXT, Known.VECTOR, Known.NOTHING]
    assert firsts_of(gathered).tolist() == [0, 1, 2]


def test_a_collection_of_none_has_no_families() -> None:
    assert grouped(gathered_of([])).heads.tolist() == []


# Repeats between sources.


names = st.one_of(st.none(), st.sampled_from([f"source {number}" for number in range(MOST_SOURCES + 4)]))


def of(named: list[str | None], heads: list[int]) -> Sources | None:
    head_of: Indices = np.array(heads, np.intp)
    return sources(gathered_of([None] * len(named), np.eye(len(named), dtype=np.float32), sources=named), head_of)


@given(st.lists(st.tuples(names, st.integers(0, 5)), min_size=1, max_size=40))
def test_the_table_is_the_one_counted_by_hand(points: list[tuple[str | None, int]]) -> None:
    """Each cell counts the row's points with another point of the column's source in their family."""
    named = [name for name, _ in points]
    families = [number for _, number in points]
    table = of(named, [families.index(number) for number in families])
    if table is None:
        assert not any(named)
        return
    table_names = {row.name for row in table.rows}
    group = [NO_SOURCE if name is None else name if name in table_names else OTHERS for name in named]
    assert sum(row.points for row in table.rows) == len(points)
    assert table.distinct == len(set(named) - {None})
    for row in table.rows:
        mine = [at for at, name in enumerate(group) if name == row.name]
        assert row.points == len(mine)
        copies = {
            at: {group[other] for other in range(len(points)) if other != at and families[other] == families[at]}
            for at in mine
        }
        assert row.repeated == sum(bool(copy) for copy in copies.values())
        for column, copied in zip(table.rows, row.copied, strict=True):
            assert copied == sum(column.name in copy for copy in copies.values())


def test_the_largest_sources_have_rows_and_the_rest_is_one() -> None:
    named: list[str | None] = [f"s{number:02}" for number in range(MOST_SOURCES + 3) for _ in range(number + 1)]
    table = of([*named, None], list(range(len(named) + 1)))
    assert table is not None
    assert [row.name for row in table.rows] == [
        *(f"s{number:02}" for number in range(MOST_SOURCES + 2, 2, -1)),
        OTHERS,
        NO_SOURCE,
    ]
    assert [row.points for row in table.rows[-2:]] == [1 + 2 + 3, 1]


def test_a_collection_that_names_no_source_has_no_table() -> None:
    assert of([None, None], [0, 0]) is None


def test_a_samples_copies_without_a_source_are_not_taken_for_another_sources() -> None:
    gathered = gathered_of([None] * 4, planted(2, 2), sources=["a", None, "b", None], examined=[0, 2])
    table = sources(gathered, np.array([0, 0, 2, 2], np.intp))
    assert table is not None
    assert [(row.name, row.points, row.repeated, row.copied) for row in table.rows] == [
        ("a", 1, 0, (0, 0)),
        ("b", 1, 0, (0, 0)),
    ]
