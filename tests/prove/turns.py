"""The command line, which writes down how much processor time each long turn of its event loop took.

Usage: PROVE_TURNS=FILE python -m prove.turns serve …

A line for every callback of more than a few milliseconds. Processor time, because on a busy machine the clock says how long
others took. On asyncio's own loop: uvloop's callbacks cannot be measured from Python, and what they call is the same.
"""

from __future__ import annotations

import asyncio
import os
import runpy
import sys
import time
from pathlib import Path
from typing import Any

LONG_SECONDS = 0.003


def watch(file: Path) -> None:
    """From now on, for all loops of this process."""
    file.touch()
    run = asyncio.Handle._run  # what a loop calls for each callback

    def measured(handle: Any) -> None:
        begun = time.thread_time()
        run(handle)
        taken = time.thread_time() - begun
        if taken > LONG_SECONDS:
            with file.open("a", encoding="ascii") as lines:
                lines.write(f"{taken}\n")

    setattr(asyncio.Handle, "_run", measured)  # noqa: B010 - an assignment is what mypy refuses


def longest(file: Path, skip: int = 0) -> tuple[float, int]:
    """The longest turn in seconds behind the first ``skip`` lines, 0 where none was long; and how many lines there are."""
    turns = [float(line) for line in file.read_text(encoding="ascii").split()]
    return max(turns[skip:], default=0.0), len(turns)


if __name__ == "__main__":
    sys.modules["uvloop"] = None  # type: ignore[assignment]  # - as if it were not installed
    watch(Path(os.environ["PROVE_TURNS"]))
    runpy.run_module("vecsieve.proxy", run_name="__main__", alter_sys=True)
