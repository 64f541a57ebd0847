"""The lock on a journal: one proxy with its workers uses it. Two proxies may serve two databases, and `undo` would store points of one in the
other. Jobs take no lock: they share the journal with the proxy of their database.

Without a lock no deletion is pending: the deletions of a killed process ended with it.
"""

from __future__ import annotations

import fcntl
import logging
import os
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

from vecsieve.config.problems import Problem, SettingsError, excerpt

from ..runtime.files import reason
from .rows import BUSY_SECONDS, EXPECTED, JournalError

LOGGER = logging.getLogger("vecsieve.journal")
LOCK = "-lock"  # suffix of the lock's file: on some systems a lock on the journal itself would be SQLite's


@contextmanager
def locked(path: Path | None) -> Iterator[None]:
    """Lock the journal for one proxy and its workers. A read-only directory is no error: writes are sent unchanged, and the log says why.
    Raises SettingsError if another proxy has the lock.
    """
    handle = None if path is None else _lock_of(path)
    if handle is None:
        yield
        return
    try:
        _lock(handle, path)
        if path is not None and path.is_file():
            from .book import Book  # loads SQLite, which a process without a journal does not need

            with suppress(JournalError), closing(Book(path)) as book:  # the first use reports the error
                book.forget_deletions()
        yield
    finally:
        os.close(handle)


def is_locked(path: Path) -> bool:
    """Whether a proxy uses this journal, as far as the system shows it."""
    try:
        handle = os.open(f"{path}{LOCK}", os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    except OSError:
        return True
    try:
        fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:  # locked, or a file system without locks
        return True
    finally:
        os.close(handle)
    return False


def _lock_of(path: Path) -> int | None:
    try:
        return os.open(f"{path}{LOCK}", os.O_CREAT | os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC, 0o600)
    except OSError as error:
        LOGGER.warning("the journal cannot be used: %s: saw %s, %s", path, reason(error), EXPECTED)
        return None


def _lock(handle: int, path: Path | None) -> None:
    """Wait for a process that was just killed."""
    until = time.monotonic() + BUSY_SECONDS
    while True:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() < until:
                time.sleep(BUSY_SECONDS / 20)
                continue
            expected = "a journal for each proxy: another proxy uses this one"
            raise SettingsError([Problem("journal.path", excerpt(str(path)), expected)]) from None
        except OSError as error:  # a file system without locks
            LOGGER.warning("the journal cannot be locked: saw %s, wanted a local disk", reason(error))
        return
