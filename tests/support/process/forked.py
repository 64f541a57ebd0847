"""Commands of VecSieve, forked off a process that has loaded their modules: a start takes 0.05 s of CPU instead of 0.8.

A process of tests starts one such origin when it first needs it. The origin runs neither a thread nor a loop, and does nothing
but fork: what is forked runs the same `main` as `python -m vecsieve.proxy`, with the environment, the arguments and the output
that it is given. What is read while modules are loaded, such as SSL_CERT_FILE, is the origin's: `forks` says who must not fork.

Usage: PYTHONPATH=tests python -m support.process.forked DESCRIPTOR
"""

from __future__ import annotations

import atexit
import gc
import json
import os
import resource
import select
import signal
import socket
import subprocess
import sys
import threading
import time
from array import array
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any, TextIO

TESTS = Path(__file__).resolve().parents[2]
START_SECONDS = 120.0
LONGEST = 1 << 16
# Only these variables may differ from the origin's: settings and keys are read by `main`, pytest's say which test runs.
DROPPED_VARIABLES = ("VECSIEVE_", "PYTEST_", "PINECONE_API_KEY", "WEAVIATE_API_KEY")


@dataclass(frozen=True, slots=True)
class Start:
    """What the origin is asked for. ``program``: a key of `PROGRAMS`. ``descriptors``: soft and hard RLIMIT_NOFILE."""

    program: str
    arguments: tuple[str, ...]
    environment: Mapping[str, str]
    folder: str
    descriptors: tuple[int, int] | None = None


class Forked:
    """A process that the origin forked, as far as tests use a `subprocess.Popen`. ``returncode``: None while it runs."""

    def __init__(self, origin: Origin, pid: int) -> None:
        self._origin = origin
        self.pid = pid
        self.returncode: Any = None

    def poll(self) -> int | None:
        if self.returncode is None:
            self.returncode = self._origin.ended(self.pid)
        code: int | None = self.returncode
        return code

    def wait(self, timeout: float | None = None) -> int:
        until = None if timeout is None else time.monotonic() + timeout
        while (code := self.poll()) is None:
            if until is not None and time.monotonic() > until:
                raise subprocess.TimeoutExpired(f"process {self.pid}", timeout or 0.0)
            time.sleep(0.005)
        return code

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


class Origin:
    """The process that forks. It ends with the process that started it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._codes: dict[int, int] = {}
        self._variables = _others(os.environ)
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        path = os.pathsep.join(filter(None, (str(TESTS), os.environ.get("PYTHONPATH"))))
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "support.process.forked", str(theirs.fileno())],
                env={**os.environ, "PYTHONPATH": path},
                stdin=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
            )

    def forks(self, environment: Mapping[str, str]) -> bool:
        """Whether a process with this environment finds its modules as they were loaded."""
        return _others(environment) == self._variables

    def start(self, start: Start, output: int, errors: int) -> Forked:
        """Fork. ``output``, ``errors``: the descriptors that it prints to."""
        with self._lock:
            descriptors = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array("i", [output, errors]))]
            self._socket.sendmsg([json.dumps(asdict(start)).encode()], descriptors)
            while (pid := self._read(START_SECONDS)) == 0:
                """Another one's end was told first."""
            assert pid is not None, "the origin of forks does not answer"
        return Forked(self, pid)

    def ended(self, pid: int) -> int | None:
        """The exit status of what was forked, told once; None while it runs."""
        with self._lock:
            while self._read(0.0) == 0:
                """All that was told."""
            return self._codes.pop(pid, None)

    def _read(self, seconds: float) -> int | None:
        """The process id of a start; 0 for an end, which is noted; None for nothing within the time."""
        if not select.select([self._socket], [], [], seconds)[0]:
            return None
        content = json.loads(self._socket.recv(LONGEST))
        if "code" in content:
            self._codes[content["pid"]] = content["code"]
            return 0
        return int(content["pid"])

    def close(self) -> None:
        self._socket.close()
        self._process.wait(START_SECONDS)


def _others(environment: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in environment.items() if not name.startswith(DROPPED_VARIABLES)}


@cache
def origin() -> Origin:
    """The one of this process."""
    made = Origin()
    atexit.register(made.close)
    return made


