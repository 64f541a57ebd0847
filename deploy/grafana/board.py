"""A dashboard with its rows: variables, annotations, links, and a grid filled from left to right."""

from __future__ import annotations

from collections.abc import Sequence

from deploy.grafana.panels import COLUMNS, DATASOURCE, Json, Row, as_json
from deploy.grafana.queries import own

SCHEMA = 39
TAG = "vecsieve"
ON_TIME_RANGE_CHANGE = 2
BY_NAME = 1


def board(uid: str, title: str, description: str, rows: Sequence[Row]) -> Json:
    """The whole dashboard. ``uid``: at most 40 characters, never changed, because links refer to it."""
    return {
        "uid": uid,
        "title": title,
        "description": description,
        "tags": [TAG],
        "schemaVersion": SCHEMA,
        "version": 1,
        "editable": False,
        "graphTooltip": 1,
        "refresh": "30s",
        "time": {"from": "now-3h", "to": "now"},
        "timezone": "browser",
        "links": [{"type": "dashboards", "title": "VecSieve", "tags": [TAG], "keepTime": True, "includeVars": True}],
        "templating": {"list": _variables()},
        "annotations": {"list": _annotations()},
        "panels": _placed(rows),
    }


def _variables() -> list[Json]:
    """Each variable narrows the next: choosing instances by their backend."""
    return [
        {"name": "datasource", "label": "Data source", "type": "datasource", "query": "prometheus", "hide": 0},
        _chosen("job", "vecsieve_build_info"),
        _chosen("backend", 'vecsieve_requests_total{job=~"$job"}'),
        _chosen("instance", 'vecsieve_requests_total{job=~"$job",backend=~"$backend"}'),
    ]


def _chosen(label: str, source: str) -> Json:
    query = f"label_values({source}, {label})"
    return {
        "name": label,
        "label": label,
        "type": "query",
        "datasource": DATASOURCE,
        "definition": query,
        "query": {"query": query, "refId": f"variable-{label}"},
        "multi": True,
        "includeAll": True,
        "allValue": ".+",
        "current": {"selected": True, "text": ["All"], "value": ["$__all"]},
        "refresh": ON_TIME_RANGE_CHANGE,
        "sort": BY_NAME,
    }


def _annotations() -> list[Json]:
    build = own("build_info")
    return [
        {
            "name": "Settings taken",
            "datasource": DATASOURCE,
            "enable": True,
            "iconColor": "blue",
            "expr": f"{own('config_last_reload_timestamp_seconds')} * 1000",
            "useValueForTime": "on",
            "titleFormat": "settings accepted at {{instance}}",
            "step": "60s",
        },
        {
            "name": "Version changed",
            "datasource": DATASOURCE,
            "enable": True,
            "iconColor": "purple",
            "expr": f"{build} unless on (instance, version) {build} offset 2m",
            "titleFormat": "{{instance}} runs {{version}}",
            "step": "60s",
        },
    ]


def _placed(rows: Sequence[Row]) -> list[Json]:
    placed: list[Json] = []
    top = 0
    for row in rows:
        at = {"x": 0, "y": top, "w": COLUMNS, "h": 1}
        placed.append({"id": len(placed) + 1, "type": "row", "title": row.title, "collapsed": False, "gridPos": at})
        top, left, height = top + 1, 0, 0
        for panel in row.panels:
            if left + panel.width > COLUMNS:
                top, left, height = top + height, 0, 0
            placed.append(as_json(panel, len(placed) + 1, left, top))
            left, height = left + panel.width, max(height, panel.height)
        top += height
    return placed
