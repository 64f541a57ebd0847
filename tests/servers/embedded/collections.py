"""The verbs on collections, and the directory that stores them.

```
<path>/collections/000001/collection.json   {"name": .., "settings": ..}, written last: a directory without it is ignored
<path>/collections/000001/shard/            the engine's own files
```
Directories are numbered, so that no client's name becomes a path.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import orjson

from .engine import Shard, config_json, edge_config, read_settings, wants_index
from .fields import Body, Json, bad_value, conflict, mapping, no_collection

# Refused in a collection's name since Qdrant 1.5.
_FORBIDDEN = '<>:"/\\|?*\0\x1f'
_MAX_NAME = 255


class Collection:
    def __init__(self, name: str, directory: Path, settings: dict[str, Json], shard: Shard) -> None:
        self.name = name
        self.directory = directory
        self.settings = settings
        self.shard = shard
        self._next_operation = 0

    def write(self, operation: object) -> int:
        """Apply one write. The result is its number, from 0 since the collection was opened."""
        self.shard.update(operation)
        if wants_index(self.settings):
            self.shard.optimize()
        number = self._next_operation
        self._next_operation += 1
        return number

    def keep(self, settings: dict[str, Json]) -> None:
        write_whole(self.directory / "collection.json", {"name": self.name, "settings": settings})
        self.settings = settings


class Registry:
    """The collections of one server. Without a path the data is in a temporary directory and is deleted at the end."""

    collection_class: type[Collection] = Collection
    """A larger server may have its own."""

    def __init__(self, path: Path | None = None) -> None:
        self._temporary = tempfile.TemporaryDirectory(prefix="vecsieve-embedded-") if path is None else None
        self.root = Path(self._temporary.name) if self._temporary is not None else Path(str(path))
        self._collections: dict[str, Collection] = {}
        (self.root / "collections").mkdir(parents=True, exist_ok=True)
        self._open()

    def find(self, name: str) -> Collection:
        collection = self._collections.get(name)
        if collection is None:
            raise no_collection(name)
        return collection

    def has(self, name: str) -> bool:
        return name in self._collections

    def names(self) -> list[str]:
        return list(self._collections)

    def create(self, name: str, body: Body) -> None:
        if not 1 <= len(name.encode()) <= _MAX_NAME:
            raise bad_value(
                "name", f"value {name!r} invalid, must be from 1 to {_MAX_NAME} characters", where="path parameters"
            )
        if any(character in _FORBIDDEN for character in name):
            raise bad_value("name", "collection name cannot contain forbidden characters", where="path parameters")
        if name in self._collections:
            raise conflict(f"Collection `{name}` already exists!")
        settings = read_settings(body)
        config = edge_config(settings)
        directory = self._fresh_directory()
        shard = Shard.create(directory / "shard", config)
        made = self.collection_class(name, directory, settings, shard)
        made.keep(settings)
        self._collections[name] = made

    def delete(self, name: str) -> bool:
        """False if there is none of that name."""
        collection = self._collections.pop(name, None)
        if collection is None:
            return False
        (collection.directory / "collection.json").unlink()
        collection.shard.close()
        shutil.rmtree(collection.directory)
        return True

    def close(self) -> None:
        for collection in self._collections.values():
            collection.shard.close()
        self._collections.clear()
        if self._temporary is not None:
            self._temporary.cleanup()

    def _open(self) -> None:
        for file in sorted((self.root / "collections").glob("*/collection.json")):
            kept = orjson.loads(file.read_bytes())
            shard = Shard.load(file.parent / "shard")
            self._collections[kept["name"]] = self.collection_class(kept["name"], file.parent, kept["settings"], shard)

    def _fresh_directory(self) -> Path:
        parent = self.root / "collections"
        taken = [int(directory.name) for directory in parent.iterdir() if directory.name.isdecimal()]
        directory = parent / f"{max(taken, default=0) + 1:06}"
        directory.mkdir()
        return directory


def write_whole(path: Path, value: object) -> None:
    draft = path.with_suffix(".draft")
    draft.write_bytes(orjson.dumps(value))
    draft.replace(path)


@dataclass(frozen=True, slots=True)
class Call:
    """A request, independent of the transport. `body` is None when the verb has none."""

    path: Mapping[str, str] = field(default_factory=dict)
    query: Mapping[str, str] = field(default_factory=dict)
    body: Json = None

    def collection(self, registry: Registry) -> Collection:
        return registry.find(self.path["collection"])

    def object(self) -> Body:
        return mapping(self.body, what="a request object")


Verb = Callable[[Registry, Call], Json]
"""Answers a call with a plain JSON value. Raises RefusalError for what Qdrant would refuse."""


def create(registry: Registry, call: Call) -> Json:
    registry.create(call.path["collection"], call.object())
    return True


def delete(registry: Registry, call: Call) -> Json:
    return registry.delete(call.path["collection"])


def exists(registry: Registry, call: Call) -> Json:
    return {"exists": registry.has(call.path["collection"])}


def listing(registry: Registry, _call: Call) -> Json:
    return {"collections": [{"name": name} for name in registry.names()]}


def info(registry: Registry, call: Call) -> Json:
    """No payload key has an index."""
    collection = call.collection(registry)
    counted = collection.shard.info()
    return {
        "status": "green",
        "optimizer_status": "ok",
        "indexed_vectors_count": counted.indexed_vectors_count,
        "points_count": counted.points_count,
        "segments_count": counted.segments_count,
        "config": config_json(collection.settings),
        "payload_schema": {},
        "update_queue": {"length": 0},
    }
