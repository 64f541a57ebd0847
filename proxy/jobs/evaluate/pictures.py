"""Pictures of an evaluation as SVG: redundancy removed against wrong drops, and how often a probability is right.

They are drawn by hand, so that no library is needed; same figures, same bytes.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape

from vecsieve.proxy.jobs.evaluate.fitting import Bin
from vecsieve.proxy.jobs.evaluate.summary import Summary

WIDTH, HEIGHT = 800, 430
LEFT, TOP, RIGHT, BOTTOM = 70, 50, 640, 370  # of the plot; the names of lines are at its right
COLOURS = ("#0969da", "#bf3989", "#1a7f37", "#9a6700", "#8250df", "#cf222e")
# What --pictures compares: one certainty at every place, and the presets beside them. Pages are not filled.
FRONTIER = (
    *(f"{sure:g}={{certainty: {sure:g}, short: allow}}" for sure in (0.95, 0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3)),
    "default={short: allow}",
    "vectors={text: none, short: allow}",
)
LABELLED_APART = 14  # pixels between two names

_FONT = 'font-family="system-ui, sans-serif" font-size="13"'
_STYLE = (
    ".ink{fill:#24292f}.soft{fill:#57606a}.grid{stroke:#d0d7de}.bg{fill:#ffffff}"
    "@media (prefers-color-scheme:dark){.ink{fill:#e6edf3}.soft{fill:#9198a1}.grid{stroke:#3d444d}.bg{fill:#0d1117}}"
)


@dataclass(frozen=True, slots=True)
class Point:
    """``name``: shown beside it; "" for none. ``size``: the radius in pixels."""

    x: float
    y: float
    name: str = ""
    size: float = 3.5


@dataclass(frozen=True, slots=True)
class Axis:
    """From ``low`` to ``high``, with lines ``step`` apart."""

    title: str
    low: float
    high: float
    step: float

    def ticks(self) -> list[float]:
        count = round((self.high - self.low) / self.step)
        return [self.low + self.step * place for place in range(count + 1)]


def frontier(found: Mapping[str, Mapping[str, Summary]]) -> str:
    """``found``: by embeddings the summaries by policy. Policies whose names are numbers are joined by a line."""
    lines, apart = {}, {}
    for geometry, summaries in found.items():
        points = {name: point for name, each in summaries.items() if (point := _point(name, each)) is not None}
        dialled = {name: point for name, point in points.items() if _is_number(name)}
        lines[geometry] = [dialled[name] for name in sorted(dialled, key=float, reverse=True)]
        apart[geometry] = [point for name, point in points.items() if name not in dialled]
    every = [point for group in (lines, apart) for points in group.values() for point in points]
    most = max((point.x for point in every), default=0.1)
    across = Axis("wrong drops, mean over sets with 100 drops or more", 0.0, max(0.1, math.ceil(most * 20) / 20), 0.05)
    up = Axis("redundancy removed", 0.0, 1.0, 0.2)
    return _drawn("Certainty: redundancy removed against wrong drops", across, up, lines, apart)


def reliability(bins: Mapping[str, Sequence[Bin]]) -> str:
    """``bins``: by name of a line. A probability that is right as often as it says lies on the diagonal."""
    lines = {
        name: [Point((each.low + each.high) / 2, each.copies, size=_size(each)) for each in some if each.pairs]
        for name, some in bins.items()
    }
    across, up = Axis("probability of a copy", 0.0, 1.0, 0.2), Axis("copies among the pairs", 0.0, 1.0, 0.2)
    diagonal = {"": [Point(0.0, 0.0, size=0.0), Point(1.0, 1.0, size=0.0)]}
    return _drawn("How often a probability is right, on sets left out of the fit", across, up, lines, {}, diagonal)


def _size(each: Bin) -> float:
    """An area that grows with the number of pairs, between what can be seen and what hides others."""
    return min(9.0, 2.0 + math.log10(each.pairs))


def _point(name: str, summary: Summary) -> Point | None:
    line = summary.headline
    if line.reduction is None or line.wrong_mean is None:
        return None
    x, y = line.wrong_mean.value, line.reduction.value
    return Point(x, y, name) if math.isfinite(x) and math.isfinite(y) else None


def _is_number(name: str) -> bool:
    try:
        return math.isfinite(float(name))
    except ValueError:
        return False


def _drawn(
    title: str,
    across: Axis,
    up: Axis,
    lines: Mapping[str, Sequence[Point]],
    apart: Mapping[str, Sequence[Point]],
    dashed: Mapping[str, Sequence[Point]] | None = None,
) -> str:
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-labelledby="t" {_FONT}>',
        f'<title id="t">{escape(title)}</title>',
        f"<style>{_STYLE}</style>",
        f'<rect class="bg" width="{WIDTH}" height="{HEIGHT}"/>',
        f'<text class="ink" x="16" y="22" font-weight="600">{escape(title)}</text>',
        *_grid(across, up),
    ]
    parts += [_path(each, across, up, 'stroke="#8c959f" stroke-dasharray="4 4"') for each in (dashed or {}).values()]
    names = list(dict.fromkeys((*lines, *apart)))
    for place, name in enumerate(names):
        colour = COLOURS[place % len(COLOURS)]
        parts.append(_path(lines.get(name, ()), across, up, f'stroke="{colour}" stroke-width="1.5"'))
        parts += _dots(lines.get(name, ()), across, up, colour, is_first=place == 0)
        parts += _dots(apart.get(name, ()), across, up, colour, is_first=place == 0, is_square=True)
        parts.append(f'<rect x="{RIGHT + 16}" y="{TOP + 22 * place}" width="12" height="12" fill="{colour}"/>')
        parts.append(f'<text class="ink" x="{RIGHT + 34}" y="{TOP + 11 + 22 * place}">{escape(name)}</text>')
    return "\n".join(part for part in parts if part) + "\n</svg>\n"


def _grid(across: Axis, up: Axis) -> list[str]:
    parts = []
    for value in up.ticks():
        y = _y(value, up)
        parts.append(f'<line class="grid" x1="{LEFT}" x2="{RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>')
        parts.append(f'<text class="soft" x="{LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{value:.2g}</text>')
    for value in across.ticks():
        x = _x(value, across)
        parts.append(f'<text class="soft" x="{x:.1f}" y="{BOTTOM + 18}" text-anchor="middle">{value:.2g}</text>')
    middle = (LEFT + RIGHT) / 2
    parts.append(
        f'<text class="soft" x="{middle:.1f}" y="{BOTTOM + 40}" text-anchor="middle">{escape(across.title)}</text>'
    )
    parts.append(f'<text class="soft" x="{LEFT}" y="{TOP - 10}">{escape(up.title)}</text>')
    return parts


def _path(points: Sequence[Point], across: Axis, up: Axis, look: str) -> str:
    if len(points) < 2:
        return ""
    way = " ".join(f"{_x(each.x, across):.1f},{_y(each.y, up):.1f}" for each in points)
    return f'<polyline points="{way}" fill="none" {look}/>'


def _dots(
    points: Sequence[Point], across: Axis, up: Axis, colour: str, *, is_first: bool, is_square: bool = False
) -> list[str]:
    """The points; their names at the first line's alone, where they have room."""
    parts, last = [], -math.inf
    for each in points:
        x, y = _x(each.x, across), _y(each.y, up)
        shape = (
            f'<rect x="{x - 4:.1f}" y="{y - 4:.1f}" width="8" height="8" fill="{colour}"/>'
            if is_square
            else f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{each.size:.1f}" fill="{colour}"/>'
        )
        parts.append(shape)
        if each.name and is_first and abs(y - last) >= LABELLED_APART:
            side, anchor = (-8, "end") if is_square else (8, "start")
            parts.append(
                f'<text class="ink" x="{x + side:.1f}" y="{y + 4:.1f}" text-anchor="{anchor}">{escape(each.name)}</text>'
            )
            last = y
    return parts


def _x(value: float, axis: Axis) -> float:
    return LEFT + (RIGHT - LEFT) * (value - axis.low) / (axis.high - axis.low)


def _y(value: float, axis: Axis) -> float:
    return BOTTOM - (BOTTOM - TOP) * (value - axis.low) / (axis.high - axis.low)
