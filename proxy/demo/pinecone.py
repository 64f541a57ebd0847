"""The demo over Pinecone's REST. No Pinecone is asked: an emulator of ours answers, and the demo says so, first and last."""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from vecsieve.proxy.demo.children import child, fronted
from vecsieve.proxy.demo.corpus import Corpus, Vectors
from vecsieve.proxy.demo.database import NAME, Addresses, Answer, DatabaseMissingError, Host, Store, Words
from vecsieve.proxy.search.report import REPORT_HEADER

# The corpus as an index of Pinecone, in its REST: what any client does, over one kept connection per host.
#
# Not through the official client: it is no dependency of the demo, and its next major version would be the demo's problem.

API_KEY = "demo"  # the emulator takes any, and wants one as the service does
_FIELDS = {"Api-Key": API_KEY, "X-Pinecone-Api-Version": "2025-10"}
_BATCH = 100  # the service's advice; 384 numbers and a text each make 0.6 MB of the 2 MB it takes
_POOL = re.compile(r"pool=([0-9]+)")


class PineconeIndex:
    """The demo's index at one control plane, the emulator's or VecSieve's. Record ids are corpus rows."""

    def __init__(self, control_plane: str) -> None:
        self._control_plane = Host(control_plane, _FIELDS)
        self._index: Host | None = None

    @property
    def host(self) -> str:
        """Where the control plane says the index is. Raises DatabaseRefusedError."""
        described, _ = self._control_plane.sent("GET", f"/indexes/{NAME}")
        host: str = described["host"]
        return host

    def load(self, corpus: Corpus, *, progress: Callable[[int], None]) -> None:
        """Create the index and write the corpus; ``progress`` hears how many chunks each step has written."""
        spec = {"serverless": {"cloud": "aws", "region": "us-east-1"}}
        index = {"name": NAME, "dimension": corpus.vectors.shape[1], "metric": "cosine", "spec": spec}
        self._control_plane.sent("POST", "/indexes", index)
        for start in range(0, len(corpus.chunks), _BATCH):
            rows = range(start, min(start + _BATCH, len(corpus.chunks)))
            records = [
                {"id": str(row), "values": corpus.vectors[row], "metadata": corpus.chunks[row].payload()}
                for row in rows
            ]
            self._opened().sent("POST", "/vectors/upsert", {"vectors": records})
            progress(len(rows))

    def ask(self, vector: Vectors, *, limit: int) -> Answer:
        """The nearest chunks to ``vector`` (d,), metadata included, as an application would ask for them."""
        index = self._opened()
        started = time.perf_counter()
        answer, headers = index.sent("POST", "/query", {"vector": vector, "topK": limit, "includeMetadata": True})
        milliseconds = (time.perf_counter() - started) * 1000.0
        matches = answer["matches"]
        pool = _POOL.match(headers.get(REPORT_HEADER, ""))
        return Answer(
            rows=tuple(int(match["id"]) for match in matches),
            scores=tuple(match["score"] for match in matches),
            milliseconds=milliseconds,
            chosen_from=None if pool is None else int(pool[1]),
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for host in (self._control_plane, self._index):
            if host is not None:
                host.close()

    def _opened(self) -> Host:
        """The index itself; where it is, the control plane is asked once, as by every client."""
        if self._index is None:
            self._index = Host(self.host, _FIELDS)
        return self._index


# What ``--keep`` prints of Pinecone's emulator: lines that work as pasted, with the real ports.


@dataclass(frozen=True, slots=True, kw_only=True)
class Hosts:
    """Where the index is, as the emulator's control plane tells it, and as it is told through VecSieve."""

    direct: str
    proxied: str


def instructions(at: Addresses, hosts: Hosts, *, row: int, question: int, limit: int) -> str:
    """How to query what was left running. ``row``: a record whose neighbours are asked for; ``question``: from 0."""
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


# The emulator belongs to the tests: only a checkout has it.
EMULATOR = Path(__file__).resolve().parents[2] / "tests" / "servers" / "pinecone"
READY = "vecsieve emulator listening on"
_OPENING = (
    "This is an emulator of Pinecone's REST API, in memory on this machine. It is not Pinecone's service: no account, no "
    "key, nothing leaves this machine."
)
_CAUTION = (
    "The emulator compares with every record, and says nothing of how fast Pinecone is: there the network adds to both "
    "times, and most to the larger answer."
)


class Pinecone:
    """The emulator, in a process of its own."""

    backend: str = "pinecone"
    words = Words(opening=_OPENING, caution=_CAUTION, command=f"vecsieve demo --backend {backend}")

    @contextmanager
    def running(self) -> Iterator[Addresses]:
        """The emulator, and the proxy in front of its control plane: indexes are found through that."""
        if not EMULATOR.is_dir():
            raise DatabaseMissingError(
                f"the demo over Pinecone asks an emulator that only a checkout of VecSieve has, and {EMULATOR} is not there"
            )
        program = (sys.executable, str(EMULATOR))
        with (
            child((), announces=(READY,), program=program, name="emulator") as emulator,
            fronted(emulator[READY], backend=self.backend) as addresses,
        ):
            yield addresses

    def opened(self, url: str) -> AbstractContextManager[Store]:
        """A client that knows a control plane and nothing else."""
        return PineconeIndex(url)

    def closing(self, at: Addresses) -> str | None:
        """Once more what it was, and what the proxy says that its larger requests weighed: Pinecone bills bytes."""
        admin = Host(at.admin)
        with closing(admin):
            spent, _ = admin.sent("GET", "/egress")
        each = spent["extra_bytes"] / max(1, spent["searches"]) / 1000
        return (
            "All of this was answered by the emulator, not by Pinecone's service. Pinecone meters what its answers weigh, "
            f"and candidates come with their vectors: over {spent['searches']} searches VecSieve fetched {each:.0f} kB a "
            "search more than it handed on."
        )

    def instructions(self, at: Addresses, *, row: int, question: int, limit: int) -> str:
        """For curl and the official client."""
        with PineconeIndex(at.engine) as direct, PineconeIndex(at.proxy) as proxied:
            hosts = Hosts(direct=direct.host, proxied=proxied.host)
        return instructions(at, hosts, row=row, question=question, limit=limit)
