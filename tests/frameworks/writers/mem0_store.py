"""mem0: its vector stores, with the payloads of `Memory`: the text as `data`, lemmatized once more, and its hash.

`mem0_store.py (qdrant|chroma) URL plan.json`. `Memory.add` would ask a language model, so the payload is made as its `_create_memory` makes it.
"""

from __future__ import annotations

import hashlib
import json
import sys
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from mem0.utils.lemmatization import lemmatize_for_bm25


def payload(passage: dict[str, Any]) -> dict[str, Any]:
    """What `_create_memory` hands to the store for a memory of a user with this metadata."""
    time = f"{passage['date']}T10:00:00+00:00"
    return {
        "user_id": "u1",
        "title": passage["title"],
        "file": passage["file"],
        "page": passage["page"],
        "data": passage["text"],
        "hash": hashlib.md5(passage["text"].encode(), usedforsecurity=False).hexdigest(),
        "created_at": time,
        "updated_at": time,
        "text_lemmatized": lemmatize_for_bm25(passage["text"]),
    }


def store(kind: str, url: str, collection: str, dimension: int) -> Any:
    """The vector store of a database."""
    if kind == "chroma":
        from mem0.vector_stores.chroma import ChromaDB

        address = urlsplit(url)
        return ChromaDB(collection, host=address.hostname, port=address.port)
    from mem0.vector_stores.qdrant import Qdrant

    return Qdrant(collection, dimension, url=url)


if __name__ == "__main__":
    plan = json.loads(Path(sys.argv[3]).read_text(encoding="utf-8"))
    passages = plan["passages"]
    stored = store(sys.argv[1], sys.argv[2], plan["collection"], len(passages[0]["vector"]))
    stored.insert(
        vectors=[passage["vector"] for passage in passages],
        payloads=[payload(passage) for passage in passages],
        ids=[passage["identifier"] for passage in passages],
    )
