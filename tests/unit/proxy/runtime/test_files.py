"""Files are there whole or not at all; credentials come from variables; progress bars are for terminals."""

from __future__ import annotations

import io
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from support.process.clocks import ManualClock
from vecsieve.config.problems import SettingsError
from vecsieve.proxy.runtime.files import Watched, key_from, progress_bar, write_whole

WRITER = """
import itertools, pathlib, sys
from vecsieve.proxy.runtime.files import write_whole
path = pathlib.Path(sys.argv[1])
try:
    for letter in itertools.cycle((b"a", b"b")):
        write_whole(path, letter * 3_000_000)
except KeyboardInterrupt:
    sys.exit(130)
"""


@given(st.binary(max_size=200))
def test_what_is_written_can_be_read(tmp_path_factory: pytest.TempPathFactory, content: bytes) -> None:
    """The file holds exactly the bytes, and is alone in its directory."""
    path = tmp_path_factory.mktemp("whole") / "profile.json"
    write_whole(path, content)
    assert path.read_bytes() == content
    assert list(path.parent.iterdir()) == [path]


def test_what_was_there_is_replaced(tmp_path: Path) -> None:
    path = tmp_path / "profile.json"
    path.write_bytes(b"old and longer")
    write_whole(path, b"new")
    assert path.read_bytes() == b"new"


@pytest.mark.parametrize("step", ["fsync", "replace"])
@pytest.mark.parametrize("error", [KeyboardInterrupt, OSError])
def test_an_interruption_leaves_the_old_file_and_nothing_beside_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str, error: type[BaseException]
) -> None:
    def fails(*_: object) -> None:
        raise error

    path = tmp_path / "profile.json"
    path.write_bytes(b"old")
    if step == "fsync":
        monkeypatch.setattr(os, "fsync", fails)
    else:
        monkeypatch.setattr(Path, "replace", fails)
    with pytest.raises(error):
        write_whole(path, b"new")
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_permissions_stay_or_are_those_of_any_new_file(tmp_path: Path) -> None:
    path, plain = tmp_path / "profile.json", tmp_path / "plain"
    plain.write_bytes(b"")
    write_whole(path, b"")
    assert path.stat().st_mode == plain.stat().st_mode
    path.chmod(0o640)
    write_whole(path, b"new")
    assert path.stat().st_mode & 0o777 == 0o640


def test_a_directory_that_is_not_there_is_an_error_of_the_system(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        write_whole(tmp_path / "nowhere" / "profile.json", b"")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_a_signal_in_the_middle_of_writing_never_leaves_half_a_file(tmp_path: Path, number: signal.Signals) -> None:
    path = tmp_path / "profile.json"
    for moment in range(4):
        with subprocess.Popen([sys.executable, "-c", WRITER, str(path)]) as process:
            deadline = time.monotonic() + 30
            while not path.exists() and time.monotonic() < deadline:
                time.sleep(0.002)
            time.sleep(0.007 * moment)
            process.send_signal(number)
            try:
                process.wait(30)
            finally:
                process.kill()  # one that does not end writes for ever
        content = path.read_bytes()
        assert content in {b"a" * 3_000_000, b"b" * 3_000_000}
        assert number is signal.SIGKILL or list(tmp_path.iterdir()) == [path]
        path.unlink()
    assert not list(tmp_path.glob("*.json"))


# Keys come from named variables; a variable that was named must be there.


def test_without_a_name_the_usual_variable_is_read() -> None:
    assert key_from({"QDRANT_API_KEY": "k"}, None, usual="QDRANT_API_KEY") == "k"
    assert key_from({}, None, usual="QDRANT_API_KEY") is None
    assert key_from({"QDRANT_API_KEY": ""}, None, usual="QDRANT_API_KEY") is None


def test_a_named_variable_is_read_alone() -> None:
    assert key_from({"QDRANT_API_KEY": "k", "READER": "r"}, "READER", usual="QDRANT_API_KEY") == "r"


@pytest.mark.parametrize("environment", [{"QDRANT_API_KEY": "sesame"}, {"QDRANT_API_KEY": "sesame", "READER": ""}])
def test_a_named_variable_without_a_key_is_told_of(environment: dict[str, str]) -> None:
    with pytest.raises(
        SettingsError, match="--api-key-env: wanted a variable that holds a key; saw 'READER'"
    ) as caught:
        key_from(environment, "READER", usual="QDRANT_API_KEY")
    assert "sesame" not in str(caught.value)


# Progress shows on a terminal and nowhere else.


def console(*, terminal: bool) -> tuple[Console, io.StringIO]:
    out = io.StringIO()
    return Console(file=out, force_terminal=terminal, width=100), out


def test_a_terminal_sees_how_far_it_is() -> None:
    progress, out = console(terminal=True)
    with progress_bar("reading", 40, console=progress) as advance:
        advance(10)
        advance(30)
    assert "reading" in out.getvalue()
    assert "40/40" in out.getvalue()


@pytest.mark.parametrize("total", [40, None])
def test_a_file_or_a_pipe_sees_nothing(total: int | None) -> None:
    progress, out = console(terminal=False)
    with progress_bar("reading", total, console=progress) as advance:
        advance(10)
    assert out.getvalue().strip() == ""


def test_an_interruption_passes_through_and_gives_the_cursor_back() -> None:
    progress, out = console(terminal=True)
    with pytest.raises(KeyboardInterrupt), progress_bar("reading", 40, console=progress):
        raise KeyboardInterrupt
    assert out.getvalue().rfind("\x1b[?25h") > out.getvalue().rfind("\x1b[?25l")


def test_a_watched_file_has_changed_once_it_rests(tmp_path: Path) -> None:
    path, clock = tmp_path / "settings.yaml", ManualClock()
    path.write_text("a")
    watched = Watched(path, clock)

    def looks(seconds: int) -> list[bool]:
        checks = []
        for _ in range(4 * seconds):
            clock.now += 0.25
            checks.append(watched.has_changed())
        return [has_changed for has_changed in checks if has_changed]

    assert looks(3) == []
    path.write_text("ab")
    clock.now += 1.0
    assert not watched.has_changed(), "it may be half written"
    path.write_text("abc")
    clock.now += 1.0
    assert not watched.has_changed()
    assert looks(1) == [True]
    assert looks(3) == []
    path.unlink()
    assert looks(3) == [], "a file that is gone has no settings"
    (tmp_path / "fresh").write_text("abcd")
    (tmp_path / "fresh").replace(path)
    assert looks(3) == [True]


def test_without_a_file_nothing_changes(tmp_path: Path) -> None:
    clock = ManualClock()
    for path in (None, tmp_path / "absent", Path("a\0b")):
        watched = Watched(path, clock)
        clock.now += 10
        assert not watched.has_changed()
