"""Databases that take connections and never answer: each request of a job ends, for every official client."""

from __future__ import annotations

import asyncio
import gc
import socket
from collections.abc import Iterator
from contextlib import closing, contextmanager
from threading import Thread

import pytest
from pymilvus.grpc_gen import milvus_pb2

from support.grpc.upstream import Arrived, Context, grpc_upstream
from vecsieve.proxy.jobs.databases import DATABASES
from vecsieve.proxy.jobs.source import Access, SourceError

# chromadb's close leaves its connections to the garbage collector.
pytestmark = pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning")

SECONDS = 1  # of one request
LONGEST_SECONDS = 60.0  # of all attempts of one request; a test that hangs fails by it


@pytest.fixture(autouse=True, scope="module")
def _collected() -> Iterator[None]:
    """What these tests left is collected in the last of them, where the warning is expected."""
    yield
    gc.collect()


@contextmanager
def silent() -> Iterator[str]:
    """The URL of a server that takes connections and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        taken: list[socket.socket] = []

        def take() -> None:
            while True:
                try:
                    taken.append(listening.accept()[0])
                except OSError:
                    return

        thread = Thread(target=take, daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{listening.getsockname()[1]}"
        finally:
            listening.shutdown(socket.SHUT_RDWR)
            thread.join()
            for socket_ in taken:
                socket_.close()


def described(backend: str, url: str) -> None:
    """Ask for a collection's shape. Raises SourceError."""
    access = Access(url=url, collection="docs", api_key="a key", timeout_seconds=SECONDS)
    with closing(DATABASES[backend].made(access)) as opened:
        opened.shape()


@pytest.mark.timeout(LONGEST_SECONDS)
@pytest.mark.parametrize("backend", [name for name, database in DATABASES.items() if database.is_read])
def test_a_job_ends_at_a_database_that_does_not_answer(backend: str) -> None:
    with silent() as url, pytest.raises(SourceError):
        described(backend, url)


@pytest.mark.timeout(LONGEST_SECONDS)
async def test_a_job_ends_at_a_milvus_that_connects_and_does_not_answer() -> None:
    async def connect(call: Arrived, context: Context) -> None:
        await call.read(context)
        await context.write(milvus_pb2.ConnectResponse(identifier=1).SerializeToString())

    async def wait(call: Arrived, context: Context) -> None:
        await call.read(context)
        await asyncio.Event().wait()

    async with grpc_upstream(Connect=connect, DescribeCollection=wait) as milvus:
        with pytest.raises(SourceError, match="DEADLINE_EXCEEDED"):
            await asyncio.to_thread(described, "milvus", f"http://{milvus.address}")
        assert milvus.calls[-1].method.endswith("/DescribeCollection")
