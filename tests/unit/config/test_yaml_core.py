"""YAML 1.2 core scalars, bounds, and what is refused."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from vecsieve.config.fields import leaves
from vecsieve.config.load import load
from vecsieve.config.policy import PolicySettings
from vecsieve.config.problems import Finding
from vecsieve.config.schema import Settings
from vecsieve.config.yaml_core import DEEPEST, MOST_NODES, CoreDumper, NotYamlError, effective, read


@pytest.mark.parametrize(
    ("text", "value"),
    [
        # What YAML 1.1 reads as booleans, base sixty, dates and octals is text or decimal here.
        *((word, word) for word in ("on", "off", "On", "OFF", "yes", "no", "Y", "n", "22:22", "1:30", "2024-01-01")),
        ("1_000", "1_000"),
        ("010", 10),
        ("0o17", 15),
        ("0x1F", 31),
        ("+5", 5),
        ("-5", -5),
        ("1e3", 1000.0),
        ("1.", 1.0),
        (".5", 0.5),
        ("-.5E-1", -0.05),
        (".inf", math.inf),
        ("-.INF", -math.inf),
        ("true", True),
        ("False", False),
        ("null", None),
        ("~", None),
        ("NULL", None),
        ("", None),
        ("''", ""),
        ("'5'", "5"),
        ("!!str 5", "5"),
        ("!!int '5'", 5),
        ("127.0.0.1:6343", "127.0.0.1:6343"),
        ("5 apples", "5 apples"),
        ("truely", "truely"),
        ("nullable", "nullable"),
        ("[1, a]", (1, "a")),
        ("{a: {b: 1}}", {"a": {"b": 1}}),
        ("<<: 1", {"<<": 1}),
    ],
)
def test_a_text_is_read_as_the_core_schema_reads_it(text: str, value: object) -> None:
    document = read(text)
    assert document.findings == ()
    assert document.value == value
    assert type(document.value) is type(value)


def test_not_a_number_is_read_as_such() -> None:
    value = read(".nan").value
    assert isinstance(value, float)
    assert math.isnan(value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: [", "line 1, column 5: this: expected the node content, but found '<stream end>'"),
        ("a: b: c", "line 1, column 5: this: mapping values are not allowed here"),
        ("a: *x", "line 1, column 4: undefined alias 'x'"),
        ("a: 1\n---\nb: 2", "line 2, column 1: another document"),
        ("a\n\x00", "line 2: a control character"),
        ('"\\U00110000"', ": an escape or a directive out of range"),
        (f"%YAML {'9' * 5000}.1\n--- a", ": an escape or a directive out of range"),
        ("&a [*a]", "line 1: an alias inside its own anchor"),
        ("[" * 5000, f"line 1: more than {DEEPEST} levels"),
    ],
)
def test_a_text_that_is_no_yaml_is_refused_with_its_place(text: str, message: str) -> None:
    with pytest.raises(NotYamlError) as caught:
        read(text)
    assert str(caught.value) == message


def test_a_document_may_not_hold_more_values_than_the_bound() -> None:
    assert read(f"[{'1,' * (MOST_NODES - 1)}]").findings == ()
    with pytest.raises(NotYamlError, match=rf"line 1: more than {MOST_NODES} values$"):
        read(f"[{'1,' * MOST_NODES}]")


def test_aliases_may_not_multiply_beyond_the_bound() -> None:
    lines = ["a0: &a0 [1, 1, 1, 1]"] + [f"a{n}: &a{n} [*a{n - 1}, *a{n - 1}, *a{n - 1}]" for n in range(1, 30)]
    with pytest.raises(NotYamlError, match=f"more than {MOST_NODES} values once aliases are followed"):
        read("\n".join(lines))


def test_aliases_may_not_nest_beyond_the_bound() -> None:
    lines = ["a0: &a0 [1]"] + [f"a{n}: &a{n} [*a{n - 1}]" for n in range(1, 3000)]
    with pytest.raises(NotYamlError, match=f"more than {DEEPEST} levels once aliases are followed"):
        read("\n".join(lines))


def test_levels_side_by_side_are_not_counted_together() -> None:
    side_by_side = "\n".join(f"k{n}: [[[[1]]]]" for n in range(DEEPEST))
    assert read(side_by_side).value == {f"k{n}": ((((1,),),),) for n in range(DEEPEST)}


def test_every_duplicate_is_found_and_the_first_value_stands() -> None:
    document = read("a: 1\nb: {c: 1, c: 2}\na: 2\na: 3")
    assert document.value == {"a": 1, "b": {"c": 1}}
    assert document.findings == (
        Finding(("b", "c"), "it again", "the key once", stands=True, line=2),
        Finding(("a",), "it again", "the key once", stands=True, line=3),
        Finding(("a",), "it again", "the key once", stands=True, line=4),
    )


@pytest.mark.parametrize("tag", ["!!binary aGk=", "!!set {a, b}", "!!python/name:os.system ''", "!mine x", "!!omap []"])
def test_no_tag_builds_anything(tag: str) -> None:
    document = read(f"a: {tag}\nb: 1")
    assert document.value == {"a": None, "b": 1}
    assert [(finding.path, finding.expected) for finding in document.findings] == [
        (("a",), "a plain mapping, list or value")
    ]


@pytest.mark.parametrize(
    "key", ["1.5", "-1", "0x1", "1" * 19, "!!int a", "true", "null", "[a]", "{a: b}", '"a\\nb"', "? [a]\n"]
)
def test_keys_are_plain_words(key: str) -> None:
    document = read(f"{key}: 1")
    assert document.value == {}
    assert [finding.expected for finding in document.findings] == ["keys that are plain words"]


@pytest.mark.parametrize("key", ["8101", "0", "08101", '"8101"'])
def test_a_whole_number_may_be_a_key_and_is_read_as_its_text(key: str) -> None:
    assert read(f"{key}: 1").value == {key.strip('"'): 1}
    assert [finding.expected for finding in read(f"{key}: 1\n{key}: 2").findings] == ["the key once"]


plain = st.text(st.characters(codec="utf-8"), max_size=12)
values = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**20), 10**20) | st.floats(allow_nan=False) | plain,
    lambda inner: (
        st.lists(inner, max_size=3).map(tuple) | st.dictionaries(plain.filter(str.isprintable), inner, max_size=3)
    ),
    max_leaves=8,
)


@given(
    value=values | st.sampled_from(["on", "off", "1e5", "0o17", "0x1", "1:30", "null", "~", "=", "<<", "2024-01-01"])
)
def test_what_the_dumper_writes_is_read_back_the_same(value: object) -> None:
    """Invariant: read(dump(value)) == value with the same types, for everything that settings can hold."""
    document = read(yaml.dump(value, Dumper=CoreDumper, sort_keys=False, allow_unicode=True))
    assert (document.value, document.findings) == (value, ())
    assert repr(document.value) == repr(value)


@given(text=st.text(max_size=80))
def test_any_text_is_read_or_refused(text: str) -> None:
    """Invariant: read returns a Document or raises NotYamlError, whatever the text."""
    try:
        document = read(text)
    except NotYamlError as error:
        refused = str(error)
    else:
        refused = ""
        assert all(finding.expected for finding in document.findings)
    assert refused.isprintable()


# What `check` prints: everything, in order, loadable again, and no secret.


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
