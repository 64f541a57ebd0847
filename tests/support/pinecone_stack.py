"""The emulator of Pinecone on a loop of its own thread, so that clients which block can talk to it, and what is put in it."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Iterator, Mapping
from concurrent.futures import Future
from contextlib import contextmanager
from typing import Any

from support.stack import exchange
from vecsieve.config.addresses import Address
from vecsieve.proxy.emulator.server import serve

HEADERS = {"Api-Key": "key", "X-Pinecone-Api-Version": "2025-10"}
SPEC = {"serverless": {"cloud": "aws", "region": "us-east-1"}}


@contextmanager
def emulated() -> Iterator[str]:
    """The URL of an emulator's control plane."""
    listening: Future[str] = Future()
    stopped = threading.Event()
    thread = threading.Thread(target=asyncio.run, args=(_serving(listening, stopped),), name="emulator")
    thread.start()
    try:
        yield listening.result(10)
    finally:
        stopped.set()
        thread.join(10)


async def _serving(listening: Future[str], stopped: threading.Event) -> None:
    try:
        async with serve(Address("127.0.0.1", 0), api_key=HEADERS["Api-Key"]) as emulator:
            listening.set_result(emulator.url)
            await asyncio.to_thread(stopped.wait)
    finally:
        listening.cancel()


def load(control: str, plan: Mapping[str, Any]) -> dict[str, str]:
    """Create the plan's indexes and put their records in, in plain HTTP; index -> its own URL."""
    return {name: _loaded(control, name, index) for name, index in plan["indexes"].items()}


def _loaded(control: str, name: str, index: Mapping[str, Any]) -> str:
    host: str = sent(control, "/indexes", {"name": name, "spec": SPEC, **index["created"]})["host"]
    for namespace, records in index["records"].items():
        sent(host, "/vectors/upsert", {"vectors": records, "namespace": namespace})
    return host


def sent(url: str, path: str, body: Mapping[str, Any]) -> Any:
    """The answer to a POST that must succeed."""
    answer = exchange(url, "POST", path, json.dumps(body).encode(), HEADERS)
    assert answer.status in {200, 201}, (path, answer.status, answer.body[:500])
    return json.loads(answer.body) if answer.body else None
