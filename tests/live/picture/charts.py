"""One panel's data as shapes in its rectangle: numbers, lines, stacked areas, heatmaps, states, tables.

Deliberately plain: data and layout are the dashboard's, the style is not Grafana's.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from live.picture.queries import Series, Span
from live.picture.shapes import area, box, colour, line, rule, text
from live.picture.units import written

Named = tuple[str, Series]
GOOD, BAD = "#2ca02c", "#d62728"
TICKS = 4
LEGEND_ROWS, LEGEND_ROW = 2, 13
LETTER = 6.2  # approximate width of a character at 10 px


@dataclass(frozen=True, slots=True)
class Frame:
    """A rectangle and the span of time that it shows."""

    x: float
    y: float
    width: float
    height: float
    span: Span

    def across(self, at: float) -> float:
        """The x position of a time."""
        return self.x + (at - self.span.start) / (self.span.end - self.span.start) * self.width

    def up(self, share: float) -> float:
        """The y position of a share of the height."""
        return self.y + self.height * (1 - share)


def legend(template: str, labels: Mapping[str, str]) -> str:
    """The name of a line, in the form of Grafana's `{{label}}`."""
    if template == "__auto":
        return ""
    return re.sub(r"{{(\w+)}}", lambda match: labels.get(match[1], ""), template)


def drawn(panel: Mapping[str, Any], named: Sequence[Named], frame: Frame) -> list[str]:
    """The panel's inside."""
    if not named:
        return [text(frame.x, frame.y + 14, "no data", kind="soft")]
    unit = panel["fieldConfig"]["defaults"]["unit"]
    match panel["type"]:
        case "stat":
            return _number(panel, named[0][1], unit, frame)
        case "heatmap":
            return _heat(named, unit, frame)
        case "state-timeline":
            return _states(named, frame)
        case "table":
            return _rows(panel, named, frame)
    is_stacked = panel["fieldConfig"]["defaults"]["custom"]["stacking"]["mode"] == "normal"
    return _lines(named, unit, frame, is_stacked=is_stacked)


def _number(panel: Mapping[str, Any], series: Series, unit: str, frame: Frame) -> list[str]:
    top = max(value for _, value in series.points) or 1.0
    steps = panel["fieldConfig"]["defaults"].get("thresholds", {}).get("steps", ())
    passed = [step["color"] for step in steps if step["value"] is None or series.last >= step["value"]]
    fill = {"orange": "#d9822b", "red": BAD}.get(passed[-1] if passed else "green", GOOD)
    spark = [(frame.across(at), frame.up(max(0.0, value) / top * 0.4)) for at, value in series.points]
    number = f'<g fill="{fill}">{text(frame.x + frame.width / 2, frame.y + 28, written(series.last, unit), kind="", size=20, anchor="middle")}</g>'
    return [line(spark, fill), number]


def _lines(named: Sequence[Named], unit: str, frame: Frame, *, is_stacked: bool) -> list[str]:
    plot = Frame(frame.x + 48, frame.y, frame.width - 48, frame.height - 14 - LEGEND_ROWS * LEGEND_ROW, frame.span)
    stacked = _stacked(named) if is_stacked else [dict(series.points) for _, series in named]
    values = [value for layer in stacked for value in layer.values()]
    top, low = max(*values, 0.0) or 1.0, min(*values, 0.0)
    made = _grid(plot, low, top, unit)

    def placed(points: Mapping[float, float]) -> list[tuple[float, float]]:
        return [(plot.across(at), plot.up((value - low) / (top - low))) for at, value in sorted(points.items())]

    for number in range(len(named) - 1, -1, -1):
        points = placed(stacked[number])
        if is_stacked:
            below = placed(stacked[number - 1] if number else dict.fromkeys(stacked[0], 0.0))
            made.append(area([*points, *reversed(below)], colour(number)))
        else:
            made.append(line(points, colour(number)))
    return made + _legend(named, unit, frame)


