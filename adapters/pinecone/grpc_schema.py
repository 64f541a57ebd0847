"""Pinecone's messages, as far as they are read or changed. Numbers and names are those of its own schema, which a test compares."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from ..wire import values
from ..wire.protobuf import Messages
from ..wire.schema import compiled

_SEARCHES = {
    # Not supported: the legacy ``queries``.
    "Search": (
        "1 namespace bytes, 2 top_k uint64, 3 filter bytes, 4 include_values bool, 5 include_metadata bool, 7 vector bytes*, 8 id bytes, "
        "9 sparse_vector bytes, 10 scan_factor float, 11 max_candidates uint64"
    ),
    # A reply with its matches opaque, and one whose matches are read. Packed numbers, and metadata that may not be needed, are opaque.
    "Reply": "1 results bytes*, 2 matches bytes*",
    "Matches": "2 matches Match*",
    "Match": "1 id bytes, 2 score float, 3 values bytes, 4 metadata bytes, 5 sparse_values bytes",
    # A match from which fields are taken: all are named and keep their places.
    "Hit": "1 id bytes*, 2 score float, 3 values bytes*, 4 metadata bytes*, 5 sparse_values bytes*",
    "Sparse": "1 indices uint32*, 2 values float*",
}
_WRITES = {
    "Vectors": "1 vectors bytes*, 2 namespace bytes*",
    "Vector": "1 id bytes, 2 values bytes*, 3 metadata bytes, 4 sparse_values bytes",
    "Stored": "1 vectors map:bytes",
    "Statistics": "5 metric bytes",  # since 2025
    "Fetch": "1 ids bytes*, 2 namespace bytes",
    "Delete": "1 ids bytes*, 2 delete_all bool, 3 namespace bytes, 4 filter bytes*",
    "DeleteNamespace": "1 namespace bytes",
    "Update": "1 id bytes, 4 namespace bytes",
}

# Of its own, private schema: nothing that other parts of the process register can clash with it.
MESSAGES = compiled("vecsieve.pinecone", _SEARCHES | _WRITES)
proto: Any = SimpleNamespace(**MESSAGES)

# What is counted of large messages: `reply`, `upsert`, and `fetched` of stored vectors.
COUNTED: Messages = {
    "reply": {2: "match"},
    "match": {4: "struct"},
    "upsert": {1: "vector"},
    "fetched": {1: "entry"},
    "entry": {2: "vector"},
    "vector": {3: "struct"},
    **values.COUNTED,
}
