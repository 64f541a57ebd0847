"""What a user reads after the usual slips: file and line, what is wrong, and what to write."""

from __future__ import annotations

from pathlib import Path

import pytest

from vecsieve.config.load import load
from vecsieve.config.problems import SettingsError
from vecsieve.config.values import PresetName


def said(tmp_path: Path, text: str, environment: dict[str, str] | None = None) -> list[str]:
    file = tmp_path / "x.yaml"
    file.write_text(text)
    with pytest.raises(SettingsError) as caught:
        load(file=file, environment=environment or {}, flags={})
    return str(caught.value).replace(f"{tmp_path}/", "").splitlines()


def test_a_url_stands_for_the_section_of_the_upstream(tmp_path: Path) -> None:
    file = tmp_path / "x.yaml"
    file.write_text("upstream: http://localhost:6333/\n")
    settings = load(file=file, environment={"VECSIEVE_UPSTREAM_CONNECT_TIMEOUT_SECONDS": "1.5"}, flags={})
    assert (settings.upstream.origin, settings.upstream.prefix) == ("http://localhost:6333", "")
    assert settings.upstream.connect_timeout_seconds == 1.5
    assert load(file=file, environment={}, flags={"upstream.url": "http://a:1"}).upstream.url == "http://a:1"


def test_a_wrong_url_in_place_of_the_section_is_told_as_a_url(tmp_path: Path) -> None:
    (line,) = said(tmp_path, "# mine\nupstream: localhost\n")
    assert line.startswith("x.yaml:2: upstream.url: wanted http or https, host, port and perhaps a path")


def test_an_unknown_setting_is_named_with_its_line_and_a_guess(tmp_path: Path) -> None:
    assert said(tmp_path, "mode: on\npolcy: {treshold: 0.1}\n") == [
        'x.yaml:2: unknown setting "polcy". Did you mean "policy"?'
    ]
    assert said(tmp_path, "limits:\n  in_flight: 5\n  conections: 5\n") == [
        'x.yaml:3: unknown setting "limits.conections". Did you mean "connections"?'
    ]


def test_an_unknown_setting_like_nothing_is_named_without_a_guess(tmp_path: Path) -> None:
    assert said(tmp_path, "zzz: 1\n") == ['x.yaml:1: unknown setting "zzz"']


@pytest.mark.parametrize(
    ("text", "guess"),
    [("backend: qdrent", "qdrant"), ("mode: shaddow", "shadow"), ("policy: {linkage: averge}", "average")],
)
def test_a_misspelt_word_is_answered_with_the_nearest_one(tmp_path: Path, text: str, guess: str) -> None:
    (line,) = said(tmp_path, text)
    assert line.startswith("x.yaml:1: ")
    assert line.endswith(f'. Did you mean "{guess}"?')


def test_a_misspelt_word_of_a_variable_is_answered_too(tmp_path: Path) -> None:
    (line,) = said(tmp_path, "", {"VECSIEVE_BACKEND": "chrome"})
    assert line.startswith("backend (VECSIEVE_BACKEND): wanted qdrant, ")
    assert line.endswith('saw "chrome". Did you mean "chroma"?')


def test_a_word_like_none_of_them_is_not_guessed(tmp_path: Path) -> None:
    (line,) = said(tmp_path, "backend: vespa")
    assert line.endswith('saw "vespa"')


@pytest.mark.parametrize("text", ["policy: {preset: meaning}", "preset: meaning"])
def test_a_preset_in_the_wrong_place_is_told_where_it_belongs(tmp_path: Path, text: str) -> None:
    (line,) = said(tmp_path, text)
    assert line.startswith("x.yaml:1: ")
    assert line.endswith('preset: presets belong in a rule: rules: [{collection: "*", preset: meaning}]')


def test_an_unknown_preset_in_the_wrong_place_is_answered_with_a_known_one(tmp_path: Path) -> None:
    (line,) = said(tmp_path, "policy: {preset: hunter2}")
    assert line.endswith(f"preset: {PresetName.__args__[0]}}}]")  # type: ignore[attr-defined]  # - a Literal's words


def test_a_rules_member_that_does_not_exist_is_answered_with_those_that_do(tmp_path: Path) -> None:
    assert said(tmp_path, "rules:\n  - match: docs\n    preset: meaning\n") == [
        "x.yaml:2: rules[0].match: a rule has name, backend, collection, preset and policy; there is no match"
    ]
    assert said(tmp_path, "rules:\n  - colection: docs\n") == [
        'x.yaml:2: unknown setting "rules[0].colection". Did you mean "collection"?'
    ]


def test_an_unknown_variable_is_named_with_a_guess(tmp_path: Path) -> None:
    assert said(tmp_path, "", {"VECSIEVE_WORKRES": "hunter2"}) == [
        "unknown variable VECSIEVE_WORKRES. Did you mean VECSIEVE_WORKERS?"
    ]


def test_a_contradiction_is_told_at_the_line_of_the_setting_that_is_to_change(tmp_path: Path) -> None:
    (line,) = said(tmp_path, "listen: 127.0.0.1:1\nadmin: 127.0.0.1:1\n")
    assert line.startswith("x.yaml:2: admin: wanted another port than listen")


def test_yaml_that_cannot_be_read_is_told_as_editors_tell_it(tmp_path: Path) -> None:
    assert said(tmp_path, "a: 1\nb: [") == [
        "x.yaml:2:5: wanted YAML; saw this: expected the node content, but found '<stream end>'"
    ]
