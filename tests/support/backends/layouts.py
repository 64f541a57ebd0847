"""How frameworks lay out a passage: recorded from the real libraries, and replayed from what others are known to write."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

import orjson
from qdrant_client import QdrantClient, models

from support.backends.passages import DIMENSION, Passage, passages

LAYOUTS = Path(__file__).resolve().parents[2] / "golden" / "layouts"  # `make frameworks`


@dataclass(frozen=True, slots=True)
class Point:
    """``payload``: what the database holds of it beside its vector. ``document``: of Chroma."""

    identifier: str
    passage: Passage
    payload: dict[str, Any]
    document: str | None = None


@dataclass(frozen=True, slots=True)
class Layout:
    """``points``: of the passages, in their order. ``other_field``: a dotted path to something else than the text."""

    name: str
    points: tuple[Point, ...]
    other_field: str


def recorded(database: str) -> list[Layout]:
    """Written by the real libraries."""
    files = sorted(LAYOUTS.glob(f"*-{database}.json"))
    assert files, "nothing recorded: make frameworks"
    return [_recorded(file) for file in files]


def _recorded(file: Path) -> Layout:
    stored = orjson.loads(file.read_bytes())
    points = []
    for passage, values in zip(passages(), stored["points"], strict=True):
        point = _filled(stored["shape"], values)
        payload = point["metadata"] if "metadata" in point else point["payload"]
        points.append(Point(point["id"], passage, payload, point.get("document")))
    return Layout(file.stem, tuple(points), _path(points[0].payload, points[0].passage.title))


def _filled(shape: Mapping[str, Any], values: Sequence[Any]) -> dict[str, Any]:
    """The shape with the values in place of their numbers."""
    return {key: _filled(at, values) if isinstance(at, dict) else values[at] for key, at in shape.items()}


def replayed() -> list[Layout]:
    """Made here, in the shapes that the sources of these programs show; no library wrote them."""
    return [
        Layout(
            name,
            tuple(Point(passage.identifier, passage, payload(passage)) for passage in passages()),
            _path(payload(passages()[0]), passages()[0].file),
        )
        for name, payload in _REPLAYED.items()
    ]


def load(client: QdrantClient, layout: Layout) -> None:
    """A collection of Qdrant with this layout, under its name."""
    client.create_collection(layout.name, models.VectorParams(size=DIMENSION, distance=models.Distance.COSINE))
    points = [
        models.PointStruct(id=point.identifier, vector=point.passage.vector, payload=point.payload)
        for point in layout.points
    ]
    client.upsert(layout.name, points, wait=True)


def first_of_families(families: Sequence[object]) -> list[int]:
    """The places of the passages that no better one says, word for word."""
    return [place for place, family in enumerate(families) if family not in families[:place]]


def _path(payload: Mapping[str, Any], value: str) -> str:
    """The dotted path to a value."""
    for key, member in payload.items():
        if member == value:
            return key
        if isinstance(member, dict) and (inner := _path(member, value)):
            return f"{key}.{inner}"
    return ""


def _dify(passage: Passage) -> dict[str, Any]:
    return {
        "page_content": passage.text,
        "metadata": {
            "doc_id": passage.identifier,
            "doc_hash": _digest(passage.text),
            "document_id": _digest(passage.file)[:32],
            "document_name": passage.file,
            "dataset_id": _digest("dataset")[:32],
            "doc_type": "text",
        },
        "group_id": _digest("dataset")[:32],
    }


def _anythingllm(passage: Passage) -> dict[str, Any]:
    """Each chunk begins with a header that names its document; a copy is of the same document, embedded from another folder."""
    published = f"{passages()[passage.family].date}, 10:15:00 AM"
    header = f"<document_metadata>\nsourceDocument: {passage.title}\npublished: {published}\n</document_metadata>\n\n"
    return {
        "id": passage.identifier,
        "url": f"file:///app/collector/hotdir/{passage.file}",
        "title": passage.title,
        "docAuthor": "no author found",
        "description": "No description found.",
        "docSource": passage.file,
        "chunkSource": "",
        "published": published,
        "wordCount": 15,
        "token_count_estimate": 21,
        "text": header + passage.text,
    }


def _open_webui(passage: Passage) -> dict[str, Any]:
    return {
        "text": passage.text,
        "metadata": {
            "name": passage.file,
            "title": passage.title,
            "page": passage.page,
            "creationdate": passage.date,
            "file_id": _digest(passage.file)[:32],
            "hash": _digest(passage.file),
            "embedding_config": '{"engine": "", "model": "sentence-transformers/all-MiniLM-L6-v2"}',
        },
        "tenant_id": "knowledge-1",
    }


def _kernel_memory(passage: Passage) -> dict[str, Any]:
    return {
        "id": f"d={_digest(passage.file)[:32]}//p={passage.identifier}",
        "tags": [f"__document_id:{passage.file}", "__file_type:text/plain", f"__part_n:{passage.page}"],
        "payload": {
            "url": "",
            "schema": "20231218A",
            "file": passage.file,
            "text": passage.text,
            "vector_provider": "AI.OpenAI.OpenAITextEmbeddingGenerator",
            "vector_generator": "text-embedding-3-small",
            "last_update": f"{passage.date}T10:00:00",
        },
    }


def _roo_code(passage: Passage) -> dict[str, Any]:
    return {
        "filePath": passage.file,
        "codeChunk": passage.text,
        "startLine": passage.page * 10,
        "endLine": passage.page * 10 + 4,
        "segmentHash": _digest(passage.identifier),
        "pathSegments": {"0": passage.file},
    }


def _file_as_document(passage: Passage) -> dict[str, Any]:
    """A known name of texts that holds a file's name, beside a name that nobody knows."""
    return {"document": passage.file, "type": "application/pdf", "page": passage.page, "passage": passage.text}


def _summary_as_content(passage: Passage) -> dict[str, Any]:
    """A known name of texts that holds what is equal in all passages of a file."""
    summary = (
        f"{passage.title}: a document of several pages, last changed on {passage.date}, for everyone who works here."
    )
    return {"file": passage.file, "content": summary, "section": {"body_text": passage.text}}


def _digest(value: str) -> str:
    return hashlib.sha256(value.encode()).hexdigest()


_REPLAYED: Mapping[str, Callable[[Passage], dict[str, Any]]] = MappingProxyType(
    {
        "dify": _dify,
        "anythingllm": _anythingllm,
        "open-webui": _open_webui,
        "kernel-memory": _kernel_memory,
        "roo-code": _roo_code,
        "file-as-document": _file_as_document,
        "summary-as-content": _summary_as_content,
    }
)


def open_webui_row(passage: Passage) -> dict[str, Any]:
    """A row of Open WebUI's collections in Milvus: the text is in the JSON field ``data``. Replayed, too."""
    metadata = _open_webui(passage)["metadata"]
    return {"id": passage.identifier, "vector": passage.vector, "data": {"text": passage.text}, "metadata": metadata}
