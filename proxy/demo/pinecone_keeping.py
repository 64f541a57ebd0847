"""What ``--keep`` prints of Pinecone's emulator: lines that work as pasted, with the real ports."""

from __future__ import annotations

from dataclasses import dataclass

from vecsieve.proxy.demo.database import Addresses
from vecsieve.proxy.demo.pinecone_index import API_KEY
from vecsieve.proxy.demo.store import NAME


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
