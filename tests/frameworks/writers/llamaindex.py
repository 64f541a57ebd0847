"""LlamaIndex: documents split into nodes, and added to its vector store. `llamaindex.py qdrant URL plan.json`."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from llama_index.core import Document
from llama_index.core.node_parser import SentenceSplitter
from llama_index.vector_stores.qdrant import QdrantVectorStore
from qdrant_client import QdrantClient


def nodes(passages: list[dict[str, Any]]) -> list[Any]:
    """One document for each passage: a reader of PDF files makes one of each page."""
    documents = [
        Document(
            doc_id=passage["file"] + f"-{passage['page']}",
            text=passage["text"],
            metadata={
                "title": passage["title"],
                "file_name": passage["file"],
                "page_label": str(passage["page"]),
                "date": passage["date"],
            },
            excluded_embed_metadata_keys=["file_name", "date"],
        )
        for passage in passages
    ]
    made = SentenceSplitter(chunk_size=512, chunk_overlap=20).get_nodes_from_documents(documents)
    for node, passage in zip(made, passages, strict=True):
        node.id_ = passage["identifier"]
        node.embedding = passage["vector"]
    return list(made)


if __name__ == "__main__":
    plan = json.loads(Path(sys.argv[3]).read_text(encoding="utf-8"))
    store = QdrantVectorStore(client=QdrantClient(url=sys.argv[2]), collection_name=plan["collection"])
    store.add(nodes(plan["passages"]))
