"""The run finds what it is there to find."""

from __future__ import annotations

from search_clients.run import faults

DIRECT = {"search": ["a", "a", "b"], "count": ["96"]}
GOOD = {"direct": DIRECT, "off": DIRECT, "shadow": DIRECT, "on": {"search": ["a", "b", "c"], "count": ["96"]}}


def test_an_honest_proxy_has_no_faults() -> None:
    assert faults(GOOD) == []


def test_every_other_is_found_out() -> None:
    assert faults({**GOOD, "off": {**DIRECT, "count": ["95"]}}) == ["off: count"]
    assert faults({**GOOD, "shadow": {**DIRECT, "search": ["a", "b", "c"]}}) == ["shadow: search"]
    assert faults({**GOOD, "on": DIRECT}) == ["on: search has 2 distinct results of 3, directly 3"]
    assert faults({**GOOD, "on": {"search": ["a", "b"], "count": ["96"]}}) == [
        "on: search has 2 distinct results of 2, directly 3"
    ]
    assert faults({**GOOD, "on": {**GOOD["on"], "count": ["48"]}}) == ["on: count differs"]
