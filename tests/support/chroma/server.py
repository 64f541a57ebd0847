"""The real Chroma server of its own package, its collections with and without planted copies, and the official client."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from typing import Any
from urllib.parse import urlsplit

import numpy as np
import pytest

from support.backends import families
from support.backends.families import Families, floats
from support.process.stack import Answer, exchange
from vecsieve.proxy.demo.backends import COLLECTIONS, PACKAGE, chroma_server

NEEDS_CHROMA = pytest.mark.skipif(
    find_spec(PACKAGE) is None, reason="chromadb is not installed, and it is the server: pip install chromadb"
)

SPACES = ("l2", "cosine", "ip")
DIMENSION = 48
BASES = 40
COPIES = 3
TOP_K = 8
SEED = 43
FAMILIES = Families(SEED, BASES, DIMENSION)
bases, near = FAMILIES.bases, FAMILIES.near
COLUMNS = ("distances", "documents", "embeddings", "metadatas", "uris")


@contextmanager
def planted() -> Iterator[str]:
    """A server with ``clean-<space>`` and ``copied-<space>`` for every space. Vectors are of many lengths."""
    with chroma_server() as url:
        for space in SPACES:
            for name, copies in (("clean", 1), ("copied", COPIES)):
                create(url, f"{name}-{space}", space)
                add(url, f"{name}-{space}", records(copies, space))
        yield url


def answer_to(url: str, method: str, target: str, body: dict[str, Any] | None = None) -> Answer:
    """One request to the interface of version 2."""
    return exchange(url, method, target, None if body is None else json.dumps(body).encode())


def create(url: str, name: str, space: str = "l2") -> str:
    """Make a collection; its id."""
    answer = answer_to(url, "POST", COLLECTIONS, {"name": name, "configuration": {"hnsw": {"space": space}}})
    assert answer.status == 200, answer.body
    identifier: str = json.loads(answer.body)["id"]
    return identifier


def path_of(url: str, name: str) -> str:
    """The path of a collection's own requests."""
    return f"{COLLECTIONS}/{json.loads(answer_to(url, 'GET', f'{COLLECTIONS}/{name}').body)['id']}"


def add(url: str, name: str, made: dict[str, Any]) -> None:
    """Write records."""
    answer = answer_to(url, "POST", f"{path_of(url, name)}/add", made)
    assert answer.status == 201, answer.body


def family(identifier: str) -> str:
    """Which base a planted record is a copy of."""
    return identifier.rpartition("-")[0]


def records(copies: int, space: str) -> dict[str, Any]:
    """Every base so many times, almost the same each time; its text in the same words."""
    rng = np.random.default_rng(SEED + copies)
    words = np.random.default_rng(SEED)
    # In inner product long vectors come first whatever they say: copies there are of like length.
    lengths = np.linspace(0.9, 1.3, BASES) if space == "ip" else np.linspace(1.0, 1.6, BASES)
    made: dict[str, Any] = {"ids": [], "embeddings": [], "documents": [], "metadatas": []}
    for base, vector in enumerate(bases()):
        text = families.text(words)
        for copy in range(copies):
            made["ids"].append(f"f{base}-{copy}")
            made["embeddings"].append(floats(lengths[base] * vector + rng.normal(scale=0.001, size=DIMENSION)))
            made["documents"].append(None if base % 7 == 3 else f"é {text}")
            made["metadatas"].append({"n": base, "f": 1.5, "big": 2**53 + base, "tag": f"t{base % 5}"})
    return made


@cache
def connected(url: str) -> Any:
    """The official client, one for each URL: it asks three questions before it is ready. The package is loaded late: it takes a second and a half, and may not be there."""
    chromadb = import_module(PACKAGE)
    parts = urlsplit(url)
    return chromadb.HttpClient(
        host=parts.hostname or "", port=parts.port or 0, settings=chromadb.Settings(anonymized_telemetry=False)
    )


async def connected_async(url: str) -> Any:
    """The official client for asyncio."""
    chromadb = import_module(PACKAGE)
    parts = urlsplit(url)
    return await chromadb.AsyncHttpClient(
        host=parts.hostname or "", port=parts.port or 0, settings=chromadb.Settings(anonymized_telemetry=False)
    )


def plain(result: Any) -> dict[str, Any]:
    """What a query or a get came to, as plain data: arrays as lists, so that results can be compared."""
    return {
        name: [np.asarray(vector).tolist() for vector in value] if name == "embeddings" and value is not None else value
        for name, value in result.items()
    }
