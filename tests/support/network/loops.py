"""Both event loops that a process may run on: what leans on a transport's finer habits is tested on each."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Coroutine
from functools import wraps

import pytest
import uvloop

LONGEST_SECONDS = 60.0
LoopFactory = Callable[[], asyncio.AbstractEventLoop]

both_loops = pytest.mark.parametrize("loop", [asyncio.new_event_loop, uvloop.new_event_loop], ids=["asyncio", "uvloop"])


def run(loop: LoopFactory, story: Coroutine[None, None, None]) -> None:
    """Run a test's story on a new loop of this kind."""
    with asyncio.Runner(loop_factory=loop) as runner:
        runner.run(asyncio.wait_for(story, LONGEST_SECONDS))


def on_both_loops(story: Callable[..., Coroutine[None, None, None]]) -> Callable[..., None]:
    """A test that is a story, on each loop."""

    @wraps(story)
    def test(loop: LoopFactory, **arguments: object) -> None:
        run(loop, story(**arguments))

    loop = inspect.Parameter("loop", inspect.Parameter.POSITIONAL_OR_KEYWORD)
    parameters = [
        parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY)
        for parameter in inspect.signature(story).parameters.values()
    ]
    test.__signature__ = inspect.Signature([loop, *parameters])  # type: ignore[attr-defined]  # - what pytest reads
    marked: Callable[..., None] = both_loops(test)
    return marked
