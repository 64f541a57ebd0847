"""The settings of tracing (off unless asked for, no credentials in them) and of the inspector (for this machine alone)."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from vecsieve.config import contradictions
from vecsieve.config.addresses import collector_url
from vecsieve.config.load import judged, load
from vecsieve.config.problems import SettingsError
from vecsieve.config.schema import Settings, TracingSettings
from vecsieve.proxy.admin.recent import kept_by

ENDPOINT = "http://127.0.0.1:4318"


def test_tracing_is_off_unless_an_endpoint_is_given() -> None:
    assert Settings().tracing == TracingSettings(endpoint=None)
    assert load(file=None, environment={"VECSIEVE_TRACING_ENDPOINT": "none"}, flags={}).tracing.endpoint is None


@pytest.mark.parametrize(
    ("url", "used"),
    [
        (ENDPOINT, ENDPOINT),
        (ENDPOINT + "/", ENDPOINT),
        ("https://gateway.example/otlp", "https://gateway.example/otlp"),
        ("https://gateway.example/otlp/", "https://gateway.example/otlp"),
        ("http://[::1]:4318/a/b", "http://[::1]:4318/a/b"),
    ],
)
def test_a_collector_has_scheme_host_and_perhaps_a_path(url: str, used: str) -> None:
    assert collector_url(url) == used


@pytest.mark.parametrize(
    "url",
    [
        "",
        "collector:4318",
        "ftp://c",
        "http://",
        "http://u:p@c/x",
        "http://c/x?key=1",
        "http://c/x#y",
        "http://c/a b",
        "http://c//",
    ],
)
def test_anything_else_is_refused(url: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        collector_url(url)


def test_a_credential_in_the_url_is_refused_and_not_repeated() -> None:
    environment = {"VECSIEVE_TRACING_ENDPOINT": "https://user:s3cret@gateway.example/otlp"}
    with pytest.raises(SettingsError) as refused:
        load(file=None, environment=environment, flags={})
    assert "tracing.endpoint (VECSIEVE_TRACING_ENDPOINT): wanted http or https" in str(refused.value)
    assert "s3cret" not in str(refused.value)


@pytest.mark.parametrize(("name", "value"), [("sample_ratio", 1.5), ("sample_ratio", -0.1)])
def test_a_number_out_of_range_is_told(name: str, value: float) -> None:
    findings = judged({"tracing": {name: value}}, ())[1]
    assert [finding.path for finding in findings] == [("tracing", name)]


def missing(*names: str) -> Callable[[str], object | None]:
    """As importlib has it where these are not installed: None for a module, an error for one inside a missing one."""

    def find_spec(name: str) -> object | None:
        if any(name.startswith(package + ".") for package in names):
            raise ModuleNotFoundError(name)
        return None if name in names else object()

    return find_spec


@pytest.mark.parametrize("names", [("opentelemetry",), ("opentelemetry.sdk",), ("opentelemetry.exporter",)])
def test_a_missing_extra_is_told_where_tracing_is_on_and_only_there(
    names: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(contradictions, "find_spec", missing(*names))
    (finding,) = judged({"tracing": {"endpoint": ENDPOINT}}, ())[1]
    assert finding.path == ("tracing", "endpoint")
    assert (
        finding.expected
        == "none: opentelemetry is not installed; it comes with the extra otel: in a checkout, pip install -e '.[otel]'"
    )
    assert judged({}, ())[1] == ()


def test_check_explains_a_missing_extra_and_exits_2(tmp_path: Path) -> None:
    """In a process of its own, from which the exporter is hidden as if it were not installed."""
    program = """
import sys
from importlib.abc import MetaPathFinder

class Hidden(MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name == "opentelemetry" or name.startswith("opentelemetry."):
            raise ModuleNotFoundError(name)

sys.meta_path.insert(0, Hidden())
from vecsieve.proxy.cli import main
main()
"""
    file = tmp_path / "vecsieve.yaml"
    file.write_text(f"tracing:\n  endpoint: {ENDPOINT}\n", encoding="utf-8")
    command = [sys.executable, "-c", program, "check", "--config", str(file)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 2, done.stderr
    assert (
        "opentelemetry is not installed; it comes with the extra otel: in a checkout, pip install -e '.[otel]'"
        in done.stderr
    )


@pytest.mark.parametrize(
    ("admin", "explain", "is_private"),
    [
        ("127.0.0.1:9464", {}, True),
        ("localhost:1", {}, True),
        ("127.8.8.8:1", {}, True),
        ("[::1]:9464", {}, True),
        ("0.0.0.0:9464", {}, False),
        ("127.0.0.1.example:9464", {}, False),
        ("0.0.0.0:9464", {"token_file": "t"}, True),
    ],
)
def test_the_inspector_is_private_on_loopback_or_behind_a_token(
    admin: str, explain: dict[str, object], is_private: bool
) -> None:
    settings = Settings.model_validate({"admin": admin, "explain": explain})
    assert settings.admin_is_private is is_private
    assert kept_by(settings) == (50 if is_private else 0)
    named = Settings.model_validate({"admin": admin, "explain": {**explain, "keep": 7}})
    assert kept_by(named) == 7


@pytest.mark.parametrize(("name", "value"), [("texts", True), ("judgements", "pairs.jsonl")])
def test_texts_and_judgements_need_loopback_or_a_token(name: str, value: object) -> None:
    with pytest.raises(
        SettingsError, match=rf"explain\.{name} .+: wanted .+, because admin \(0\.0\.0\.0:9464\) is not on loopback"
    ):
        load(file=None, environment={}, flags={"admin": "0.0.0.0:9464", f"explain.{name}": value})


@pytest.mark.parametrize(
    ("admin", "texts", "kept"),
    [
        ("127.0.0.1:9464", None, True),
        ("127.0.0.1:9464", False, False),
        ("0.0.0.0:9464", None, False),
        ("10.0.0.5:9464", True, True),
    ],
)
def test_texts_are_kept_where_only_this_machine_can_read_them(admin: str, texts: bool | None, kept: bool) -> None:
    settings = Settings.model_validate({"admin": admin, "explain": {"texts": texts, "token_file": "token"}})
    assert settings.keeps_texts is kept
