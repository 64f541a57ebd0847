"""What S7 and S10 lean on."""

from __future__ import annotations

import pytest

from prove.security_ports import PYPROJECT, floor_of, parser


def test_the_floor_is_read_from_the_project() -> None:
    assert floor_of("aiohttp", PYPROJECT.read_text(encoding="utf-8")) >= (3, 14, 3), "CVE-2026-54277 and older ones"
    assert floor_of("x", '[project]\ndependencies = ["y>=1", "x>=2.10.1,<3"]') == (2, 10, 1)
    with pytest.raises(ValueError, match="no floor"):
        floor_of("z", '[project]\ndependencies = ["y>=1"]')


def test_the_parser_is_the_tested_one_and_no_other_is_started_on() -> None:
    for found in parser():
        assert found.met, found
