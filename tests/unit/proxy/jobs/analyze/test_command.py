"""The command: what it refuses before it reads, what it writes, how it ends."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from support.jobs.analyses import planted
from support.jobs.searched_source import SearchedSource
from vecsieve.config.problems import SettingsError
from vecsieve.proxy.jobs.analyze import command
from vecsieve.proxy.jobs.analyze.command import Arguments, run
from vecsieve.proxy.jobs.source import Point, SourceError

ARGUMENTS = Arguments(url="http://localhost:1", collection="planted", requests_per_second=1000.0)


class Closing(SearchedSource):
    def close(self) -> None:
        pass


@pytest.fixture
def source(monkeypatch: pytest.MonkeyPatch) -> Closing:
    made = Closing(planted())
    monkeypatch.setattr(command, "opened", lambda *_args, **_named: made)
    return made


@contextmanager
def refused(*words: str) -> Iterator[None]:
    with pytest.raises(SettingsError) as caught:
        yield
    for word in words:
        assert word in str(caught.value)


@pytest.mark.usefixtures("source")
def test_the_files_are_written_and_nothing_else(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    json_file, html = tmp_path / "r.json", tmp_path / "r.html"
    assert run(replace(ARGUMENTS, json=str(json_file), html=html)) == 0
    assert json.loads(json_file.read_bytes())["about"]["points"] == 50
    assert html.read_text(encoding="utf-8").startswith("<!doctype html>")
    assert sorted(tmp_path.iterdir()) == [html, json_file]
    output = capsys.readouterr().out
    assert "50 points" in output
    assert f"written: {html}" in output.replace("\n", "")


@pytest.mark.usefixtures("source")
def test_json_to_stdout_is_all_that_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(replace(ARGUMENTS, json="-")) == 0
    assert json.loads(capsys.readouterr().out)["repeats"]["points"] == 24


@pytest.mark.usefixtures("source")
def test_the_points_that_could_go_are_listed_with_their_survivors(tmp_path: Path) -> None:
    ids = tmp_path / "ids.jsonl"
    assert run(replace(ARGUMENTS, ids=ids)) == 0
    lines = [json.loads(line) for line in ids.read_bytes().splitlines()]
    assert len(lines) == 24
    assert lines[0] == {"id": 0, "survivor": 1, "evidence": "contained"}


def test_a_place_that_cannot_be_written_is_told_of_before_anything_is_read(tmp_path: Path, source: Closing) -> None:
    for place in (tmp_path / "nowhere" / "file", tmp_path):
        for option, arguments in (
            ("--json", replace(ARGUMENTS, json=str(place))),
            ("--html", replace(ARGUMENTS, html=place)),
            ("--ids", replace(ARGUMENTS, ids=place)),
        ):
            with refused(option, "a file in a directory that exists"):
                run(arguments)
    assert source.requests == 0


def test_fields_are_looked_at_where_they_are_named(source: Closing, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(replace(ARGUMENTS, text_field="metadata.source", source_field="text", json="-")) == 0
    about = json.loads(capsys.readouterr().out)["about"]
    assert (about["text_fields"], about["source_fields"]) == (["metadata.source"], ["text"])
    assert about["with_text"] == 36
    assert source.calls


def test_an_error_of_the_database_says_how_to_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], source: Closing
) -> None:
    def gone(*_: object) -> list[Point]:
        raise SourceError("http://localhost:1 does not answer")

    monkeypatch.setattr(source, "read", gone)
    assert run(ARGUMENTS) == 1
    assert capsys.readouterr().err == "vecsieve analyze: http://localhost:1 does not answer\n"
    work = tmp_path / "work"
    assert run(replace(ARGUMENTS, work=work)) == 1
    assert f"saved in {work}; run the same command again" in capsys.readouterr().err
    monkeypatch.undo()
    monkeypatch.setattr(command, "opened", lambda *_args, **_named: source)
    assert run(replace(ARGUMENTS, work=work, text_field="body")) == 1
    assert "begun for another job" in capsys.readouterr().err
    assert run(replace(ARGUMENTS, work=work)) == 0
    assert work.exists()


def test_a_folder_for_a_sample_is_refused(tmp_path: Path, source: Closing) -> None:
    with refused("--work", "--limit beside it"):
        run(replace(ARGUMENTS, work=tmp_path, limit=10))
    assert source.requests == 0


def test_an_interruption_says_how_to_go_on_and_writes_no_report(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], source: Closing
) -> None:
    def interrupted(*_: object) -> list[Point]:
        raise KeyboardInterrupt

    monkeypatch.setattr(source, "read", interrupted)
    assert run(replace(ARGUMENTS, html=tmp_path / "r.html")) == 130
    assert "--work FOLDER" in capsys.readouterr().err
    work = tmp_path / "work"
    assert run(replace(ARGUMENTS, html=tmp_path / "r.html", work=work)) == 130
    assert "run the same command again" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == [work]
