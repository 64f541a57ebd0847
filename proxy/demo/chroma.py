"""The demo over Chroma: the real server, as its own package runs it."""

from __future__ import annotations

import re
import socket
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from http.client import HTTPException
from importlib.util import find_spec
from types import TracebackType
from typing import Self

from vecsieve.proxy.demo.children import ChildFailedError, child, fronted
from vecsieve.proxy.demo.corpus import Corpus, Vectors
from vecsieve.proxy.demo.database import (
    NAME,
    Addresses,
    Answer,
    DatabaseMissingError,
    DatabaseRefusedError,
    Host,
    Store,
    Words,
)
from vecsieve.proxy.search.report import REPORT_HEADER

# The corpus as a collection of Chroma, in its REST: what any client does, over one kept connection.
#
# Not through the official client: it loads half a gigabyte of what embeds texts, and the demo's vectors are made already.

COLLECTIONS = "/api/v2/tenants/default_tenant/databases/default_database/collections"
_BATCH = 250  # 250 x 384 numbers are about 1 MB of JSON: small steps for the progress bar, few requests
_POOL = re.compile(r"pool=([0-9]+)")


class ChromaCollection:
    """The demo's collection at one server, Chroma's or VecSieve's. Record ids are corpus rows."""

    def __init__(self, url: str) -> None:
        self._host = Host(url)
        self._path: str | None = None

    @property
    def path(self) -> str:
        """Where the collection is: the server knows it by an id, which it is asked for once. Raises DatabaseRefusedError."""
        if self._path is None:
            described, _ = self._host.sent("GET", f"{COLLECTIONS}/{NAME}")
            self._path = f"{COLLECTIONS}/{described['id']}"
        return self._path

    def load(self, corpus: Corpus, *, progress: Callable[[int], None]) -> None:
        """Create the collection and write the corpus; ``progress`` hears how many chunks each step has written."""
        configuration = {"hnsw": {"space": "cosine"}}
        self._host.sent("POST", COLLECTIONS, {"name": NAME, "configuration": configuration})
        for start in range(0, len(corpus.chunks), _BATCH):
            rows = range(start, min(start + _BATCH, len(corpus.chunks)))
            payloads = [corpus.chunks[row].payload() for row in rows]
            records = {
                "ids": [str(row) for row in rows],
                "embeddings": [corpus.vectors[row] for row in rows],
                "documents": [payload.pop("text") for payload in payloads],
                "metadatas": payloads,
            }
            self._host.sent("POST", f"{self.path}/add", records)
            progress(len(rows))

    def ask(self, vector: Vectors, *, limit: int) -> Answer:
        """The nearest chunks to ``vector`` (d,), with what they say, as an application would ask for them."""
        asked = {
            "query_embeddings": [vector],
            "n_results": limit,
            "include": ["metadatas", "documents", "distances"],
        }
        path = f"{self.path}/query"
        started = time.perf_counter()
        answer, headers = self._host.sent("POST", path, asked)
        milliseconds = (time.perf_counter() - started) * 1000.0
        pool = _POOL.match(headers.get(REPORT_HEADER, ""))
        return Answer(
            rows=tuple(int(row) for row in answer["ids"][0]),
            scores=tuple(answer["distances"][0]),
            milliseconds=milliseconds,
            chosen_from=None if pool is None else int(pool[1]),
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._host.close()


# What ``--keep`` prints of Chroma: lines that work as pasted, with the real ports and the collection's real id.


def instructions(at: Addresses, path: str, *, question: int, limit: int) -> str:
    """How to query what was left running. ``path``: the collection's, with its id; ``question``: from 0.

    Chroma searches by vectors alone, and one is too long to be pasted: curl gets it from the demo's own files.
    """
    vector = f"from vecsieve.proxy.demo.corpus import load; print(load().question_vectors[{question}].tolist())"
    body = f'{{"query_embeddings": [$VECTOR], "n_results": {limit}, "include": ["metadatas"]}}'.replace('"', '\\"')
    fields = "-H 'content-type: application/json'"
    return f"""\
Still running until Ctrl-C:

  Chroma       {at.engine}
  VecSieve     {at.proxy}   point any Chroma client here
  its metrics  {at.admin}/metrics

The same search both ways, with the vector of question {question + 1}:

VECTOR=$(python -c '{vector}')
curl -s {at.engine}{path}/query {fields} -d "{body}"
curl -s {at.proxy}{path}/query {fields} -d "{body}"

The same with Chroma's own client:

import chromadb
from vecsieve.proxy.demo.corpus import load
vector = load().question_vectors[{question}].tolist()
for url in ("{at.engine}", "{at.proxy}"):
    host, port = url.removeprefix("http://").split(":")
    answer = chromadb.HttpClient(host=host, port=int(port)).get_collection("{NAME}").query(vector, n_results={limit})
    print(url, *(metadata["document"] for metadata in answer["metadatas"][0]), sep="\\n  ")

"""


# A real Chroma server, as its own package runs it, for the time of a block: in a process of its own, on a free port.

PACKAGE = "chromadb"
_PROGRAM = (sys.executable, "-c", "import sys; from chromadb.cli.cli import app; sys.argv[0] = 'chroma'; app()")
_BANNER = "Connect to Chroma at"  # printed before the port is open
_READY_SECONDS = 30.0
_LOOK_SECONDS = 0.05


@contextmanager
def chroma_server() -> Iterator[str]:
    """Its URL, once it answers; what it holds is gone afterwards. Raises DatabaseMissingError without the package, ChildFailedError."""
    if find_spec(PACKAGE) is None:
        raise DatabaseMissingError(
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
            except (OSError, HTTPException, DatabaseRefusedError) as error:
                if time.monotonic() > deadline:
                    raise ChildFailedError(f"Chroma did not come up in {_READY_SECONDS:g} s: {error}") from error
            else:
                return
        time.sleep(_LOOK_SECONDS)


_CAUTION = (
    "Chroma answers in JSON, vectors as digits: most of the added time is its writing and our reading of them, and grows "
    "with the dimension."
)


class Chroma:
    """The server that `chroma run` starts, in a process of its own."""

    backend: str = "chroma"
    words = Words(opening=None, caution=_CAUTION, command=f"vecsieve demo --backend {backend}")

    @contextmanager
    def running(self) -> Iterator[Addresses]:
        """The server, and the proxy in front of it."""
        with chroma_server() as engine, fronted(engine, backend=self.backend) as addresses:
            yield addresses

    def opened(self, url: str) -> AbstractContextManager[Store]:
        """A client of its REST."""
        return ChromaCollection(url)

    def closing(self, at: Addresses) -> str | None:
        """Nothing: it was the real server."""
        return None

    def instructions(self, at: Addresses, *, row: int, question: int, limit: int) -> str:
        """For curl and the official client."""
        with ChromaCollection(at.engine) as direct:
            return instructions(at, direct.path, question=question, limit=limit)
