"""The demo's databases, over REST: Qdrant's embedded engine, Chroma's own server, and an emulator of Pinecone's API."""

from __future__ import annotations

import socket
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from functools import cached_property
from http.client import HTTPException
from importlib.util import find_spec
from pathlib import Path
from typing import Any, ClassVar

from .corpus import Corpus, Vectors
from .database import (
    NAME,
    Addresses,
    ChildFailedError,
    Database,
    DatabaseMissingError,
    DatabaseRefusedError,
    Hits,
    Host,
    Search,
    Store,
    child,
)
from .engine import ANNOUNCEMENT


def _instructions(
    at: Addresses, *, engine: str, note: str = "", clients: str, search: str, requests: str, python: str
) -> str:
    """What `--keep` prints. ``engine``: the name of the database, with a ``note``. ``clients``: which may be pointed at the proxy. ``search``: which one the
    ``requests`` and the ``python`` make.
    """
    rows = ((engine, at.engine + note), ("VecSieve", f"{at.proxy}   {clients}"), ("its metrics", f"{at.admin}/metrics"))
    width = max(len(name) for name, _ in rows)
    processes = "\n".join(f"  {name:{width}}  {value}" for name, value in rows)
    return f"Still running until Ctrl-C:\n\n{processes}\n\nThe same search both ways, {search}:\n\n{requests}\n\nThe same {python}\n\n"


class QdrantCollection(Store):
    """The demo's collection on one server."""

    def create(self, dimension: int) -> None:
        body = {"vectors": {"size": dimension, "distance": "Cosine"}}
        self.host.sent("PUT", f"/collections/{NAME}", body)

    def write(self, corpus: Corpus, rows: range) -> None:
        points = [{"id": row, "vector": corpus.vectors[row], "payload": corpus.chunks[row].payload()} for row in rows]
        self.host.sent("PUT", f"/collections/{NAME}/points?wait=true", {"points": points})

    def search(self, vector: Vectors, limit: int) -> Search:
        body = {"query": vector, "limit": limit, "with_payload": True}
        return f"/collections/{NAME}/points/query", body

    def hits(self, answer: Any) -> Hits:
        return [(point["id"], point["score"]) for point in answer["result"]["points"]]


def qdrant_instructions(at: Addresses, /, *, row: int, question: int, limit: int) -> str:
    body = f'{{"query": {row}, "limit": {limit}, "with_payload": ["document", "title"]}}'
    request = f"/collections/{NAME}/points/query -H 'content-type: application/json' -d '{body}'"
    return _instructions(
        at,
        engine="the engine",
        clients="search here with any Qdrant client",
        search=f"the neighbours of chunk {row}",
        requests=f"curl -s {at.engine}{request}\ncurl -s {at.proxy}{request}",
        python=f"""\
in Python (pip install qdrant-client), with the vector of question {question + 1}:

from qdrant_client import QdrantClient
from vecsieve.proxy.demo.corpus import load
vector = load().question_vectors[{question}].tolist()
for url in ("{at.engine}", "{at.proxy}"):
    points = QdrantClient(url=url).query_points("{NAME}", query=vector, limit={limit}).points
    print(url, *(point.payload["document"] for point in points), sep="\\n  ")
""",
    )


@contextmanager
def _embedded() -> Iterator[str]:
    if find_spec("qdrant_edge") is None:
        raise ModuleNotFoundError("the engine is not installed", name="qdrant_edge")
    program = (sys.executable, "-m", "vecsieve.proxy.demo.engine")
    with child((), announces=(ANNOUNCEMENT,), program=program, name="engine") as engine:
        yield engine[ANNOUNCEMENT]


QDRANT = Database(
    backend="qdrant",
    command="vecsieve demo",
    engine=_embedded,
    opened=QdrantCollection,
    instructions=qdrant_instructions,
    caution=(
        "The embedded engine is for trying things out, it is not built for speed: fetching more results takes "
        "it longer than a Qdrant server."
    ),
)


COLLECTIONS = "/api/v2/tenants/default_tenant/databases/default_database/collections"
PACKAGE = "chromadb"
_PROGRAM = (sys.executable, "-c", "import sys; from chromadb.cli.cli import app; sys.argv[0] = 'chroma'; app()")
_BANNER = "Connect to Chroma at"  # printed before the port is open
_READY_SECONDS = 30.0
_POLL_SECONDS = 0.05


