"""`vecsieve sweep` over the demo's corpus, real text in several places, with planted copies: it finds these, and nothing goes for a point that says less."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from qdrant_client import QdrantClient, models

from support.process.commands import command_line
from support.qdrant.embedded import start_embedded_process
from vecsieve.proxy.demo.corpus import load
from vecsieve.proxy.selection.reading.text import Text
from vecsieve.proxy.writes.holding import holds

COPIED = 4  # one chunk in so many is copied
EDITS = ("equal", "blanks", "more")
COLLECTION = "demo"


def edited(text: str, edit: str) -> str:
    return {"equal": text, "blanks": f" {text}  \n", "more": f"{text}\n\nSee also the reference."}[edit]


def planted() -> tuple[list[models.PointStruct], dict[int, int]]:
    """The corpus with copies of a quarter of it, and for each copy the id of its original."""
    corpus, draw = load(), np.random.default_rng(7)
    points = [
        models.PointStruct(id=number, vector=vector.tolist(), payload=chunk.payload())
        for number, (chunk, vector) in enumerate(zip(corpus.chunks, corpus.vectors, strict=True))
    ]
    originals = draw.choice(len(points), len(points) // COPIED, replace=False).tolist()
    for number, original in enumerate(originals):
        edit, chunk = EDITS[number % len(EDITS)], corpus.chunks[original]
        payload = {**chunk.payload(), "text": edited(chunk.text, edit)}
        vector = corpus.vectors[original].tolist()
        points.append(models.PointStruct(id=len(corpus.chunks) + number, vector=vector, payload=payload))
    return points, {len(corpus.chunks) + number: original for number, original in enumerate(originals)}


@pytest.fixture(scope="module")
def swept(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[int, str], dict[int, int], dict[int, int]]:
    """The text of each id, the original of each planted copy, and the survivor of each point that could go."""
    points, originals = planted()
    folder = tmp_path_factory.mktemp("sweep")
    with start_embedded_process() as url:
        client = QdrantClient(url=url, timeout=30)
        size = len(points[0].vector) if isinstance(points[0].vector, list) else 0
        parameters = models.VectorParams(size=size, distance=models.Distance.COSINE)
        client.create_collection(COLLECTION, vectors_config=parameters)
        client.upload_points(COLLECTION, points, wait=True)
        client.close()
        out = folder / "ids.jsonl"
        where = ("--url", url, "--collection", COLLECTION, "--work", str(folder / "work"), "--rate", "1000")
        done = command_line("sweep", *where, "--keep", "first", "--ids", str(out))
        assert done.returncode == 0, done.stderr
    events: list[dict[str, Any]] = [json.loads(line) for line in Path(out).read_text().splitlines()]
    texts = {int(str(point.id)): str((point.payload or {})["text"]) for point in points}
    return texts, originals, {line["id"]: line["survivor"] for line in events}


def test_of_a_chunk_and_its_planted_copy_one_goes(
    swept: tuple[dict[int, str], dict[int, int], dict[int, int]],
) -> None:
    """A chunk that another place has, too, goes with its copy for a third one."""
    _, originals, survivors = swept
    covered = [copy in survivors or original in survivors for copy, original in originals.items()]
    assert sum(covered) >= 0.98 * len(originals)


def test_what_could_go_is_held_by_what_stays(swept: tuple[dict[int, str], dict[int, int], dict[int, int]]) -> None:
    texts, originals, survivors = swept
    assert len(survivors) >= 0.98 * len(originals)
    assert not survivors.keys() & set(survivors.values())
    assert all(holds(Text(texts[stays]), [Text(texts[gone])]) for gone, stays in survivors.items())
