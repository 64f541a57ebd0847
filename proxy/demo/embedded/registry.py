"""Collections and aliases by name, and the directory that keeps them.

```
<path>/aliases.json                      {"alias": "collection", ..}
<path>/collections/000001/collection.json   {"name": .., "settings": ..}, written last: a directory without it is debris
<path>/collections/000001/shard/            the engine's own files
```
Directories are numbered, so that no name of a client ever becomes a path.
"""

from __future__ import annotations

import math
import shutil
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import orjson

from vecsieve.proxy.demo.embedded.configs import edge_config, placeholder_steps, read_settings, wants_index
from vecsieve.proxy.demo.embedded.engine import Shard
from vecsieve.proxy.demo.embedded.errors import (
    Refusal,
    bad_input,
    bad_request,
    bad_value,
    conflict,
    no_collection,
    not_found,
    rate_exceeded,
)
from vecsieve.proxy.demo.embedded.fields import Body, Json, mapping, unsigned

# Strict mode's rate limits: so many reads and so many writes a minute, told with how long to wait.
#
# A search, a page, a count, a facet, a retrieved id and a write cost one each. The server counts a write by its points.

_MINUTE_SECONDS = 60.0

Kind = Literal["read", "write"]


class Rates:
    """What is left of a collection's limits. They are full at first, and after a change of settings."""

    def __init__(self, settings: Body) -> None:
        config = mapping(settings.get("strict_mode_config", {}))
        self._buckets: Mapping[Kind, _Bucket] = {
            kind: _Bucket(unsigned(most))
            for kind in ("read", "write")
            if (most := _limit(config, f"{kind}_rate_limit")) is not None
        }

    def take(self, kind: Kind, cost: int, *, at_seconds: float) -> None:
        """Spend, or raise the 429. `at_seconds`: of a clock that never goes back."""
        bucket = self._buckets.get(kind)
        if bucket is None:
            return
        wait = bucket.take(cost, at_seconds)
        if wait is not None:
            raise rate_exceeded(kind, cost, bucket.tokens, bucket.size, wait)


class _Bucket:
    """Tokens, at most `size`, that fill up within a minute."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.tokens = float(size)
        self._seen_seconds: float | None = None

    def take(self, cost: int, now: float) -> int | None:
        """None when there were enough, whole seconds to wait otherwise."""
        elapsed = 0.0 if self._seen_seconds is None else now - self._seen_seconds
        self._seen_seconds = now
        self.tokens = min(self.size, self.tokens + elapsed * self.size / _MINUTE_SECONDS)
        if cost <= self.tokens:
            self.tokens -= cost
            return None
        return math.ceil((cost - self.tokens) * _MINUTE_SECONDS / self.size)


def _limit(config: Body, name: str) -> Json:
    return config.get(name) if config.get("enabled") is True else None


# What Qdrant refuses in a collection's name since 1.5.
_FORBIDDEN = '<>:"/\\|?*\0\x1f'
_MAX_NAME = 255


class Collection:
    """One collection: its settings, its data and the number of its next write."""

    def __init__(self, name: str, directory: Path, settings: dict[str, Json], shard: Shard) -> None:
        self.name = name
        self.directory = directory
        self.settings = settings
        self.shard = shard
        self._rates = Rates(settings)
        self._next_operation = 0

    def read(self, cost: int = 1) -> None:
        """Count reads before they are done. Raises the 429 of strict mode's limit."""
        self._rates.take("read", cost, at_seconds=time.monotonic())

    def write(self, operation: object) -> int:
        """Apply one write and return its number, counted from 0 since the collection was opened.

        Raises the 429 of strict mode's limit.
        """
        self._rates.take("write", 1, at_seconds=time.monotonic())
        self.shard.update(operation)
        if wants_index(self.settings):
            self.shard.optimize()
        number = self._next_operation
        self._next_operation += 1
        return number

    def change_vectors(self, operation: object, settings: dict[str, Json]) -> int:
        """Apply a write that adds or removes a vector, as `write` does; `settings` are those behind it."""
        before, behind = placeholder_steps(self.settings, settings)
        for step in before:
            self.shard.update(step)
        number = self.write(operation)
        for step in behind:
            self.shard.update(step)
        self._keep(settings)
        return number

    def change(self, settings: dict[str, Json]) -> None:
        """Take new settings: written down, and the engine opened again with them."""
        config = edge_config(settings)
        self._keep(settings)
        self._rates = Rates(settings)
        self.shard.close()
        self.shard = Shard.load(self.directory / "shard", config)
        if wants_index(settings):
            self.shard.optimize()

    def _keep(self, settings: dict[str, Json]) -> None:
        _write(self.directory / "collection.json", {"name": self.name, "settings": settings})
        self.settings = settings


