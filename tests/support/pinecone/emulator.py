"""The Pinecone emulator for tests: single calls without a transport, or a server in a thread of its own."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import orjson
from servers.pinecone.calls import Answer, Call, Limits
from servers.pinecone.control import for_model, from_schema, from_spec
from servers.pinecone.server import Emulator, serve
from servers.pinecone.store import Index

from vecsieve.config.addresses import Address

LOCAL = Address("127.0.0.1", 0)
SERVERLESS = {"serverless": {"cloud": "aws", "region": "us-east-1"}}
EMBED = {"model": "multilingual-e5-large", "field_map": {"text": "text"}, "dimension": 64}
SPARSE_EMBED = {"model": "pinecone-sparse-english-v0", "field_map": {"text": "text"}}
ARTICLES: dict[str, Any] = {
    "fields": {
        "vec": {"type": "dense_vector", "dimension": 2, "metric": "cosine"},
        "terms": {"type": "sparse_vector"},
        "body": {"type": "string", "full_text_search": {"language": "en"}},
        "summary": {"type": "string", "embed": {"model": "multilingual-e5-large", "dimension": 32}},
        "keywords": {"type": "string", "sparse_embed": {"model": "pinecone-sparse-english-v0"}},
    }
}


def index(dimension: int | None = 2, metric: str = "cosine") -> Index:
    """An empty index; a sparse one when there is no dimension."""
    kind = {"vector_type": "sparse"} if dimension is None else {"dimension": dimension, "metric": metric}
    return _at(from_spec({"name": "idx", "spec": SERVERLESS, **kind}))


def integrated(embed: Mapping[str, Any] = EMBED) -> Index:
    """An empty index that embeds the field `text`."""
    return _at(for_model({"name": "idx", "cloud": "aws", "region": "us-east-1", "embed": embed}))


def articles() -> Index:
    """An empty index with a schema of every kind of searched field."""
    return _at(from_schema({"name": "idx", "schema": ARTICLES}, "unnamed"))


def _at(description: Any) -> Index:
    return Index(description=description, host="http://127.0.0.1:1", private_host="http://127.0.0.1:2")


Verb = Callable[[Any, Call], Answer]


def call(
    verb: Verb,
    target: Any,
    body: object = None,
    *,
    version: str = "2026-04",
    query: tuple[tuple[str, str], ...] = (),
    limits: Limits | None = None,
    **parameters: str,
) -> Answer:
    """Make one call; `bytes` are the body as they are, anything else goes as JSON."""
    raw = b"" if body is None else body if isinstance(body, bytes) else orjson.dumps(body)
    return verb(target, Call(version=version, parameters=parameters, query=query, body=raw, limits=limits or Limits()))


@contextmanager
def emulated(**options: Any) -> Iterator[Emulator]:
    """An emulator in a thread of its own, ended when the block is left."""
    ready, started = threading.Event(), []
    loop = asyncio.new_event_loop()
    ending = asyncio.Event()

    async def run() -> None:
        async with serve(LOCAL, **options) as emulator:
            started.append(emulator)
            ready.set()
            await ending.wait()

    thread = threading.Thread(target=lambda: loop.run_until_complete(run()), daemon=True)
    thread.start()
    try:
        assert ready.wait(10), "the emulator did not start"
        yield started[0]
    finally:
        loop.call_soon_threadsafe(ending.set)
        thread.join(10)
        loop.close()
