"""Whatever a collection holds, what is shown of it is one line of visible signs."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vecsieve.proxy.jobs.source import TEXT_CHARACTERS, shortened


@given(st.text())
def test_a_shortened_text_is_one_line_of_visible_signs(text: str) -> None:
    """Whatever goes in: no control sign, no line break, no double blank, bounded, and encodable."""
    line = shortened(text)
    assert line.isprintable()
    assert len(line) <= TEXT_CHARACTERS
    assert "  " not in line
    line.encode()
    assert shortened(line) == line


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("one\n two\t three", "one two three"),
        ("soft\u00adhyphen and \u202eturned", "softhyphen and turned"),
        ("\x1b[31mred\x07", "[31mred"),
        ("half \ud800 a pair", "half a pair"),
        ("漢字 и текст", "漢字 и текст"),
    ],
)
def test_what_a_terminal_would_act_on_is_gone(text: str, line: str) -> None:
    assert shortened(text) == line


def test_a_long_text_ends_in_an_ellipsis() -> None:
    line = shortened("word " * 100)
    assert line.endswith("…")
    assert TEXT_CHARACTERS - 5 < len(line) <= TEXT_CHARACTERS
