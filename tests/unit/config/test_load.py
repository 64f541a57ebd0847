"""File, environment and flags become Settings, each beating the one before; whatever is wrong is one SettingsError."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from vecsieve.config.fields import MOST_GUESSED, leaves
from vecsieve.config.load import LARGEST_FILE_BYTES, from_environment, load, variable
from vecsieve.config.policy import CertaintySettings, ThresholdSettings
from vecsieve.config.problems import Finding, SettingsError
from vecsieve.config.schema import Settings


def written(directory: Path, text: str | bytes) -> Path:
    file = directory / "vecsieve.yaml"
    file.write_bytes(text if isinstance(text, bytes) else text.encode())
    return file


def problems(file: Path | None = None, environment: dict[str, str] | None = None, **flags: object) -> list[str]:
    with pytest.raises(SettingsError) as caught:
        load(file=file, environment=environment or {}, flags=flags)
    return str(caught.value).splitlines()


def test_nothing_given_means_the_defaults() -> None:
    assert load(file=None, environment={}, flags={}) == Settings()


@pytest.mark.parametrize("text", ["", "# nothing but a comment\n", "---\n", "\ufeff"])
def test_an_empty_file_means_the_defaults(tmp_path: Path, text: str) -> None:
    assert load(file=written(tmp_path, text), environment={}, flags={}) == Settings()


def test_the_file_beats_the_defaults_and_the_environment_the_file_and_flags_the_environment(tmp_path: Path) -> None:
    file = written(tmp_path, "{workers: 2, listen: 'a:1', admin: 'a:2', limits: {in_flight: 7, connections: 8}}")
    environment = {"VECSIEVE_LISTEN": "b:1", "VECSIEVE_ADMIN": "b:2", "VECSIEVE_LIMITS_IN_FLIGHT": "9"}
    settings = load(file=file, environment=environment, flags={"admin": "c:2", "upstream.url": "http://c:3"})
    assert (settings.workers, settings.listen, settings.admin) == (2, "b:1", "c:2")
    assert (settings.limits.in_flight, settings.limits.connections) == (9, 8)
    assert settings.upstream.url == "http://c:3"


def test_ports_of_indexes_come_from_the_file_and_flags_are_laid_over_them_port_by_port(tmp_path: Path) -> None:
    file = written(tmp_path, "{backend: pinecone, pinecone: {index_ports: {8101: a.example.com, 8102: b.example.com}}}")
    flags = {"pinecone.index_ports": {"8102": "http://c.example.com:5081", "8103": "d.example.com"}}
    assert load(file=file, environment={}, flags=flags).pinecone.index_ports == {
        8101: "https://a.example.com",
        8102: "http://c.example.com:5081",
        8103: "https://d.example.com",
    }
    given = problems(None, {"VECSIEVE_PINECONE_INDEX_PORTS": "8101=a.example.com"})
    assert len(given) == 1
    assert given[0].startswith("unknown variable VECSIEVE_PINECONE_INDEX_PORTS")


def test_the_environment_may_name_the_file_and_the_flag_beats_it(tmp_path: Path) -> None:
    (tmp_path / "flag").mkdir()
    named = written(tmp_path, "workers: 2")
    flagged = written(tmp_path / "flag", "workers: 3")
    environment = {"VECSIEVE_CONFIG": str(named)}
    assert load(file=None, environment=environment, flags={}).workers == 2
    assert load(file=flagged, environment=environment, flags={}).workers == 3


@pytest.mark.parametrize("mode", ["on", "off"])
def test_the_words_on_and_off_are_modes_and_not_booleans(tmp_path: Path, mode: str) -> None:
    settings = load(file=written(tmp_path, f"mode: {mode}\npolicy: {{mode: {mode}}}"), environment={}, flags={})
    assert settings.mode == settings.policy.mode == mode


def test_whole_numbers_are_good_for_fractions(tmp_path: Path) -> None:
    file = written(tmp_path, "limits: {head_timeout_seconds: 5}\npolicy: {mmr: {lambda: 1}, threshold: {fixed: 0}}")
    settings = load(file=file, environment={}, flags={})
    assert settings.limits.head_timeout_seconds == 5.0
    assert settings.policy.mmr is not None
    assert settings.policy.mmr.lambda_ == 1.0
    assert settings.policy.threshold == ThresholdSettings(fixed=0.0)


@pytest.mark.parametrize("word", ["none", "null", "~", ""])
def test_mmr_is_switched_off_by_none_and_by_null(tmp_path: Path, word: str) -> None:
    assert load(file=written(tmp_path, f"policy:\n  mmr: {word}"), environment={}, flags={}).policy.mmr is None


def test_none_leaves_optional_settings_unset(tmp_path: Path) -> None:
    file = written(tmp_path, "mode: none\npolicy: {vector: none}\nrules: [{preset: none}]")
    settings = load(file=file, environment={}, flags={})
    assert settings.mode is settings.policy.vector is settings.rules[0].preset is None


@pytest.mark.parametrize(
    ("text", "first", "last"),
    [
        ("certainty: 0.9", 0.9, 0.3),
        ("certainty: {first: 0.8, last: 0.6}", 0.8, 0.3),
        ("when: always", 0.85, 0.3),
    ],
)
def test_a_variable_of_one_member_of_certainty_leaves_the_file_s_other(
    tmp_path: Path, text: str, first: float, last: float
) -> None:
    file = written(tmp_path, f"policy: {{{text}}}")
    environment = {"VECSIEVE_POLICY_CERTAINTY_LAST": "0.3"}
    certainty = load(file=file, environment=environment, flags={}).policy.certainty
    assert certainty == CertaintySettings(first=first, last=last)


def test_a_certainty_that_cannot_be_one_is_told_beside_a_variable_of_its_member(tmp_path: Path) -> None:
    file = written(tmp_path, "policy: {certainty: 90}")
    with pytest.raises(SettingsError) as caught:
        load(file=file, environment={"VECSIEVE_POLICY_CERTAINTY_LAST": "0.3"}, flags={})
    assert (
        str(caught.value)
        == f"{file}:1: policy.certainty: wanted none, a number from 0 to 1, or {{first: …, last: …}}; saw 90"
    )


def test_a_threshold_is_relative_unless_it_says_fixed(tmp_path: Path) -> None:
    file = written(tmp_path, "policy: {threshold: {max: 0.2}}")
    threshold = load(file=file, environment={}, flags={}).policy.threshold
    assert threshold == ThresholdSettings(relative=0.20, min=0.0, max=0.2)


def test_variables_of_one_threshold_make_one_threshold_that_replaces_the_files(tmp_path: Path) -> None:
    file = written(tmp_path, "policy: {threshold: {fixed: 0.1}}")
    environment = {"VECSIEVE_POLICY_THRESHOLD_MIN": "0.05", "VECSIEVE_POLICY_THRESHOLD_MAX": "0.2"}
    threshold = load(file=file, environment=environment, flags={}).policy.threshold
    assert threshold == ThresholdSettings(relative=0.20, min=0.05, max=0.2)


def test_a_variable_beneath_a_none_of_the_file_switches_mmr_on_again(tmp_path: Path) -> None:
    file = written(tmp_path, "policy: {mmr: none}")
    policy = load(file=file, environment={"VECSIEVE_POLICY_MMR_LAMBDA": "0.4"}, flags={}).policy
    assert policy.mmr is not None
    assert policy.mmr.lambda_ == 0.4


def test_what_stands_in_the_way_of_a_variable_is_still_reported(tmp_path: Path) -> None:
    file = written(tmp_path, "limits: 5")
    messages = problems(file, {"VECSIEVE_LIMITS_IN_FLIGHT": "5"})
    assert messages == [f"{file}:1: limits: wanted a mapping; saw 5"]


@pytest.mark.parametrize(
    ("written_url", "origin", "prefix"),
    [
        ("http://qdrant:6333", "http://qdrant:6333", "/vs"),
        ("http://qdrant:6333/", "http://qdrant:6333", ""),
        ("https://host/qdrant/", "https://host", "/qdrant"),
        ("https://host/a/b", "https://host", "/a/b"),
    ],
)
def test_a_path_of_the_upstream_url_replaces_the_prefix_of_clients(
    written_url: str, origin: str, prefix: str, tmp_path: Path
) -> None:
    file = written(tmp_path, f"upstream: {{url: '{written_url}', path_prefix: /vs}}")
    upstream = load(file=file, environment={}, flags={}).upstream
    assert (upstream.origin, upstream.prefix) == (origin, prefix)


def test_a_url_stands_for_the_section_of_the_upstream(tmp_path: Path) -> None:
    file = written(tmp_path, "upstream: http://localhost:6333/")
    upstream = load(file=file, environment={"VECSIEVE_UPSTREAM_CONNECT_TIMEOUT_SECONDS": "1.5"}, flags={}).upstream
    assert (upstream.origin, upstream.prefix, upstream.connect_timeout_seconds) == ("http://localhost:6333", "", 1.5)
    assert load(file=file, environment={}, flags={"upstream.url": "http://a:1"}).upstream.url == "http://a:1"


def test_a_misspelt_variable_and_a_misspelt_word_of_one_are_answered_with_the_nearest() -> None:
    (name,) = problems(None, {"VECSIEVE_WORKRES": "hunter2"})
    assert name == "unknown variable VECSIEVE_WORKRES. Did you mean VECSIEVE_WORKERS?"
    (word,) = problems(None, {"VECSIEVE_BACKEND": "chrome"})
    assert word.startswith("backend (VECSIEVE_BACKEND): wanted qdrant, ")
    assert word.endswith('saw "chrome". Did you mean "chroma"?')


def test_anchors_and_aliases_work(tmp_path: Path) -> None:
    file = written(tmp_path, "rules: [{collection: a, policy: &p {linkage: single}}, {collection: b, policy: *p}]")
    rules = load(file=file, environment={}, flags={}).rules
    assert rules[0].policy == rules[1].policy == {"linkage": "single"}


def test_a_missing_file_is_a_problem_and_hides_no_other(tmp_path: Path) -> None:
    messages = problems(tmp_path / "nowhere.yaml", {"VECSIEVE_WORKERS": "many"})
    assert messages == [
        f"{tmp_path}/nowhere.yaml: wanted a readable file; saw no such file or directory",
        'workers (VECSIEVE_WORKERS): wanted a whole number from 1 to 256; saw "many"',
    ]


def test_what_is_no_file_of_settings_is_told_and_nothing_waits_for_it(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    huge = written(tmp_path, b"#" * (LARGEST_FILE_BYTES + 1))
    assert [
        line.partition(": ")[2] for file in (tmp_path, tmp_path / "pipe", Path("a\0b"), huge) for line in problems(file)
    ] == [
        "wanted a readable file; saw is a directory",
        "wanted a readable file; saw no regular file",
        "wanted a readable file; saw no file of that name",
        f"wanted a file of at most {LARGEST_FILE_BYTES} bytes; saw a larger one",
    ]


def test_a_problem_says_which_variable_or_flag_the_value_came_from() -> None:
    environment = {"VECSIEVE_LISTEN": "here", "VECSIEVE_LIMITS_IN_FLIGHT": "0"}
    with pytest.raises(SettingsError) as caught:
        load(file=None, environment=environment, flags={"upstream.url": "there", "workers": 0})
    assert [problem.path for problem in caught.value.problems] == [
        "listen (VECSIEVE_LISTEN)",
        "workers (command line)",
        "upstream.url (command line)",
        "limits.in_flight (VECSIEVE_LIMITS_IN_FLIGHT)",
    ]


def test_an_unknown_flag_is_a_problem_like_an_unknown_key() -> None:
    with pytest.raises(SettingsError, match=r'^unknown setting "upstream.uri"\. Did you mean "url"\?$'):
        load(file=None, environment={}, flags={"upstream.uri": "http://a:1"})


keys = st.sampled_from(
    sorted({part for leaf in leaves() for part in leaf.path} | {"rules", "preset", "collection", "tenant_keys", "<<"})
)
scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.sampled_from(["on", "off", "none", "classical", "careful", "*", "127.0.0.1:6343", "http://a:1", "longest"]),
    st.text(max_size=20),
)
trees = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(keys | st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)


def refusal(file: Path | None, environment: dict[str, str]) -> SettingsError | None:
    try:
        load(file=file, environment=environment, flags={})
    except SettingsError as error:
        return error
    return None


def loads_or_refuses(file: Path) -> None:
    error = refusal(file, {})
    if error is not None:
        lines = str(error).split("\n")
        assert len(lines) == len(error.problems) > 0
        assert all(line.isprintable() for line in lines)


@given(content=st.binary(max_size=200))
def test_any_bytes_make_settings_or_a_settings_error(content: bytes, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Invariant: load returns Settings or raises SettingsError with a line per problem, whatever the file holds."""
    loads_or_refuses(written(tmp_path_factory.getbasetemp(), content))


