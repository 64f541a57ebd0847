"""The event loop of the benchmark's own servers: uvloop exactly where the proxy would use it too."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Coroutine


def run(main: Coroutine[object, object, None]) -> None:
    """Run on uvloop when it is installed, else on asyncio's own loop; ends quietly on Ctrl-C."""
    try:
        import uvloop
    except ImportError:
        factory = None
    else:
        factory = uvloop.new_event_loop
    with contextlib.suppress(KeyboardInterrupt), asyncio.Runner(loop_factory=factory) as runner:
        runner.run(main)
