"""What ``--keep`` prints: lines that work as pasted, with the real ports."""

from __future__ import annotations

from dataclasses import dataclass

from vecsieve.proxy.demo.collection import NAME


@dataclass(frozen=True, slots=True, kw_only=True)
class Addresses:
    """Where the demo's processes listen, as URLs. ``proxy``: the data port; ``admin``: health and metrics."""

    engine: str
    proxy: str
    admin: str


def invitation(questions: int) -> str:
    """What to try next, after a run that ends by itself."""
    return (
        f"Another question: vecsieve demo --query NUMBER (1 to {questions}). To ask by yourself: vecsieve demo --keep"
    )


def instructions(at: Addresses, *, row: int, question: int, limit: int) -> str:
    """How to query what was left running. ``row``: a point whose neighbours are asked for; ``question``: from 0."""
    body = f'{{"query": {row}, "limit": {limit}, "with_payload": ["document", "title"]}}'
    return f"""\
Still running until Ctrl-C:

  the engine   {at.engine}
  VecSieve     {at.proxy}   point any Qdrant client here
  its metrics  {at.admin}/metrics

The same search both ways, the neighbours of chunk {row}:

curl -s {at.engine}/collections/{NAME}/points/query -H 'content-type: application/json' -d '{body}'
curl -s {at.proxy}/collections/{NAME}/points/query -H 'content-type: application/json' -d '{body}'

The same in Python, with the vector of question {question + 1}:

from qdrant_client import QdrantClient
from vecsieve.proxy.demo.corpus import load
vector = load().question_vectors[{question}].tolist()
for url in ("{at.engine}", "{at.proxy}"):
    points = QdrantClient(url=url).query_points("{NAME}", query=vector, limit={limit}).points
    print(url, *(point.payload["document"] for point in points), sep="\\n  ")

"""
