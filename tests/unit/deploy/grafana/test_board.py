"""The frame of a dashboard: panels fill the grid from left to right, each under its row."""

from __future__ import annotations

from typing import Any, cast

from deploy.grafana.board import board
from deploy.grafana.panels import Row, heatmap, lines, stat, table, timeline


def placed() -> list[dict[str, Any]]:
    panel = lines("A", "B.", "s", {"{{x}}": "up"}, width=10)
    rows = (Row("first", (panel, panel, panel)), Row("second", (stat("S", "T.", "none", "up", warn=1.0),)))
    return cast(list[dict[str, Any]], board("uid", "title", "words", rows)["panels"])


def test_what_does_not_fit_begins_the_next_line_and_a_row_begins_below() -> None:
    assert [(panel["title"], *panel["gridPos"].values()) for panel in placed()] == [
        ("first", 0, 0, 24, 1),
        ("A", 0, 1, 10, 8),
        ("A", 10, 1, 10, 8),
        ("A", 0, 9, 10, 8),
        ("second", 0, 17, 24, 1),
        ("S", 0, 18, 3, 4),
    ]


def test_every_panel_has_a_number_of_its_own() -> None:
    assert [panel["id"] for panel in placed()] == [1, 2, 3, 4, 5, 6]


def test_a_number_changes_its_colour_where_there_is_a_limit() -> None:
    defaults = placed()[-1]["fieldConfig"]["defaults"]
    assert defaults["thresholds"]["steps"] == [{"color": "green", "value": None}, {"color": "orange", "value": 1.0}]
    assert "thresholds" not in placed()[1]["fieldConfig"]["defaults"]


def test_each_kind_asks_in_the_format_it_draws() -> None:
    panels = (
        heatmap("H", "H.", "s", "up"),
        timeline("L", "L.", "up", "{{x}}"),
        table("T", "T.", "up", hidden=["job"]),
    )
    made = cast(list[dict[str, Any]], board("uid", "title", "words", (Row("r", panels),))["panels"])[1:]
    assert [(panel["type"], panel["targets"][0]["format"], panel["targets"][0]["instant"]) for panel in made] == [
        ("heatmap", "heatmap", False),
        ("state-timeline", "time_series", False),
        ("table", "table", True),
    ]
    assert made[2]["transformations"][0]["options"]["excludeByName"].keys() == {"Time", "Value", "__name__", "job"}
