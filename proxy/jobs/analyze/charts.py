"""Two kinds of chart as inline SVG: columns, and curves over a scale. Colours are the page's; every text is escaped.

A chart is a picture with a name and a description; the figures themselves stand in a table beside it, which is what a
screen reader and a person with a pen want.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

WIDTH, HEIGHT = 560, 260
LEFT, RIGHT, TOP, BOTTOM = 46, 16, 22, 34  # the margins hold the scale, the labels and what stands above a column
STEPS = 4
GAP = 0.28  # of a column's place


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """``label`` below, ``said`` above. ``height``: from 0.0 to 1.0 of the chart's."""

    label: str
    said: str
    height: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Curve:
    """``points``: x on the chart's scale, y from 0.0 to 1.0, x rising. ``kind``: which of the page's colours, 1 or 2."""

    name: str
    kind: int
    points: tuple[tuple[float, float], ...]


def columns(name: str, bars: Sequence[Column]) -> str:
    """One column each, side by side."""
    place = (WIDTH - LEFT - RIGHT) / max(1, len(bars))
    parts = [_line(LEFT, HEIGHT - BOTTOM, WIDTH - RIGHT, HEIGHT - BOTTOM, "axis")]
    for number, bar in enumerate(bars):
        left, middle = LEFT + place * (number + GAP / 2), LEFT + place * (number + 0.5)
        top = _y(bar.height)
        parts.append(
            f'<rect class="fill1" x="{left:.1f}" y="{top:.1f}" width="{place * (1 - GAP):.1f}" '
            f'height="{HEIGHT - BOTTOM - top:.1f}" rx="2"/>'
        )
        parts.append(_text(middle, top - 6, bar.said, "value"))
        parts.append(_text(middle, HEIGHT - BOTTOM + 18, bar.label, "label"))
    return _svg(name, parts)


def curves(name: str, lines: Sequence[Curve], *, end: float, mark: tuple[float, str] | None) -> str:
    """Curves over a scale from 0 to ``end``; ``mark``: a place on it, and what to call it."""
    parts = [*_shares(), *_scale(end)]
    if mark is not None:
        at = _x(mark[0], end)
        parts.append(_line(at, TOP, at, HEIGHT - BOTTOM, "mark"))
        near_the_end = mark[0] > 0.7 * end
        parts.append(_text(at + (-5 if near_the_end else 5), TOP - 6, mark[1], "end" if near_the_end else "start"))
    for line in lines:
        path = " ".join(f"{_x(x, end):.1f},{_y(y):.1f}" for x, y in line.points)
        parts.append(f'<polyline class="line{line.kind}" points="{path}"/>')
        parts += [
            f'<circle class="fill{line.kind}" cx="{_x(x, end):.1f}" cy="{_y(y):.1f}" r="3.5"/>' for x, y in line.points
        ]
    return _svg(name, parts)


def _shares() -> list[str]:
    """Lines across at every quarter, in per cent."""
    parts: list[str] = []
    for step in range(STEPS + 1):
        y = _y(step / STEPS)
        parts.append(_line(LEFT, y, WIDTH - RIGHT, y, "grid" if step else "axis"))
        parts.append(_text(LEFT - 6, y + 4, f"{100 * step // STEPS} %", "end"))
    return parts


def _scale(end: float) -> list[str]:
    return [_text(_x(end * step / 6, end), HEIGHT - BOTTOM + 18, f"{end * step / 6:.2f}", "label") for step in range(7)]


def _x(value: float, end: float) -> float:
    return LEFT + (WIDTH - LEFT - RIGHT) * value / end


def _y(share: float) -> float:
    return HEIGHT - BOTTOM - (HEIGHT - BOTTOM - TOP) * min(max(share, 0.0), 1.0)


def _line(left: float, top: float, right: float, bottom: float, kind: str) -> str:
    return f'<line class="{kind}" x1="{left:.1f}" y1="{top:.1f}" x2="{right:.1f}" y2="{bottom:.1f}"/>'


def _text(x: float, y: float, said: str, kind: str) -> str:
    return f'<text class="{kind}" x="{x:.1f}" y="{y:.1f}">{escape(said)}</text>'


def _svg(name: str, parts: Sequence[str]) -> str:
    inside = "\n".join(parts)
    return f'<svg role="img" aria-label="{escape(name)}" viewBox="0 0 {WIDTH} {HEIGHT}">\n{inside}\n</svg>'