@given(text=st.text(alphabet=st.sampled_from("ab01:-[]{},&*!|>'\"\\#%@?~ \n\t.eExUou_<"), max_size=60))
def test_any_yaml_syntax_makes_settings_or_a_settings_error(
    text: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Invariant: as above, for texts made of the characters that mean something to YAML."""
    loads_or_refuses(written(tmp_path_factory.getbasetemp(), text))


@given(tree=st.dictionaries(keys, trees, max_size=5))
def test_any_tree_of_real_keys_makes_settings_or_a_settings_error(
    tree: dict[str, object], tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Invariant: as above, for documents that get as far as the models."""
    loads_or_refuses(written(tmp_path_factory.getbasetemp(), yaml.safe_dump(tree)))


@given(
    policies=st.lists(st.dictionaries(keys, trees, max_size=4), min_size=1, max_size=3),
    base=st.dictionaries(keys, scalars, max_size=3),
)
def test_any_rules_make_settings_or_a_settings_error(
    policies: list[dict[str, object]], base: dict[str, object], tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Invariant: as above, for what stands inside the policies of rules."""
    rules = [{"collection": f"c{index}", "policy": policy} for index, policy in enumerate(policies)]
    text = yaml.safe_dump({"policy": base, "rules": rules})
    loads_or_refuses(written(tmp_path_factory.getbasetemp(), text))


@given(environment=st.dictionaries(st.sampled_from([leaf.path for leaf in leaves()]), st.text(max_size=12), max_size=4))
def test_any_environment_makes_settings_or_a_settings_error(environment: dict[tuple[str, ...], str]) -> None:
    """Invariant: load returns Settings or raises SettingsError, whatever our variables hold."""
    variables = {"VECSIEVE_" + "_".join(path).upper(): value for path, value in environment.items()}
    error = refusal(None, variables)
    assert error is None or {problem.path.split(" ")[0] for problem in error.problems} <= {
        ".".join(leaf.path) for leaf in leaves()
    }


RULES = 4_500
MOST_SECONDS = 4.0  # of the thread; 1 here, while comparing each fault with each rule takes 7 and more


@pytest.mark.parametrize(
    ("rule", "count"),
    [
        ("{zz: 1}", 2 * RULES - 1),
        ("{policy: {zz: 1}}", 2 * RULES - 1),
        ("{policy: {fetch: {floor: 900, cap: 100}}, collection: 7}", 2 * RULES),
        ("{collection: '*a*b*'}", RULES - 1),
    ],
)
def test_thousands_of_faults_are_told_in_linear_time(tmp_path: Path, rule: str, count: int) -> None:
    """A reload reads beside the loop, but takes the interpreter from it, and a stop waits for it."""
    file = written(tmp_path, "rules:\n" + f"- {rule}\n" * RULES)
    started = time.thread_time()
    assert len(problems(file)) == count
    assert time.thread_time() - started < MOST_SECONDS


def test_of_thousands_of_unknown_settings_all_are_told_and_the_first_have_suggestions(tmp_path: Path) -> None:
    """A suggestion takes longer than all else about a fault: 30,000 of them took six seconds."""
    unknown = "".join(f"  in_flight{number}: 1\n" for number in range(20_000))
    messages = problems(written(tmp_path, f"limits:\n{unknown}"))
    assert len(messages) == 20_000
    assert messages[0].endswith('unknown setting "limits.in_flight0". Did you mean "in_flight"?')
    assert sum("Did you mean" in message for message in messages) == MOST_GUESSED


# Variables: one per scalar setting, parsed by its kind; strangers reported, Kubernetes' own left alone.


def test_every_scalar_setting_has_a_variable_of_its_own() -> None:
    names = [variable(leaf.path) for leaf in leaves()]
    assert len(set(names)) == len(names)
    assert {
        "VECSIEVE_LISTEN",
        "VECSIEVE_UPSTREAM_URL",
        "VECSIEVE_LIMITS_CONNECTIONS",
        "VECSIEVE_POLICY_MMR_LAMBDA",
        "VECSIEVE_POLICY_THRESHOLD_FIXED",
        "VECSIEVE_POLICY_THRESHOLD_RELATIVE",
        "VECSIEVE_POLICY_FETCH_CAP",
    } <= set(names)


@pytest.mark.parametrize(
    ("name", "text", "path", "value"),
    [
        ("VECSIEVE_LISTEN", "a:1", ("listen",), "a:1"),
        ("VECSIEVE_WORKERS", "4", ("workers",), 4),
        ("VECSIEVE_WORKERS", "-4", ("workers",), -4),
        ("VECSIEVE_REPORT_HEADER", "false", ("report_header",), False),
        ("VECSIEVE_MODE", "none", ("mode",), None),
        ("VECSIEVE_MODE", "off", ("mode",), "off"),
        ("VECSIEVE_POLICY_VECTOR", "", ("policy", "vector"), ""),
        ("VECSIEVE_POLICY_MMR", "none", ("policy", "mmr"), None),
        ("VECSIEVE_SHADOW_SAMPLE", "1e-1", ("shadow", "sample"), 0.1),
        ("VECSIEVE_SHADOW_SAMPLE", ".5", ("shadow", "sample"), 0.5),
        ("VECSIEVE_SHADOW_SAMPLE", "1", ("shadow", "sample"), 1.0),
        ("VECSIEVE_UPSTREAM_URL", "none", ("upstream", "url"), "none"),
    ],
)
def test_a_text_is_read_as_its_settings_kind(name: str, text: str, path: tuple[str, ...], value: object) -> None:
    assert from_environment({name: text}) == ({path: value}, ())


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("VECSIEVE_WORKERS", ""),
        ("VECSIEVE_WORKERS", "4.0"),
        ("VECSIEVE_WORKERS", " 4"),
        ("VECSIEVE_WORKERS", "1_000"),
        ("VECSIEVE_WORKERS", "\u0664"),  # an Arabic four, which int() would take
        ("VECSIEVE_WORKERS", "9" * 5000),  # int() raises another error here
        ("VECSIEVE_REPORT_HEADER", "yes"),
        ("VECSIEVE_REPORT_HEADER", "1"),
        ("VECSIEVE_SHADOW_SAMPLE", "nan"),
        ("VECSIEVE_SHADOW_SAMPLE", "inf"),
        ("VECSIEVE_SHADOW_SAMPLE", "0,5"),
        ("VECSIEVE_POLICY_MMR", "0.5"),
        ("VECSIEVE_LISTEN", "\udcff"),  # how the interpreter hands over bytes that are no UTF-8
    ],
)
def test_a_text_of_another_kind_is_a_finding(name: str, text: str) -> None:
    values, findings = from_environment({name: text})
    assert values == {}
    assert [variable(finding.path) for finding in findings] == [name]


def test_an_unknown_variable_is_a_finding_with_a_suggestion_and_without_its_value() -> None:
    _, findings = from_environment({"VECSIEVE_UPSTREAM_URI": "https://me:hunter2@host"})
    path, words = ("VECSIEVE_UPSTREAM_URI",), "unknown variable VECSIEVE_UPSTREAM_URI"
    hint = "Did you mean VECSIEVE_UPSTREAM_URL?"
    assert findings == (Finding(path, "a variable of that name", "a known variable", words=words, hint=hint),)


@pytest.mark.parametrize("name", ["VECSIEVE_POLICY_TEXT_CONTAINMENT", "VECSIEVE_POLICY_GUARDS_NUMBERS"])
def test_a_variable_of_an_earlier_version_is_unknown(name: str) -> None:
    values, (finding,) = from_environment({name: "0.5"})
    assert values == {}
    assert (finding.path, finding.expected) == ((name,), "a known variable")


def test_lists_have_no_variable() -> None:
    _, findings = from_environment({"VECSIEVE_POLICY_TEXT_FIELDS": "text", "VECSIEVE_RULES": "[]"})
    assert [finding.path for finding in findings] == [("VECSIEVE_POLICY_TEXT_FIELDS",), ("VECSIEVE_RULES",)]


def test_variables_of_others_and_our_two_special_ones_are_left_alone() -> None:
    environment = {"PATH": "/bin", "VECSIEVE_CONFIG": "a.yaml", "VECSIEVE_EVAL_DATA": "/data", "vecsieve_listen": "x"}
    assert from_environment(environment) == ({}, ())


def test_what_kubernetes_sets_beside_a_service_of_our_name_is_left_alone() -> None:
    environment = {
        "VECSIEVE_SERVICE_HOST": "10.0.0.7",
        "VECSIEVE_SERVICE_PORT": "6343",
        "VECSIEVE_SERVICE_PORT_HTTP": "6343",
        "VECSIEVE_PORT": "tcp://10.0.0.7:6343",
        "VECSIEVE_PORT_6343_TCP": "tcp://10.0.0.7:6343",
        "VECSIEVE_PORT_6343_TCP_PROTO": "tcp",
        "VECSIEVE_PORT_6343_TCP_PORT": "6343",
        "VECSIEVE_PORT_6343_TCP_ADDR": "10.0.0.7",
        "VECSIEVE_ADMIN_SERVICE_HOST": "10.0.0.8",
        "VECSIEVE_ADMIN_PORT": "tcp://10.0.0.8:9464",
    }
    assert from_environment(environment) == ({}, ())


def test_a_port_that_kubernetes_did_not_set_is_a_finding() -> None:
    _, findings = from_environment({"VECSIEVE_LISTEN_PORT": "6343"})
    assert [finding.path for finding in findings] == [("VECSIEVE_LISTEN_PORT",)]


def test_mmr_switched_off_and_described_at_once_is_a_finding() -> None:
    environment = {"VECSIEVE_POLICY_MMR_LAMBDA": "0.5", "VECSIEVE_POLICY_MMR": "none"}
    values, findings = from_environment(environment)
    assert values == {("policy", "mmr"): None}
    assert findings == (Finding(("policy", "mmr", "lambda"), '"0.5"', "nothing while VECSIEVE_POLICY_MMR is none"),)


def test_findings_come_in_one_order_whatever_the_order_of_the_environment() -> None:
    environment = {"VECSIEVE_B": "", "VECSIEVE_WORKERS": "x", "VECSIEVE_A": "", "VECSIEVE_LISTEN": "\udcff"}
    reversed_environment = dict(reversed(environment.items()))
    assert from_environment(environment) == from_environment(reversed_environment)
