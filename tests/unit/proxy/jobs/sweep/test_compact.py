"""Survivors take what they lack, keep what they have, and do so once, whenever a run is ended."""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vecsieve.config.problems import SettingsError
from vecsieve.proxy.jobs.pairs.store import Removal
from vecsieve.proxy.jobs.source import Whole, key_of
from vecsieve.proxy.jobs.sweep.compact import Arguments, United, run, with_what_it_lacks
from vecsieve.proxy.writes.book import Book
from vecsieve.proxy.writes.rows import Kind, LeftOut, State

VALUES = st.one_of(
    st.none(), st.booleans(), st.integers(-3, 3), st.text("ab", max_size=2), st.lists(st.integers(0, 3), max_size=3)
)
PAYLOADS = st.dictionaries(st.sampled_from(["a", "b", "c"]), VALUES)


@pytest.mark.parametrize(
    ("payload", "other", "expected"),
    [
        ({"tags": ["x", "y"]}, {"tags": ["z", "y"]}, {"tags": ["x", "y", "z"]}),
        ({"seen": 2}, {"seen": 7.5}, {"seen": 7.5}),
        ({"seen": 8}, {"seen": 7.5}, {"seen": 8}),
        ({"text": "short", "url": "u"}, {"text": "much longer", "url": "v"}, {"text": "short", "url": "u"}),
        ({"text": "t"}, {"lang": "de", "meta": {"k": 1}}, {"text": "t", "lang": "de", "meta": {"k": 1}}),
        ({"seen": 1, "tags": ["x"]}, {"seen": "often", "tags": "x"}, {"seen": 1, "tags": ["x"]}),
        ({"done": False, "gap": None}, {"done": True, "gap": 1}, {"done": False, "gap": None}),
    ],
)
def test_a_payload_takes_what_it_lacks(payload: dict[str, object], other: dict[str, object], expected: object) -> None:
    assert with_what_it_lacks(payload, other) == expected


@given(PAYLOADS, PAYLOADS, PAYLOADS)
def test_doing_it_twice_changes_nothing_more(
    payload: dict[str, object], one: dict[str, object], other: dict[str, object]
) -> None:
    """Invariant: uniting is idempotent over a family, loses no member, and keeps own values that are neither arrays nor numbers."""
    once = with_what_it_lacks(with_what_it_lacks(payload, one), other)
    assert with_what_it_lacks(with_what_it_lacks(once, one), other) == once
    assert once.keys() == payload.keys() | one.keys() | other.keys()
    assert all(once[name] == value for name, value in payload.items() if isinstance(value, str | bool | None))


def whole(number: int, payload: object, mark: int = 1) -> Whole:
    body = json.dumps({"id": number, "payload": payload, "vector": [0.5]}, separators=(",", ":")).encode()
    return Whole(id=number, key=key_of(number), partition=b"", body=body, mark=mark)


def removed(number: int) -> Removal:
    return Removal(id=number, survivor=1, evidence="equal", similarity=None, mark=1, survivor_mark=1)


def changes(by: United, survivor: Whole, *members: Whole) -> Sequence[LeftOut]:
    points = {point.id: point for point in (survivor, *members)}
    return by.changes([(removed(int(member.key)), member) for member in members], points)


def test_a_survivor_that_lacks_nothing_is_not_stored_anew(tmp_path: Path) -> None:
    with closing(Book(tmp_path / "j.db")) as book:
        assert not changes(United(book, "c"), whole(1, {"tags": ["x"]}), whole(2, {"tags": ["x"]}), whole(3, None))


def test_a_survivor_is_known_by_what_was_compared_or_by_what_was_made_of_it(tmp_path: Path) -> None:
    with closing(Book(tmp_path / "j.db")) as book:
        by, before = United(book, "c"), whole(1, {"tags": ["x"]})
        (row,) = changes(by, before, whole(2, {"tags": ["y"]}), whole(3, {"lang": "de"}))
        assert (row.kind, row.id, row.point) == (Kind.CHANGED, b"1", before.body)
        assert row.became == whole(1, {"tags": ["x", "y"], "lang": "de"}).body
        made = whole(1, {"lang": "de", "tags": ["x", "y"]}, mark=2)
        assert by.is_as_compared(before, 1)
        assert not by.is_as_compared(made, 1)
        book.enter([row], State.DONE, at=1.0)
        assert by.is_as_compared(made, 1)
        assert not by.is_as_compared(whole(1, {"tags": ["x", "y"]}, mark=2), 1)


def test_other_databases_are_refused(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="--backend"):
        run(Arguments(url="http://127.0.0.1:1", collection="c", backend="chroma", work=tmp_path))