class ChromaCollection(Store):
    """The demo's collection on one server. The official client is not used: it installs half a gigabyte of code for embedding texts."""

    @cached_property
    def path(self) -> str:
        """The collection's path, which has the server's id for it. Raises DatabaseRefusedError."""
        described, _ = self.host.sent("GET", f"{COLLECTIONS}/{NAME}")
        return f"{COLLECTIONS}/{described['id']}"

    def create(self, dimension: int) -> None:
        configuration = {"hnsw": {"space": "cosine"}}
        self.host.sent("POST", COLLECTIONS, {"name": NAME, "configuration": configuration})

    def write(self, corpus: Corpus, rows: range) -> None:
        payloads = [corpus.chunks[row].payload() for row in rows]
        records = {
            "ids": [str(row) for row in rows],
            "embeddings": [corpus.vectors[row] for row in rows],
            "documents": [payload.pop("text") for payload in payloads],
            "metadatas": payloads,
        }
        self.host.sent("POST", f"{self.path}/add", records)

    def search(self, vector: Vectors, limit: int) -> Search:
        include = ["metadatas", "documents", "distances"]
        return f"{self.path}/query", {"query_embeddings": [vector], "n_results": limit, "include": include}

    def hits(self, answer: Any) -> Hits:
        return zip(answer["ids"][0], answer["distances"][0], strict=True)


def chroma_instructions(at: Addresses, path: str, *, question: int, limit: int) -> str:
    """``path``: the collection's, with its id. Chroma searches by vectors alone, and a vector is too long to paste:
    curl gets it from the demo's files.
    """
    vector = f"from vecsieve.proxy.demo.corpus import load; print(load().question_vectors[{question}].tolist())"
    body = f'{{"query_embeddings": [$VECTOR], "n_results": {limit}, "include": ["metadatas"]}}'.replace('"', '\\"')
    request = f"{path}/query -H 'content-type: application/json' -d \"{body}\""
    return _instructions(
        at,
        engine="Chroma",
        clients="point any Chroma client here",
        search=f"with the vector of question {question + 1}",
        requests=f"VECTOR=$(python -c '{vector}')\ncurl -s {at.engine}{request}\ncurl -s {at.proxy}{request}",
        python=f"""\
with Chroma's own client:

import chromadb
from vecsieve.proxy.demo.corpus import load
vector = load().question_vectors[{question}].tolist()
for url in ("{at.engine}", "{at.proxy}"):
    host, port = url.removeprefix("http://").split(":")
    answer = chromadb.HttpClient(host=host, port=int(port)).get_collection("{NAME}").query(vector, n_results={limit})
    print(url, *(metadata["document"] for metadata in answer["metadatas"][0]), sep="\\n  ")
""",
    )


@contextmanager
def chroma_server() -> Iterator[str]:
    """The URL of a server on a free port, once it answers. Its data is deleted after the block.

    Raises DatabaseMissingError without the package, ChildFailedError.
    """
    if find_spec(PACKAGE) is None:
        raise DatabaseMissingError(
            f"Chroma's own package is not installed, and it is the server: pip install {PACKAGE} (about 500 MB)"
        )
    # The server does not accept port 0. If another process takes this port first, the server fails with a message.
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = int(probe.getsockname()[1])
    # ignore_cleanup_errors: a server that ends may still write after its folder was removed.
    with tempfile.TemporaryDirectory(prefix="vecsieve-chroma-", ignore_cleanup_errors=True) as folder:
        arguments = ("run", "--host", "127.0.0.1", "--port", str(port), "--path", folder)
        with child(arguments, announces=(_BANNER,), program=_PROGRAM):
            url = f"http://127.0.0.1:{port}"
            _wait_for(url)
            yield url


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


def _instructions_of_chroma(at: Addresses, /, *, row: int, question: int, limit: int) -> str:
    with closing(ChromaCollection(at.engine)) as direct:
        return chroma_instructions(at, direct.path, question=question, limit=limit)


CHROMA = Database(
    backend="chroma",
    command="vecsieve demo --backend chroma",
    engine=chroma_server,
    opened=ChromaCollection,
    instructions=_instructions_of_chroma,
    caution=(
        "Chroma answers in JSON with vectors as digits: most of the added time is for writing and reading them, and grows "
        "with the dimension."
    ),
)


API_KEY = "demo"  # the emulator accepts any key, but requires one as the service does

# The emulator is part of the tests, so only a checkout has it.
EMULATOR = Path(__file__).resolve().parents[2] / "tests" / "servers" / "pinecone"
READY = "vecsieve emulator listening on"


