"""Haystack: documents written to its document store. `haystack_store.py qdrant URL plan.json`."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from haystack import Document
from haystack_integrations.document_stores.qdrant import QdrantDocumentStore

if __name__ == "__main__":
    plan = json.loads(Path(sys.argv[3]).read_text(encoding="utf-8"))
    passages = plan["passages"]
    store = QdrantDocumentStore(url=sys.argv[2], index=plan["collection"], embedding_dim=len(passages[0]["vector"]))
    store.write_documents(
        [
            Document(
                content=passage["text"],
                embedding=passage["vector"],
                meta={
                    "title": passage["title"],
                    "file_path": passage["file"],
                    "page_number": passage["page"],
                    "date": passage["date"],
                },
            )
            for passage in passages
        ]
    )
