"""The demo on Pinecone's REST API. An emulator answers, not Pinecone's service; the demo says so at its start and end."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

from vecsieve.proxy.demo.children import child, fronted
from vecsieve.proxy.demo.corpus import Corpus, Vectors
from vecsieve.proxy.demo.database import NAME, Addresses, Answer, Database, DatabaseMissingError, Host, batches

API_KEY = "demo"  # the emulator takes any key, and requires one as the service does
_FIELDS = {"Api-Key": API_KEY, "X-Pinecone-Api-Version": "2025-10"}
_BATCH = 100  # the service's advice; 384 numbers and a text each make 0.6 MB of the 2 MB that a request may have

# The emulator belongs to the tests: only a checkout has it.
EMULATOR = Path(__file__).resolve().parents[2] / "tests" / "servers" / "pinecone"
READY = "vecsieve emulator listening on"


class PineconeIndex:
    """The demo's index, found through one control plane. Record ids are corpus rows.

    The official client is not used: the demo would have to follow its next major version.
    """

    def __init__(self, control_plane: str) -> None:
        self._control_plane = Host(control_plane, _FIELDS)
        self._index: Host | None = None

    @property
    def host(self) -> str:
        """The index's host, from the control plane. Raises DatabaseRefusedError."""
        described, _ = self._control_plane.sent("GET", f"/indexes/{NAME}")
        host: str = described["host"]
        return host

    def load(self, corpus: Corpus, *, progress: Callable[[int], None]) -> None:
        spec = {"serverless": {"cloud": "aws", "region": "us-east-1"}}
        index = {"name": NAME, "dimension": corpus.vectors.shape[1], "metric": "cosine", "spec": spec}
        self._control_plane.sent("POST", "/indexes", index)
        for rows in batches(corpus, _BATCH, progress):
            records = [
                {"id": str(row), "values": corpus.vectors[row], "metadata": corpus.chunks[row].payload()}
                for row in rows
            ]
            self._opened().sent("POST", "/vectors/upsert", {"vectors": records})

    def ask(self, vector: Vectors, *, limit: int) -> Answer:
        asked = {"vector": vector, "topK": limit, "includeMetadata": True}
        answer, milliseconds, pool_size = self._opened().searched("/query", asked)
        return Answer(
            rows=tuple(int(match["id"]) for match in answer["matches"]),
            scores=tuple(match["score"] for match in answer["matches"]),
            milliseconds=milliseconds,
            pool_size=pool_size,
        )

    def close(self) -> None:
        for host in (self._control_plane, self._index):
            if host is not None:
                host.close()

    def _opened(self) -> Host:
        if self._index is None:
            self._index = Host(self.host, _FIELDS)
        return self._index


@dataclass(frozen=True, slots=True, kw_only=True)
class Hosts:
    """The index's host, as the emulator tells it and as it is told through VecSieve."""

    direct: str
    proxied: str


def instructions(at: Addresses, hosts: Hosts, *, row: int, question: int, limit: int) -> str:
    fields = f"-H 'Api-Key: {API_KEY}' -H 'content-type: application/json'"
    body = f'{{"id": "{row}", "topK": {limit}, "includeMetadata": true}}'
    return f"""\
Still running until Ctrl-C:

  the emulator  {at.engine}   its control plane; it is not Pinecone's service
  VecSieve      {at.proxy}   point any Pinecone client here; any key will do
  its metrics   {at.admin}/metrics

The same search both ways, the neighbours of chunk {row}:

curl -s {hosts.direct}/query {fields} -d '{body}'
curl -s {hosts.proxied}/query {fields} -d '{body}'

The same with Pinecone's own client (pip install pinecone), with the vector of question {question + 1}:

from pinecone import Pinecone
from vecsieve.proxy.demo.corpus import load
vector = load().question_vectors[{question}].tolist()
for url in ("{at.engine}", "{at.proxy}"):
    index = Pinecone(api_key="{API_KEY}", host=url).Index("{NAME}")
    matches = index.query(vector=vector, top_k={limit}, include_metadata=True).matches
    print(url, *(match.metadata["document"] for match in matches), sep="\\n  ")

"""


@contextmanager
def _running() -> Iterator[Addresses]:
    """The proxy is in front of the emulator's control plane, through which clients find indexes."""
    if not EMULATOR.is_dir():
        raise DatabaseMissingError(
            f"the demo over Pinecone asks an emulator that only a checkout of VecSieve has, and {EMULATOR} is not there"
        )
    program = (sys.executable, str(EMULATOR))
    with (
        child((), announces=(READY,), program=program, name="emulator") as emulator,
        fronted(emulator[READY], backend="pinecone") as addresses,
    ):
        yield addresses


def _closing(at: Addresses) -> str:
    """What the proxy fetched beyond the plain answers: Pinecone bills bytes."""
    with closing(Host(at.admin)) as admin:
        spent, _ = admin.sent("GET", "/egress")
    each = spent["extra_bytes"] / max(1, spent["searches"]) / 1000
    return (
        "All of this was answered by the emulator, not by Pinecone's service. Pinecone meters what its answers weigh, "
        f"and candidates come with their vectors: over {spent['searches']} searches VecSieve fetched {each:.0f} kB a "
        "search more than it handed on."
    )


def _instructions(at: Addresses, /, *, row: int, question: int, limit: int) -> str:
    with closing(PineconeIndex(at.engine)) as direct, closing(PineconeIndex(at.proxy)) as proxied:
        hosts = Hosts(direct=direct.host, proxied=proxied.host)
    return instructions(at, hosts, row=row, question=question, limit=limit)


PINECONE = Database(
    backend="pinecone",
    command="vecsieve demo --backend pinecone",
    running=_running,
    opened=PineconeIndex,
    instructions=_instructions,
    caution=(
        "The emulator compares with every record, and says nothing of how fast Pinecone is: there the network adds to both "
        "times, and most to the larger answer."
    ),
    opening=(
        "This is an emulator of Pinecone's REST API, in memory on this machine. It is not Pinecone's service: no account, no "
        "key, nothing leaves this machine."
    ),
    closing=_closing,
)
