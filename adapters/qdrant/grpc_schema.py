"""Qdrant's messages, as far as they are read or changed. Numbers and names are those of its own schema, which a test compares."""

from __future__ import annotations

from typing import Any

from ..wire.schema import compiled

_VECTORS = {
    # A vector of a reply or of a write: its old fields, and since 1.17 one of three messages.
    "Vector": "1 data float*, 2 indices Indices, 3 vectors_count uint32, 101 dense Dense, 102 sparse Sparse, 103 multi_dense Multi",
    "Indices": "1 data uint32*",
    "Dense": "1 data float*",
    "Sparse": "1 values float*, 2 indices uint32*",
    "Multi": "1 vectors Dense*",
    "Vectors": "1 vector Vector, 2 vectors NamedVectors",
    "NamedVectors": "1 vectors map:Vector",
}
_REPLIES = {
    # A reply with its results opaque: hits, or the lists of a batch.
    "Reply": "1 result bytes*",
    # A list whose points are read.
    "List": "1 result Point*",
    "Point": "1 id Id, 2 payload map:Value, 3 score float, 5 version uint64, 6 vectors Vectors, 7 shard_key bytes",
    "Value": "4 string_value bytes",
    "Id": "1 num uint64, 2 uuid bytes",
    # A point whose payload keys, vectors or score are taken out or replaced. All fields are named: they keep their places.
    "Hit": "1 id bytes*, 2 payload Entry*, 3 score float, 5 version uint64, 6 vectors HitVectors, 7 shard_key bytes*, 8 order_value bytes*",
    "Entry": "1 key bytes, 2 value bytes*",
    "HitVectors": "1 vector bytes*, 2 vectors HitNamed",
    "HitNamed": "1 vectors Entry*",
}

# Of its own, private schema: nothing that other parts of the process register can clash with it.
MESSAGES = compiled("vecsieve.qdrant", _VECTORS | _REPLIES)

REPLY: Any = MESSAGES["Reply"]
LIST: Any = MESSAGES["List"]
HIT: Any = MESSAGES["Hit"]
VECTORS: Any = MESSAGES["Vectors"]
