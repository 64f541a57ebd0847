"""Every alert fires when it must and only then, judged by promtool; each leads to a section an operator can act on."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest
import yaml
from prometheus_client import generate_latest

from support.deploy.alert_cases import STORIES, A, Story
from support.deploy.prometheus_tools import ALERTS, RECORDING, ROOT, needs_promtool, promtool, rules_of
from support.deploy.promql import TARGET_LABELS, grouped_labels, spec_of, unknown
from vecsieve.proxy.telemetry.exposition import process_registry
from vecsieve.proxy.telemetry.metrics import Metrics

RULES = rules_of(ALERTS)
NAMES = [str(rule["alert"]) for rule in RULES]
REPOSITORY = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["urls"]["Repository"]
RECORDED = frozenset(str(rule["record"]) for rule in rules_of(RECORDING))


def judged(tmp_path: Path, stories: tuple[Story, ...], alerts: Path = ALERTS) -> tuple[int, str]:
    """promtool's verdict on the stories: its exit status and its words. Long ones are evaluated every five minutes."""
    files: list[Path] = []
    for every in (1, 5):
        chosen = [story for story in stories if (story.minute > 60) == (every == 5)]
        made = {
            "rule_files": [str(RECORDING), str(alerts)],
            "evaluation_interval": f"{every}m",
            "tests": [as_test(story) for story in chosen],
        }
        files.append(tmp_path / f"stories-{every}.yaml")
        files[-1].write_text(yaml.safe_dump(made), encoding="utf-8")
    done = promtool("test", "rules", *files)
    return done.returncode, done.stdout + done.stderr


def as_test(story: Story) -> dict[str, object]:
    """The story as promtool reads it."""
    return {
        "name": f"{story.alert}: {story.messages}",
        "interval": "1m",
        "input_series": [{"series": name, "values": values} for name, values in story.series.items()],
        "promql_expr_test": [
            {
                "expr": f'count(ALERTS{{alertname="{story.alert}",alertstate="firing"}}) or vector(0)',
                "eval_time": f"{story.minute}m",
                "exp_samples": [{"labels": "{}", "value": int(story.fires)}],
            }
        ],
    }


@needs_promtool
def test_promtool_takes_the_rules() -> None:
    done = promtool("check", "rules", ALERTS, RECORDING)
    assert done.returncode == 0, done.stdout + done.stderr


@needs_promtool
def test_every_story_ends_as_it_must(tmp_path: Path) -> None:
    status, output = judged(tmp_path, STORIES)
    assert status == 0, output


@needs_promtool
@pytest.mark.parametrize(
    ("alert", "was", "becomes"),
    [
        ("VecSieveFailOpenHigh", "ratio_rate5m > 0.05", "ratio_rate5m > 0.5"),
        ("VecSieveMemoryHigh", "ratio > 0.8", "ratio > 0.6"),
        ("VecSieveBreakerOpen", "for: 5m", "for: 1m"),
    ],
)
def test_another_threshold_would_be_noticed(tmp_path: Path, alert: str, was: str, becomes: str) -> None:
    before, after = ALERTS.read_text(encoding="utf-8").split(f"alert: {alert}\n")
    assert was in after
    changed = tmp_path / "changed.yaml"
    changed.write_text(f"{before}alert: {alert}\n{after.replace(was, becomes, 1)}", encoding="utf-8")
    status, output = judged(tmp_path, tuple(story for story in STORIES if story.alert == alert), changed)
    assert status == 1, output


def idle_series() -> dict[str, str]:
    """What a proxy that nobody uses shows for two hours, from its real exposition."""
    registry = process_registry()
    metrics = Metrics(registry, backend="qdrant")
    metrics.built(version="1", parser="c")
    metrics.config_taken("aaaa", at=1000.0)
    metrics.egress_budget_remaining_bytes.set(float("inf"))
    series = {f"up{{{A}}}": "1x60"}
    for line in generate_latest(registry).decode().splitlines():
        if not line.startswith("#"):
            name, value = line.rsplit(" ", 1)
            where = name.replace("{", f"{{{A},") if "{" in name else f"{name}{{{A}}}"
            series[where] = "Inf " * 60 if value == "+Inf" else f"{value}x60"
    return series


@needs_promtool
def test_a_proxy_that_nobody_uses_raises_nothing_and_records_no_nan(tmp_path: Path) -> None:
    queries = ["count(ALERTS) or vector(0)", *(f"count({name} != {name}) or vector(0)" for name in sorted(RECORDED))]
    test = {
        "interval": "2m",
        "input_series": [{"series": name, "values": values} for name, values in idle_series().items()],
        "promql_expr_test": [
            {"expr": query, "eval_time": "2h", "exp_samples": [{"labels": "{}", "value": 0}]} for query in queries
        ],
    }
    file = tmp_path / "idle.yaml"
    made = {"rule_files": [str(RECORDING), str(ALERTS)], "evaluation_interval": "5m", "tests": [test]}
    file.write_text(yaml.safe_dump(made), encoding="utf-8")
    done = promtool("test", "rules", file)
    assert done.returncode == 0, done.stdout + done.stderr


def test_there_are_at_least_ten_alerts_and_no_two_of_one_name() -> None:
    assert len(set(NAMES)) == len(NAMES) >= 10


@pytest.mark.parametrize("name", NAMES)
def test_every_alert_has_a_story_that_fires_it_and_one_that_does_not(name: str) -> None:
    assert {story.fires for story in STORIES if story.alert == name} == {True, False}


def test_every_story_is_about_an_alert() -> None:
    assert {story.alert for story in STORIES} == set(NAMES)


def test_the_stories_use_series_that_exist() -> None:
    named = {name for story in STORIES for name in story.series}
    assert [fault for name in named for fault in unknown(name)] == []


@pytest.mark.parametrize("rule", RULES, ids=NAMES)
def test_an_alert_asks_for_what_a_scrape_has(rule: dict[str, object]) -> None:
    expression = str(rule["expr"])
    assert unknown(expression, RECORDED) == []
    labels = {
        label.name
        for name in re.findall(r"vecsieve_\w+", expression)
        if (spec := spec_of(name))
        for label in spec.labels
    }
    assert grouped_labels(expression) <= labels | TARGET_LABELS | {"le"}


@pytest.mark.parametrize("rule", RULES, ids=NAMES)
def test_an_alert_says_how_bad_it_is_what_happened_and_where_to_read_on(rule: dict[str, object]) -> None:
    labels, annotations = rule["labels"], rule["annotations"]
    assert isinstance(labels, dict)
    assert isinstance(annotations, dict)
    assert labels["severity"] in {"page", "ticket", "info"}
    assert set(annotations) == {"summary", "description", "runbook_url"}
    assert annotations["summary"].endswith(".")
    assert annotations["runbook_url"] == f"{REPOSITORY}/blob/main/docs/operating.md#{str(rule['alert']).lower()}"


@pytest.mark.parametrize("name", NAMES)
def test_every_alert_has_its_section_for_operators(name: str) -> None:
    page = (ROOT / "docs/operating.md").read_text(encoding="utf-8")
    assert page.partition("\n## Alerts\n")[2].count(f"\n### {name}\n") == 1
