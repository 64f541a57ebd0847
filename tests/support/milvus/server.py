"""A real Milvus for tests, Milvus Lite in a thread, with planted collections; and the official client.

Both packages are loaded late: they may not be there, and pandas, pyarrow and faiss come with them.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import numpy as np
import pytest

from support.backends import families
from support.backends.families import Families, floats

BASES, COPIES, DIMENSION, TOP_K = 24, 4, 32, 8
SEED = 20
FAMILIES = Families(SEED, BASES, DIMENSION)
bases, near = FAMILIES.bases, FAMILIES.near
SPACES = ("COSINE", "IP", "L2")

NEEDS_MILVUS = pytest.mark.skipif(
    find_spec("pymilvus") is None or find_spec("milvus_lite") is None,
    reason="needs the packages pymilvus and milvus-lite",
)

NEEDS_TWO_VECTORS = pytest.mark.skipif(
    "MILVUS_SERVER" in os.environ, reason="the standalone 2.3.5 knows no collections of two vector fields"
)


@contextmanager
def planted() -> Iterator[str]:
    """The URL of a server with a clean and a copied collection for each metric, the copied ones of two vector fields.

    MILVUS_SERVER names one that runs already, such as the standalone of `make clients`.
    """
    if running := os.environ.get("MILVUS_SERVER"):
        _plant(running, has_two_vectors=False)
        yield running
        return
    with started() as url:
        _plant(url, has_two_vectors=True)
        yield url


@contextmanager
def started() -> Iterator[str]:
    """The URL of a server without collections."""
    serve = import_module("milvus_lite.adapter.grpc.server").start_server_in_thread
    with tempfile.TemporaryDirectory() as folder:
        server, database, port = serve(folder)
        url = f"http://127.0.0.1:{port}"
        try:
            yield url
        finally:
            connected(url).close()
            server.stop(grace=0).wait()
            database.close()


def _plant(url: str, *, has_two_vectors: bool) -> None:
    """Collections of two vector fields are newer than the standalone of `make clients`."""
    for space in SPACES:
        create(url, f"clean_{space}", space, copies=1)
        create(url, f"copied_{space}", space, copies=COPIES)
    if has_two_vectors:
        create(url, "twofold", "COSINE", copies=COPIES, second=True)


def create(url: str, name: str, space: str, *, copies: int, second: bool = False) -> None:
    """Make a collection and fill it."""
    client, kinds = connected(url), import_module("pymilvus").DataType
    schema = client.create_schema(auto_id=False, enable_dynamic_field=True)
    schema.add_field("id", kinds.INT64, is_primary=True)
    schema.add_field("vec", kinds.FLOAT_VECTOR, dim=DIMENSION)
    schema.add_field("text", kinds.VARCHAR, max_length=500)
    schema.add_field("base", kinds.INT64)
    index = client.prepare_index_params()
    index.add_index("vec", metric_type=space, index_type="FLAT")
    if second:
        schema.add_field("other", kinds.FLOAT_VECTOR, dim=DIMENSION)
        index.add_index("other", metric_type=space, index_type="FLAT")
    if client.has_collection(name):
        client.drop_collection(name)
    client.create_collection(name, schema=schema, index_params=index, consistency_level="Strong")
    client.insert(name, rows(copies, second=second))


def rows(copies: int, *, second: bool) -> list[dict[str, Any]]:
    """Every base so many times, almost the same each time; its text in the same words."""
    rng, words = np.random.default_rng(SEED + copies), np.random.default_rng(SEED)
    made: list[dict[str, Any]] = []
    for base, vector in enumerate(bases()):
        text = families.text(words)
        for copy in range(copies):
            row: dict[str, Any] = {"id": base * 10 + copy, "text": f"é {text}", "base": base, "tag": f"t{copy}"}
            row["vec"] = floats(vector + rng.normal(scale=0.002, size=DIMENSION))
            if second:
                row["other"] = floats(-vector + rng.normal(scale=0.002, size=DIMENSION))
            made.append(row)
    return made


@cache
def connected(url: str) -> Any:
    """The official client, one for each URL."""
    return import_module("pymilvus").MilvusClient(uri=url, timeout=20)
