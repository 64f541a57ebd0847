"""The rules for the Prometheus operator: made of the same files that Prometheus itself reads."""

from __future__ import annotations

import yaml

from deploy.kubernetes.__main__ import MADE, made
from support.deploy.prometheus_tools import ALERTS, RECORDING, rules_of


def test_what_is_committed_is_what_the_code_makes() -> None:
    assert MADE.read_text(encoding="utf-8") == made()


def test_every_rule_is_there_once_and_in_order() -> None:
    groups = yaml.safe_load(made())["spec"]["groups"]
    assert [rule for group in groups for rule in group["rules"]] == [*rules_of(RECORDING), *rules_of(ALERTS)]
    assert len({group["name"] for group in groups}) == len(groups)


def test_no_expression_is_folded_over_lines() -> None:
    lines = made().splitlines()
    assert sum(line.lstrip().startswith("expr: ") for line in lines) == len(rules_of(RECORDING) + rules_of(ALERTS))