@contextmanager
def forking(program: str, *arguments: str) -> Iterator[tuple[Forked, TextIO]]:
    """A process of a program, and what it prints to its standard output. It is killed with the block if it still runs."""
    reads, writes = os.pipe()
    with os.fdopen(reads, encoding="utf-8") as printed:
        try:
            process = origin().start(Start(program, arguments, dict(os.environ), str(Path.cwd())), writes, 2)
        finally:
            os.close(writes)
        try:
            yield process, printed
        finally:
            process.kill()
            process.wait(START_SECONDS)


def _vecsieve() -> None:
    from support.process import unhurried
    from vecsieve.proxy.__main__ import main

    if sys.argv[1:2] == ["serve"]:
        unhurried.be_patient()
    main()


def _qdrant() -> None:
    from servers.qdrant.__main__ import main

    main()


def _workers() -> None:
    from support.process.worker_program import main

    sys.exit(main())


PROGRAMS = {"vecsieve": _vecsieve, "qdrant": _qdrant, "workers": _workers}


# What most starts would load.
ALWAYS = (
    "servers.qdrant.server",
    "support.process.unhurried",
    "vecsieve.config.yaml_core",
    "vecsieve.proxy.api.listener",
    "vecsieve.proxy.api.routes",
    "vecsieve.proxy.grpc.side",
    "vecsieve.proxy.jobs.check",
    "vecsieve.proxy.jobs.undo",
    "vecsieve.proxy.server",
)
# What takes half a second more, and which starts load it: those of a program with a word.
SELDOM = {
    "qdrant_client.conversions.conversion": ("qdrant", "--grpc-listen"),
    "mcp.server": ("vecsieve", "mcp"),
}


def _load(*names: str) -> None:
    """What is forked neither walks over what was loaded nor copies its pages, which was half of its processor time."""
    for name in names:
        import_module(name)
    assert len(list(Path("/proc/self/task").iterdir())) == 1, "what forks must have no second thread"
    gc.collect()
    gc.freeze()


def _fork_as_requested(control: socket.socket) -> Start | None:
    """Fork until the other side is gone. Returns in the origin None, in what was forked its start."""
    woken, wakes = socket.socketpair()
    for end in (woken, wakes):
        end.setblocking(False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(wakes.fileno(), warn_on_full_buffer=False)
    while True:
        ready, _, _ = select.select([control, woken], [], [])
        if woken in ready:
            woken.recv(LONGEST)
            _send_ends(control)
        if control in ready:
            content, descriptors, _, _ = socket.recv_fds(control, LONGEST, 2)
            if not content:
                return None
            start = Start(**json.loads(content))
            loaded_for = {(start.program, word) for word in start.arguments}
            if late := [name for name, word in SELDOM.items() if word in loaded_for and name not in sys.modules]:
                _load(*late)
            if (pid := os.fork()) == 0:
                signal.set_wakeup_fd(-1)
                signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                for end in (control, woken, wakes):
                    end.close()
                _become(start, descriptors)
                return start
            for descriptor in descriptors:
                os.close(descriptor)
            control.send(json.dumps({"pid": pid}).encode())


def _send_ends(control: socket.socket) -> None:
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if pid == 0:
            return
        control.send(json.dumps({"pid": pid, "code": os.waitstatus_to_exitcode(status)}).encode())


def _become(start: Start, descriptors: Sequence[int]) -> None:
    for number, descriptor in enumerate(descriptors, start=1):
        os.dup2(descriptor, number)
        os.close(descriptor)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    if start.descriptors is not None:
        resource.setrlimit(resource.RLIMIT_NOFILE, start.descriptors)
    os.chdir(start.folder)
    os.environ.clear()
    os.environ.update(start.environment)
    sys.argv = [start.program, *start.arguments]


def main() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # from a terminal it is for the tests
    with socket.socket(fileno=int(sys.argv[1])) as control:
        # OpenBLAS starts threads unless told otherwise.
        os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
        os.environ.setdefault("GRPC_VERBOSITY", "NONE")
        for backend in import_module("vecsieve.adapters.backends").BACKENDS.values():
            backend.parts()
        _load(*ALWAYS)
        start = _fork_as_requested(control)
    if start is not None:
        PROGRAMS[start.program]()


if __name__ == "__main__":
    main()
