"""From arrays to figures."""

from __future__ import annotations

from support.jobs.searched_source import gathered_of
from vecsieve.proxy.jobs.analyze.families import grouped
from vecsieve.proxy.jobs.analyze.run import SIZES, families_of


def test_every_size_falls_into_one_range() -> None:
    for size in range(2, 300):
        assert sum(low <= size <= (size if high is None else high) for low, high in SIZES) == 1


def test_families_are_counted_by_size_and_those_of_one_not_at_all() -> None:
    gathered = gathered_of([f"This is text number {place // 4} of seven." for place in range(28)] + ["alone"])
    families = families_of(gathered, grouped(gathered), [])
    assert (families.count, families.largest, families.saturated) == (7, 4, 0)
    assert [(size.smallest, size.families, size.points) for size in families.sizes if size.families] == [(4, 7, 28)]
