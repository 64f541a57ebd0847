"""Objects over REST, alone and in batches: what is read of them, the client's bytes with notes in a property of type text, or
without some objects. The answer to a batch has a row for each object: those of objects that were left out are put back.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import msgspec
import orjson

from vecsieve.adapters.base import NOTE, Array, RestWrites, json_text, own
from vecsieve.adapters.contract import (
    MalformedReplyError,
    NativeAnswer,
    Operation,
    Question,
    Reason,
    RequestHead,
    UnsupportedError,
    may_be_json,
)
from vecsieve.adapters.weaviate import written
from vecsieve.adapters.weaviate.calls import BACKEND
from vecsieve.adapters.weaviate.grpc_request import spelled
from vecsieve.adapters.weaviate.written import UNNAMED, Document, Place, WeaviateWrites, document_of
from vecsieve.adapters.wire.json import Members, Span, elements, last_values, members, string, value_spans, whole
from vecsieve.adapters.wire.json_requests import items_of, member_edit, present, read_object, required, text_of
from vecsieve.adapters.wire.json_vectors import (
    Edit,
    Shortened,
    decode_matrix,
    edited,
)
from vecsieve.adapters.writes import NewPoints, Told, WriteNeeds, numbered

_OBJECT, _BATCH = "object", "batch"
_PATHS = {"/v1/objects": _OBJECT, "/v1/batch/objects": _BATCH}
_MEMBERS = (
    "class", "id", "properties", "vector", "vectors", "tenant", "creationTimeUnix", "lastUpdateTimeUnix", "additional",
    "vectorWeights",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Source:
    """For each object its span in ``text.text``, that of its properties, None where absent, and the offset at which a missing member is
    added. ``arrays``: of a batch its objects.
    """

    text: Shortened
    arrays: tuple[Array, ...]
    rows: tuple[Span, ...]
    properties: tuple[Span | None, ...]
    openings: tuple[int, ...]


def _collection(name: str) -> str:
    """As the server stores it."""
    return name[:1].upper() + name[1:]


def _vectors(text: bytes, row: Members) -> dict[str, Span]:
    """The spans of an object's vectors by name. Raises ValueError, UnsupportedError."""
    named, bare = present(text, row, "vectors"), present(text, row, "vector")
    spans = {} if named is None else value_spans(members(text, named))
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
    return tuple([None if each is None else source.cut(*each.span) for each in wanted])


def _edit(source: Source, row: int, note: bytes) -> Edit:
    span = source.properties[row]
    if span is None:
        at = source.openings[row]
        return at, at, b',"properties":{"%s":%s}' % (NOTE.encode(), note)
    return member_edit(source.text.text, span, NOTE, note)


def _source(points: NewPoints) -> Source:
    return own(own(points.document, Document).source, Source)


_STORED = b'{"status":"SUCCESS"}'


_ROWS = msgspec.json.Decoder(list[msgspec.Raw])


class WeaviateRestWrites(WeaviateWrites, RestWrites):
    def classify(self, head: RequestHead) -> Operation | None:
        """The write of objects; None for any other request. Never raises. Their collection is named in the body."""
        name = _PATHS.get(head.path)
        if name is None or head.method != "POST" or not may_be_json(head.content_type):
            return None
        return Operation(backend=BACKEND, name=name, collection="")

    def describe(self, write: Operation, body: bytes) -> Question | None:
        """The request for the description of the first object's collection; None where none is named. Never raises."""
        try:
            span, found = whole(body), members(body, whole(body))
            if write.name == _BATCH:
                span = elements(body, found["objects"].span)[0]
                found = members(body, span)
            return written.described(_collection(text_of(body, present(body, found, "class"))))
        except (ValueError, IndexError, KeyError, UnsupportedError):
            return None

    def read_points(self, write: Operation, source: Shortened, needs: WriteNeeds) -> NewPoints:
        text = source.text
        rows, arrays = [whole(text)], list[Array]()
        if write.name == _BATCH:
            found = read_object(text, rows[0], ("objects", "fields"), reason=Reason.NOT_JSON)
            array = required(text, found, "objects")
            rows = items_of(text, array)
            arrays.append((array, rows))
        each = [read_object(text, row, _MEMBERS, reason=Reason.NOT_JSON) for row in rows]
        properties = [value_spans(row).get("properties") for row in each]
        vectors = [_vectors(text, row) for row in each]
        places = [
            Place(_collection(text_of(text, present(text, row, "class"))), text_of(text, present(text, row, "tenant")))
            for row in each
        ]
        own_source = Source(source, tuple(arrays), tuple(rows), tuple(properties), tuple([row[1] - 1 for row in rows]))
        document, name = document_of(places, vectors, needs, own_source)
        matrix = decode_matrix([source.cut_value(row[name]) if name in row else b"" for row in vectors])[0]
        if not matrix.shape[1]:
            raise UnsupportedError(Reason.NOTHING_TO_DO)
        return NewPoints(
            has_ids=any(present(text, row, "id") for row in each),
            ids=_ids(source, each, needs),
            vectors=matrix,
            vector_name=name,
            keys=needs.keys,
            fields=tuple([_fields(source, span, needs.keys) for span in properties]),
            document=document,
        )

    def annotated(self, points: NewPoints, notes: Mapping[int, bytes]) -> bytes:
        """The client's bytes with a note in the properties of some objects."""
        source = _source(points)
        edits = [_edit(source, row, json_text(note.decode())) for row, note in notes.items()]
        return b"".join(edited(source.text, (0, len(source.text.text)), edits))

    def arrays(self, points: NewPoints) -> tuple[Shortened, Sequence[Array]]:
        source = _source(points)
        return source.text, source.arrays

    def acknowledged(self, write: Operation, points: NewPoints, _query: str) -> NativeAnswer:
        """The client's objects, which is how the server answers."""
        each = [self._row_shown(points, row) for row in range(len(points.ids))]
        body = b"[%s]" % b",".join(each) if write.name == _BATCH else self.point(points, 0)
        return NativeAnswer(status=200, content_type="application/json", body=body)

    def told(self, write: Operation, points: NewPoints, gone: Mapping[int, int | None], body: bytes) -> Told:
        """The server's rows, and rows for the objects that were left out, in the client's order. Such an object is shown as stored, unless its
        original in the same batch was refused. Raises MalformedReplyError.
        """
        if write.name == _OBJECT:
            return Told(body=body)
        kept = [row for row in range(len(points.ids)) if row not in gone]
        try:
            rows = dict(zip(kept, _ROWS.decode(body), strict=True))
            results = {row: last_values(each, ("result",))[0] or _STORED for row, each in rows.items()}
            failed = {row for row, each in results.items() if last_values(each, ("errors",))[0] not in {None, b"null"}}
        except (msgspec.DecodeError, RecursionError, ValueError) as error:
            raise MalformedReplyError(f"answer to a batch: {type(error).__name__}") from None
        refused = frozenset(row for row, of in gone.items() if of in failed)
        each = [
            rows[row]
            if row in rows
            else self._row_shown(points, row, results[of] if (of := gone[row]) in failed else _STORED)
            for row in range(len(points.ids))
        ]
        return Told(body=b"[%s]" % b",".join(each), refused=refused, failed=frozenset(failed))

    def point(self, points: NewPoints, row: int) -> bytes:
        """An object as in a batch; the client's own bytes."""
        source = _source(points)
        return source.text.cut(*source.rows[row])

    def _row_shown(self, points: NewPoints, row: int, result: bytes = _STORED) -> bytes:
        """An object as the answer to a batch shows it."""
        return b'%s,"result":%s}' % (self.point(points, row)[:-1], result)
