"""Starting the real server: what is said where it cannot be, and that nothing of it is left."""

from __future__ import annotations

import importlib.util
import sys
import tempfile
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from support.chroma.server import NEEDS_CHROMA
from vecsieve.proxy.demo import backends as module
from vecsieve.proxy.demo.backends import chroma_server
from vecsieve.proxy.demo.database import ChildFailedError, DatabaseMissingError


def test_without_the_package_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "find_spec", lambda _: None)
    with pytest.raises(DatabaseMissingError, match="pip install chromadb"), chroma_server():
        pass


def test_a_package_that_cannot_be_run_is_told_with_its_last_words(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "find_spec", importlib.util.find_spec)
    monkeypatch.setattr(module, "PACKAGE", "json")
    monkeypatch.setattr(module, "_PROGRAM", (sys.executable, "-c", "raise SystemExit('no such thing')"))
    with pytest.raises(ChildFailedError, match="no such thing"), chroma_server():
        pass


def test_a_server_that_never_answers_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PACKAGE", "json")
    silent = f"import time; print({module._BANNER!r} + ' http://localhost:1', flush=True); time.sleep(60)"
    monkeypatch.setattr(module, "_PROGRAM", (sys.executable, "-c", silent))
    monkeypatch.setattr(module, "_READY_SECONDS", 0.1)
    with pytest.raises(ChildFailedError, match="did not come up"), chroma_server():
        pass


@NEEDS_CHROMA
def test_it_answers_inside_the_block_and_is_gone_with_its_data_behind_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with chroma_server() as url:
        assert urllib.request.urlopen(f"{url}/api/v2/version").status == 200
        assert list(tmp_path.iterdir())
    with pytest.raises(urllib.error.URLError):
        urllib.request.urlopen(f"{url}/api/v2/version")
    assert not list(tmp_path.iterdir())
