"""Who repeats whom."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from support.memory_source import families as planted
from support.searched_source import gathered_of
from vecsieve.proxy.jobs.analyze.families import NO_SOURCE, OTHERS, SHOWN, Sources, sources
from vecsieve.proxy.selection.values import Indices

names = st.one_of(st.none(), st.sampled_from([f"source {number}" for number in range(SHOWN + 4)]))


def of(named: list[str | None], heads: list[int]) -> Sources | None:
    vectors = np.eye(len(named), dtype=np.float32)
    head_of: Indices = np.array(heads, np.intp)
    return sources(gathered_of(vectors, sources=named), head_of)


@given(st.lists(st.tuples(names, st.integers(0, 5)), min_size=1, max_size=40))
def test_the_table_is_the_one_counted_by_hand(points: list[tuple[str | None, int]]) -> None:
    """Each cell counts the row's points with another point of the column's source in their family."""
    named = [name for name, _ in points]
    families = [number for _, number in points]
    found = of(named, [families.index(number) for number in families])
    if found is None:
        assert not any(named)
        return
    shown = {row.name for row in found.rows}
    group = [NO_SOURCE if name is None else name if name in shown else OTHERS for name in named]
    assert sum(row.points for row in found.rows) == len(points)
    assert found.distinct == len(set(named) - {None})
    for row in found.rows:
        mine = [at for at, name in enumerate(group) if name == row.name]
        assert row.points == len(mine)
        copies = {
            at: {group[other] for other in range(len(points)) if other != at and families[other] == families[at]}
            for at in mine
        }
        assert row.with_copy == sum(bool(each) for each in copies.values())
        for column, copied in zip(found.rows, row.copied, strict=True):
            assert copied == sum(column.name in each for each in copies.values())


def test_the_largest_sources_have_rows_and_the_rest_is_one() -> None:
    named: list[str | None] = [f"s{number:02}" for number in range(SHOWN + 3) for _ in range(number + 1)]
    found = of([*named, None], list(range(len(named) + 1)))
    assert found is not None
    assert [row.name for row in found.rows] == [
        *(f"s{number:02}" for number in range(SHOWN + 2, 2, -1)),
        OTHERS,
        NO_SOURCE,
    ]
    assert [row.points for row in found.rows[-2:]] == [1 + 2 + 3, 1]


def test_a_collection_that_names_no_source_has_no_table() -> None:
    assert of([None, None], [0, 0]) is None


def test_a_samples_copies_without_a_source_are_not_taken_for_another_sources() -> None:
    gathered = gathered_of(planted(2, 2), sources=["a", None, "b", None], looked=[0, 2])
    found = sources(gathered, np.array([0, 0, 2, 2], np.intp))
    assert found is not None
    assert [(row.name, row.points, row.with_copy, row.copied) for row in found.rows] == [
        ("a", 1, 0, (0, 0)),
        ("b", 1, 0, (0, 0)),
    ]
