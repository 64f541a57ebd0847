"""The write gate's run under kills, small: of one database at each change, of all at length."""

from __future__ import annotations

import pytest

from prove import killed_gate
from prove.killed_gate import prove

QUICK = ("weaviate", "merge", "keep-newest")


@pytest.mark.parametrize(
    ("backend", "mode", "merge"),
    [pytest.param(*item, marks=() if item == QUICK else pytest.mark.deep) for item in killed_gate.chosen([])],
)
def test_what_was_acknowledged_is_stored_or_in_the_journal_and_undo_stores_it_again(
    backend: str, mode: str, merge: str
) -> None:
    together = 1 if mode == "reject" else 3
    assert prove(120, backend, mode, merge, together=together, between=8)
