"""From arrays to figures."""

from __future__ import annotations

from support.memory_source import families as planted
from support.searched_source import gathered_of
from vecsieve.proxy.jobs.analyze.families import CUTS, Density, density_at, first_copies, leaders
from vecsieve.proxy.jobs.analyze.report import Share
from vecsieve.proxy.jobs.analyze.run import SIZES, curve, exact_share, families_found


def test_every_size_falls_into_one_range() -> None:
    for size in range(2, 300):
        assert sum(low <= size <= (size if high is None else high) for low, high in SIZES) == 1


def test_shares_count_points_with_a_copy_and_those_that_could_go() -> None:
    gathered = gathered_of(planted(6, 3), texts=[0, 0, *range(2, 18)])
    firsts = first_copies(gathered)
    assert exact_share(gathered, firsts) == Share(with_copy=2, redundant=1)
    assert density_at(gathered, firsts, 0.05) == Density(cut=0.05, with_copy=18, redundant=12)


def test_a_sample_does_not_say_how_many_could_go() -> None:
    gathered = gathered_of(planted(6, 3), looked=range(0, 18, 3))
    firsts = first_copies(gathered)
    assert exact_share(gathered, firsts).redundant is None
    assert density_at(gathered, firsts, 0.05) == Density(cut=0.05, with_copy=6, redundant=None)


def test_families_are_counted_by_size_and_those_of_one_not_at_all() -> None:
    gathered = gathered_of(planted(7, 4), texts=[*range(26), 26, 26])
    found = families_found(gathered, leaders(gathered, first_copies(gathered), 1e-6), 1e-6, [])
    assert (found.count, found.largest) == (1, 2)
    found = families_found(gathered, leaders(gathered, first_copies(gathered), 0.05), 0.05, [])
    assert (found.count, found.largest, found.saturated) == (7, 4, 0)
    assert [(each.smallest, each.families, each.points) for each in found.sizes if each.families] == [(4, 7, 28)]


def test_the_curve_has_the_usual_cuts_and_the_given_ones_rising_and_once() -> None:
    gathered = gathered_of(planted(3, 2))
    cuts = [each.cut for each in curve(gathered, first_copies(gathered), (0.07, None, 0.05, 0.45))]
    assert cuts == sorted({*CUTS, 0.07, 0.45})