class Registry:
    """Every collection of one server. Without a path the data lives in a temporary directory and ends with the server."""

    def __init__(self, path: Path | None = None) -> None:
        self._temporary = tempfile.TemporaryDirectory(prefix="vecsieve-embedded-") if path is None else None
        self._root = Path(self._temporary.name) if self._temporary is not None else Path(str(path))
        self._collections: dict[str, Collection] = {}
        self._aliases: dict[str, str] = {}
        (self._root / "collections").mkdir(parents=True, exist_ok=True)
        self._open()

    def find(self, name: str) -> Collection:
        """The collection of that name or alias, or Qdrant's 404."""
        found = self._collections.get(self._aliases.get(name, name))
        if found is None:
            raise no_collection(name)
        return found

    def has(self, name: str) -> bool:
        """Whether `find` would find it."""
        return self._aliases.get(name, name) in self._collections

    def names(self) -> list[str]:
        """Collections, in the order of their creation."""
        return list(self._collections)

    def aliases(self, collection: str | None = None) -> list[tuple[str, str]]:
        """(alias, collection) pairs, of one collection or of all."""
        return [pair for pair in self._aliases.items() if collection is None or pair[1] == collection]

    def create(self, name: str, body: Body) -> None:
        """Make an empty collection; refuses a name that is taken or cannot be one."""
        _check_name(name)
        if name in self._collections:
            raise conflict(f"Collection `{name}` already exists!")
        if name in self._aliases:
            raise bad_input(f"Can't create collection with name {name}. Alias with the same name already exists")
        settings = read_settings(body)
        config = edge_config(settings)
        directory = self._fresh_directory()
        shard = Shard.create(directory / "shard", config)
        _write(directory / "collection.json", {"name": name, "settings": settings})
        self._collections[name] = Collection(name, directory, settings, shard)

    def delete(self, name: str) -> bool:
        """Remove a collection, its data and its aliases; False when there is none of that name."""
        found = self._collections.pop(name, None)
        if found is None:
            return False
        (found.directory / "collection.json").unlink()
        found.shard.close()
        shutil.rmtree(found.directory)
        self._keep_aliases({alias: target for alias, target in self._aliases.items() if target != name})
        return True

    def create_alias(self, alias: str, collection: str) -> None:
        """Point an alias at a collection, away from whatever it pointed at."""
        if collection not in self._collections:
            raise no_collection(collection)
        if alias in self._collections:
            raise conflict(f"Collection `{alias}` already exists!")
        self._keep_aliases(self._aliases | {alias: collection})

    def delete_alias(self, alias: str) -> None:
        """Forget an alias; one that does not exist is no error."""
        self._keep_aliases({name: target for name, target in self._aliases.items() if name != alias})

    def rename_alias(self, old: str, new: str) -> None:
        """Give an alias another name."""
        if old not in self._aliases:
            raise not_found(f"Alias {old} does not exists!")
        target = self._aliases[old]
        self._keep_aliases({name: to for name, to in self._aliases.items() if name != old} | {new: target})

    def close(self) -> None:
        """Flush everything and let go of the directory; a temporary one is removed."""
        for collection in self._collections.values():
            collection.shard.close()
        self._collections.clear()
        if self._temporary is not None:
            self._temporary.cleanup()

    def _open(self) -> None:
        for file in sorted((self._root / "collections").glob("*/collection.json")):
            kept = orjson.loads(file.read_bytes())
            shard = Shard.load(file.parent / "shard")
            self._collections[kept["name"]] = Collection(kept["name"], file.parent, kept["settings"], shard)
        aliases = self._root / "aliases.json"
        if aliases.exists():
            self._aliases = orjson.loads(aliases.read_bytes())

    def _keep_aliases(self, aliases: dict[str, str]) -> None:
        _write(self._root / "aliases.json", aliases)
        self._aliases = aliases

    def _fresh_directory(self) -> Path:
        parent = self._root / "collections"
        taken = [int(directory.name) for directory in parent.iterdir() if directory.name.isdecimal()]
        directory = parent / f"{max(taken, default=0) + 1:06}"
        directory.mkdir()
        return directory


def _check_name(name: str) -> None:
    if not 1 <= len(name.encode()) <= _MAX_NAME:
        raise bad_value(
            "name", f"value {name!r} invalid, must be from 1 to {_MAX_NAME} characters", where="path parameters"
        )
    if any(character in _FORBIDDEN for character in name):
        raise bad_value("name", "collection name cannot contain forbidden characters", where="path parameters")


def _write(path: Path, value: object) -> None:
    """Replace a file whole: a crash leaves the old one or the new one."""
    draft = path.with_suffix(".draft")
    draft.write_bytes(orjson.dumps(value))
    draft.replace(path)


# Strict mode, the part a proxy meets: a cap on how many results one request may ask for. Its rates are in `rates`.


def check_limit(collection: Collection, value: int, *, name: str = "limit") -> None:
    """Refuse more than `strict_mode_config.max_query_limit`, in Qdrant's words, when strict mode is enabled."""
    config = mapping(collection.settings.get("strict_mode_config", {}))
    most = config.get("max_query_limit")
    if config.get("enabled") is not True or most is None or value <= unsigned(most):
        return
    raise _exceeded(value, unsigned(most), name)


def _exceeded(value: int, most: int, name: str) -> Refusal:
    return bad_request(
        f'Limit exceeded {value} > {most} for "{name}". Help: Reduce the "{name}" parameter to or below {most}.'
    )


# A verb's argument, free of transport: path and query parameters and the parsed body. Results are plain JSON values.
#
# Every verb is a function `(Registry, Call) -> value` in the file of its subject; a transport finds the verb, makes the Call,
# wraps the value. A verb raises Refusal for everything the server would refuse.


@dataclass(frozen=True, slots=True)
class Call:
    """One request. `body` is None when the verb has none."""

    path: Mapping[str, str] = field(default_factory=dict)
    query: Mapping[str, str] = field(default_factory=dict)
    body: Json = None

    def collection(self, registry: Registry) -> Collection:
        """The collection the path names, alias or not."""
        return registry.find(self.path["collection"])

    def object(self) -> Body:
        """The body as an object."""
        return mapping(self.body, what="a request object")


Verb = Callable[[Registry, Call], Json]
