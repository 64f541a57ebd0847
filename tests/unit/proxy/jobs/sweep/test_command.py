"""The command without `--work`: the usual folder continues an interrupted run, and never stands in the way of the next one."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from support.jobs.memory_source import MemorySource, points
from vecsieve.config.problems import SettingsError
from vecsieve.proxy.jobs.pairs.store import Store
from vecsieve.proxy.jobs.source import Shape
from vecsieve.proxy.jobs.sweep import command
from vecsieve.proxy.jobs.sweep.command import Arguments, run


def collection(count: int) -> MemorySource:
    """Copies of one text, for two tenants by turns."""
    vectors = np.ones((count, 8), np.float32)
    return MemorySource(points(vectors, [{"text": "Close the valve.", "tenant": place % 2} for place in range(count)]))


class Shell:
    """Runs the command on a collection, with a cache of its own."""

    def __init__(self, cache: Path, patch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
        self.source = collection(6)
        self._capsys = capsys
        patch.setenv("XDG_CACHE_HOME", str(cache))
        patch.setattr(command, "opened", self._opened)

    def _opened(self, _options: Arguments, _environment: Mapping[str, str]) -> MemorySource:
        return self.source

    def says(self, **options: Any) -> str:
        assert run(Arguments(url="http://127.0.0.1:6333", collection="docs", **options)) == 0
        return " ".join(self._capsys.readouterr().out.split())


@pytest.fixture
def shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Shell:
    return Shell(tmp_path, monkeypatch, capsys)


def test_other_options_need_no_other_folder(shell: Shell) -> None:
    """The first report says which fields differ, and the next command names them."""
    assert "4 could be removed" in shell.says()
    assert "5 could be removed" in shell.says(ignore=["tenant"])
    assert "4 could be removed" in shell.says(tenant_field=["tenant"])


def test_a_collection_that_changed_is_read_anew(shell: Shell) -> None:
    assert "docs: 6 points" in shell.says(ignore_metadata=True)
    shell.source = collection(8)
    assert "docs: 8 points" in shell.says(ignore_metadata=True)


def test_a_report_after_a_deletion_is_that_of_the_collection_now(
    shell: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As after `undo`, which brings back the points."""

    def deleted(_arguments: Arguments, _shape: Shape, store: Store, _journal: Path, _kind: object) -> None:
        store.progressed({"deleted": 5, "gone": 0, "changed": 0, "alone": 0})

    with monkeypatch.context() as instead:
        instead.setattr(command, "_apply", deleted)
        output = shell.says(ignore_metadata=True, apply=True, journal=tmp_path / "docs.db")
        assert "5 were deleted" in output
    assert "5 could be removed" in (output := shell.says(ignore_metadata=True))
    assert "Nothing was deleted." in output


@pytest.mark.parametrize("is_stopped", [False, True])
def test_the_next_deletion_continues_one_that_was_stopped_and_begins_anew_after_one_that_ended(
    shell: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, is_stopped: bool
) -> None:
    """As every night: the second night said again what the first one had deleted, and deleted nothing."""
    earlier: list[Mapping[str, int] | None] = []

    def deleted(_arguments: Arguments, _shape: Shape, store: Store, _journal: Path, _kind: object) -> None:
        earlier.append(store.deleted)
        count = 2 if is_stopped and len(earlier) == 1 else store.count()
        store.progressed({"deleted": count, "gone": 0, "changed": 0, "alone": 0})

    monkeypatch.setattr(command, "_apply", deleted)
    nightly = {"ignore_metadata": True, "apply": True, "journal": tmp_path / "docs.db"}
    assert f"{2 if is_stopped else 5} were deleted" in shell.says(**nightly)
    shell.source = collection(8)
    content = shell.says(**nightly)
    if is_stopped:
        assert (earlier[0], sum((earlier[1] or {}).values())) == (None, 2)
        assert "docs: 6 points" in content
        assert "5 were deleted" in content
    else:
        assert earlier == [None, None]
        assert "docs: 8 points" in content
        assert "7 were deleted" in content


@pytest.mark.parametrize("options", [{"apply": True}, {"journal": Path("docs.db")}])
def test_deleting_needs_both_words(options: dict[str, Any]) -> None:
    with pytest.raises(SettingsError, match="both --apply and --journal FILE"):
        run(Arguments(url="http://127.0.0.1:6333", collection="docs", **options))
