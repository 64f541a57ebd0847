"""The run: each framework writes the passages into a real engine or server, and what it stored is kept in tests/golden/layouts."""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import orjson
from qdrant_client import QdrantClient
from rich.console import Console

from frameworks.environments import FRAMEWORKS, OVER_GRPC, NotAvailableError, Writer
from support.backends.layouts import LAYOUTS
from support.backends.passages import Passage, passages
from support.chroma.server import answer_to as ask_chroma
from support.chroma.server import path_of
from support.qdrant.embedded import start_embedded_grpc_process
from vecsieve.proxy.demo.backends import chroma_server

ROOT = Path(__file__).resolve().parents[2]
COLLECTION = "written"


class NotRecordedError(Exception):
    """What a framework stored is not what it was given. The message says what is missing."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where a framework writes, and where what it wrote is read."""

    kind: str
    address: str
    url: str


@contextmanager
def place(framework: str, kind: str) -> Iterator[Place]:
    """An empty database for the block."""
    with ExitStack() as stack:
        if kind == "chroma":
            url = stack.enter_context(chroma_server())
            yield Place(kind, url, url)
            return
        url, rpc = stack.enter_context(start_embedded_grpc_process())
        yield Place(kind, rpc.removeprefix("http://") if framework in OVER_GRPC else url, url)


def recording(writer: Writer, at: Place) -> dict[str, Any]:
    """The libraries and the points in the order of the passages. Raises NotRecordedError, NotAvailableError."""
    with tempfile.TemporaryDirectory() as folder:
        plan = Path(folder) / "plan.json"
        rows = [
            asdict(passage) | {"identifier": passage.identifier, "vector": passage.vector} for passage in passages()
        ]
        plan.write_text(json.dumps({"collection": COLLECTION, "passages": rows}), encoding="utf-8")
        writer.write(at.kind, at.address, plan)
    stored = _chroma_records(at.url) if at.kind == "chroma" else _qdrant_points(at.url)
    return {"libraries": writer.libraries, "points": [_of(passage, stored) for passage in passages()]}


def _of(passage: Passage, stored: list[dict[str, Any]]) -> dict[str, Any]:
    """The one point that says this passage and where it stands."""
    matching = [point for point in stored if _says(point, (passage.text, passage.title, passage.file))]
    if len(matching) != 1 or len(stored) != len(passages()):
        raise NotRecordedError(f"{len(matching)} of {len(stored)} points say {passage.text!r} of {passage.file}")
    return matching[0]


def _says(point: Mapping[str, Any], values: Iterable[str]) -> bool:
    written = json.dumps(point)
    return all(value in written for value in values)


def _qdrant_points(url: str) -> list[dict[str, Any]]:
    client = QdrantClient(url=url, timeout=30, check_compatibility=False)
    try:
        points, _ = client.scroll(COLLECTION, limit=1000, with_payload=True)
    finally:
        client.close()
    return [{"id": point.id, "payload": point.payload} for point in points]


def _chroma_records(url: str) -> list[dict[str, Any]]:
    body = {"include": ["documents", "metadatas"]}
    answer = json.loads(ask_chroma(url, "POST", f"{path_of(url, COLLECTION)}/get", body).body)
    rows = zip(answer["ids"], answer["documents"] or [None] * 1000, answer["metadatas"], strict=False)
    return [{"id": one, "document": document, "metadata": metadata} for one, document, metadata in rows]


def write(recorded: Mapping[str, Any], file: Path) -> None:
    """The shape of a point, and one line of values for each."""
    points = recorded["points"]
    shape, first = columns(points[0])
    lines = [orjson.dumps(first)]
    for point in points[1:]:
        other, values = columns(point)
        if other != shape:
            raise NotRecordedError(f"two shapes of points: {shape} and {other}")
        lines.append(orjson.dumps(values))
    head = orjson.dumps({"libraries": recorded["libraries"], "shape": shape}).removesuffix(b"}")
    file.write_bytes(head + b',"points":[\n' + b",\n".join(lines) + b"\n]}\n")


def columns(point: Mapping[str, Any]) -> tuple[dict[str, Any], list[Any]]:
    """The keys of a point with a number for each value, and the values. Keys are sorted: databases keep no order of them."""
    values: list[Any] = []

    def numbered(inner: Mapping[str, Any]) -> dict[str, Any]:
        shape: dict[str, Any] = {}
        for key, value in sorted(inner.items()):
            if isinstance(value, dict):
                shape[key] = numbered(value)
            else:
                shape[key] = len(values)
                values.append(value)
        return shape

    return numbered(point), values


def main() -> int:
    """Record; 1 when a framework is not to be had here or did not store what it was given. Recordings of others stay as they are."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("only", nargs="*", help="frameworks; all of them without any")
    parser.add_argument("--folder", type=Path, default=ROOT / ".clients", help="where their environments are kept")
    given = parser.parse_args()
    names = {framework for framework, _ in FRAMEWORKS}
    if unknown := set(given.only) - names:
        parser.error(f"no such framework: {', '.join(sorted(unknown))}; there are {', '.join(sorted(names))}")
    console, failed = Console(), False
    LAYOUTS.mkdir(parents=True, exist_ok=True)
    for (framework, kind), installed in FRAMEWORKS.items():
        if given.only and framework not in given.only:
            continue
        try:
            with place(framework, kind) as at:
                recorded = recording(installed(given.folder.resolve()), at)
        except (NotAvailableError, NotRecordedError) as reason:
            console.print(f"{framework}, {kind}: {reason}", markup=False)
            failed = True
            continue
        file = LAYOUTS / f"{framework}-{kind}.json"
        write(recorded, file)
        console.print(f"{framework}, {kind}: {file.stat().st_size} bytes in {file.name}", markup=False)
    return int(failed)
