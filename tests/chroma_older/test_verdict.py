"""The run finds what it is there to find."""

from __future__ import annotations

from typing import Any

from chroma_older.run import faults

PAGE = [f"f{base}-0" for base in range(8)]
CLEAN: dict[str, Any] = {"ids": [PAGE, PAGE], "documents": None}
COPIED: dict[str, Any] = {"ids": [["f0-0", "f0-1", *PAGE[1:7]]] * 2, "documents": [["x"] * 8] * 2}
DIRECT = {"clean all": CLEAN, "copied all": COPIED}
GOOD = {**DIRECT, "copied all": {**COPIED, "ids": [PAGE, PAGE]}}


def test_an_honest_proxy_has_no_faults() -> None:
    assert faults(DIRECT, DIRECT, GOOD) == []


def test_every_other_is_found_out() -> None:
    other = {**CLEAN, "documents": [["x"]]}
    assert faults(DIRECT, {**DIRECT, "clean all": other}, GOOD) == ["off: clean all"]
    assert faults(DIRECT, DIRECT, {**GOOD, "clean all": other}) == ["on: clean all"]
    assert len(faults(DIRECT, DIRECT, DIRECT)) == 1, "copies are left"
    assert len(faults(DIRECT, DIRECT, {**GOOD, "copied all": {"ids": [PAGE, PAGE], "documents": None}})) == 1
