"""One embedded engine and one proxy per mode, shared by the integration tests of this folder."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from qdrant_client import QdrantClient

from support.process import stack
from support.qdrant import planted
from support.qdrant.embedded import start_embedded_process


@pytest.fixture(scope="session")
def engine() -> Iterator[str]:
    with start_embedded_process() as url:
        client = QdrantClient(url=url, timeout=30)
        planted.load(client, copies=1, prefix="clean")
        planted.load(client, copies=planted.COPIES, prefix="copied")
        planted.load_named(client, "named")
        client.close()
        yield url


@pytest.fixture(scope="session")
def on(engine: str) -> Iterator[str]:
    with stack.serve(engine, "--mode", "on") as (url, _):
        yield url


@pytest.fixture(scope="session")
def on_admin(engine: str) -> Iterator[tuple[str, str]]:
    with stack.serve(engine, "--mode", "on") as urls:
        yield urls


@pytest.fixture(scope="session")
def off(engine: str) -> Iterator[str]:
    with stack.serve(engine, "--mode", "off") as (url, _):
        yield url


@pytest.fixture(scope="session")
def shadow(engine: str) -> Iterator[str]:
    with stack.serve(engine, "--mode", "shadow") as (url, _):
        yield url