class PineconeIndex(Store):
    """The demo's index, found through the control plane at ``url``. The official client is not used: the demo would have to follow its next major version."""

    batch = 100  # as the service recommends; 384 numbers and a text each make 0.6 MB of at most 2 MB
    fields: ClassVar[Mapping[str, str]] = {"Api-Key": API_KEY, "X-Pinecone-Api-Version": "2025-10"}

    @cached_property
    def index(self) -> Host:
        """The index's host, from the control plane. Raises DatabaseRefusedError."""
        described, _ = self.host.sent("GET", f"/indexes/{NAME}")
        return Host(described["host"], self.fields)

    def create(self, dimension: int) -> None:
        spec = {"serverless": {"cloud": "aws", "region": "us-east-1"}}
        index = {"name": NAME, "dimension": dimension, "metric": "cosine", "spec": spec}
        self.host.sent("POST", "/indexes", index)

    def write(self, corpus: Corpus, rows: range) -> None:
        records = [
            {"id": str(row), "values": corpus.vectors[row], "metadata": corpus.chunks[row].payload()} for row in rows
        ]
        self.index.sent("POST", "/vectors/upsert", {"vectors": records})

    def search(self, vector: Vectors, limit: int) -> Search:
        return "/query", {"vector": vector, "topK": limit, "includeMetadata": True}

    def hits(self, answer: Any) -> Hits:
        return [(match["id"], match["score"]) for match in answer["matches"]]


def pinecone_instructions(at: Addresses, hosts: tuple[str, str], *, row: int, question: int, limit: int) -> str:
    """``hosts``: the index's, from the emulator and through VecSieve."""
    fields = f"-H 'Api-Key: {API_KEY}' -H 'content-type: application/json'"
    body = f'{{"id": "{row}", "topK": {limit}, "includeMetadata": true}}'
    return _instructions(
        at,
        engine="the emulator",
        note="   its control plane; it is not Pinecone's service",
        clients="point any Pinecone client here; any key will do",
        search=f"the neighbours of chunk {row}",
        requests="\n".join(f"curl -s {host}/query {fields} -d '{body}'" for host in hosts),
        python=f"""\
with Pinecone's own client (pip install pinecone), with the vector of question {question + 1}:

from pinecone import Pinecone
from vecsieve.proxy.demo.corpus import load
vector = load().question_vectors[{question}].tolist()
for url in ("{at.engine}", "{at.proxy}"):
    index = Pinecone(api_key="{API_KEY}", host=url).Index("{NAME}")
    matches = index.query(vector=vector, top_k={limit}, include_metadata=True).matches
    print(url, *(match.metadata["document"] for match in matches), sep="\\n  ")
""",
    )


@contextmanager
def _emulator() -> Iterator[str]:
    """The URL of its control plane, through which clients find indexes."""
    if not EMULATOR.is_dir():
        raise DatabaseMissingError(
            f"the demo over Pinecone needs an emulator that only a checkout of VecSieve has, and {EMULATOR} does not exist"
        )
    with child((), announces=(READY,), program=(sys.executable, str(EMULATOR)), name="emulator") as emulator:
        yield emulator[READY]


def _closing(at: Addresses) -> str:
    """The bytes that the proxy fetched beyond the plain answers, which Pinecone bills."""
    with closing(Host(at.admin)) as admin:
        spent, _ = admin.sent("GET", "/egress")
    kilobytes = spent["extra_bytes"] / max(1, spent["searches"]) / 1000
    return (
        "All answers are from the emulator, not from Pinecone's service. Pinecone meters the bytes of its answers, "
        f"and candidates come with their vectors: over {spent['searches']} searches VecSieve fetched {kilobytes:.0f} kB a "
        "search more than it returned."
    )


def _instructions_of_pinecone(at: Addresses, /, *, row: int, question: int, limit: int) -> str:
    with closing(PineconeIndex(at.engine)) as direct, closing(PineconeIndex(at.proxy)) as proxied:
        hosts = direct.index.url, proxied.index.url
    return pinecone_instructions(at, hosts, row=row, question=question, limit=limit)


PINECONE = Database(
    backend="pinecone",
    command="vecsieve demo --backend pinecone",
    engine=_emulator,
    opened=PineconeIndex,
    instructions=_instructions_of_pinecone,
    caution=(
        "The emulator compares with every record and does not show how fast Pinecone is: there the network adds to both "
        "times, and most to the larger answer."
    ),
    opening=(
        "This is an emulator of Pinecone's REST API, in memory on this machine. It is not Pinecone's service: no account, no "
        "key, nothing leaves this machine."
    ),
    closing=_closing,
)
