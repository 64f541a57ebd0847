"""A real Chroma server, as its own package runs it, for the time of a block: in a process of its own, on a free port."""

from __future__ import annotations

import socket
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from http.client import HTTPException
from importlib.util import find_spec

from vecsieve.proxy.demo.children import ChildFailed, child
from vecsieve.proxy.demo.database import DatabaseMissing
from vecsieve.proxy.demo.http_host import DatabaseRefused, Host

PACKAGE = "chromadb"
_PROGRAM = (sys.executable, "-c", "import sys; from chromadb.cli.cli import app; sys.argv[0] = 'chroma'; app()")
_BANNER = "Connect to Chroma at"  # printed before the port is open
_READY_SECONDS = 30.0
_LOOK_SECONDS = 0.05


@contextmanager
def chroma_server() -> Iterator[str]:
    """Its URL, once it answers; what it holds is gone afterwards. Raises DatabaseMissing without the package, ChildFailed."""
    if find_spec(PACKAGE) is None:
        raise DatabaseMissing(
            f"Chroma's own package is not installed, and it is the server: pip install {PACKAGE} (about 500 MB)"
        )
    port = _free_port()
    # What the server writes when it is told to end may come after the folder went.
    with tempfile.TemporaryDirectory(prefix="vecsieve-chroma-", ignore_cleanup_errors=True) as folder:
        arguments = ("run", "--host", "127.0.0.1", "--port", str(port), "--path", folder)
        with child(arguments, announces=(_BANNER,), program=_PROGRAM):
            url = f"http://127.0.0.1:{port}"
            _wait_for(url)
            yield url


def _free_port() -> int:
    """The server takes no port 0. Between this and its start somebody may take the port: then it fails, and says so."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _wait_for(url: str) -> None:
    deadline = time.monotonic() + _READY_SECONDS
    while True:
        with closing(Host(url)) as host:
            try:
                host.sent("GET", "/api/v2/heartbeat")
            except (OSError, HTTPException, DatabaseRefused) as error:
                if time.monotonic() > deadline:
                    raise ChildFailed(f"Chroma did not come up in {_READY_SECONDS:g} s: {error}") from error
            else:
                return
        time.sleep(_LOOK_SECONDS)
