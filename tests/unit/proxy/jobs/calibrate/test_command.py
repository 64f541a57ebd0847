"""The command: what is checked before anything is read, what is written last, how it ends."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from support.jobs.memory_source import MemorySource, families, points
from vecsieve.config.problems import SettingsError
from vecsieve.proxy.jobs.calibrate import command
from vecsieve.proxy.jobs.calibrate.command import Arguments, run
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
    ("name", "wanted"), [("docs.yaml", "ends in .json"), ("nowhere/docs.json", "directory that exists")]
)
def test_where_nothing_could_be_written_nothing_is_read(
    source: Closable, tmp_path: Path, name: str, wanted: str
) -> None:
    with pytest.raises(SettingsError, match=f"--out: wanted .*{wanted}"):
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
