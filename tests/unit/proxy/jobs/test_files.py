"""A file is there whole or not at all, whatever happens while it is written."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vecsieve.proxy.jobs.files import write_whole

WRITER = """
import itertools, pathlib, sys
from vecsieve.proxy.jobs.files import write_whole
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
