"""docs/settings.md is the models in words."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
import yaml
from jsonschema import Draft202012Validator
from pydantic import BaseModel

from deploy.settings import page
from vecsieve.config.fields import leaves, members, model_in, schema_text
from vecsieve.config.policy import PolicySettings
from vecsieve.config.schema import RuleSettings, Settings

ROOT = Path(__file__).resolve().parents[3]
EXAMPLES = ROOT / "config" / "examples"


def test_the_committed_page_is_the_generated_one() -> None:
    committed = (ROOT / "docs" / "settings.md").read_text(encoding="utf-8")
    assert committed == page(), "run: python -m deploy.settings > docs/settings.md"


def test_every_setting_stands_on_the_page_once() -> None:
    rows = re.findall(r"^\| `([a-z_.]+)` \|", page(), flags=re.MULTILINE)
    scalars = {".".join(leaf.path) for leaf in leaves() if leaf.kind != "none"}
    lists = {"policy.tenant_keys", "policy.text_fields"}
    assert scalars | lists <= set(rows)
    assert len(set(rows)) == len(rows)


def test_every_setting_says_why() -> None:
    pending: list[type[BaseModel]] = [Settings]
    silent: list[str] = []
    while pending:
        for name, info in members(pending.pop()).items():
            inner = model_in(info.annotation)
            if inner is not None:
                pending.append(inner)
            elif not info.description:
                silent.append(name)
    assert not silent


def test_no_cell_breaks_the_table() -> None:
    rows = [line for line in page().splitlines() if line.startswith("| ")]
    assert {row.count("|") for row in rows} == {3, 5}  # presets have two columns, settings four


@pytest.mark.parametrize("model", [Settings, PolicySettings, RuleSettings])
def test_defaults_are_valid_and_not_coerced(model: type[Settings | PolicySettings | RuleSettings]) -> None:
    assert model.model_validate(model().model_dump(by_alias=True)) == model()


@pytest.fixture(scope="module")
def schema() -> Draft202012Validator:
    tree = json.loads(schema_text())
    Draft202012Validator.check_schema(tree)
    return Draft202012Validator(tree)


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.yaml")), ids=lambda path: path.stem)
def test_the_schema_accepts_every_example(schema: Draft202012Validator, path: Path) -> None:
    assert [error.message for error in schema.iter_errors(yaml.safe_load(path.read_text()))] == []


@pytest.mark.parametrize(
    "tree",
    [
        {},
        {"upstream": "http://localhost:6333"},
        {"policy": {"mmr": "none"}},
        {"policy": {"mmr": {"lambda": 0.5}}},
        {"grpc": {"listen": None}},
    ],
)
def test_the_schema_accepts_what_settings_accept(schema: Draft202012Validator, tree: dict[str, object]) -> None:
    assert schema.is_valid(tree)


@pytest.mark.parametrize(
    "tree",
    [{"polcy": {}}, {"upstream": 5}, {"workers": 0}, {"mode": "maybe"}, {"rules": [{"match": "docs"}]}, {"listen": 1}],
)
def test_the_schema_refuses_what_settings_refuse(schema: Draft202012Validator, tree: dict[str, object]) -> None:
    assert not schema.is_valid(tree)
