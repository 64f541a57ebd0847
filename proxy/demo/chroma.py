"""The demo on Chroma: the real server, started from its own package."""

from __future__ import annotations

import socket
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from functools import cached_property
from http.client import HTTPException
from importlib.util import find_spec

from vecsieve.proxy.demo.children import ChildFailedError, child, fronted
from vecsieve.proxy.demo.corpus import Corpus, Vectors
from vecsieve.proxy.demo.database import (
    NAME,
    Addresses,
    Answer,
    Database,
    DatabaseMissingError,
    DatabaseRefusedError,
    Host,
    batches,
)

COLLECTIONS = "/api/v2/tenants/default_tenant/databases/default_database/collections"
_BATCH = 250  # 250 x 384 numbers are about 1 MB of JSON: small steps for the progress bar, few requests

PACKAGE = "chromadb"
_PROGRAM = (sys.executable, "-c", "import sys; from chromadb.cli.cli import app; sys.argv[0] = 'chroma'; app()")
_BANNER = "Connect to Chroma at"  # printed before the port is open
_READY_SECONDS = 30.0
_POLL_SECONDS = 0.05


class ChromaCollection:
    """The demo's collection on one server, over REST. Record ids are corpus rows.

    The official client is not used: it loads half a gigabyte of code for embedding texts.
    """

    def __init__(self, url: str) -> None:
        self._host = Host(url)

    @cached_property
    def path(self) -> str:
        """The collection's path, which has the server's id for it. Raises DatabaseRefusedError."""
        described, _ = self._host.sent("GET", f"{COLLECTIONS}/{NAME}")
        return f"{COLLECTIONS}/{described['id']}"

    def load(self, corpus: Corpus, *, progress: Callable[[int], None]) -> None:
        configuration = {"hnsw": {"space": "cosine"}}
        self._host.sent("POST", COLLECTIONS, {"name": NAME, "configuration": configuration})
        for rows in batches(corpus, _BATCH, progress):
            payloads = [corpus.chunks[row].payload() for row in rows]
            records = {
                "ids": [str(row) for row in rows],
                "embeddings": [corpus.vectors[row] for row in rows],
                "documents": [payload.pop("text") for payload in payloads],
                "metadatas": payloads,
            }
            self._host.sent("POST", f"{self.path}/add", records)

    def ask(self, vector: Vectors, *, limit: int) -> Answer:
        include = ["metadatas", "documents", "distances"]
        asked = {"query_embeddings": [vector], "n_results": limit, "include": include}
        answer, milliseconds, pool_size = self._host.searched(f"{self.path}/query", asked)
        return Answer(
            rows=tuple(int(row) for row in answer["ids"][0]),
            scores=tuple(answer["distances"][0]),
            milliseconds=milliseconds,
            pool_size=pool_size,
        )

    def close(self) -> None:
        self._host.close()


def instructions(at: Addresses, path: str, *, question: int, limit: int) -> str:
    """``path``: the collection's, with its id. Chroma searches by vectors alone, and a vector is too long to paste:
    curl gets it from the demo's files.
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


@contextmanager
def chroma_server() -> Iterator[str]:
    """The URL of a server on a free port, once it answers. Its data is deleted after the block.

    Raises DatabaseMissingError without the package, ChildFailedError.
    """
    if find_spec(PACKAGE) is None:
        raise DatabaseMissingError(
            f"Chroma's own package is not installed, and it is the server: pip install {PACKAGE} (about 500 MB)"
        )
    port = _free_port()
    # ignore_cleanup_errors: a server that ends may still write after its folder was removed.
    with tempfile.TemporaryDirectory(prefix="vecsieve-chroma-", ignore_cleanup_errors=True) as folder:
        arguments = ("run", "--host", "127.0.0.1", "--port", str(port), "--path", folder)
        with child(arguments, announces=(_BANNER,), program=_PROGRAM):
            url = f"http://127.0.0.1:{port}"
            _wait_for(url)
            yield url


def _free_port() -> int:
    """The server accepts no port 0. If another process takes this port first, the server fails and says so."""
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
        time.sleep(_POLL_SECONDS)


@contextmanager
def _running() -> Iterator[Addresses]:
    with chroma_server() as engine, fronted(engine, backend="chroma") as addresses:
        yield addresses


def _instructions(at: Addresses, /, *, row: int, question: int, limit: int) -> str:
    with closing(ChromaCollection(at.engine)) as direct:
        return instructions(at, direct.path, question=question, limit=limit)


CHROMA = Database(
    backend="chroma",
    command="vecsieve demo --backend chroma",
    running=_running,
    opened=ChromaCollection,
    instructions=_instructions,
    caution=(
        "Chroma answers in JSON, vectors as digits: most of the added time is its writing and our reading of them, and grows "
        "with the dimension."
    ),
)
