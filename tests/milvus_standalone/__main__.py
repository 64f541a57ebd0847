"""`python -m tests.milvus_standalone` from the repository root: the client tests of Milvus against the standalone 2.3.5.

Its wheel holds the real Go and C++ server; newer ones are not on PyPI. The server runs as long as the tests do.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
VERSION = "2.3.5"
TESTS = "tests/clients/test_milvus_through_the_proxy.py"
SECONDS = 600.0
START_SECONDS = 120.0


def program() -> Path:
    """The server's, in an environment made once and kept."""
    home = ROOT / ".clients" / f"milvus-{VERSION}"
    server = home / "bin" / "milvus-server"
    if not server.exists():
        subprocess.run([sys.executable, "-m", "venv", "--clear", str(home)], check=True, timeout=SECONDS)
        pip = [str(home / "bin" / "python"), "-m", "pip", "install", "--quiet", f"milvus=={VERSION}"]
        subprocess.run(pip, check=True, timeout=SECONDS)
    return server


def free_port() -> int:
    """One that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def wait_until_it_listens(port: int, server: subprocess.Popen[bytes]) -> None:
    """Raises TimeoutError, or ChildProcessError when the server has ended."""
    until = time.monotonic() + START_SECONDS
    while server.poll() is None:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        if time.monotonic() > until:
            raise TimeoutError(f"Milvus {VERSION} did not listen on port {port} within {START_SECONDS:g} s")
        time.sleep(0.5)
    raise ChildProcessError(f"Milvus {VERSION} ended with {server.returncode} before it listened")


def main() -> int:
    """Run the tests; their exit status."""
    port = free_port()
    with tempfile.TemporaryDirectory() as data:
        command = [str(program()), "--data", data, "--proxy-port", str(port)]
        quiet = subprocess.DEVNULL
        with subprocess.Popen(command, stdout=quiet, stderr=quiet, start_new_session=True) as server:
            try:
                wait_until_it_listens(port, server)
                environment = {**os.environ, "MILVUS_SERVER": f"http://127.0.0.1:{port}"}
                done = subprocess.run(
                    [sys.executable, "-m", "pytest", "-q", TESTS], cwd=ROOT, env=environment, check=False
                )
            finally:
                # It is the launcher of the server proper, which outlives its end: the whole group goes.
                os.killpg(server.pid, signal.SIGKILL)
    return done.returncode


if __name__ == "__main__":
    sys.exit(main())
