"""Objects over REST, alone and in batches: what is read of them, the client's bytes with notes in a property of type text."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import orjson

from vecsieve.adapters.base import NOTE, json_text, own
from vecsieve.adapters.contract import Operation, Question, Reason, RequestHead, UnsupportedError, may_be_json
from vecsieve.adapters.weaviate import written
from vecsieve.adapters.weaviate.calls import BACKEND
from vecsieve.adapters.weaviate.grpc_request import spelled
from vecsieve.adapters.weaviate.schema import UNNAMED, read_schema
from vecsieve.adapters.weaviate.written import Document, Place, document_of
from vecsieve.adapters.wire.json import Members, Span, elements, members, string, whole
from vecsieve.adapters.wire.json_requests import items_of, member_edit, present, read_object, required, text_of
from vecsieve.adapters.wire.json_vectors import (
    Edit,
    Shortened,
    decode_matrix,
    edited,
)
from vecsieve.adapters.writes import NewPoints, WriteNeeds, numbered
from vecsieve.adapters.written import RestWrites

_OBJECT, _BATCH = "object", "batch"
_PATHS = {"/v1/objects": _OBJECT, "/v1/batch/objects": _BATCH}
_MEMBERS = (
    "class", "id", "properties", "vector", "vectors", "tenant", "creationTimeUnix", "lastUpdateTimeUnix", "additional",
    "vectorWeights",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Source:
    """For each object the span of its properties in ``text.text``, None where absent, and the offset at which a missing member is added."""

    text: Shortened
    properties: tuple[Span | None, ...]
    openings: tuple[int, ...]


def classify(head: RequestHead) -> Operation | None:
    """The write of objects; None for any other request. Never raises. Their collection is named in the body."""
    name = _PATHS.get(head.path)
    if name is None or head.method != "POST" or not may_be_json(head.content_type):
        return None
    return Operation(backend=BACKEND, name=name, collection="")


def describe(write: Operation, body: bytes) -> Question | None:
    """The request for the description of the first object's collection; None where none is named. Never raises."""
    try:
        span, found = whole(body), members(body, whole(body))
        if write.name == _BATCH:
            span = elements(body, (found["objects"].value, found["objects"].end))[0]
            found = members(body, span)
        return written.described(_collection(text_of(body, present(body, found, "class"))))
    except (ValueError, IndexError, KeyError, UnsupportedError):
        return None


def _collection(name: str) -> str:
    """As the server stores it."""
    return name[:1].upper() + name[1:]


def _parsed(write: Operation, source: Shortened, needs: WriteNeeds) -> NewPoints:
    text = source.text
    rows = [whole(text)]
    if write.name == _BATCH:
        found = read_object(text, rows[0], ("objects", "fields"), reason=Reason.NOT_JSON)
        rows = items_of(text, required(text, found, "objects"))
    each = [read_object(text, row, _MEMBERS, reason=Reason.NOT_JSON) for row in rows]
    properties = [(row["properties"].value, row["properties"].end) if "properties" in row else None for row in each]
    vectors = [_vectors(text, row) for row in each]
    places = [
        Place(_collection(text_of(text, present(text, row, "class"))), text_of(text, present(text, row, "tenant")))
        for row in each
    ]
    own_source = Source(source, tuple(properties), tuple([row[1] - 1 for row in rows]))
    document, name = document_of(places, vectors, needs, own_source)
    matrix = decode_matrix([source.cut_value(row[name]) if name in row else b"" for row in vectors])[0]
    if not matrix.shape[1]:
        raise UnsupportedError(Reason.NOTHING_TO_DO)
    return NewPoints(
        ids=_ids(source, each, needs),
        vectors=matrix,
        vector_name=name,
        keys=needs.keys,
        fields=tuple([_fields(source, span, needs.keys) for span in properties]),
        document=document,
    )


def _vectors(text: bytes, row: Members) -> dict[str, Span]:
    """The spans of an object's vectors by name. Raises ValueError, UnsupportedError."""
    named, bare = present(text, row, "vectors"), present(text, row, "vector")
    found = {} if named is None else members(text, named)
    spans = {name: (each.value, each.end) for name, each in found.items()}
    return spans if bare is None else {**spans, UNNAMED: bare}


def _ids(source: Shortened, rows: list[Members], needs: WriteNeeds) -> tuple[bytes, ...]:
    """Raises ValueError, UnsupportedError."""
    spans = [present(source.text, row, "id") for row in rows]
    if not any(spans):
        return numbered(len(rows), needs)
    if not all(spans):
        raise ValueError("an object has no id, others have")
    return tuple([orjson.dumps(string(source.cut(*span)).lower()) for span in spans if span is not None])


def _fields(source: Shortened, span: Span | None, keys: tuple[str, ...]) -> tuple[bytes | None, ...]:
    """The server stores names with their first letter in lower case. Raises ValueError."""
    if span is None or source.text[span[0] : span[0] + 1] != b"{":
        return (None,) * len(keys)
    found = {spelled(name): member for name, member in members(source.text, span).items()}
    wanted = [found.get(spelled(key)) for key in keys]
    return tuple([None if each is None else source.cut(each.value, each.end) for each in wanted])


def annotated(points: NewPoints, notes: Mapping[int, bytes]) -> bytes:
    """The client's bytes with a note in the properties of some objects."""
    source = own(own(points.document, Document).source, Source)
    edits = [_edit(source, row, json_text(note.decode())) for row, note in notes.items()]
    return b"".join(edited(source.text, (0, len(source.text.text)), edits))


def _edit(source: Source, row: int, note: bytes) -> Edit:
    span = source.properties[row]
    if span is None:
        at = source.openings[row]
        return at, at, b',"properties":{"%s":%s}' % (NOTE.encode(), note)
    return member_edit(source.text.text, span, NOTE, note)


class WeaviateRestWrites(RestWrites):
    """The verbs of the contract."""

    classify = staticmethod(classify)
    describe = staticmethod(describe)
    parse_description = staticmethod(read_schema)
    read_points = staticmethod(_parsed)
    read_neighbours = staticmethod(written.neighbours)
    ask = staticmethod(written.ask)
    is_cosine = staticmethod(written.is_cosine)
    annotated = staticmethod(annotated)

    def ask_metric(self, write: Operation, body: bytes) -> Question:
        """The description of the collection. Raises UnsupportedError."""
        return written.present(describe(write, body))
