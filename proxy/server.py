"""The composition root: settings in, running listeners out; alone or as a crew."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Mapping
from pathlib import Path

from vecsieve.proxy.alone import serve_alone
from vecsieve.proxy.crew import serve_crew
from vecsieve.proxy.http.tls import context_of
from vecsieve.proxy.instance import Source
from vecsieve.proxy.memory import glibc_mallopt, keep_freed_blocks
from vecsieve.proxy.otel_headers import headers_of


def run(*, config: Path | None, environment: Mapping[str, str], flags: Mapping[str, object]) -> int:
    """Serve until told to stop. Returns the exit status; raises SettingsError, or OSError for an address in use."""
    source = Source(config, environment, flags)
    settings = source.load()
    context_of(settings)  # a certificate that cannot be used is told before anything forks
    headers_of(settings.tracing.headers_file)  # and so is this file
    keep_freed_blocks(glibc_mallopt())
    if settings.workers > 1:
        return serve_crew(source, settings, run_loop)
    return run_loop(serve_alone(source, settings))


def run_loop(main: Coroutine[None, None, int]) -> int:
    """Run on uvloop when it is installed, else on asyncio's own loop."""
    try:
        import uvloop
    except ImportError:
        return asyncio.run(main)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(main)
