"""What an index holds: its fields, its embedding model, where it runs. One description for every API version."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from servers.pinecone.errors import invalid

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
        found = {}
        for name, field in self.fields.items():
            if field.get("type") == "dense_vector":
                found[name] = Dense(name, field["dimension"], field["metric"])
            elif isinstance(field.get("embed"), Mapping):
                embed = field["embed"]
                found[name] = Dense(name, embed["dimension"], embed["metric"])
        if self.embed is not None and self.embed["vector_type"] == "dense":
            found[DENSE] = Dense(DENSE, self.embed["dimension"], self.embed["metric"])
        return found

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
    """The model of this name. Raises Refusal."""
    if not isinstance(name, str) or name not in MODELS:
        raise invalid(f"Model {name!r} is not known; this emulator has {', '.join(MODELS)}")
    return MODELS[name]
