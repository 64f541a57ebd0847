"""Documents, indices, aliases and points in time of one node."""

from __future__ import annotations

import fnmatch
import re
import secrets
from collections.abc import Iterator
from copy import copy
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

import numpy as np
import orjson
from servers.opensearch.errors import RefusedError, invalid, unknown_index

Json = dict[str, Any]
_TOKEN = re.compile(r"\w+")
_BAD_NAME = re.compile(r'[A-Z\\/*?"<>| ,#:]|^[-_+.]')


class Product(Enum):
    OPENSEARCH = "opensearch"
    ELASTICSEARCH = "elasticsearch"


@dataclass(frozen=True, slots=True)
class Document:
    """``raw``: as it was written; ``source``: the same, parsed."""

    id: str
    raw: bytes
    source: Json
    version: int
    sequence: int


def values_at(source: Any, path: str) -> list[Any]:
    """The leaves at a dotted path, through arrays; a member may have a dotted name itself."""
    if isinstance(source, list):
        return [value for item in source for value in values_at(item, path)]
    if not isinstance(source, dict):
        return []
    values = [source[path]] if path in source else []
    for end in [place for place, letter in enumerate(path) if letter == "."]:
        if path[:end] in source:
            values += values_at(source[path[:end]], path[end + 1 :])
    return [value for item in values for value in (item if isinstance(item, list) else [item]) if value is not None]


def tokens(text: str) -> list[str]:
    """As the standard analyzer makes them of plain words."""
    return _TOKEN.findall(text.lower())


@dataclass(slots=True, eq=False)
class Index:
    """``documents``: by id, in the order in which they were written."""

    name: str
    product: Product
    settings: Json
    properties: Json
    uuid: str = field(default_factory=lambda: secrets.token_urlsafe(16))
    documents: dict[str, Document] = field(default_factory=dict)
    sequence: int = 0
    versions: dict[str, int] = field(default_factory=dict)

    def put(self, identifier: str, raw: bytes) -> Document:
        """Write a document, which stands last then. Raises RefusedError for one that does not fit its fields."""
        source = orjson.loads(raw)
        for name in self.vector_fields():
            for vector in [source[name]] if isinstance(source.get(name), list) else []:
                self._check(identifier, name, len(vector))
        version = self.versions.get(identifier, 0) + 1
        document = Document(identifier, raw, source, version, self.next_sequence())
        self.documents.pop(identifier, None)
        self.documents[identifier] = document
        self.versions[identifier] = version
        return document

    def delete(self, identifier: str) -> tuple[int, int, bool]:
        """The deletion's version and sequence number, and whether there was something."""
        is_there = self.documents.pop(identifier, None) is not None
        self.versions[identifier] = version = self.versions.get(identifier, 0) + 1
        return version, self.next_sequence(), is_there

    def next_sequence(self) -> int:
        number, self.sequence = self.sequence, self.sequence + 1
        return number

    def _check(self, identifier: str, name: str, length: int) -> None:
        expected = self.dimension(name)
        if expected in {length, -1}:
            return
        if self.product is Product.OPENSEARCH:
            cause = {
                "type": "illegal_argument_exception",
                "reason": f"Vector dimension mismatch. Expected: {expected}, Given: {length}",
            }
            reason = f"failed to parse field [{name}] of type [knn_vector] in document with id '{identifier}'. Preview of field's value: 'null'"
            raise RefusedError(400, "mapper_parsing_exception", reason, caused_by=cause)
        reason = f"failed to parse: The [dense_vector] field [{name}] in doc [document with id '{identifier}'] has a different number of dimensions [{length}] than defined in the mapping [{expected}]"
        cause = {"type": "illegal_argument_exception", "reason": reason.removeprefix("failed to parse: ")}
        raise RefusedError(400, "document_parsing_exception", f"[1:1] {reason}", caused_by=cause)

    def kind(self, path: str) -> Json:
        """The mapping of a field: declared, or as it would be made of its values."""
        declared = self._declared(path)
        if declared is not None:
            return declared
        if path.endswith(".keyword"):
            return {"type": "keyword"}
        values = (value for document in self.documents.values() for value in values_at(document.source, path))
        first = next(values, None)
        types = {bool: "boolean", int: "long", float: "float", str: "text"}
        return {"type": types[type(first)]} if type(first) in types else {}

    def is_guessed(self, path: str) -> bool:
        """Whether a field is a text that no mapping declares: it has a keyword beside it."""
        return self._declared(path) is None and self.kind(path).get("type") == "text"

    def _declared(self, path: str) -> Json | None:
        here: Any = self.properties
        spec: Json | None = None
        for part in path.split("."):
            spec = here.get(part) if isinstance(here, dict) else None
            if spec is None:
                return None
            here = spec.get("properties") or spec.get("fields")
        return spec if spec and "type" in spec else None

    def column(self, path: str) -> list[list[Any]]:
        """The values of every document."""
        path = path.removesuffix(".keyword")
        return [values_at(document.source, path) for document in self.documents.values()]

    def vector_fields(self) -> list[str]:
        return [name for name, spec in self.properties.items() if spec.get("type") in {"knn_vector", "dense_vector"}]

    def dimension(self, name: str) -> int:
        spec = self.properties[name]
        length = spec.get("dimension", spec.get("dims"))
        if length is None:  # dense_vector without dims: the first vector decides
            first = next(
                (document.source[name] for document in self.documents.values() if name in document.source), None
            )
            return len(first) if first else -1  # not known yet
        return int(length)

    def matrix(self, name: str) -> np.ndarray:
        """A row of every document; NaN where it has no vector."""
        width = self.dimension(name)
        rows = [document.source.get(name) or [np.nan] * width for document in self.documents.values()]
        return np.array(rows, np.float64).astype(np.float32).reshape(len(rows), max(width, 0))


