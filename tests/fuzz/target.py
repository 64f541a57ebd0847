"""What a fuzz target is, which there are, and the bound on one input's time."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module

# Processor time, not the clock's: the machine may have other work. A hang of the clock is libFuzzer's own to find.
LONGEST_SECONDS = 1.0
NAMES = ("requests", "replies", "writes", "protobuf", "codings", "settings")


@dataclass(frozen=True, slots=True)
class Target:
    """``check``: raises for any input that breaks the ``invariant``. ``words``: what a mutation may put into an input."""

    name: str
    invariant: str
    check: Callable[[bytes], None]
    seeds: Sequence[bytes]
    words: Sequence[bytes]


def target(name: str) -> Target:
    """The target of that name, its seeds made. Raises ValueError for a name of none."""
    if name not in NAMES:
        raise ValueError(f"no target {name!r}; there are {', '.join(NAMES)}")
    module = import_module(f"fuzz.target_{name}")
    invariant = (module.__doc__ or "").splitlines()[0]
    return Target(name, invariant, module.check, module.seeds(), module.WORDS)


def bounded(check: Callable[[bytes], None], data: bytes) -> None:
    """Check one input, which may take so long and no longer."""
    begun = time.process_time()
    check(data)
    took = time.process_time() - begun
    assert took <= LONGEST_SECONDS, f"took {took:.2f} s for {len(data)} bytes"
