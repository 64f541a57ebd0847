"""Progress shows on a terminal and nowhere else."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from vecsieve.proxy.jobs.files import progress_bar


def console(*, terminal: bool) -> tuple[Console, io.StringIO]:
    out = io.StringIO()
    return Console(file=out, force_terminal=terminal, width=100), out


def test_a_terminal_sees_how_far_it_is() -> None:
    shown, out = console(terminal=True)
    with progress_bar("reading", 40, console=shown) as advance:
        advance(10)
        advance(30)
    assert "reading" in out.getvalue()
    assert "40/40" in out.getvalue()


@pytest.mark.parametrize("total", [40, None])
def test_a_file_or_a_pipe_sees_nothing(total: int | None) -> None:
    shown, out = console(terminal=False)
    with progress_bar("reading", total, console=shown) as advance:
        advance(10)
    assert out.getvalue().strip() == ""


def test_an_interruption_passes_through_and_gives_the_cursor_back() -> None:
    shown, out = console(terminal=True)
    with pytest.raises(KeyboardInterrupt), progress_bar("reading", 40, console=shown):
        raise KeyboardInterrupt
    assert out.getvalue().rfind("\x1b[?25h") > out.getvalue().rfind("\x1b[?25l")
