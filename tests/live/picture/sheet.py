"""A whole dashboard on one sheet, with Grafana's layout of panels, below a line that names the source."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from live.picture.charts import Frame, Named, drawn, legend
from live.picture.queries import Span, ask
from live.picture.shapes import box, text

COLUMN, UNIT, HEAD, EDGE = 58, 26, 74, 8
STYLE = (
    ".ink{fill:#24292f}.soft{fill:#57606a}.grid{stroke:#d0d7de}.bg{fill:#f6f8fa}.panel{fill:#ffffff}"
    "@media (prefers-color-scheme:dark){.ink{fill:#e6edf3}.soft{fill:#9198a1}.grid{stroke:#3d444d}.bg{fill:#0d1117}.panel{fill:#161b22}}"
)
CREDIT = "Drawn by make pictures from a real Prometheus, not by Grafana"


def sheet(board: Mapping[str, Any], url: str, span: Span, *, about: str) -> str:
    """The SVG. ``url``: of the Prometheus; ``about``: what was running during the query."""
    bottom = max(panel["gridPos"]["y"] + panel["gridPos"]["h"] for panel in board["panels"])
    width, height = 24 * COLUMN + 2 * EDGE, HEAD + bottom * UNIT + EDGE
    when = f"{datetime.fromtimestamp(span.end, UTC):%Y-%m-%d %H:%M} UTC, {span.end - span.start:.0f} s"
    made = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img" font-family="system-ui, sans-serif">',
        f"<style>{STYLE}</style>",
        box(0, 0, width, height, kind="bg"),
        text(EDGE, 26, board["title"], size=18),
        text(EDGE, 44, f"{CREDIT}. {when}.", kind="soft", size=12),
        text(EDGE, 60, f"{about}.", kind="soft", size=12),
    ]
    for panel in board["panels"]:
        made += _placed(panel, url, span)
    return "\n".join([*made, "</svg>", ""])


def _placed(panel: Mapping[str, Any], url: str, span: Span) -> list[str]:
    grid = panel["gridPos"]
    x, y = EDGE + grid["x"] * COLUMN, HEAD + grid["y"] * UNIT
    width, height = grid["w"] * COLUMN, grid["h"] * UNIT
    if panel["type"] == "row":
        return [text(x, y + 18, panel["title"], size=14)]
    inner = Frame(x + 10, y + 30, width - 24, height - 40, span)
    return [
        box(x + 2, y + 2, width - 4, height - 4, kind="panel"),
        text(x + 10, y + 19, panel["title"], size=12 if grid["w"] > 3 else 11),
        *drawn(panel, _series(panel, url, span), inner),
    ]


def _series(panel: Mapping[str, Any], url: str, span: Span) -> list[Named]:
    return [
        (legend(target["legendFormat"], series.labels), series)
        for target in panel["targets"]
        for series in ask(url, target["expr"], span)
    ]
