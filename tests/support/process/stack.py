"""The real stack for integration tests: the command line's own processes on free ports, always ended."""

from __future__ import annotations

import http.client
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar
from urllib.parse import urlsplit

from support.process.forked import TESTS, Forked, Start, origin

LISTENING = re.compile(r"vecsieve (\w+) (listening|admin|gRPC|API) on (https?://[\w.:\[\]]+)")
TIME = re.compile(rb'"time":[0-9.eE+-]+')
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Answer:
    """A raw HTTP answer."""

    status: int
    headers: tuple[tuple[str, str], ...]
    body: bytes

    @property
    def timeless(self) -> bytes:
        """The body with the one member that differs between two equal calls blanked."""
        return TIME.sub(b'"time":0', self.body)

    def header(self, name: str) -> str | None:
        return next((value for key, value in self.headers if key.lower() == name), None)


def exchange(
    url: str, method: str, target: str, body: bytes | None = None, headers: Mapping[str, str] | None = None
) -> Answer:
    """One request on its own connection, nothing added but what HTTP/1.1 demands. Over https, SSL_CERT_FILE is believed."""
    parts = urlsplit(url)
    kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
    connection = kind(parts.hostname or "", parts.port, timeout=30)
    try:
        sent = {"Content-Type": "application/json"} if body is not None else {}
        connection.request(method, target, body=body, headers={**sent, **(headers or {})})
        reply = connection.getresponse()
        return Answer(reply.status, tuple(reply.getheaders()), reply.read())
    finally:
        connection.close()


def eventually(look: Callable[[], T], is_there: Callable[[T], object] = bool, *, seconds: float = 60.0) -> T:
    """What is seen once it is there; after so long AssertionError, with what is seen then."""
    ends = time.monotonic() + seconds
    while not is_there(seen := look()):
        assert time.monotonic() < ends, seen
        time.sleep(0.02)
    return seen


class Command:
    """A `vecsieve` command in its own process. Its output goes to a file, so that no full pipe ever blocks it.

    ``module``: what runs it, the command line's own or something around it; None: it is forked with its modules loaded, and
    `serve` has the patience of tests. ``descriptors``: its soft and hard RLIMIT_NOFILE.
    """

    def __init__(
        self,
        arguments: tuple[str, ...],
        environment: Mapping[str, str] | None,
        *,
        module: str | None = "vecsieve.proxy",
        descriptors: tuple[int, int] | None = None,
    ) -> None:
        self._file = tempfile.TemporaryFile()  # noqa: SIM115 - lives as long as the process, closed with it
        self._last = ""
        self.process = self._started(arguments, {**os.environ, **(environment or {})}, module, descriptors)

    def _started(
        self,
        arguments: tuple[str, ...],
        variables: dict[str, str],
        module: str | None,
        descriptors: tuple[int, int] | None,
    ) -> subprocess.Popen[bytes] | Forked:
        if module is None and origin().forks(variables):
            printed = self._file.fileno()
            return origin().start(
                Start("vecsieve", arguments, variables, str(Path.cwd()), descriptors), printed, printed
            )
        if module is None:
            module = "support.process.unhurried" if arguments[0] == "serve" else "vecsieve.proxy"
            variables["PYTHONPATH"] = os.pathsep.join(filter(None, (str(TESTS), variables.get("PYTHONPATH"))))
        return subprocess.Popen(
            [*_limited(descriptors), sys.executable, "-m", module, *arguments],
            stdout=self._file,
            stderr=subprocess.STDOUT,
            env=variables,
        )

    def output(self) -> str:
        """Everything printed so far, by the command and its children."""
        if self._file.closed:
            return self._last
        size = os.fstat(self._file.fileno()).st_size
        return os.pread(self._file.fileno(), size, 0).decode("utf-8", "replace")

    def addresses(self, lines: int, seconds: float = 60.0) -> dict[str, str]:
        """Role -> URL, once that many were printed."""
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            addresses = {
                match[1] if match[2] == "listening" else match[2]: match[3]
                for match in LISTENING.finditer(self.output())
            }
            if len(addresses) == lines:
                return addresses
            if self.process.poll() is not None:
                break
            time.sleep(0.01)
        raise AssertionError("the command did not listen: " + self.output())

    def wait_for(self, text: str, seconds: float = 60.0) -> None:
        """Wait until the output holds a text."""
        until = time.monotonic() + seconds
        while text not in self.output():
            assert time.monotonic() < until, f"{text!r} never came: {self.output()}"
            time.sleep(0.01)

    def wait_until_refused(self, url: str, seconds: float = 60.0) -> None:
        """Wait until its port takes no connection any more, or only to end it: it was told to end."""
        until = time.monotonic() + seconds
        with suppress(OSError, http.client.HTTPException):
            while time.monotonic() < until:
                exchange(url, "GET", "/")
                time.sleep(0.01)
            raise AssertionError(f"{url} still answers: {self.output()}")

    def close(self) -> int:
        """End the command the way Kubernetes does; returns its exit status."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(timeout=30)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self._last = self.output()
        self._file.close()
        return self.process.returncode


def _limited(descriptors: tuple[int, int] | None) -> list[str]:
    """What sets the limits and then becomes the command that follows."""
    if descriptors is None:
        return []
    program = (
        f"import os, resource, sys; resource.setrlimit(resource.RLIMIT_NOFILE, {descriptors}); "
        "os.execv(sys.argv[1], sys.argv[1:])"
    )
    return [sys.executable, "-c", program]


@contextmanager
def command(
    *arguments: str, environment: Mapping[str, str] | None = None, descriptors: tuple[int, int] | None = None
) -> Iterator[Command]:
    """Run a `vecsieve` command; it is ended with the block. `serve` has the patience of tests."""
    running = Command(arguments, environment, module=None, descriptors=descriptors)
    try:
        yield running
    finally:
        running.close()


@contextmanager
def serve(upstream: str, *arguments: str, environment: Mapping[str, str] | None = None) -> Iterator[tuple[str, str]]:
    """The proxy's data and admin URLs."""
    with command(
        *("serve", "--upstream", upstream, "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", *arguments),
        environment=environment,
    ) as running:
        urls = running.addresses(2)
        yield urls["serve"], urls["admin"]
