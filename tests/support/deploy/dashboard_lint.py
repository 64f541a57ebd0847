"""The rules of Grafana's dashboard-linter, by its names, and a few of geometry: what is wrong with a dashboard, in words.

No rule has an exception here; what the linter exempts (rows) is exempt.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from support.deploy.promql import selectors, spec_of
from vecsieve.proxy.telemetry.instruments import CounterSpec, HistogramSpec

Json = Mapping[str, Any]

COLUMNS = 24
# Those of Grafana's value formats that we use; a misspelt unit is shown as a suffix and nobody notices.
UNITS = frozenset({"none", "short", "reqps", "cps", "percentunit", "s", "bytes", "Bps"})
RATES = re.compile(r"\b(rate|irate|increase)\s*\(")
VARIABLES = {"$__rate_interval": "1m", "$job": ".+", "$instance": ".+", "$backend": ".+"}


def substituted(expression: str) -> str:
    """The expression as Grafana would send it, everything chosen."""
    for name, value in VARIABLES.items():
        expression = expression.replace(name, value)
    return expression


def panels(board: Json) -> list[Json]:
    """All that show something."""
    return [panel for panel in board["panels"] if panel["type"] != "row"]


def queries(board: Json) -> list[tuple[str, str]]:
    """Panel title and expression of every target."""
    return [(panel["title"], target["expr"]) for panel in panels(board) for target in panel["targets"]]


def faults(board: Json) -> list[str]:
    """Every rule's objections, each beginning with the rule's name."""
    return [
        *_board_faults(board),
        *_variable_faults(board),
        *_panel_faults(board),
        *_target_faults(board),
        *_grid(board),
    ]


def _board_faults(board: Json) -> Iterator[str]:
    if board["editable"]:
        yield "uneditable-dashboard: it can be edited where edits are lost"
    if not 0 < len(board["uid"]) <= 40:
        yield "uid: links need one of at most 40 characters"
    numbers = [panel["id"] for panel in board["panels"]]
    if len(set(numbers)) != len(numbers):
        yield "panel-id: two panels have the same"


def _variable_faults(board: Json) -> Iterator[str]:
    variables = {variable["name"]: variable for variable in board["templating"]["list"]}
    sources = [variable for variable in variables.values() if variable["type"] == "datasource"]
    if [(source["name"], source["label"], source["query"]) for source in sources] != [
        ("datasource", "Data source", "prometheus")
    ]:
        yield "template-datasource-rule: wanted one, called datasource"
    for name in ("job", "instance"):
        variable = variables.get(name)
        if variable is None:
            yield f"template-{name}-rule: there is none"
            continue
        shape = (variable["label"], variable["datasource"]["uid"], variable["multi"], variable["allValue"])
        if shape != (name, "${datasource}", True, ".+"):
            yield f"template-{name}-rule: saw {shape}"
    for name, variable in variables.items():
        if variable["type"] != "query":
            continue
        if variable["refresh"] != 2:
            yield f"template-on-time-change-reload-rule: {name}"
        if not re.fullmatch(r"label_values\(\w+(\{[^}]*\})?, \w+\)", variable["query"]["query"]):
            yield f"template-label-promql-rule: {name}"


def _panel_faults(board: Json) -> Iterator[str]:
    for panel in panels(board):
        title = panel["title"] or panel["id"]
        if panel["datasource"]["uid"] != "${datasource}":
            yield f"panel-datasource-rule: {title}"
        if not panel["title"] or not panel["description"].endswith("."):
            yield f"panel-title-description-rule: {title}"
        if panel["fieldConfig"]["defaults"].get("unit") not in UNITS:
            yield f"panel-units-rule: {title}"
        if not panel["targets"]:
            yield f"panel-no-targets-rule: {title}"
        letters = [target["refId"] for target in panel["targets"]]
        if len(set(letters)) != len(letters) or not all(letters):
            yield f"target-ref-id: {title}"


def _target_faults(board: Json) -> Iterator[str]:
    for title, expression in queries(board):
        ranges = re.findall(r"\[([^\]]*)\]", expression)
        if any(interval != "$__rate_interval" for interval in ranges):
            yield f"target-rate-interval-rule: {title}"
        for name, matchers in selectors(expression):
            for label in ("job", "instance"):
                if f'{label}=~"${label}"' not in matchers:
                    yield f"target-{label}-rule: {title}: {name}"
            if _counts(name) and not _is_under_a_rate(expression, name):
                yield f"target-counter-agg-rule: {title}: {name}"


def _counts(name: str) -> bool:
    return isinstance(spec_of(name), CounterSpec | HistogramSpec) or name.endswith("_total")


def _is_under_a_rate(expression: str, name: str) -> bool:
    starts = [match.start() for match in re.finditer(re.escape(name) + r"\b", expression)]
    return all(RATES.search(expression[max(0, start - 12) : start]) for start in starts)


def _grid(board: Json) -> Iterator[str]:
    taken: dict[tuple[int, int], str] = {}
    for panel in board["panels"]:
        at, title = panel["gridPos"], panel["title"]
        if at["x"] < 0 or at["x"] + at["w"] > COLUMNS:
            yield f"grid: {title} stands outside"
        for x in range(at["x"], at["x"] + at["w"]):
            for y in range(at["y"], at["y"] + at["h"]):
                if (x, y) in taken:
                    yield f"grid: {title} lies on {taken[x, y]}"
                    break
                taken[x, y] = title
