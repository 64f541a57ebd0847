"""A file is there whole or not at all: written beside its place, made durable, then renamed into it."""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from vecsieve.config.problems import Problem, SettingsError

UNFINISHED = ".unfinished"  # no reader of *.json takes a file of this name for one of its own


def write_whole(path: Path, content: bytes) -> None:
    """Put ``content`` at ``path``, in place of what was there; whatever goes wrong, what was there stays.

    Raises OSError. An interruption removes the temporary file; only a killed process leaves one, named as above.
    """
    # Named before it is made, unlike mkstemp's: an interruption between the two finds something to remove.
    temporary = path.parent / f".{path.name}.{secrets.token_hex(8)}{UNFINISHED}"
    try:
        with open(temporary, "xb", opener=_privately) as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        temporary.chmod(_permissions(path))
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)  # once renamed there is none of that name
    _make_durable(path.parent)


def _privately(name: str, flags: int) -> int:
    return os.open(name, flags, 0o600)


def _permissions(path: Path) -> int:
    """Those of the file that is replaced; else what any new file would get, which private ones are not."""
    with suppress(FileNotFoundError):
        return path.stat().st_mode & 0o777
    mask = os.umask(0)
    os.umask(mask)
    return 0o666 & ~mask


def _make_durable(directory: Path) -> None:
    """A rename is a change of the directory, which has a write cache of its own."""
    handle = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


# A progress bar on stderr, where it stays out of what a job prints; none where stderr is not a terminal.

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


# Where a job's key comes from: an environment variable that is named, never the command line, which anybody can list.

DEFAULT_VARIABLE = "QDRANT_API_KEY"


def key_from(environment: Mapping[str, str], variable: str | None) -> str | None:
    """The key in ``variable``; without a name the usual variable's, if it is set. Raises SettingsError."""
    if variable is None:
        return environment.get(DEFAULT_VARIABLE) or None
    if not environment.get(variable):
        raise SettingsError(
            [Problem("--api-key-env", f"{variable!r}, which is not set", "a variable that holds a key")]
        )
    return environment[variable]
