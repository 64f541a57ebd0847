"""Both event loops that a process may run on: what leans on a transport's finer habits is tested on each."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine

import pytest
import uvloop

LONGEST_SECONDS = 60.0
LoopFactory = Callable[[], asyncio.AbstractEventLoop]

both_loops = pytest.mark.parametrize("loop", [asyncio.new_event_loop, uvloop.new_event_loop], ids=["asyncio", "uvloop"])


def run(loop: LoopFactory, story: Coroutine[None, None, None]) -> None:
    """Run a test's story on a new loop of this kind."""
    with asyncio.Runner(loop_factory=loop) as runner:
        runner.run(asyncio.wait_for(story, LONGEST_SECONDS))
