"""The recorded series: named by the convention, made of what exists, right to the digit where the digits are exact."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

from support.deploy.alert_cases import A, B
from support.deploy.prometheus_tools import ALERTS, RECORDING, needs_promtool, promtool, rules_of
from support.deploy.promql import grouped_labels, unknown

RULES = rules_of(RECORDING)
NAMES = [str(rule["record"]) for rule in RULES]
SCRAPED = {
    f'vecsieve_requests_total{{{A},operation="query"}}': "0+4500x60",
    f'vecsieve_requests_total{{{B},operation="other"}}': "0+1500x60",
    f'vecsieve_local_errors_total{{{A},kind="internal"}}': "0+15x60",
    f'vecsieve_local_errors_total{{{B},kind="shed"}}': "0+15x60",
    f'vecsieve_local_errors_total{{{B},kind="no_upstream"}}': "0+600x60",
    f'vecsieve_searches_total{{{A},outcome="dedup"}}': "0+750x60",
    f'vecsieve_searches_total{{{A},outcome="fail_open"}}': "0+250x60",
    f'vecsieve_searches_total{{{A},outcome="bypass"}}': "0+500x60",
    f'vecsieve_fail_open_total{{{A},reason="malformed"}}': "0+250x60",
    f'vecsieve_candidates_collapsed_total{{{A},reason="vectors"}}': "0+125x60",
    f"vecsieve_candidates_sum{{{A}}}": "0+500x60",
    f"vecsieve_upstream_response_bytes_total{{{A}}}": "0+8000x60",
    f"vecsieve_client_response_bytes_total{{{A}}}": "0+2000x60",
    f"vecsieve_build_info{{{A}}}": "1x60",
    f"process_resident_memory_bytes{{{A}}}": "512x60",
    'process_resident_memory_bytes{job="other",instance="c"}': "999x60",
    f"vecsieve_memory_limit_bytes{{{A}}}": "1024x60",
}
MADE = {
    "job:vecsieve_requests:rate5m": {'{job="proxy"}': 100.0},
    "job:vecsieve_own_errors:ratio_rate5m": {'{job="proxy"}': 0.005},
    "job:vecsieve_fail_open:ratio_rate5m": {'{job="proxy"}': 0.25},
    "job:vecsieve_candidates_collapsed:ratio_rate5m": {'{job="proxy"}': 0.25},
    "job:vecsieve_response_bytes:amplification_rate5m": {'{job="proxy"}': 4.0},
    "instance:vecsieve_resident_memory_bytes:sum": {'{job="proxy",instance="a"}': 512.0},
    "instance:vecsieve_resident_memory_bytes:ratio": {'{job="proxy",instance="a"}': 0.5},
}


@pytest.mark.parametrize("name", NAMES)
def test_a_name_says_level_metric_and_operations(name: str) -> None:
    assert re.fullmatch(r"(job|instance):vecsieve_[a-z_]+:[a-z0-9_]+", name)


@pytest.mark.parametrize("rule", RULES, ids=NAMES)
def test_a_rule_asks_for_what_a_scrape_has(rule: dict[str, object]) -> None:
    assert unknown(str(rule["expr"]), frozenset(NAMES)) == []
    assert grouped_labels(str(rule["expr"])) <= {"job", "instance", "le", "outcome"}


def test_every_recorded_ratio_that_nobody_alerts_on_is_one_that_people_ask_for() -> None:
    alerted = {name for name in NAMES if name in ALERTS.read_text(encoding="utf-8")}
    assert set(NAMES) - alerted == {
        "job:vecsieve_requests:rate5m",
        "job:vecsieve_searches:rate5m",
        "job:vecsieve_candidates_collapsed:ratio_rate5m",
        "job:vecsieve_response_bytes:amplification_rate5m",
        "instance:vecsieve_resident_memory_bytes:sum",
    }


@needs_promtool
def test_the_recorded_values_are_what_the_names_say(tmp_path: Path) -> None:
    looked_at = [
        {
            "expr": name,
            "eval_time": "30m",
            "exp_samples": [{"labels": name + labels, "value": value} for labels, value in made.items()],
        }
        for name, made in MADE.items()
    ]
    test = {
        "interval": "1m",
        "input_series": [{"series": name, "values": values} for name, values in SCRAPED.items()],
        "promql_expr_test": looked_at,
    }
    file = tmp_path / "recorded.yaml"
    file.write_text(
        yaml.safe_dump({"rule_files": [str(RECORDING)], "evaluation_interval": "1m", "tests": [test]}),
        encoding="utf-8",
    )
    done = promtool("test", "rules", file)
    assert done.returncode == 0, done.stdout + done.stderr
