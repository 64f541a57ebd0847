"""`python -m deploy.grafana` from the repository root writes the dashboards; a test compares them with what is committed."""

from __future__ import annotations

import json
from pathlib import Path

from deploy.grafana.overview import overview
from deploy.grafana.panels import Json
from deploy.grafana.quality import quality

HERE = Path(__file__).resolve().parent


def made() -> dict[str, str]:
    """File name -> its text."""
    return {f"{dashboard['uid']}.json": _text(dashboard) for dashboard in (overview(), quality())}


def _text(dashboard: Json) -> str:
    return json.dumps(dashboard, indent=2, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    for name, text in made().items():
        (HERE / name).write_text(text, encoding="utf-8")
