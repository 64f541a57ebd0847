"""Panels as plain dictionaries in the shape of Grafana's dashboard schema 39. Rule of this file: no query and no layout."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

Json = dict[str, object]
Unit = Literal["none", "short", "reqps", "cps", "percentunit", "s", "bytes", "Bps", "dateTimeFromNow"]

DATASOURCE: Json = {"type": "prometheus", "uid": "${datasource}"}
COLUMNS = 24


@dataclass(frozen=True, slots=True, kw_only=True)
class Panel:
    """``queries``: legend -> expression. ``options`` and ``custom``: Grafana's own, for this kind of panel. Sizes in grid units."""

    kind: str
    title: str
    description: str
    unit: Unit
    queries: Mapping[str, str]
    width: int
    height: int
    options: Json
    custom: Json
    thresholds: Sequence[tuple[float | None, str]] = ((None, "green"),)
    format: str = "time_series"
    is_instant: bool = False
    transformations: Sequence[Json] = ()


@dataclass(frozen=True, slots=True)
class Row:
    """A heading and the panels below it, from left to right."""

    title: str
    panels: tuple[Panel, ...]


def stat(
    title: str, description: str, unit: Unit, query: str, *, warn: float | None = None, bad: float | None = None
) -> Panel:
    """One number; orange from ``warn`` and red from ``bad``, if there are such limits."""
    steps: list[tuple[float | None, str]] = [(None, "green")]
    steps += [(limit, colour) for limit, colour in ((warn, "orange"), (bad, "red")) if limit is not None]
    return Panel(
        kind="stat",
        title=title,
        description=description,
        unit=unit,
        queries={"": query},
        width=3,
        height=4,
        options={"reduceOptions": {"calcs": ["lastNotNull"], "fields": "", "values": False}, "graphMode": "area"},
        custom={},
        thresholds=steps,
    )


def lines(
    title: str, description: str, unit: Unit, queries: Mapping[str, str], *, width: int = 8, is_stacked: bool = False
) -> Panel:
    """Lines over time; stacked areas if the parts add up to a whole."""
    custom: Json = {"drawStyle": "line", "fillOpacity": 40 if is_stacked else 5, "showPoints": "never"}
    custom["stacking"] = {"group": "A", "mode": "normal" if is_stacked else "none"}
    return Panel(
        kind="timeseries",
        title=title,
        description=description,
        unit=unit,
        queries=queries,
        width=width,
        height=8,
        options={
            "legend": {"calcs": ["mean", "lastNotNull"], "displayMode": "table", "placement": "bottom"},
            "tooltip": {"mode": "multi", "sort": "desc"},
        },
        custom=custom,
    )


def heatmap(title: str, description: str, unit: Unit, query: str) -> Panel:
    """A histogram's buckets over time."""
    return Panel(
        kind="heatmap",
        title=title,
        description=description,
        unit=unit,
        queries={"{{le}}": query},
        width=8,
        height=8,
        options={
            "calculate": False,
            "cellGap": 1,
            "color": {"mode": "scheme", "scheme": "Oranges", "steps": 64},
            "yAxis": {"unit": unit},
        },
        custom={},
        format="heatmap",
    )


def timeline(title: str, description: str, query: str, legend: str) -> Panel:
    """States over time: 1 is red."""
    return Panel(
        kind="state-timeline",
        title=title,
        description=description,
        unit="none",
        queries={legend: query},
        width=8,
        height=8,
        options={"mergeValues": True, "showValue": "never", "legend": {"displayMode": "list", "placement": "bottom"}},
        custom={"fillOpacity": 70},
        thresholds=((None, "green"), (1.0, "red")),
    )


def table(title: str, description: str, query: str, *, hidden: Sequence[str], width: int = 12) -> Panel:
    """The labels of the current series, without uninformative ones."""
    return Panel(
        kind="table",
        title=title,
        description=description,
        unit="none",
        queries={"": query},
        width=width,
        height=8,
        options={"showHeader": True},
        custom={"align": "auto"},
        format="table",
        is_instant=True,
        transformations=(
            {
                "id": "organize",
                "options": {"excludeByName": dict.fromkeys(["Time", "Value", "__name__", *hidden], True)},
            },
        ),
    )


def as_json(panel: Panel, number: int, left: int, top: int) -> Json:
    """The panel's JSON at its place, in grid units; ``number``: unique within the dashboard."""
    return {
        "id": number,
        "type": panel.kind,
        "title": panel.title,
        "description": panel.description,
        "datasource": DATASOURCE,
        "gridPos": {"x": left, "y": top, "w": panel.width, "h": panel.height},
        "fieldConfig": {"defaults": _defaults(panel), "overrides": []},
        "options": panel.options,
        "targets": [
            _target(panel, place, legend, query) for place, (legend, query) in enumerate(panel.queries.items())
        ],
        "transformations": list(panel.transformations),
    }


def _defaults(panel: Panel) -> Json:
    steps = [{"color": colour, "value": value} for value, colour in panel.thresholds]
    defaults: Json = {"unit": panel.unit, "custom": panel.custom}
    if len(steps) > 1:
        return defaults | {"color": {"mode": "thresholds"}, "thresholds": {"mode": "absolute", "steps": steps}}
    return defaults


def _target(panel: Panel, place: int, legend: str, query: str) -> Json:
    return {
        "refId": chr(ord("A") + place),
        "datasource": DATASOURCE,
        "expr": query,
        "legendFormat": legend or "__auto",
        "format": panel.format,
        "instant": panel.is_instant,
        "range": not panel.is_instant,
    }
