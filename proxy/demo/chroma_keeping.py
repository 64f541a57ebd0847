"""What ``--keep`` prints of Chroma: lines that work as pasted, with the real ports and the collection's real id."""

from __future__ import annotations

from vecsieve.proxy.demo.database import Addresses
from vecsieve.proxy.demo.store import NAME


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
