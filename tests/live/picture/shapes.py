"""The shapes of a picture, as SVG text."""

from __future__ import annotations

from collections.abc import Iterable
from xml.sax.saxutils import escape

COLOURS = ("#1f77b4", "#d9822b", "#2ca02c", "#d62728", "#9467bd", "#8c564b", "#e377c2", "#7f7f7f", "#b8b000", "#17becf")


def colour(number: int) -> str:
    """The colour of the n-th line of a panel."""
    return COLOURS[number % len(COLOURS)]


def text(x: float, y: float, words: str, *, kind: str = "ink", size: int = 11, anchor: str = "start") -> str:
    """Words on a line. ``kind``: a class of the sheet's style."""
    return (
        f'<text class="{kind}" x="{x:.0f}" y="{y:.0f}" font-size="{size}" text-anchor="{anchor}">{escape(words)}</text>'
    )


def box(
    x: float, y: float, width: float, height: float, *, kind: str = "", fill: str = "", opacity: float = 1.0
) -> str:
    """A filled rectangle, by class or by colour."""
    look = f'class="{kind}"' if kind else f'fill="{fill}"'
    shade = "" if opacity == 1.0 else f' opacity="{opacity:.2g}"'
    return f'<rect {look} x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}"{shade}/>'


def line(points: Iterable[tuple[float, float]], stroke: str) -> str:
    """A polyline."""
    return f'<polyline fill="none" stroke="{stroke}" stroke-width="1.2" points="{_joined(points)}"/>'


def area(points: Iterable[tuple[float, float]], fill: str) -> str:
    """A filled polygon."""
    return f'<polygon fill="{fill}" opacity="0.55" points="{_joined(points)}"/>'


def rule(x1: float, x2: float, y: float) -> str:
    """A line of the grid."""
    return f'<path class="grid" d="M{x1:.0f} {y:.1f}H{x2:.0f}"/>'


def _joined(points: Iterable[tuple[float, float]]) -> str:
    return " ".join(f"{x:.0f},{y:.1f}" for x, y in points)
