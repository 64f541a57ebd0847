"""`vecsieve sweep` over the demo's corpus, real text in several places, with planted copies: it finds these, and what else could go is a copy too."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from qdrant_client import QdrantClient, models

from support import stack
from support.commands import command_line
from vecsieve.proxy.demo.corpus import load

COPIED = 4  # one chunk in so many is copied
NOISE = 0.01  # of each of 384 numbers: a cosine of 0.98 to the vector before, the sweep's own threshold
EDITS = ("equal", "capitals", "blanks", "more")
COLLECTION = "demo"


def edited(text: str, edit: str) -> str:
    return {
        "equal": text,
        "capitals": text.upper(),
        "blanks": text.replace(" ", "  "),
        "more": f"{text} See also the reference.",
    }[edit]


def grams(text: str) -> set[tuple[str, ...]]:
    words = re.findall(r"\w+", text.lower())
    return set(zip(words, words[1:], words[2:], strict=False))


def share(one: str, other: str) -> float:
    """Of the shorter text's 3-grams, those of both."""
    mine, theirs = grams(one), grams(other)
    return len(mine & theirs) / max(1, min(len(mine), len(theirs)))


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
        noise = NOISE * draw.normal(size=corpus.vectors.shape[1]) if edit == "more" else 0.0
        payload = {**chunk.payload(), "text": edited(chunk.text, edit)}
        vector = (corpus.vectors[original] + noise).tolist()
        points.append(models.PointStruct(id=len(corpus.chunks) + number, vector=vector, payload=payload))
    return points, {len(corpus.chunks) + number: original for number, original in enumerate(originals)}


@pytest.fixture(scope="module")
def swept(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[int, str], dict[int, int], dict[int, int]]:
    """The text of each id, the original of each planted copy, and the survivor of each point that could go."""
    points, originals = planted()
    folder = tmp_path_factory.mktemp("sweep")
    with stack.embedded() as url:
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
    said: list[dict[str, Any]] = [json.loads(line) for line in Path(out).read_text().splitlines()]
    texts = {int(str(point.id)): str((point.payload or {})["text"]) for point in points}
    return texts, originals, {line["id"]: line["survivor"] for line in said}


def test_planted_copies_are_found(swept: tuple[dict[int, str], dict[int, int], dict[int, int]]) -> None:
    _, originals, survivors = swept
    found = [survivors.get(copy, copy) == survivors.get(original, original) for copy, original in originals.items()]
    assert sum(found) >= 0.98 * len(originals)


def test_what_could_go_is_a_planted_copy_or_has_nearly_the_text_of_what_stays(
    swept: tuple[dict[int, str], dict[int, int], dict[int, int]],
) -> None:
    texts, originals, survivors = swept
    right = [
        originals.get(gone) == stays or share(texts[gone], texts[stays]) >= 0.9 for gone, stays in survivors.items()
    ]
    assert len(survivors) > len(originals)
    assert sum(right) >= 0.99 * len(survivors)