class Node:
    """All that a server holds."""

    def __init__(self, product: Product) -> None:
        self.product = product
        self.indices: dict[str, Index] = {}
        self.aliases: dict[str, set[str]] = {}
        self.pits: dict[str, list[Index]] = {}
        self.scrolls: dict[str, Any] = {}

    def create(self, name: str, body: Json) -> Index:
        """Raises RefusedError for a name that is taken or none."""
        if name in self.indices:
            uuid = self.indices[name].uuid
            raise RefusedError(
                400,
                "resource_already_exists_exception",
                f"index [{name}/{uuid}] already exists",
                index=name,
                index_uuid=uuid,
            )
        if _BAD_NAME.search(name):
            raise RefusedError(
                400, "invalid_index_name_exception", f"Invalid index name [{name}]", index=name, index_uuid="_na_"
            )
        properties = body.get("mappings", {}).get("properties", {})
        self.indices[name] = Index(name, self.product, body.get("settings", {}), properties)
        for alias in body.get("aliases", {}):
            self.aliases.setdefault(alias, set()).add(name)
        return self.indices[name]

    def delete(self, expression: str) -> None:
        for name in expression.split(","):
            if name not in self.indices and "*" not in name:
                raise unknown_index(name)
            for index_name in fnmatch.filter(list(self.indices), name):
                del self.indices[index_name]
                self.aliases = {
                    alias: names - {index_name} for alias, names in self.aliases.items() if names - {index_name}
                }

    def written(self, name: str) -> Index:
        """The index of a write, made where there is none."""
        targets = self.aliases.get(name)
        if targets is None:
            return self.indices.get(name) or self.create(name, {})
        if len(targets) > 1:
            raise invalid(f"no write index is defined for alias [{name}]")
        return self.indices[next(iter(targets))]

    def one(self, name: str) -> Index:
        indices = list(self._named(name))
        if not indices:
            raise unknown_index(name)
        return indices[0]

    def resolved(self, expression: str, *, ignores_missing: bool = False) -> list[Index]:
        """The indices of a list of names, aliases and wildcards, each once, by name. Raises RefusedError for a name that nothing has."""
        indices: dict[str, Index] = {}
        for name in expression.split(",") if expression not in {"", "_all"} else ["*"]:
            if "*" in name:
                all_names = [*self.indices, *self.aliases]
                named = [index for concrete in fnmatch.filter(all_names, name) for index in self._named(concrete)]
            else:
                named = list(self._named(name))
                if not named and not ignores_missing:
                    raise unknown_index(name)
            indices |= {index.name: index for index in named}
        return [indices[name] for name in sorted(indices)]

    def _named(self, name: str) -> Iterator[Index]:
        names = self.aliases.get(name, {name})
        yield from (self.indices[name] for name in sorted(names) if name in self.indices)

    def open_pit(self, indices: list[Index], *, shard: int) -> str:
        """A point in time over copies of them; only the first shard has documents."""
        identifier = secrets.token_urlsafe(60)
        self.pits[identifier] = [_frozen(index, shard) for index in indices]
        return identifier


def _frozen(index: Index, shard: int) -> Index:
    made = copy(index)
    made.documents = {} if shard else dict(index.documents)
    return made
