"""Pictures are well-formed, the same each time, show every point inside the plot, and a command writes them."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from types import SimpleNamespace
from typing import cast

from hypothesis import given
from hypothesis import strategies as st

from vecsieve.proxy.jobs.evaluate.fitting import BINS, Bin
from vecsieve.proxy.jobs.evaluate.rendering import BOTTOM, FRONTIER, LEFT, RIGHT, TOP, frontier, reliability
from vecsieve.proxy.jobs.evaluate.searching import contenders
from vecsieve.proxy.jobs.evaluate.summary import Summary
from vecsieve.proxy.selection.policy import Short

SVG = "{http://www.w3.org/2000/svg}"


@given(st.lists(st.tuples(st.integers(0, 10**7), st.floats(0, 1)), min_size=len(BINS) - 1, max_size=len(BINS) - 1))
def test_every_bin_with_pairs_is_a_dot_inside_the_plot(found: list[tuple[int, float]]) -> None:
    """Invariant: well-formed XML, a circle for each bin that has pairs, within the axes; the same bytes each time."""
    bounds = BINS.tolist()
    bins = [
        Bin(low=low, high=high, pairs=pairs, copies=copies if pairs else float("nan"))
        for low, high, (pairs, copies) in zip(bounds, bounds[1:], found, strict=False)
    ]
    picture = reliability({"a < b & c": bins})
    dots = list(ET.fromstring(picture).iter(f"{SVG}circle"))
    assert len(dots) == sum(pairs > 0 for pairs, _ in found)
    assert all(LEFT <= float(dot.get("cx", "nan")) <= RIGHT for dot in dots)
    assert all(TOP <= float(dot.get("cy", "nan")) <= BOTTOM for dot in dots)
    assert reliability({"a < b & c": bins}) == picture


def summary(removed: float | None, wrong: float | None) -> Summary:
    figures = [None if value is None else SimpleNamespace(value=value) for value in (removed, wrong)]
    return cast(Summary, SimpleNamespace(headline=SimpleNamespace(reduction=figures[0], wrong_mean=figures[1])))


def test_certainties_are_a_line_from_sure_to_unsure_and_other_policies_stand_apart() -> None:
    found = {
        "0.5": summary(0.6, 0.2),
        "0.9": summary(0.3, 0.01),
        "default": summary(0.5, 0.03),
        "plain": summary(None, None),
    }
    root = ET.fromstring(frontier({"one": found, "two": found}))
    lines = [each.get("points", "").split() for each in root.iter(f"{SVG}polyline")]
    assert [len(each) for each in lines] == [2, 2]
    assert float(lines[0][0].split(",")[0]) < float(lines[0][1].split(",")[0])
    names = [each.text for each in root.iter(f"{SVG}text")]
    assert [names.count(name) for name in ("0.5", "0.9", "default", "plain", "one", "two")] == [1, 1, 1, 0, 1, 1]


def test_what_is_drawn_without_policies_is_not_filled() -> None:
    named = contenders(given=FRONTIER)
    assert all(each.policy.selection.short is Short.ALLOW for each in named)
    assert len({each.name for each in named}) == len(FRONTIER)
