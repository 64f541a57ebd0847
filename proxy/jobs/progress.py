"""A progress bar on stderr, where it stays out of what a job prints; none where stderr is not a terminal."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

Advance = Callable[[int], None]


@contextmanager
def progress_bar(title: str, total: int | None, *, console: Console | None = None) -> Iterator[Advance]:
    """Show how far one step of a job is; call what is given with how many more are done. ``total`` None: not known.

    The bar goes away with the block, however it ends, so that a Ctrl-C leaves a clean terminal.
    """
    shown = Console(stderr=True) if console is None else console
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=shown, transient=True, disable=not shown.is_terminal) as progress:
        task = progress.add_task(title, total=total)
        yield lambda done: progress.advance(task, done)
