"""Variables: one per scalar setting, parsed by its kind; strangers reported, Kubernetes' own left alone."""

from __future__ import annotations

import pytest

from vecsieve.config.fields import leaves
from vecsieve.config.load import from_environment, variable
from vecsieve.config.problems import Finding


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
