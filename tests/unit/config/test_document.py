"""docs/settings.md is the models in words."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from pydantic import BaseModel

from vecsieve.config.document import page
from vecsieve.config.fields import leaves, members, models_in
from vecsieve.config.policy import PolicySettings
from vecsieve.config.schema import RuleSettings, Settings

ROOT = Path(__file__).resolve().parents[3]


def test_the_committed_page_is_the_generated_one() -> None:
    committed = (ROOT / "docs" / "settings.md").read_text(encoding="utf-8")
    assert committed == page(), "run: python -m vecsieve.config.document > docs/settings.md"


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
            inner = models_in(info.annotation)
            pending += inner
            if not inner and not info.description:
                silent.append(name)
    assert not silent


def test_no_cell_breaks_the_table() -> None:
    rows = [line for line in page().splitlines() if line.startswith("| ")]
    assert {row.count("|") for row in rows} == {3, 5}  # presets have two columns, settings four


@pytest.mark.parametrize("model", [Settings, PolicySettings, RuleSettings])
def test_defaults_are_valid_and_not_coerced(model: type[Settings | PolicySettings | RuleSettings]) -> None:
    assert model.model_validate(model().model_dump(by_alias=True)) == model()
