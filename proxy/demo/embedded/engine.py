"""The one door to `qdrant_edge`: loaded on first use, called inline, its errors turned into Qdrant's.

The engine holds the GIL for the whole of a call (measured on 0.9.0: while 8,000 points were written or an index was built, no
other Python thread ran), so a worker thread would add a hand-over and no concurrency. Every call therefore runs inline on the
one thread that serves the requests; that also serialises writes without a lock. Isolation from other work is the process.
"""

from __future__ import annotations

import importlib
from pathlib import Path
from types import TracebackType
from typing import Any

from vecsieve.proxy.demo.embedded.errors import bad_format, from_engine, service_error


def edge() -> Any:
    """The engine's module. `Any`, because this file is where its types end: what it makes is passed on, never looked into."""
    return importlib.import_module("qdrant_edge")


class Translated:
    """Within it, what the engine raises becomes Qdrant's refusal.

    The engine raises bare `Exception` for its own errors, so the exact class is compared: anything more specific is not its.
    Its argument conversion raises ValueError, TypeError and OverflowError; a panic of its Rust code is a PanicException.
    """

    def __enter__(self) -> None:
        """Nothing to prepare."""

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            return
        if kind is Exception:
            raise from_engine(str(error)) from error
        if issubclass(kind, ValueError | TypeError | OverflowError):
            raise bad_format(str(error).splitlines()[0] if str(error) else kind.__name__) from error
        if kind.__name__ == "PanicException":
            raise service_error(str(error)) from error


class Shard:
    """One collection's data on disk. Requests and what comes back are the engine's own objects."""

    def __init__(self, opened: Any) -> None:
        self.engine = opened

    @classmethod
    def create(cls, path: Path, config: object) -> Shard:
        """Make the directory and an empty shard in it."""
        with Translated():
            return cls(edge().EdgeShard.create(str(path), config))

    @classmethod
    def load(cls, path: Path) -> Shard:
        """Open what `create` made; a directory in use elsewhere is refused."""
        with Translated():
            return cls(edge().EdgeShard.load(str(path)))

    def query(self, request: object) -> list[Any]:
        """Ranked points, best first."""
        with Translated():
            return list(self.engine.query(request))

    def scroll(self, request: object) -> tuple[list[Any], Any]:
        """Records in the order of their ids or of `order_by`, and the id the next page starts with."""
        with Translated():
            records, following = self.engine.scroll(request)
            return list(records), following

    def retrieve(self, ids: list[Any], payload: object, vectors: object) -> list[Any]:
        """The records of those ids that exist, in the order of `ids`."""
        with Translated():
            found = {str(record.id): record for record in self.engine.retrieve(ids, payload, vectors)}
        # The engine answers in its own order; the server keeps the order asked for.
        return [found[key] for key in dict.fromkeys(str(point) for point in ids) if key in found]

    def count(self, request: object) -> int:
        """How many points match."""
        with Translated():
            return int(self.engine.count(request))

    def update(self, operation: object) -> None:
        """Apply one write, durable in the write-ahead log when it returns."""
        with Translated():
            self.engine.update(operation)

    def optimize(self) -> None:
        """Build what the thresholds call for: 0.1 ms when nothing is due, about 0.2 s per thousand vectors of 128 otherwise."""
        with Translated():
            self.engine.optimize()

    def info(self) -> Any:
        """Counts and the payload schema."""
        with Translated():
            return self.engine.info()

    def close(self) -> None:
        """Flush and let go of the directory."""
        with Translated():
            self.engine.flush()
            self.engine.close()
