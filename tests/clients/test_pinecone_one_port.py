"""Pinecone's GrpcIndex sends gRPC and HTTP/1.1 to one host and port: over each kind of port both arrive where they should."""

from __future__ import annotations

import asyncio
import importlib.util
import os
import sys
from pathlib import Path

import pytest

from support.network.certificates import make_certificates
from support.network.shared_ports import both_servers
from vecsieve.proxy.http.tls import server_context

pytestmark = pytest.mark.skipif(importlib.util.find_spec("pinecone") is None, reason="needs the pinecone client")

# In a process of its own: its gRPC half reads SSL_CERT_FILE, the only way to a private CA, when it starts.
PROGRAM = """
import contextlib, sys
from pinecone.errors import PineconeError
from pinecone.grpc import GrpcIndex
index = GrpcIndex(host=sys.argv[1], api_key="k", secure=sys.argv[1].startswith("https"))
print(index.query(vector=[0.5, 0.25], top_k=2).matches)
with contextlib.suppress(PineconeError):  # the answer is an echo
    index.search(namespace="n", top_k=1, inputs={"text": "x"})
"""


@pytest.mark.parametrize("scheme", ["http", "https"])
async def test_a_query_comes_by_grpc_and_a_records_search_by_http(scheme: str, tmp_path: Path) -> None:
    files, messages = make_certificates(tmp_path), list[bytes]()

    async def empty(message: bytes) -> bytes:
        messages.append(message)
        return b""

    tls = server_context(files.leaf, files.key, with_grpc=True) if scheme == "https" else None
    async with both_servers(tls=tls, echo=empty) as both:
        client = await asyncio.create_subprocess_exec(
            *(sys.executable, "-c", PROGRAM, f"{scheme}://{both.address}"),
            env={**os.environ, "SSL_CERT_FILE": str(files.authority)},
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        out, trouble = await asyncio.wait_for(client.communicate(), 60)
        assert (out, client.returncode) == (b"[]\n", 0), trouble.decode()
        assert len(messages) == 1
        assert [path for path, _ in both.served] == ["/records/namespaces/n/search"]
