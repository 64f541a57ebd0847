"""Runs the command line under a wall clock that jumps: a month on, a month back, and to 1970, every few times it is read.

The monotonic clock is the kernel's promise and stays as it is. Other modules read the wall clock as ``time.time``; those that took the
name before are not fooled, so this is set before any of ours is loaded.
"""

from __future__ import annotations

import runpy
import time
from collections.abc import Callable
from itertools import count

MONTH_SECONDS = 30 * 86_400.0
READINGS = 7  # between two jumps


def jumping(real: Callable[[], float]) -> Callable[[], float]:
    """A clock that goes by ``real`` (seconds since 1970), with jumps."""
    read = count()

    def now() -> float:
        where = (next(read) // READINGS) % 4
        return (real(), real() + MONTH_SECONDS, real() - MONTH_SECONDS, real() % 60.0)[where]

    return now


def main() -> None:
    """Jump, then be the command line."""
    time.time = jumping(time.time)
    clock = jumping(lambda: time.monotonic_ns() / 1e9)
    time.time_ns = lambda: int(clock() * 1e9)
    runpy.run_module("vecsieve.proxy", run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
