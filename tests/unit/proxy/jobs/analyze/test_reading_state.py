"""A state comes back as it was, or not at all and with a word why."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.memory_source import families, points
from support.searched_source import SearchedSource, numbered
from vecsieve.proxy.jobs.analyze import reading as state
from vecsieve.proxy.jobs.analyze.reading import (
    FieldNames,
    Fingerprint,
    Reading,
    StateError,
    nothing_yet,
    read_page,
    restore,
    save,
    spread,
)

FIELDS = FieldNames(text=("text",), source=("source",))
OF: Fingerprint = {"collection": "c", "cut": 0.08, "points": 150, "limit": None}


def begun() -> Reading:
    return Reading(ids=numbered(150), gathered=nothing_yet(150, spread(150, None)))


def half_done() -> Reading:
    reading = begun()
    payloads = [{"text": f"t{place % 70}", "source": f"s{place % 3}"} for place in range(150)]
    assert read_page(reading, SearchedSource(points(families(50, 3), payloads)), FIELDS) == 100
    return reading


def same(one: Reading, other: Reading) -> bool:
    arrays = [each.name for each in fields(one.gathered) if each.name != "source_names"]
    return (
        one.done == other.done
        and one.names == other.names
        and one.gathered.source_names == other.gathered.source_names
        and all(np.array_equal(getattr(one.gathered, name), getattr(other.gathered, name)) for name in arrays)
    )


def test_what_was_saved_comes_back(tmp_path: Path) -> None:
    path, held, fresh = tmp_path / "state", half_done(), begun()
    save(path, OF, held)
    assert restore(path, OF, fresh)
    assert same(held, fresh)
    assert list(tmp_path.iterdir()) == [path]


def test_without_a_file_there_is_nothing_to_restore(tmp_path: Path) -> None:
    fresh = begun()
    assert not restore(tmp_path / "state", OF, fresh)
    assert same(fresh, begun())


@pytest.mark.parametrize(
    ("name", "value"), [("cut", 0.1), ("cut", None), ("collection", "d"), ("points", 151), ("limit", 5)]
)
def test_another_analysis_does_not_go_on_from_it(tmp_path: Path, name: str, value: str | float | None) -> None:
    path, fresh = tmp_path / "state", begun()
    save(path, OF, half_done())
    with pytest.raises(StateError, match=rf"another analysis(.|\n)*{name}: the file has {OF[name]}, now it is {value}"):
        restore(path, {**OF, name: value}, fresh)
    assert same(fresh, begun())


@given(st.data())
def test_a_damaged_file_is_told_of_and_changes_nothing(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    """Whatever is cut off or changed: a StateError, and the reading as it was."""
    path, fresh = tmp_path_factory.mktemp("state") / "state", begun()
    save(path, OF, half_done())
    content = bytearray(path.read_bytes())
    if data.draw(st.booleans()):
        del content[data.draw(st.integers(0, len(content) - 1)) :]
    else:
        content[data.draw(st.integers(0, len(content) - 1))] ^= data.draw(st.integers(1, 255))
    path.write_bytes(content)
    with pytest.raises(StateError, match="remove it, or name another file"):
        restore(path, OF, fresh)
    assert same(fresh, begun())


@pytest.mark.parametrize("content", [b"", b"{}", b"PK\x05\x06" + bytes(18), b"\x80\x04]."])
def test_a_file_of_another_kind_is_never_taken_for_one(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "state"
    path.write_bytes(content)
    with pytest.raises(StateError, match="no state of this command"):
        restore(path, OF, begun())
    assert path.read_bytes() == content


def test_a_state_of_another_version_is_told_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "state"
    monkeypatch.setattr(state, "FORMAT", 0)
    save(path, OF, half_done())
    monkeypatch.undo()
    with pytest.raises(StateError, match="format: the file has 0, now it is 1"):
        restore(path, OF, begun())


def test_a_directory_in_its_place_is_told_of(tmp_path: Path) -> None:
    with pytest.raises(StateError, match=r"--state .*: Is a directory"):
        restore(tmp_path, OF, begun())


def test_a_directory_that_is_not_there_is_told_of(tmp_path: Path) -> None:
    with pytest.raises(StateError, match=r"--state .*No such file"):
        save(tmp_path / "nowhere" / "state", OF, half_done())
