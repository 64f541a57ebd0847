"""The write gate against a model: two clients, kills, `undo` and `sweep` in any order. Alone: `make model-gate`.

The real gate, adapters and journal, and a database in this process. Each request to the database and each step of the journal is a place where another
request may go on, or the process is killed. After each step a model of a few lines is asked: no acknowledged point is neither stored nor in the
journal, and nothing is stored that a client deleted or replaced later.

`python -m prove.model_gate STEPS [DATABASE[:MODE] …]`. A failure prints its seed and what happened, step by step; SEED=… plays it again.
"""

from __future__ import annotations

import asyncio
import logging
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from prove.model_databases import WIRES
from prove.model_episode import Episode
from prove.model_parts import OutsideError, ViolationError
from prove.model_world import MODES

EPISODE = 80  # steps, after which all begins anew: what fails is short enough to be read
SEED = 35


async def episode(world: Episode, seed: str, steps: int = EPISODE) -> None:
    """Raises FoundError, with what happened."""
    world.reset(seed)
    try:
        for _ in range(steps):
            await world.step()
    except OutsideError:
        return
    except ViolationError as violation:
        trace = "\n".join(world.messages)
        raise ViolationError(f"{violation}\nSEED={seed}\n{trace}") from None
    finally:
        await world._ended()
        world._begin()


def played(name: str, mode: str, steps: int, *, seed: str = str(SEED)) -> int:
    """The number of steps that were played. Raises FoundError."""
    numbers = range(-(-steps // EPISODE))
    play([f"{seed}:{name}:{mode}:{number}" for number in numbers])
    return len(numbers) * EPISODE


def play(seeds: Sequence[str]) -> None:
    """Episodes of one database and mode, by their seeds. Raises FoundError."""

    async def run_in(folder: Path) -> None:
        _, name, mode, _ = seeds[0].split(":")
        world = Episode(name, mode, folder)
        for seed in seeds:
            await episode(world, seed)

    loggers = [logging.getLogger(name) for name in ("vecsieve.writes", "vecsieve.journal")]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.CRITICAL)
    try:
        with TemporaryDirectory(dir="/dev/shm" if Path("/dev/shm").is_dir() else None) as folder:
            asyncio.run(run_in(Path(folder)))
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)


def main() -> None:
    """Exits with 1 if the model finds something."""
    if seed := os.environ.get("SEED"):
        play([seed])
        return
    steps, only, is_violated = int(sys.argv[1]), sys.argv[2:], False
    for name in WIRES:
        for mode in MODES:
            if only and name not in only and f"{name}:{mode}" not in only:
                continue
            began = time.monotonic()
            try:
                message = f"{played(name, mode, steps)} steps"
            except ViolationError as violation:
                message, is_violated = str(violation), True
            print(f"{name} {mode}: {message}, {time.monotonic() - began:.0f} s", flush=True)
    sys.exit(int(is_violated))


if __name__ == "__main__":
    main()
