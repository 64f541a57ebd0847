"""The dashboards as committed: what the code makes, without a fault of the linter's, asking only for what exists."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
import yaml

from deploy.grafana.__main__ import HERE, made
from support.deploy.dashboard_lint import faults, panels, queries, substituted
from support.deploy.prometheus_tools import needs_promtool, promtool
from support.deploy.promql import grouped_labels, selectors, spec_of, unknown

FILES = sorted(HERE.glob("*.json"))
BOARDS: dict[str, dict[str, Any]] = {file.name: json.loads(file.read_text(encoding="utf-8")) for file in FILES}
boards = pytest.mark.parametrize("board", BOARDS.values(), ids=BOARDS)

LIBRARY_LABELS = {"generation", "job", "instance", "le"}


def test_what_is_committed_is_what_the_code_makes() -> None:
    assert {file.name: file.read_text(encoding="utf-8") for file in FILES} == made()


def test_there_are_two_and_links_find_them_by_name() -> None:
    assert [(board["uid"], board["title"]) for board in BOARDS.values()] == [
        ("vecsieve-overview", "VecSieve: overview"),
        ("vecsieve-quality", "VecSieve: selection quality"),
    ]


@boards
def test_the_linter_finds_no_fault(board: dict[str, Any]) -> None:
    assert faults(board) == []


@boards
def test_every_query_asks_for_what_a_scrape_has(board: dict[str, Any]) -> None:
    assert [fault for _, query in queries(board) for fault in unknown(query)] == []
    for _, query in queries(board):
        labels = {label.name for name, _ in selectors(query) if (spec := spec_of(name)) for label in spec.labels}
        assert grouped_labels(query) <= labels | LIBRARY_LABELS, query


@boards
def test_variables_and_annotations_ask_for_what_a_scrape_has(board: dict[str, Any]) -> None:
    expressions = [entry["expr"] for entry in board["annotations"]["list"]]
    expressions += [
        re.sub(r"^label_values\((.*), \w+\)$", r"\1", entry["query"]["query"])
        for entry in board["templating"]["list"]
        if entry["type"] == "query"
    ]
    assert len(expressions) == 5
    assert [fault for query in expressions for fault in unknown(query)] == []


@boards
def test_a_legend_names_labels_that_its_query_keeps(board: dict[str, Any]) -> None:
    for panel in panels(board):
        for target in panel["targets"]:
            is_summed = re.search(r"\b(sum|count)\b", target["expr"])
            if is_summed and panel["type"] != "heatmap":
                named = set(re.findall(r"{{(\w+)}}", target["legendFormat"]))
                assert named <= grouped_labels(target["expr"]), panel["title"]


@needs_promtool
def test_promtool_can_read_every_query(tmp_path: Path) -> None:
    rules = [
        {"record": f"board:query:{number}", "expr": substituted(query)}
        for number, query in enumerate(query for board in BOARDS.values() for _, query in queries(board))
    ]
    file = tmp_path / "queries.yaml"
    file.write_text(yaml.safe_dump({"groups": [{"name": "queries", "rules": rules}]}), encoding="utf-8")
    done = promtool("check", "rules", file)
    assert done.returncode == 0, done.stdout + done.stderr


def _first(board: dict[str, Any]) -> dict[str, Any]:
    return next(panel for panel in board["panels"] if panel["type"] != "row")


def _ask(query: str) -> Callable[[dict[str, Any]], None]:
    return lambda board: _first(board)["targets"][0].update(expr=query)


@pytest.mark.parametrize(
    ("rule", "damage"),
    [
        ("uneditable-dashboard", lambda board: board.update(editable=True)),
        ("uid", lambda board: board.update(uid="")),
        ("panel-id", lambda board: _first(board).update(id=1)),
        ("template-datasource-rule", lambda board: board["templating"]["list"].pop(0)),
        ("template-job-rule", lambda board: board["templating"]["list"][1].update(multi=False)),
        ("template-instance-rule", lambda board: board["templating"]["list"].pop()),
        ("template-on-time-change-reload-rule", lambda board: board["templating"]["list"][1].update(refresh=1)),
        ("template-label-promql-rule", lambda board: board["templating"]["list"][1]["query"].update(query="up")),
        ("panel-datasource-rule", lambda board: _first(board)["datasource"].update(uid="mine")),
        ("panel-title-description-rule", lambda board: _first(board).update(description="")),
        ("panel-units-rule", lambda board: _first(board)["fieldConfig"]["defaults"].update(unit="req/s")),
        ("panel-no-targets-rule", lambda board: _first(board)["targets"].clear()),
        ("target-ref-id", lambda board: _first(board)["targets"][0].update(refId="")),
        ("target-rate-interval-rule", _ask('rate(vecsieve_refetch_total{job=~"$job",instance=~"$instance"}[5m])')),
        ("target-job-rule", _ask('vecsieve_connections{instance=~"$instance"}')),
        ("target-instance-rule", _ask('vecsieve_connections{job=~"$job"}')),
        ("target-counter-agg-rule", _ask('sum(vecsieve_refetch_total{job=~"$job",instance=~"$instance"})')),
        ("grid", lambda board: _first(board)["gridPos"].update(x=22)),
        ("grid", lambda board: _first(board)["gridPos"].update(x=2)),
    ],
)
def test_the_linter_sees_what_it_is_there_for(rule: str, damage: Callable[[dict[str, Any]], None]) -> None:
    board = deepcopy(next(iter(BOARDS.values())))
    damage(board)
    assert {fault.split(":")[0] for fault in faults(board)} == {rule}
