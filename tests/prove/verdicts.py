"""Whether what came through the proxy keeps the promise, beside what a direct call shows."""

from __future__ import annotations

import json
from collections.abc import Callable

from prove.faults import Seen

Judge = Callable[[Seen, Seen], bool]


def is_direct(direct: Seen, through: Seen) -> bool:
    """The fault is not the client's: it sees what a direct call shows, to the byte; a field may say why it was left alone."""
    return through.unexplained() == direct


def is_direct_but_for_report(direct: Seen, through: Seen) -> bool:
    """The same, but that the page was looked at, which a field of ours may say."""
    return through.plainly() == direct


def is_never_whole(_: Seen, through: Seen) -> bool:
    """What is no answer is a 502 of ours or a broken connection, never an answer."""
    return through.kind == "broken" or through in (Seen("ours", b"502"), Seen("ours", b"504"))


def is_as_broken(direct: Seen, through: Seen) -> bool:
    """A whole answer comes through whole, a broken one does not look whole, and only silence is silence."""
    if direct.kind == "whole":
        return through.unexplained() == direct
    return is_never_whole(direct, through) or (direct.kind == "silence" == through.kind)


def is_fair(direct: Seen, through: Seen) -> bool:
    """An unusual answer: its line and fields as they were, as many results as directly, the first of them the same."""
    if through.kind != "whole" or through.line != direct.line or _fields(through) != _fields(direct):
        return False
    results, expected = _results(through.body), _results(direct.body)
    return len(results) == len(expected) and results[:1] == expected[:1]


def _fields(one: Seen) -> list[tuple[bytes, bytes]]:
    return [pair for pair in one.plainly().headers if pair[0].lower() != b"content-length"]


def _results(body: bytes) -> list[object]:
    """What is no UTF-8, and an integer that is too long, count as any other: they are the database's."""
    try:
        points: list[object] = json.loads(body.decode("latin-1"), parse_int=str)["result"]["points"]
    except ValueError:
        return [None] * 1_000  # more than were asked for: nobody's page
    return points
