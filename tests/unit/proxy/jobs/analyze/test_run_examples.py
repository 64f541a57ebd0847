"""Families to look at: the largest, from the member that is most alike to the least."""

from __future__ import annotations

import numpy as np

from vecsieve.proxy.jobs.analyze.families import Grouped
from vecsieve.proxy.jobs.analyze.report import Member
from vecsieve.proxy.jobs.analyze.run import CONSIDERED, FAMILIES, Chosen, choose, family
from vecsieve.proxy.jobs.sweep.judging import Evidence


def grouped_of(*sizes: int, equal: bool = False) -> Grouped:
    """Families one after the other, each led by its first point."""
    starts = np.cumsum([0, *sizes[:-1]])
    heads = np.repeat(starts, sizes).astype(np.intp)
    return Grouped(
        heads=heads, firsts=heads if equal else np.arange(len(heads)), evidence=np.zeros(len(heads), np.intp)
    )


def read(place: int, evidence: str | None = None) -> Member:
    return Member(id=place, evidence=evidence, source="s", text="t")


def test_the_largest_families_come_first_and_single_points_never() -> None:
    chosen = choose(grouped_of(2, 1, 5, 2, 1))
    assert [(choice.size, choice.places) for choice in chosen] == [(5, (3, 4, 5, 6, 7)), (2, (0, 1)), (2, (8, 9))]


def test_families_with_a_member_that_no_proof_covers_come_first_and_show_it() -> None:
    grouping = grouped_of(5, 2, CONSIDERED + 9)
    grouping.evidence[[6, 7 + CONSIDERED + 4]] = Evidence.SEARCHED
    chosen = choose(grouping)
    assert [choice.size for choice in chosen] == [CONSIDERED + 9, 2, 5]
    assert 7 + CONSIDERED + 4 in chosen[0].places
    assert chosen[0].places[0] == 7, "the leader's place is the first"


def test_no_more_families_and_members_are_read_than_are_needed() -> None:
    chosen = choose(grouped_of(*[1000] * (FAMILIES + 3), equal=True))
    assert len(chosen) == FAMILIES
    assert all(
        len(choice.places) == CONSIDERED + 1 and choice.places[-1] == choice.places[0] + 999 for choice in chosen
    )
    assert [choice.equal for choice in chosen] == [1000] * FAMILIES


def test_the_most_and_the_least_alike_are_among_those_shown() -> None:
    kinds = ["edited", "equal", "contained", "equal", "edited", "equal"]
    points = {0: read(0)} | {place: read(place, kind) for place, kind in enumerate(kinds, 1)}
    example = family(Chosen(size=7, equal=4, places=tuple(range(7))), points)
    assert example is not None
    assert [member.evidence for member in example.members] == ["equal", "equal", "contained", "edited"]
    assert (example.leader.id, example.leader.evidence) == (0, None)


def test_members_that_are_gone_are_not_shown_and_a_family_without_its_leader_neither() -> None:
    points = {0: read(0), 1: read(1, "equal")}
    example = family(Chosen(size=4, equal=2, places=(0, 1, 2, 3)), points)
    assert example is not None
    assert [member.id for member in example.members] == [1]
    assert family(Chosen(size=2, equal=1, places=(3, 0)), points) is None
