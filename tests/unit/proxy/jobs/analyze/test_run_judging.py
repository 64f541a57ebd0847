"""From arrays to figures."""

from __future__ import annotations

import numpy as np

from support.memory_source import families as planted
from support.searched_source import gathered_of
from vecsieve.proxy.jobs.analyze.families import CUTS, Density, density_at, first_copies, leaders
from vecsieve.proxy.jobs.analyze.pools import Pool
from vecsieve.proxy.jobs.analyze.report import Cut, Share
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


def cut(value: float, relative: float | None = None) -> Cut:
    return Cut(value=value, origin="option", relative=relative, median=None, pools=0)


def test_the_curve_has_the_usual_cuts_the_chosen_and_the_relative_one_rising_and_once() -> None:
    gathered = gathered_of(planted(3, 2))
    firsts = first_copies(gathered)
    for chosen, more in ((cut(0.07, 0.45), {0.07, 0.45}), (cut(0.05), set())):
        cuts = [each.cut for each in curve(gathered, firsts, chosen, np.inf, [])]
        assert cuts == sorted({*CUTS, *more})


def test_beyond_what_sketches_find_the_curve_is_what_the_searches_met() -> None:
    gathered = gathered_of(planted(6, 3))
    pools = [Pool(distance=np.zeros((2, 2), np.float32), median=0.5, nearest=near) for near in (0.01, 0.18, 0.27, 0.9)]
    found = {each.cut: each for each in curve(gathered, first_copies(gathered), cut(0.05), 0.05, pools)}
    assert found[0.05] == Density(cut=0.05, with_copy=18, redundant=12)
    assert found[0.08] == Density(cut=0.08, with_copy=18, redundant=None, estimated=True)  # no fewer than are known
    gathered = gathered_of(planted(18, 1))
    found = {each.cut: each for each in curve(gathered, first_copies(gathered), cut(0.05), 0.05, pools)}
    assert [found[each].with_copy for each in (0.05, 0.1, 0.2, 0.3)] == [0, 4, 9, 14]  # of 18
