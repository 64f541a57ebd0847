"""The lock on a journal: one proxy uses it, with all its workers. What two proxies leave out may be of two databases, and `undo` would
store the one's points in the other. Jobs take no lock: they use the journal beside the proxy whose database they work on.

Where nobody holds it, no deletion is under way: what a process that was killed had begun has ended with it.
"""

from __future__ import annotations

import fcntl
import logging
import os
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

from vecsieve.config.problems import Problem, SettingsError, shown

from ..runtime.files import reason
from .rows import BUSY_SECONDS, WANTED, JournalError

LOGGER = logging.getLogger("vecsieve.journal")
LOCK = "-lock"  # the ending of the lock's file, beside the journal: a lock on the journal itself would be SQLite's on some systems


@contextmanager
def held_alone(path: Path | None) -> Iterator[None]:
    """Hold the journal for one proxy; its workers inherit that. A directory that cannot be written is no error here: writes
    go out whole then, and the log says why. Raises SettingsError if another proxy holds it.
    """
    handle = None if path is None else _lock_of(path)
    if handle is None:
        yield
        return
    try:
        _lock(handle, path)
        if path is not None and path.is_file():
            from .book import Book  # loads SQLite, which a process without a journal does not need

            with suppress(JournalError), closing(Book(path)) as book:  # who uses it says what is wrong with it
                book.nothing_goes()
        yield
    finally:
        os.close(handle)


def is_held(path: Path) -> bool:
    """Whether a proxy uses this journal, as far as the system can say."""
    try:
        handle = os.open(f"{path}{LOCK}", os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    except OSError:
        return True
    try:
        fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:  # it is held, or the file system has no locks
        return True
    finally:
        os.close(handle)
    return False


def _lock_of(path: Path) -> int | None:
    try:
        return os.open(f"{path}{LOCK}", os.O_CREAT | os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC, 0o600)
    except OSError as error:
        LOGGER.warning("the journal cannot be used: saw %s, %s", reason(error), WANTED)
        return None


def _lock(handle: int, path: Path | None) -> None:
    """A process that was killed a moment ago may still hold it."""
    until = time.monotonic() + BUSY_SECONDS
    while True:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() < until:
                time.sleep(BUSY_SECONDS / 20)
                continue
            wanted = "a journal for each proxy: another proxy uses this one"
            raise SettingsError([Problem("journal.path", shown(str(path)), wanted)]) from None
        except OSError as error:  # a file system without locks
            LOGGER.warning("the journal cannot be locked: saw %s, wanted a local disk", reason(error))
        return
