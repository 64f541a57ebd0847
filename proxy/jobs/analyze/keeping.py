"""When the state is written: every few seconds, less often when writing takes long, and once more when reading is interrupted."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from vecsieve.proxy.jobs.analyze.reading import Reading
from vecsieve.proxy.jobs.analyze.state import Fingerprint, restore, save

EVERY_SECONDS = 5.0
SHARE = 20  # a write takes a twentieth of the time at most: the state of a million points is 180 MB


class Keeper:
    """Keeps a reading's state at ``path``; keeps nothing where that is None. Raises StateError."""

    def __init__(
        self, path: Path | None, fingerprint: Fingerprint, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._path = path
        self._fingerprint = fingerprint
        self._clock = clock
        self._next = clock() + EVERY_SECONDS

    def restored(self, reading: Reading) -> bool:
        """Go on where the file left off, if there is one."""
        return self._path is not None and restore(self._path, self._fingerprint, reading)

    def page_done(self, reading: Reading) -> None:
        """Write when it is time to."""
        if self._path is not None and self._clock() >= self._next:
            self._save(self._path, reading)

    @contextmanager
    def kept_on_interrupt(self, reading: Reading) -> Iterator[None]:
        """Whatever ends the block early, what was read until then is written before the error goes on."""
        finished = False
        try:
            yield
            finished = True
        finally:
            if not finished and self._path is not None:
                self._save(self._path, reading)

    def _save(self, path: Path, reading: Reading) -> None:
        started = self._clock()
        save(path, self._fingerprint, reading)
        ended = self._clock()
        self._next = ended + max(EVERY_SECONDS, SHARE * (ended - started))
