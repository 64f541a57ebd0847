"""What `check` prints: everything, in order, loadable again, and no secret."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vecsieve.config.fields import leaves
from vecsieve.config.load import load
from vecsieve.config.policy import PolicySettings
from vecsieve.config.schema import Settings
from vecsieve.config.yaml_core import effective


def loaded_again(text: str, directory: Path) -> Settings:
    file = directory / "effective.yaml"
    file.write_text(text, encoding="utf-8")
    return load(file=file, environment={}, flags={})


def test_every_setting_is_shown_in_the_order_of_the_models() -> None:
    lines = effective(Settings()).splitlines()
    tops = [line.split(":")[0] for line in lines if line[:1].isalpha()]
    assert tops == list(Settings.model_fields)
    not_the_default = {"fixed", "relative", "min", "max", "lambda", "scaled", "first", "last"}
    names = {line.split(":")[0].strip() for line in lines}
    assert names >= {leaf.path[-1] for leaf in leaves()} - not_the_default


def test_numbers_words_and_lists_look_as_a_person_would_write_them() -> None:
    lines = effective(Settings(mode="off", policy=PolicySettings(tenant_keys=("tenant",)))).splitlines()
    assert {"mode: off", "listen: 127.0.0.1:6343", "  connect_timeout_seconds: 2.0", "    factor: 5.0"} <= set(lines)
    assert lines[lines.index("  tenant_keys:") + 1] == "  - tenant"


def test_the_same_settings_give_the_same_text() -> None:
    assert effective(Settings()) == effective(Settings.model_validate({}))


def test_credentials_are_masked_wherever_they_got_in() -> None:
    # No loader lets these through; the display does not rely on it.
    settings = Settings.model_construct(
        upstream={"url": "http://user:hunter2@qdrant:6333?k=hunter2", "api_key": "hunter2"}, rules=()
    )
    with pytest.warns(UserWarning, match="serialized value"):
        text = effective(settings)
    assert "hunter2" not in text
    assert "http://***@qdrant:6333?***" in text


names = st.text(st.characters(codec="utf-8"), min_size=1, max_size=10) | st.sampled_from(
    ["on", "off", "1e5", "0o17", "12:30", "null", "~", "true", "<<", "=", "- a", "# b", "a: b", "*", "&", "'", '"']
)


@given(
    vector=names.filter(lambda name: name != "none" and "@" not in name and "://" not in name),
    keys=st.lists(names.filter(lambda name: "@" not in name and "://" not in name), unique=True, max_size=3),
    weight=st.floats(0.0, 1.0),
    linkage=st.sampled_from(["single", "complete", "average"]),
)
def test_what_is_shown_loads_back_to_the_same_settings(
    vector: str, keys: list[str], weight: float, linkage: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Invariant: load(effective(settings)) == settings when nothing had to be masked."""
    policy = {"vector": vector, "tenant_keys": tuple(keys), "mmr": {"lambda": weight}}
    tree = {"policy": policy, "rules": ({"collection": "c", "policy": {"linkage": linkage, "mmr": None}},)}
    settings = Settings.model_validate(tree)
    assert loaded_again(effective(settings), tmp_path_factory.getbasetemp()) == settings


@pytest.mark.parametrize("policy", [{"threshold": {"fixed": 0.1}}, {"certainty": 0.9}, {"texts": "none"}])
def test_what_decides_is_shown_and_loads_back(policy: dict[str, object], tmp_path: Path) -> None:
    settings = Settings.model_validate({"policy": policy})
    assert loaded_again(effective(settings), tmp_path) == settings


@pytest.mark.parametrize("character", ["\x85", "\u2028", "\u2029"])
def test_a_line_break_beyond_ascii_is_shown_escaped_and_loads_back(character: str, tmp_path: Path) -> None:
    settings = Settings.model_validate({"policy": {"vector": f"a{character}b"}})
    text = effective(settings)
    assert character not in text
    assert loaded_again(text, tmp_path) == settings


def test_ports_of_indexes_are_shown_and_load_back(tmp_path: Path) -> None:
    ports = {8101: "https://a.svc.x.pinecone.io", 8102: "http://127.0.0.1:5082"}
    settings = Settings.model_validate({"backend": "pinecone", "pinecone": {"index_ports": ports}})
    assert loaded_again(effective(settings), tmp_path) == settings
