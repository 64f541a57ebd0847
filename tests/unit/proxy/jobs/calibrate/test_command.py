"""The command: what is checked before anything is read, what is written last, how it ends."""

from __future__ import annotations

import io
import json
from dataclasses import replace
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from support.jobs.calibrations import calibration
from support.jobs.memory_source import MemorySource, families, points
from vecsieve.config.problems import SettingsError
from vecsieve.config.schema import Settings
from vecsieve.proxy.jobs.calibrate import command
from vecsieve.proxy.jobs.calibrate.command import Arguments, printable, report, run
from vecsieve.proxy.jobs.calibrate.survey import Findings
from vecsieve.proxy.jobs.source import SourceError
from vecsieve.proxy.runtime import files
from vecsieve.proxy.search.collections.profiles import decoded

ARGUMENTS = Arguments(url="http://127.0.0.1:1", collection="docs", requests_per_second=1000.0)


class Closable(MemorySource):
    """A source of the command's own making: it is closed when the command ends."""

    closed = False

    def close(self) -> None:
        self.closed = True


@pytest.fixture
def source(monkeypatch: pytest.MonkeyPatch) -> Closable:
    made = Closable(points(families(40, 3)))
    monkeypatch.setattr(command, "opened", lambda *_, **_named: made)
    return made


def test_a_run_prints_the_report_and_writes_a_profile(
    source: Closable, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "docs.json"
    assert run(replace(ARGUMENTS, out=out)) == 0
    assert decoded(out.read_bytes(), name="docs.json").collection == "docs"
    output = capsys.readouterr()
    assert "Proposed cut" in output.out
    assert output.err.strip() == ""
    assert source.closed


def test_without_out_nothing_is_written(source: Closable, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert run(ARGUMENTS) == 0
    assert list(tmp_path.iterdir()) == []


@pytest.mark.usefixtures("source")
def test_json_is_json_and_nothing_else(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(replace(ARGUMENTS, as_json=True)) == 0
    assert json.loads(capsys.readouterr().out)["profile"]["collection"] == "docs"


@pytest.mark.parametrize(
    ("name", "expected"), [("docs.yaml", "ends in .json"), ("nowhere/docs.json", "directory that exists")]
)
def test_where_nothing_could_be_written_nothing_is_read(
    source: Closable, tmp_path: Path, name: str, expected: str
) -> None:
    with pytest.raises(SettingsError, match=f"--out: wanted .*{expected}"):
        run(replace(ARGUMENTS, out=tmp_path / name))
    assert source.requests == 0


def test_a_source_that_fails_is_a_failure_with_its_word(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    class Failing(Closable):
        def neighbours(self, vectors: object, *, count: int) -> list[list[tuple[object, float]]]:  # type: ignore[override]  # - never returns
            raise SourceError("the database went away")

    monkeypatch.setattr(command, "opened", lambda *_, **_named: Failing(points(families(40, 3))))
    assert run(replace(ARGUMENTS, out=tmp_path / "docs.json")) == 1
    assert capsys.readouterr().err.strip().endswith("vecsieve calibrate: the database went away")
    assert list(tmp_path.iterdir()) == []


def test_an_interruption_leaves_no_file_and_says_so(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    class Interrupted(Closable):
        def neighbours(self, vectors: object, *, count: int) -> list[list[tuple[object, float]]]:  # type: ignore[override]  # - never returns
            raise KeyboardInterrupt

    monkeypatch.setattr(command, "opened", lambda *_, **_named: Interrupted(points(families(40, 3))))
    assert run(replace(ARGUMENTS, out=tmp_path / "docs.json")) == 130
    assert "no file was written" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.usefixtures("source")
def test_a_disk_that_is_full_is_told_and_the_old_profile_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    out = tmp_path / "docs.json"
    out.write_bytes(b"old")
    monkeypatch.setattr(files, "write_whole", full)
    with pytest.raises(SettingsError, match="no space left on device"):
        run(replace(ARGUMENTS, out=out))
    assert out.read_bytes() == b"old"


# The report: everything a person needs to decide, and nothing a payload could do to a terminal.

NEAR_CUT = 0.062  # noise that spreads a family's members around the cut


def printed(findings: Findings, written: Path | None = None, width: int = 120) -> str:
    out = io.StringIO()
    Console(file=out, width=width, highlight=False).print(report(findings, written=written))
    return out.getvalue()


def test_the_report_names_collection_sample_cut_and_density() -> None:
    output = printed(calibration(copies=3))
    assert "docs" in output
    assert "unnamed, 48 dimensions, Cosine" in output
    assert "120 of 120 points, all of them" in output
    assert "Proposed cut 0.1" in output
    assert "the proposed cut" in output
    assert "same vector" in output


def test_pairs_on_both_sides_of_the_cut_are_shown_with_their_texts() -> None:
    result = calibration(copies=6, noise=NEAR_CUT)
    output = printed(result)
    assert len(result.pairs) == 10
    assert output.count("merged") == 5
    assert output.count("kept apart") == 5
    for pair in result.pairs:
        assert f"{pair.distance:.4f}" in output
        assert all(text is not None and text in output for text in pair.texts)


def test_where_no_pair_is_near_the_cut_that_is_said() -> None:
    assert "No two points of any pool are near the cut" in printed(calibration(copies=1))


def test_what_becomes_of_a_page_is_told_for_each_choice() -> None:
    output = printed(calibration(copies=3))
    assert "preset vectors, by each pool's own distances" in output
    assert "preset vectors, at the typical distance" in output
    assert "the cut fixed at 0.1" in output


def test_a_missing_text_is_told_with_the_option_that_helps() -> None:
    result = calibration(copies=6, noise=NEAR_CUT, payloads=[{}] * 240)
    assert "--text-field" in printed(result, width=200)


@pytest.mark.parametrize("collection", ["docs", "it's", "a: b", "#1", "x" * 60])
def test_the_settings_to_paste_are_valid_and_fix_the_cut(collection: str) -> None:
    output = printed(calibration(copies=3, collection=collection))
    block = output[output.index("rules:") :]
    settings = Settings.model_validate(yaml.safe_load(block) | {"rules": tuple(yaml.safe_load(block)["rules"])})
    assert settings.rules[0].collection == collection
    assert "fixed" in str(settings.rules[0].policy)


def test_a_written_profile_is_told_with_the_settings_that_load_it(tmp_path: Path) -> None:
    output = printed(calibration(copies=3), tmp_path / "docs.json", width=300)
    assert f"directory: {tmp_path}" in output
    assert "No profile was written" not in output


@given(st.text(max_size=200))
def test_whatever_a_payload_holds_no_control_character_is_printed(text: str) -> None:
    """Texts keep their length and lose what a terminal would obey."""
    cleaned = printable(text)
    assert len(cleaned) == len(text)
    assert cleaned.isprintable()


def test_markup_in_texts_and_names_is_shown_as_it_is() -> None:
    payloads = [{"text": f"[red]text[/red] {row} \x1b[31m"} for row in range(240)]
    output = printed(calibration(copies=6, noise=NEAR_CUT, payloads=payloads, collection="[bold]x"))
    assert "[red]text[/red]" in output
    assert "[bold]x" in output
    assert "\x1b" not in output


def test_the_report_fits_its_width() -> None:
    assert max(len(line) for line in printed(calibration(copies=6, noise=NEAR_CUT), width=100).splitlines()) <= 100
