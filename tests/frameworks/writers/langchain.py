"""LangChain: documents added to its vector store, which keeps the metadata nested. `langchain.py (qdrant|chroma) URL plan.json`."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from langchain_core.documents import Document
from langchain_core.embeddings import Embeddings


class Planned(Embeddings):  # type: ignore[misc]  # - the library is not installed where types are checked
    """The vectors of the plan, in its order: two passages have one text."""

    def __init__(self, vectors: list[list[float]]) -> None:
        self._vectors = vectors

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        """The next ones."""
        given, self._vectors = self._vectors[: len(texts)], self._vectors[len(texts) :]
        return given

    def embed_query(self, text: str) -> list[float]:
        """Nobody searches here."""
        raise NotImplementedError(text)


def store(kind: str, url: str, collection: str, embeddings: Embeddings, dimension: int) -> Any:
    """The vector store of a database."""
    if kind == "chroma":
        from langchain_chroma import Chroma

        address = urlsplit(url)
        return Chroma(collection, embeddings, host=address.hostname, port=address.port)
    from langchain_qdrant import QdrantVectorStore
    from qdrant_client import QdrantClient, models

    client = QdrantClient(url=url)
    client.create_collection(collection, models.VectorParams(size=dimension, distance=models.Distance.COSINE))
    return QdrantVectorStore(client, collection, embeddings, validate_collection_config=False)


if __name__ == "__main__":
    plan = json.loads(Path(sys.argv[3]).read_text(encoding="utf-8"))
    passages = plan["passages"]
    documents = [
        Document(
            passage["text"],
            metadata={
                "source": passage["file"],
                "title": passage["title"],
                "page": passage["page"],
                "creationdate": passage["date"],
            },
        )
        for passage in passages
    ]
    planned = Planned([passage["vector"] for passage in passages])
    stored = store(sys.argv[1], sys.argv[2], plan["collection"], planned, len(passages[0]["vector"]))
    stored.add_documents(documents, ids=[passage["identifier"] for passage in passages])
