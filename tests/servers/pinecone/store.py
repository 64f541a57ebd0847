"""What a project holds: indexes by host, what each of them should be, its namespaces and records."""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from servers.pinecone.errors import ALREADY_EXISTS, FORBIDDEN, MISSING, RefusalError, invalid
from servers.pinecone.shapes import Reals

# What an index holds: its fields, its embedding model, where it runs. One description for every API version.


Json = Any

DENSE = "_values"
SPARSE = "_sparse_values"
METRICS = ("cosine", "dotproduct", "euclidean")


class Model(NamedTuple):
    """An embedding model: its number of dimensions, None for a sparse one, and the metric it is meant for."""

    dimension: int | None
    metric: str


MODELS = {
    "multilingual-e5-large": Model(1024, "cosine"),
    "llama-text-embed-v2": Model(1024, "cosine"),
    "pinecone-sparse-english-v0": Model(None, "dotproduct"),
}


class Dense(NamedTuple):
    """A dense vector field."""

    name: str
    dimension: int
    metric: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Description:
    """An index as it was asked for. `fields` and `deployment` are those of 2026-07; older versions are derived from them.

    `embed`: the settings of an integrated index made with create-for-model, None for any other.
    """

    name: str
    fields: Mapping[str, Json]
    deployment: Mapping[str, Json]
    deletion_protection: str = "disabled"
    tags: Mapping[str, str] | None = None
    embed: Mapping[str, Json] | None = None
    read_capacity: Mapping[str, Json] | None = None
    metadata_schema: Mapping[str, Json] | None = None

    def dense(self) -> dict[str, Dense]:
        """The dense vector fields by name; an integrated index keeps its embeddings under `_values`."""
        fields = {}
        for name, known in self.fields.items():
            if known.get("type") == "dense_vector":
                fields[name] = Dense(name, known["dimension"], known["metric"])
            elif isinstance(known.get("embed"), Mapping):
                embed = known["embed"]
                fields[name] = Dense(name, embed["dimension"], embed["metric"])
        if self.embed is not None and self.embed["vector_type"] == "dense":
            fields[DENSE] = Dense(DENSE, self.embed["dimension"], self.embed["metric"])
        return fields

    def sparse(self) -> list[str]:
        """The sparse vector fields."""
        named = [name for name, field in self.fields.items() if _is_sparse(field)]
        integrated = self.embed is not None and self.embed["vector_type"] == "sparse"
        return [*named, SPARSE] if integrated else named

    def holds_vectors(self) -> bool:
        """Whether `/query` and `/vectors` serve it: a schema of own names is for documents only."""
        return self.embed is not None or bool({DENSE, SPARSE} & set(self.fields))

    def text_field(self) -> str:
        """The field whose text an integrated index embeds. Refuses an index that embeds nothing."""
        if self.embed is None:
            raise invalid("Integrated inference is not configured for this index")
        return str(self.embed["field_map"]["text"])

    def vector_type(self) -> str:
        """`dense` or `sparse`; an index of documents without vectors counts as dense."""
        return "sparse" if self.sparse() and not self.dense() else "dense"


def _is_sparse(field: Mapping[str, Json]) -> bool:
    return field.get("type") == "sparse_vector" or isinstance(field.get("sparse_embed"), Mapping)


def known_model(name: Json) -> Model:
    """The model of this name. Raises RefusalError."""
    if not isinstance(name, str) or name not in MODELS:
        raise invalid(f"Model {name!r} is not known; this emulator has {', '.join(MODELS)}")
    return MODELS[name]


# One index's namespaces and records, in memory, in the order they were first written.


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


# A project's indexes, and where each can be reached.


class Place(NamedTuple):
    """Where an index is: the strings the control plane shows for it."""

    host: str
    private_host: str


class Project:
    """Indexes by name. `place` decides where a new one, known by its label, can be reached."""

    def __init__(self, place: Callable[[str], Place]) -> None:
        self.indexes: dict[str, Index] = {}
        self._place = place
        self._numbers = itertools.count(1)

    def unused_name(self) -> str:
        """A name for an index that brings none."""
        return next(name for number in self._numbers if (name := f"index-{number}") not in self.indexes)

    def add(self, description: Description) -> Index:
        """Make an index. Raises RefusalError when the name is taken."""
        if description.name in self.indexes:
            raise RefusalError(ALREADY_EXISTS, "Resource  already exists")
        place = self._place(label_of(description.name))
        index = Index(description=description, host=place.host, private_host=place.private_host)
        self.indexes[description.name] = index
        return index

    def index(self, name: str) -> Index:
        """The index of this name. Raises RefusalError."""
        if name not in self.indexes:
            raise RefusalError(MISSING, f"Resource {name} not found")
        return self.indexes[name]

    def remove(self, name: str) -> None:
        """Delete an index, unless it is protected. Raises RefusalError."""
        if self.index(name).description.deletion_protection == "enabled":
            raise RefusalError(
                FORBIDDEN,
                "Deletion protection is enabled for this index. Disable deletion protection before retrying.",
            )
        del self.indexes[name]

    def labelled(self, label: str) -> Index | None:
        """The index whose host begins with this label."""
        return next((index for name, index in self.indexes.items() if label_of(name) == label), None)


def label_of(name: str) -> str:
    """The first label of an index's host: its name and a hash, as in `movies-c01b5b5.svc.….pinecone.io`."""
    return f"{name}-{hashlib.blake2b(name.encode(), digest_size=4).hexdigest()[:7]}"