def _stacked(named: Sequence[Named]) -> list[dict[float, float]]:
    times = sorted({at for _, series in named for at, _ in series.points})
    below = dict.fromkeys(times, 0.0)
    made = []
    for _, series in named:
        points = dict(series.points)
        below = {at: below[at] + points.get(at, 0.0) for at in times}
        made.append(below)
    return made


def _grid(plot: Frame, low: float, top: float, unit: str) -> list[str]:
    made = []
    for tick in range(TICKS + 1):
        y = plot.up(tick / TICKS)
        made += [
            rule(plot.x, plot.x + plot.width, y),
            text(
                plot.x - 4, y + 4, written(low + (top - low) * tick / TICKS, unit), kind="soft", size=10, anchor="end"
            ),
        ]
    return made


def _legend(named: Sequence[Named], unit: str, frame: Frame) -> list[str]:
    """As many names as fit, those with the largest values first."""
    made: list[str] = []
    x, row = frame.x, 0
    top, right = frame.y + frame.height - (LEGEND_ROWS - 1) * LEGEND_ROW - 2, frame.x + frame.width
    by_size = sorted(range(len(named)), key=lambda number: -max(value for _, value in named[number][1].points))
    for place, number in enumerate(by_size):
        name, series = named[number]
        words = f"{name} {written(series.last, unit)}".strip()
        width = 16 + len(words) * LETTER
        if x + width > right - 24 and x > frame.x:
            if row == LEGEND_ROWS - 1:
                made.append(
                    text(right, top + row * LEGEND_ROW, f"+{len(named) - place}", kind="soft", size=10, anchor="end")
                )
                break
            x, row = frame.x, row + 1
        y = top + row * LEGEND_ROW
        made += [box(x, y - 7, 8, 8, fill=colour(number)), text(x + 11, y, words, kind="soft", size=10)]
        x += width
    return made


def _heat(named: Sequence[Named], unit: str, frame: Frame) -> list[str]:
    """Cumulative buckets, each minus the one below it."""
    bounds = sorted(
        ((float(series.labels["le"]), dict(series.points)) for _, series in named), key=lambda bucket: bucket[0]
    )
    plot = Frame(frame.x + 48, frame.y, frame.width - 48, frame.height - 8, frame.span)
    below: Mapping[float, float] = {}
    cells = []
    for row, (_, points) in enumerate(bounds):
        cells += [(row, at, value - below.get(at, 0.0)) for at, value in points.items()]
        below = points
    most = max((count for _, _, count in cells), default=0.0) or 1.0
    tall, wide = plot.height / len(bounds), frame.span.step / (frame.span.end - frame.span.start) * plot.width
    made = [
        box(
            plot.across(at),
            plot.up((row + 1) / len(bounds)),
            wide,
            tall - 1,
            fill="#d9822b",
            opacity=max(0.08, count / most),
        )
        for row, at, count in cells
        if count > most / 1000
    ]
    for row in range(0, len(bounds), 2):
        words = written(bounds[row][0], unit) if bounds[row][0] != float("inf") else "more"
        made.append(
            text(plot.x - 4, plot.up(row / len(bounds)) - tall / 2 + 4, words, kind="soft", size=10, anchor="end")
        )
    return made


def _states(named: Sequence[Named], frame: Frame) -> list[str]:
    made = []
    for row, (name, series) in enumerate(named):
        y = frame.y + row * 22
        made.append(text(frame.x, y + 12, name, kind="soft", size=10))
        wide = frame.span.step / (frame.span.end - frame.span.start) * (frame.width - 110)
        inner = Frame(frame.x + 110, y, frame.width - 110, 16, frame.span)
        made += [box(inner.across(at), y, wide, 16, fill=BAD if value else GOOD) for at, value in series.points]
    return made


def _rows(panel: Mapping[str, Any], named: Sequence[Named], frame: Frame) -> list[str]:
    hidden = set(panel["transformations"][0]["options"]["excludeByName"])
    return [
        text(
            frame.x,
            frame.y + 14 + row * 15,
            " · ".join(f"{key} {value}" for key, value in sorted(series.labels.items()) if key not in hidden),
        )
        for row, (_, series) in enumerate(named)
    ]
