"""What ``--keep`` prints of Qdrant: lines that work as pasted, with the real ports; and what any run ends with."""

from __future__ import annotations

from vecsieve.proxy.demo.database import Addresses
from vecsieve.proxy.demo.store import NAME


def invitation(questions: int, command: str) -> str:
    """What to try next, after a run of ``command`` that ends by itself."""
    return f"Another question: {command} --query NUMBER (1 to {questions}). To ask by yourself: {command} --keep"


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
