"""`vecsieve evaluate`: what it prints and writes, and how it ends."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from support.jobs.labelled_folders import BY_VECTORS, labelled_folder
from vecsieve.config.problems import SettingsError
from vecsieve.proxy.jobs.evaluate import command
from vecsieve.proxy.jobs.evaluate.command import Arguments, run
from vecsieve.proxy.runtime import files


@pytest.fixture
def arguments(tmp_path: Path) -> Arguments:
    data = tmp_path / "data"
    labelled_folder(data / "first")
    labelled_folder(data / "second")
    return Arguments(
        data=data,
        policies=[f"own={BY_VECTORS}"],
        top_k=3,
        draws=50,
    )


def refusal(arguments: Arguments) -> str:
    with pytest.raises(SettingsError) as caught:
        run(arguments)
    return str(caught.value)


def test_the_tables_are_printed(arguments: Arguments, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(arguments) == 0
    output = capsys.readouterr()
    assert "2 sets whose repeats are copies, 4 queries, top 3" in output.out
    assert (
        output.out.count("\nfirst ") == output.out.count("\nsecond ") == 3
    )  # its figures, and the needs met by both policies
    assert output.err == ""  # no terminal, no progress bar


def test_without_a_policy_the_usual_ones_are_compared(arguments: Arguments, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(replace(arguments, policies=None, draws=0)) == 0
    out = capsys.readouterr().out
    assert all(f"\n{name}" in out for name in ("default", "exact", "meaning", "vectors", "classical"))


def test_a_set_and_a_share_of_its_queries_can_be_chosen(
    arguments: Arguments, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(replace(arguments, sets=["second"], every=2)) == 0
    out = capsys.readouterr().out
    assert "1 set whose repeats are copies, 1 query, top 3" in out
    assert "first" not in out


def test_the_json_says_the_same_and_nothing_is_left_beside_it(arguments: Arguments, tmp_path: Path) -> None:
    target = tmp_path / "out.json"
    assert run(replace(arguments, json=target)) == 0
    headline = json.loads(target.read_bytes())["results"]["own"]["headlines"]["copies"]
    assert headline["reduction"]["value"] == 1.0
    assert headline["retention_worst"]["estimate"]["value"] == 1.0
    assert headline["gain_mean"]["value"] == 0.25
    assert sorted(path.name for path in tmp_path.iterdir()) == ["data", "out.json"]


def test_two_runs_say_the_same_but_for_the_times(arguments: Arguments, tmp_path: Path) -> None:
    read = []
    for name in ("a.json", "b.json"):
        assert run(replace(arguments, json=tmp_path / name)) == 0
        content = json.loads((tmp_path / name).read_bytes())
        for summary in content["results"].values():
            for timed in (*summary["headlines"].values(), *summary["sets"]):
                del timed["added_ms"]
        read.append(content)
    assert read[0] == read[1]


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (
            {"data": Path("nowhere")},
            "nowhere: wanted a folder of labelled sets, each with queries.jsonl; saw no such folder",
        ),
        ({"pool": 3}, "--pool: wanted more than --top-k, which is 3; saw 3"),
        (
            {"json": Path("nowhere/out.json")},
            "--json: wanted a file in a directory that exists; saw 'nowhere/out.json'",
        ),
        ({"sets": ("third",)}, "--set: wanted one of first, second; saw 'third'"),
        ({"policies": ("own=nonsense",)}, "--policy own: wanted a preset"),
    ],
)
def test_what_cannot_be_used_is_told_before_anything_is_done(
    arguments: Arguments, capsys: pytest.CaptureFixture[str], change: dict[str, object], expected: str
) -> None:
    assert expected in refusal(replace(arguments, **change))  # type: ignore[arg-type]  # - each case changes a member of its own kind
    assert capsys.readouterr().out == ""


def test_a_file_that_cannot_be_written_is_told(
    arguments: Arguments, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_path: Path, _content: bytes) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(files, "write_whole", full)
    assert refusal(replace(arguments, json=tmp_path / "out.json")) == (
        f"--json: wanted to write {tmp_path / 'out.json'}; saw no space left on device"
    )


def test_ctrl_c_ends_with_130_and_nothing_written(
    arguments: Arguments, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(command, "evaluated", interrupted)
    assert run(replace(arguments, json=tmp_path / "out.json")) == 130
    assert capsys.readouterr().err == "\nstopped; nothing was written\n"
    assert not (tmp_path / "out.json").exists()
