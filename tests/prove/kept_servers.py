"""Servers of tests as programs whose data outlives them: the emulators of Pinecone, Weaviate, OpenSearch and Elasticsearch, and Milvus Lite.

`python -m prove.kept_servers NAME FOLDER PORT` serves until SIGTERM, and prints LISTENING. The emulators write what they hold to a file of
FOLDER when they end: they keep nothing if they are killed. Milvus Lite has a log of its own.
"""

from __future__ import annotations

import asyncio
import os
import pickle
import signal
import sys
import threading
from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import grpc
from aiohttp import web
from servers.opensearch.server import application
from servers.opensearch.store import Node, Product
from servers.pinecone.server import serve

from support.weaviate.server import Weaviate
from vecsieve.config.addresses import Address

LISTENING = "listening"
STATE = "state"
HOST = "127.0.0.1"


def pinecone(folder: Path, port: int) -> None:
    """Its control plane is at a free port; the only index is at ``port``."""

    async def run(ended: Awaitable[object]) -> None:
        async with serve(Address(HOST, 0), index_port=port) as emulator:
            emulator.hold(kept(folder) or {})
            (folder / "control").write_text(emulator.url)
            print(LISTENING, flush=True)
            await ended
        keep(folder, emulator.project.indexes)

    asyncio.run(until_signal(run))


def weaviate(folder: Path, port: int) -> None:
    """REST alone."""

    async def run(ended: Awaitable[object]) -> None:
        emulator = Weaviate()
        emulator.schema, emulator.collections = kept(folder) or ({}, {})
        await served(emulator.app(), port, ended)
        keep(folder, (emulator.schema, emulator.collections))

    asyncio.run(until_signal(run))


def search_engine(product: Product, folder: Path, port: int) -> None:
    async def run(ended: Awaitable[object]) -> None:
        node = kept(folder) or Node(product)
        await served(application(node), port, ended)
        keep(folder, node)

    asyncio.run(until_signal(run))


def milvus(folder: Path, port: int) -> None:
    """One request at a time: the engine is not made for several writers of a collection. It loses rows that it acknowledged while a collection is
    loaded, so it listens later: without a proxy 101 of 1,800, over 26 restarts. All requests have ended before it is closed.
    """
    ended = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: ended.set())
    database = import_module("milvus_lite.db").MilvusLite(str(folder))
    for name in database.list_collections():
        database.get_collection(name).load()
    with ThreadPoolExecutor(1) as pool:
        server = grpc.server(pool)
        servicer = import_module("milvus_lite.adapter.grpc.servicer").MilvusServicer(database)
        import_module("pymilvus.grpc_gen.milvus_pb2_grpc").add_MilvusServiceServicer_to_server(servicer, server)
        server.add_insecure_port(f"{HOST}:{port}")
        server.start()
        print(LISTENING, flush=True)
        ended.wait()
        server.stop(grace=1).wait()
    database.close()
    os._exit(0)  # the interpreter would collect garbage for half a minute


async def served(application: web.Application, port: int, ended: Awaitable[object]) -> None:
    runner = web.AppRunner(application)
    await runner.setup()
    await web.TCPSite(runner, HOST, port).start()
    print(LISTENING, flush=True)
    await ended
    await runner.cleanup()


async def until_signal(run: Callable[[Awaitable[object]], Awaitable[None]]) -> None:
    """``run`` gets what ends with SIGTERM."""
    ended = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, ended.set)
    await run(asyncio.ensure_future(ended.wait()))


def kept(folder: Path) -> Any:
    """What an earlier life held; None of the first."""
    path = folder / STATE
    return pickle.loads(path.read_bytes()) if path.exists() else None


def keep(folder: Path, state: object) -> None:
    (folder / STATE).write_bytes(pickle.dumps(state))


SERVERS: Mapping[str, Callable[[Path, int], None]] = {
    "pinecone": pinecone,
    "weaviate": weaviate,
    "milvus": milvus,
    **{product.value: partial(search_engine, product) for product in Product},
}


if __name__ == "__main__":
    SERVERS[sys.argv[1]](Path(sys.argv[2]), int(sys.argv[3]))
