"""Child processes that end with the benchmark, however it ends: each in a session of its own, ended by its id."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

TESTS = Path(__file__).resolve().parent.parent
START_SECONDS = 15.0  # a cold interpreter that imports numpy and aiohttp on a busy machine takes two or three
STOP_SECONDS = 3.0


class DidNotStartError(Exception):
    """A child ended or stayed silent instead of listening. The message ends with what it printed."""


def project_module(name: str, *arguments: str) -> list[str]:
    """The command that runs one of the benchmark's own modules in another interpreter."""
    return [sys.executable, "-m", f"bench.{name}", *arguments]


def environment() -> dict[str, str]:
    """What children inherit: the benchmark's modules importable, numpy on one thread like the proxy's own."""
    return {**os.environ, "PYTHONPATH": str(TESTS), "OPENBLAS_NUM_THREADS": "1"}


@contextlib.contextmanager
def listening(command: Sequence[str], port: int, **variables: str) -> Iterator[int]:
    """Run a server until the block ends, with these variables too; yields its process id once the port answers.

    Raises DidNotStartError.
    """
    with tempfile.TemporaryFile() as output:
        child = subprocess.Popen(
            command,
            stdout=output,
            stderr=output,
            stdin=subprocess.DEVNULL,
            env=environment() | variables,
            start_new_session=True,
        )
        try:
            if not _answers(child, port):
                output.seek(0)
                printed = output.read().decode(errors="replace")[-2000:]
                raise DidNotStartError(f"{command[0]} did not listen on port {port}:\n{printed}")
            yield child.pid
        finally:
            _end(child)


def peak_rss_bytes(pid: int) -> int:
    """The most memory the process has had resident (VmHWM), in bytes."""
    for line in Path(f"/proc/{pid}/status").read_text(encoding="ascii").splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024
    raise OSError(f"no VmHWM for process {pid}")


def rss_bytes(pid: int) -> int:
    """What the process and its session have resident now, in bytes."""
    return sum(int(stat[21]) for stat in _session(pid)) * os.sysconf("SC_PAGE_SIZE")


def cpu_seconds(pid: int) -> float:
    """Processor time of the process and its session, user and system; exact to the kernel's tick, 10 ms."""
    return sum(int(stat[11]) + int(stat[12]) for stat in _session(pid)) / os.sysconf("SC_CLK_TCK")


def _session(pid: int) -> Iterator[list[str]]:
    """/proc/PID/stat behind the name, of the process and of those it started: each child begins a session of its own."""
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            if entry.name.isdigit():
                stat = (entry / "stat").read_text(encoding="utf-8").rpartition(")")[2].split()
                if int(entry.name) == pid or int(stat[3]) == pid:
                    yield stat


def _answers(child: subprocess.Popen[bytes], port: int) -> bool:
    deadline = time.monotonic() + START_SECONDS
    while child.poll() is None and time.monotonic() < deadline:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=0.2):
            return True
        time.sleep(0.02)
    return False


def _end(child: subprocess.Popen[bytes]) -> None:
    """Ask the session's leader, then end the whole session: workers must not outlive it."""
    child.terminate()
    with contextlib.suppress(subprocess.TimeoutExpired):
        child.wait(STOP_SECONDS)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child.pid, signal.SIGKILL)
    child.wait()
