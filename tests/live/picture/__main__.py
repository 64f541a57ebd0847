"""`python -m live.picture --prometheus URL` draws both dashboards from the data of that Prometheus."""

from __future__ import annotations

import argparse
import time
from pathlib import Path

from live.picture.queries import Span
from live.picture.sheet import sheet

from deploy.grafana.overview import overview
from deploy.grafana.quality import quality

COLUMNS = 60  # values of a line: a panel is some 400 px wide


def draw(url: str, target: Path, *, seconds: float, window: str, about: str) -> list[Path]:
    """Write both pictures of the last ``seconds``; ``window``: for rates."""
    end = time.time()
    span = Span(end - seconds, end, seconds / COLUMNS, window)
    target.mkdir(parents=True, exist_ok=True)
    made = []
    for board in (overview(), quality()):
        made.append(target / f"{board['uid']}.svg")
        made[-1].write_text(sheet(board, url, span, about=about), encoding="utf-8")
    return made


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m live.picture", description=__doc__)
    parser.add_argument("--prometheus", required=True, metavar="URL")
    parser.add_argument("--out", type=Path, default=Path("docs/dashboards"), metavar="FOLDER")
    parser.add_argument("--seconds", type=float, default=3600.0, help="how far back (an hour)")
    parser.add_argument("--window", default="1m", help="window of rates: at least four scrapes")
    parser.add_argument("--about", default="Live traffic", help="what was running")
    return parser.parse_args()


if __name__ == "__main__":
    options = _options()
    for file in draw(
        options.prometheus, options.out, seconds=options.seconds, window=options.window, about=options.about
    ):
        print(file)
