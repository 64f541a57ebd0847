"""Input and output of jobs: files written atomically, the console, progress bars, the API key of a database, single requests."""

from __future__ import annotations

import logging
import os
import secrets
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from io import TextIOWrapper
from pathlib import Path
from typing import TYPE_CHECKING, Any

import aiohttp

from vecsieve.config.problems import Problem, SettingsError, one_line

if TYPE_CHECKING:
    from rich.console import Console  # 1.5 MB: `serve` reads this module for the words of errors alone

# For what all workers read alike: one of them writes it to the log.
FILES_LOGGER = logging.getLogger("vecsieve.files")
UNFINISHED = ".unfinished"  # a temporary file's ending: readers of *.json do not load one that was left behind
LONGEST_NAME = 4096  # characters of a path, as the system allows
PLAIN_WIDTH = 120  # columns of an output that is not a terminal


def output_console(plain_width: int = PLAIN_WIDTH) -> Console:
    """A console on stdout. ``plain_width``: columns if it is no terminal. Characters that the terminal cannot encode are replaced."""
    from rich.console import Console

    if isinstance(sys.stdout, TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")
    return Console(width=None if sys.stdout.isatty() else plain_width, highlight=False)


def check_output(option: str, path: Path | None) -> None:
    """Raises SettingsError unless a file can be created at ``path``. Called first, so that no long job ends without its result."""
    if path is not None and (not path.parent.is_dir() or path.is_dir()):
        raise SettingsError([Problem(option, one_line(repr(str(path))), "a file in a directory that exists")])


def write_output(option: str, path: Path, content: bytes) -> None:
    """``write_whole`` for the file that ``option`` named. Raises SettingsError."""
    try:
        write_whole(path, content)
    except OSError as error:
        raise SettingsError([Problem(option, reason(error), f"to write {path}")]) from error


def read_input(path: Path, *, setting: str = "", expected: str) -> bytes:
    """The content of a file. ``setting``: that names it; "" for an argument. Raises SettingsError."""
    try:
        return path.read_bytes()
    except OSError as error:
        name = one_line(str(path), LONGEST_NAME)  # not cut like a value: its end says which file it is
        seen = f"{name}: {reason(error)}" if setting else reason(error)
        raise SettingsError([Problem(setting or str(path), seen, expected)]) from error


LOOK_SECONDS = 1.0


class Watched:
    """A file that may be replaced, such as a mounted ConfigMap. ``path``: None for none. ``clock``: monotonic seconds."""

    __slots__ = ("_clock", "_known", "_next_at", "_path", "_seen")

    def __init__(self, path: Path | None, clock: Callable[[], float]) -> None:
        self._path = path
        self._clock = clock
        self._known = self._seen = self._state()
        self._next_at = clock() + LOOK_SECONDS

    def has_changed(self) -> bool:
        """Whether it is another file than before, and has been so for two looks, a second apart: then it is written whole."""
        if self._path is None or (now := self._clock()) < self._next_at:
            return False
        self._next_at = now + LOOK_SECONDS
        earlier, self._seen = self._seen, self._state()
        if self._seen in {None, self._known} or self._seen != earlier:
            return False
        self._known = self._seen
        return True

    def _state(self) -> tuple[int, int, int, int] | None:
        """None for no file."""
        try:
            status = None if self._path is None else self._path.stat()
        except (OSError, ValueError):  # ValueError: a name with a NUL in it
            status = None
        return None if status is None else (status.st_dev, status.st_ino, status.st_mtime_ns, status.st_size)


def reason(error: OSError) -> str:
    """The system's words for an error, such as "permission denied"."""
    return (error.strerror or "an error").lower()


def write_whole(path: Path, content: bytes) -> None:
    """Replace ``path`` atomically and durably: after a failure the old content is unchanged. Raises OSError.

    An interruption removes the temporary file; only a killed process leaves one.
    """
    # Named before it is created, unlike mkstemp's: an interruption between the two steps can still remove it.
    temporary = path.parent / f".{path.name}.{secrets.token_hex(8)}{UNFINISHED}"
    try:
        with open(temporary, "xb", opener=lambda name, flags: os.open(name, flags, 0o600)) as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        temporary.chmod(_permissions(path))
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)  # after the rename there is nothing left to remove
    # The rename changes the directory, which has its own write cache.
    handle = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _permissions(path: Path) -> int:
    """The permissions of the replaced file, else those of a new file under the process's umask."""
    with suppress(FileNotFoundError):
        return path.stat().st_mode & 0o777
    mask = os.umask(0)
    os.umask(mask)
    return 0o666 & ~mask


Advance = Callable[[int], None]


@contextmanager
def progress_bar(title: str, total: int | None, *, console: Console | None = None) -> Iterator[Advance]:
    """Yields a function that advances the bar. ``total``: None if unknown.

    The bar is on stderr, separate from a job's output, and only on a terminal. It is removed when the block ends.
    """
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    output = Console(stderr=True) if console is None else console
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=output, transient=True, disable=not output.is_terminal) as progress:
        task = progress.add_task(title, total=total)
        yield lambda done: progress.advance(task, done)


def key_from(
    environment: Mapping[str, str], variable: str | None, *, usual: str = "", option: str = "--api-key-env"
) -> str | None:
    """The key in ``variable``; None: in the ``usual`` variable, if that is set. ``option``: which named it. Raises SettingsError.

    Never from the command line, which other users of the machine can list.
    """
    if variable is None:
        return environment.get(usual) or None
    if not environment.get(variable):
        raise SettingsError([Problem(option, f"{variable!r}, which is not set", "a variable that holds a key")])
    return environment[variable]


class NoAnswerError(Exception):
    """No server answers. The message is the class of the failure."""


async def exchanged(method: str, url: str, *, seconds: float, most_bytes: int, **request: Any) -> tuple[int, bytes]:
    """The status and body of one answer; redirects are not followed. ``request``: as aiohttp's. Raises NoAnswerError."""
    timeout = aiohttp.ClientTimeout(total=seconds)
    try:
        async with (
            aiohttp.ClientSession(timeout=timeout) as session,
            session.request(method, url, allow_redirects=False, **request) as answer,
        ):
            return answer.status, await bounded(answer.content, most_bytes)
    except (TimeoutError, aiohttp.ClientError, OSError, ValueError) as error:  # ValueError: no URL
        raise NoAnswerError(type(error).__name__) from None


async def bounded(stream: aiohttp.StreamReader, most_bytes: int) -> bytes:
    """A whole body, or the beginning of one that is larger than any expected answer."""
    body = bytearray()
    async for piece in stream.iter_any():
        body += piece
        if len(body) > most_bytes:
            break
    return bytes(body)
