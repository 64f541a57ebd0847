"""The demo as a user runs it, in a process of its own; its children counted, and what it prints pasted."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from support.process import stack
from support.process.commands import forked_command

COMMAND = (sys.executable, "-m", "vecsieve.proxy", "demo")


@dataclass(frozen=True, slots=True)
class Done:
    """A finished run."""

    code: int
    out: str
    err: str
    seconds: float


def run(*arguments: str) -> Done:
    """Run the demo to its end."""
    started = time.monotonic()
    done = forked_command("demo", *arguments)
    return Done(code=done.returncode, out=done.stdout, err=done.stderr, seconds=time.monotonic() - started)


@contextmanager
def keeping(*arguments: str) -> Iterator[subprocess.Popen[str]]:
    """A demo that runs until it is ended; it is ended with the block."""
    process = subprocess.Popen(
        [*COMMAND, "--keep", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        yield process
    finally:
        if process.poll() is None:
            process.terminate()
        process.communicate(timeout=30)


def read_until(process: subprocess.Popen[str], last: str) -> str:
    """What was printed up to the line with ``last``."""
    assert process.stdout is not None
    seen: list[str] = []
    for line in process.stdout:
        seen.append(line)
        if last in line:
            return "".join(seen)
    raise AssertionError("the demo ended early: " + "".join(seen))


def pasted_curl(words: list[str]) -> bytes:
    """Sends what a printed curl line would send; the body of the answer."""
    parts = urlsplit(words[2])
    headers = (words[place + 1].partition(": ") for place, word in enumerate(words) if word == "-H")
    fields = {name.title(): value for name, _, value in headers}
    body = words[words.index("-d") + 1].encode()
    answer = stack.exchange(f"http://{parts.netloc}", "POST", parts.path, body, fields)
    assert answer.status == 200, answer.body
    return answer.body


def children_of(pid: int) -> list[int]:
    """The live processes that ``pid`` has started."""
    children: list[int] = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
        except OSError:  # it ended while we looked
            continue
        if int(fields[1]) == pid and fields[0] != "Z":
            children.append(int(stat.parent.name))
    return sorted(children)


def is_alive(pid: int) -> bool:
    """Whether there is such a process."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def wait_for_children(pid: int, count: int) -> list[int]:
    """The children of ``pid``, once they are that many."""
    deadline = time.monotonic() + 40
    while time.monotonic() < deadline:
        children = children_of(pid)
        if len(children) == count:
            return children
        time.sleep(0.02)
    raise AssertionError(f"wanted {count} children of {pid}, found {children_of(pid)}")
