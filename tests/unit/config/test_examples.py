"""The examples load, show what they say they show, and explain themselves."""

from __future__ import annotations

from pathlib import Path

import pytest

from vecsieve.config.load import load
from vecsieve.config.policy import PolicySettings, ThresholdSettings
from vecsieve.config.presets import policy_of
from vecsieve.config.schema import Settings
from vecsieve.config.yaml_core import effective

EXAMPLES = sorted((Path(__file__).resolve().parents[3] / "config" / "examples").glob("*.yaml"))


def example(name: str) -> Settings:
    file = next(path for path in EXAMPLES if path.stem == name)
    return load(file=file, environment={}, flags={})


def policies(settings: Settings) -> dict[str, PolicySettings]:
    return {rule.collection: policy_of(settings.policy, rule) for rule in settings.rules}


def test_there_is_an_example_for_each_way_of_use() -> None:
    names = {path.stem for path in EXAMPLES}
    assert names == {"minimal", "sidecar", "service", "collections", "classical", "shadow", "texts"}


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_loads_and_so_does_what_check_prints_of_it(path: Path, tmp_path: Path) -> None:
    settings = load(file=path, environment={}, flags={})
    (tmp_path / "again.yaml").write_text(effective(settings), encoding="utf-8")
    assert load(file=tmp_path / "again.yaml", environment={}, flags={}) == settings


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_begins_by_saying_what_it_is_for(path: Path) -> None:
    lines = path.read_text(encoding="utf-8").splitlines()
    assert lines[0].startswith("# ")
    assert sum(line.lstrip().startswith("#") for line in lines) >= 2


def test_the_minimal_example_changes_nothing() -> None:
    assert example("minimal") == Settings()


def test_the_sidecar_listens_on_loopback_and_the_service_everywhere() -> None:
    assert example("sidecar").listen.startswith("127.0.0.1:")
    assert example("sidecar").limits.drain_accept_seconds == 0.0
    service = example("service")
    assert service.listen.startswith("0.0.0.0:")
    assert service.limits.drain_accept_seconds + service.limits.drain_seconds < 30.0
    assert service.forbidden_overrides == ("fetch_k",)


def test_the_collections_example_gives_each_collection_its_own() -> None:
    made = policies(example("collections"))
    assert made["tenant-documents"].tenant_keys == ("tenant_id",)
    assert made["manuals-*"].overlap == "exchange"
    assert made["manuals-*"].text_fields == ("text", "content")
    assert (made["products-*"].vector, made["products-*"].mmr) == ("image", None)
    assert made["news-*"].threshold == ThresholdSettings(fixed=0.20)
    assert (made["statutes-*"].texts, made["statutes-*"].certainty) == ("exact", None)
    assert made["audit-*"].mode == "off"


def test_the_classical_example_compares_the_recipe_its_cut_and_a_variation() -> None:
    made = policies(example("classical"))
    assert made["articles-classical"].when == "always"
    assert made["articles-fixed"].when == "redundant"
    assert made["articles-fixed"].threshold == made["articles-classical"].threshold
    assert made["articles-relevant"].mmr is not None
    assert made["articles-relevant"].mmr.lambda_ == 1.0


def test_the_shadow_example_answers_with_the_databases_own_bytes_whatever_a_client_asks() -> None:
    settings = example("shadow")
    assert settings.mode == "shadow"
    assert settings.forbidden_overrides == ("mode",)
