"""A panel shows the data that it is given, inside its frame."""

from __future__ import annotations

import re
from typing import Any
from xml.etree import ElementTree as ET

import pytest
from live.picture.asking import Series, Span
from live.picture.charts import Frame, drawn, legend
from live.picture.shapes import colour, text
from live.picture.units import written

SPAN = Span(100.0, 200.0, 10.0, "1m")
FRAME = Frame(20.0, 40.0, 400.0, 200.0, SPAN)
TIMES = tuple(range(100, 201, 10))


def panel(kind: str, unit: str = "none", *, is_stacked: bool = False, **defaults: object) -> dict[str, Any]:
    stacking = {"mode": "normal" if is_stacked else "none"}
    return {
        "type": kind,
        "fieldConfig": {"defaults": {"unit": unit, "custom": {"stacking": stacking}, **defaults}},
        "transformations": [{"id": "organize", "options": {"excludeByName": {"Time": True, "job": True}}}],
    }


def steady(value: float, **labels: str) -> Series:
    return Series(labels, tuple((float(at), value) for at in TIMES))


def elements(made: list[str], tag: str) -> list[ET.Element]:
    return list(ET.fromstring(f"<svg>{''.join(made)}</svg>").iter(tag))


def words(made: list[str]) -> list[str]:
    return [element.text or "" for element in elements(made, "text")]


def heights(element: ET.Element) -> list[float]:
    return [float(point.split(",")[1]) for point in (element.get("points") or "").split()]


def test_a_legend_is_filled_from_labels() -> None:
    assert legend("{{code_class}} {{origin}}", {"code_class": "2xx", "origin": "upstream"}) == "2xx upstream"
    assert legend("{{missing}}", {}) == ""
    assert legend("__auto", {"a": "b"}) == ""


def test_no_data_says_so() -> None:
    assert words(drawn(panel("timeseries"), [], FRAME)) == ["no data"]


def test_higher_values_stand_higher_and_all_inside_the_frame() -> None:
    made = drawn(panel("timeseries", "s"), [("low", steady(0.5)), ("high", steady(2.0))], FRAME)
    high, low = elements(made, "polyline")
    assert max(heights(high)) < min(heights(low))
    every = [*heights(high), *heights(low)]
    assert FRAME.y <= min(every) <= max(every) <= FRAME.y + FRAME.height
    assert {"low 500 ms", "high 2 s"} <= set(words(made))


def test_parts_of_a_whole_stand_on_each_other() -> None:
    made = drawn(panel("timeseries", is_stacked=True), [("a", steady(1.0)), ("b", steady(3.0))], FRAME)
    upper, lower = elements(made, "polygon")
    assert max(heights(upper)) == min(heights(lower)), "one begins where the other ends"
    sizes = [max(heights(each)) - min(heights(each)) for each in (upper, lower)]
    assert sizes[0] == pytest.approx(3 * sizes[1], abs=0.5)


def test_below_zero_is_below_the_line_of_zero() -> None:
    made = drawn(panel("timeseries"), [("up", steady(1.0)), ("down", steady(-1.0))], FRAME)
    down, up = elements(made, "polyline")
    assert min(heights(down)) > max(heights(up))


@pytest.mark.parametrize(("value", "fill"), [(0.0, "#2ca02c"), (0.5, "#d9822b"), (2.0, "#d62728")])
def test_a_number_has_the_colour_of_the_threshold_it_passed(value: float, fill: str) -> None:
    steps = [{"color": "green", "value": None}, {"color": "orange", "value": 0.5}, {"color": "red", "value": 1.0}]
    made = drawn(panel("stat", "s", thresholds={"steps": steps}), [("", steady(value))], FRAME)
    (group,) = elements(made, "g")
    assert group.get("fill") == fill


def test_a_cell_of_a_heatmap_is_what_its_bucket_adds_to_the_one_below() -> None:
    found = [("", steady(count, le=bound)) for bound, count in (("0.1", 4.0), ("1.0", 4.0), ("+Inf", 5.0))]
    cells = elements(drawn(panel("heatmap", "s"), found, FRAME), "rect")
    assert len(cells) == 2 * len(TIMES), "the middle bucket adds nothing"
    assert sorted({float(cell.get("opacity") or 1) for cell in cells}) == [0.25, 1.0]


def test_a_state_is_red_while_it_holds() -> None:
    series = Series({}, ((100.0, 0.0), (110.0, 1.0), (120.0, 0.0)))
    fills = [cell.get("fill") for cell in elements(drawn(panel("state-timeline"), [("a", series)], FRAME), "rect")]
    assert fills == ["#2ca02c", "#d62728", "#2ca02c"]


def test_a_table_has_the_labels_that_are_not_hidden() -> None:
    made = drawn(panel("table"), [("", steady(1.0, version="1.2", job="x"))], FRAME)
    assert words(made) == ["version 1.2"]


def test_a_legend_too_long_says_how_many_it_leaves_out() -> None:
    found = [(f"a rather long name of a line {number}", steady(1.0)) for number in range(12)]
    said = words(drawn(panel("timeseries"), found, FRAME))
    (rest,) = [word for word in said if re.fullmatch(r"\+\d+", word)]
    assert int(rest) + sum("rather" in word for word in said) == 12


def test_a_legend_names_the_largest_first_in_their_own_colours() -> None:
    made = drawn(panel("timeseries"), [("none", steady(0.0)), ("some", steady(2.0))], FRAME)
    assert [word for word in words(made) if word in {"none 0", "some 2"}] == ["some 2", "none 0"]
    assert [cell.get("fill") for cell in elements(made, "rect")] == [colour(1), colour(0)]


@pytest.mark.parametrize(
    ("value", "unit", "wanted"),
    [
        (0.0, "reqps", "0"),
        (0.0, "percentunit", "0 %"),
        (0.1234, "percentunit", "12.3 %"),
        (0.0000834, "s", "83.4 µs"),
        (0.00125, "s", "1.25 ms"),
        (2.5, "s", "2.5 s"),
        (123456.0, "s", "123000 s"),
        (512.0, "bytes", "512 B"),
        (91_234_567.0, "bytes", "87 MiB"),
        (2048.0, "Bps", "2 KiB/s"),
        (1234.0, "short", "1.23 k"),
        (33.333, "reqps", "33.3 /s"),
        (-4.0, "none", "-4"),
    ],
)
def test_a_number_is_written_in_three_digits_with_its_unit(value: float, unit: str, wanted: str) -> None:
    assert written(value, unit) == wanted


def test_words_cannot_break_out_of_their_element() -> None:
    element = ET.fromstring(text(1, 2, "</text><script>&"))
    assert element.text == "</text><script>&"
    assert list(element) == []
