"""The judge of faults sees each difference from the direct answer."""

from __future__ import annotations

from dataclasses import replace

from prove.faults import REPORT, Seen, is_same


def test_a_difference_from_the_direct_answer_is_told() -> None:
    line, kind = b"HTTP/1.1 200 OK", ((b"A", b"1"), (b"B", b"2"))
    whole, better = Seen("whole", b"a", line, kind), Seen("whole", b"b", line, (*kind, (REPORT, b"pool=8")))
    assert is_same(whole, whole, better)
    assert is_same(whole, replace(better, headers=(*kind, (REPORT, b"pool=9"))), better)
    assert not is_same(whole, replace(whole, body=b"half"), better)
    assert not is_same(whole, replace(whole, line=b"HTTP/1.1 200 Fine"), better)
    assert not is_same(whole, replace(whole, headers=kind[::-1]), better)
    assert not is_same(whole, replace(whole, headers=(*kind, (REPORT, b"pool=8"))), better)
    assert not is_same(whole, replace(better, headers=kind[:1]), better)
    assert not is_same(whole, Seen("ours", b"502"), better)
    assert not is_same(Seen("broken"), Seen("whole", b"half"), better)
    assert not is_same(Seen("broken"), Seen("silence"), better)
