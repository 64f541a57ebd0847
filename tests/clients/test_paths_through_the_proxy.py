"""Wherever a client library stores its texts, copies leave a page and different results stay. Official client, real engine, REST and gRPC."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from qdrant_client import QdrantClient, models

from support import grpc_stack, planted, stack
from support.stack import exchange

FAMILIES, COPIES = 12, 3
WORDS = "valve pump meter water heat cable room floor green pressure cover closed opened before after twice".split()
QUERY = [float(value) for value in planted.bases()[:6].sum(axis=0)]
# By vectors nothing is a copy: the copies are 0.1 to 0.2 apart.
RULES = "policy: {threshold: {fixed: 0.01}, metadata: {document: [], title: [], source: []}}\n"


def prose(number: int) -> str:
    return " ".join(np.random.default_rng(number).choice(WORDS, 24))


LAYOUTS: dict[str, tuple[Callable[[str, int], dict[str, Any]], list[str]]] = {
    "text": (lambda text, n: {"text": text, "n": n}, ["text"]),
    "langchain": (lambda text, n: {"page_content": text, "metadata": {"source": f"f{n % 4}.pdf"}}, ["page_content"]),
    "llamaindex": (
        lambda text, n: {"_node_content": json.dumps({"id_": str(n), "text": text}), "_node_type": "TextNode"},
        ["_node_content.text"],
    ),
    "mem0": (lambda text, n: {"data": text, "hash": f"{n:032x}", "user_id": "u"}, ["data"]),
    "spring": (lambda text, n: {"doc_content": text, "page": n}, ["doc_content"]),
    "langchain4j": (lambda text, n: {"text_segment": text, "file_name": "a.txt"}, ["text_segment"]),
    "file-name": (lambda text, _: {"document": "pump.pdf", "passage": text}, ["passage"]),
    "deep": (lambda text, _: {"properties": {"body_of_it": {"words": text}}}, ["properties.body_of_it.words"]),
    "none": (lambda _, n: {"file": "pump.pdf", "page": n}, []),
}


def point_of(layout: str, family: int, copy: int, vector: Any) -> models.PointStruct:
    make = LAYOUTS[layout][0]
    return models.PointStruct(id=family * 10 + copy, vector=vector, payload=make(prose(family), family * 10 + copy))


def load(client: QdrantClient, layout: str) -> None:
    client.create_collection(layout, models.VectorParams(size=planted.DIMENSION, distance=models.Distance.COSINE))
    rng = np.random.default_rng(planted.RNG_SEED)
    points = [
        point_of(layout, family, copy, (vector + rng.normal(scale=0.06, size=planted.DIMENSION)).tolist())
        for family, vector in enumerate(planted.bases()[:FAMILIES])
        for copy in range(COPIES)
    ]
    client.upsert(layout, points, wait=True)


@pytest.fixture(scope="module")
def ports(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[dict[str, int], dict[str, int]]]:
    """The engine's ports, and the proxy's."""
    file = tmp_path_factory.mktemp("settings") / "vecsieve.yaml"
    file.write_text(RULES)
    with grpc_stack.embedded() as engine:
        client = QdrantClient(url=f"http://127.0.0.1:{engine['REST']}", timeout=30)
        for layout in LAYOUTS:
            load(client, layout)
        client.close()
        with grpc_stack.serve(engine, "--config", str(file)) as proxy:
            yield engine, proxy
