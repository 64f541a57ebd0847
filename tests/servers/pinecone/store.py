"""One index's namespaces and records, in memory, in the order they were first written."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from servers.pinecone.schema import Description
from servers.pinecone.shapes import Reals

Json = Any

DEFAULT = "__default__"


@dataclass(frozen=True, slots=True, kw_only=True)
class Sparse:
    """A sparse vector: index i weighs values[i]. Every index once."""

    indices: tuple[int, ...]
    values: Reals


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """One record. Vectors stand under the schema's names of their fields: `_values`, `_sparse_values` for plain indexes."""

    id: str
    dense: Mapping[str, Reals] = field(default_factory=dict)
    sparse: Mapping[str, Sparse] = field(default_factory=dict)
    metadata: Mapping[str, Json] = field(default_factory=dict)


class Namespace:
    """Records by id, and the matrices that rankings read."""

    def __init__(self, *, schema: Json = None) -> None:
        self.records: dict[str, Record] = {}
        self.schema = schema
        self._stacked: dict[str, tuple[list[Record], NDArray[np.float64]]] = {}

    def put(self, records: Iterable[Record]) -> None:
        """Write records; one with a known id takes the place of the old."""
        self.records.update((record.id, record) for record in records)
        self._stacked.clear()

    def remove(self, ids: Iterable[str]) -> None:
        """Forget records; unknown ids are none of its business."""
        for known in ids:
            self.records.pop(known, None)
        self._stacked.clear()

    def stacked(self, name: str) -> tuple[list[Record], NDArray[np.float64]]:
        """The records that have this dense field, and their vectors: shape (records, dimension). Doubles, for the scores."""
        if name not in self._stacked:
            having = [record for record in self.records.values() if name in record.dense]
            rows = [record.dense[name] for record in having]
            self._stacked[name] = (having, np.array(rows, dtype=np.float64))
        return self._stacked[name]


@dataclass(slots=True, kw_only=True)
class Index:
    """An index: what it is, where it is, and what it holds. `lsn` counts its writes."""

    description: Description
    host: str
    private_host: str
    namespaces: dict[str, Namespace] = field(default_factory=dict)
    lsn: int = 0

    def namespace(self, name: str) -> Namespace | None:
        """The namespace of this name; an empty name and `__default__` are one."""
        return self.namespaces.get(name or DEFAULT)

    def opened(self, name: str) -> Namespace:
        """The namespace of this name, made if it is not there: a write makes its namespace."""
        return self.namespaces.setdefault(name or DEFAULT, Namespace())

    def written(self) -> dict[str, str]:
        """Count a write; the header that tells its client which one it was."""
        self.lsn += 1
        return {"x-pinecone-request-lsn": str(self.lsn)}

    def seen(self) -> dict[str, str]:
        """The header that tells which writes a search has seen: all, here."""
        return {"x-pinecone-max-indexed-lsn": str(self.lsn)}
