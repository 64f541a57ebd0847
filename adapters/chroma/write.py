"""Upserts and additions: parses their columns, makes the queries for their neighbours, and the client's bytes with notes in metadata, or
without some records.

Embeddings are arrays of numbers, or 32-bit floats in Base64, as newer clients write them. A query has one filter, so there is one query for
each tenant of a write. Metadata is flat: a note is JSON as a string.
"""

from __future__ import annotations

import math
import re
from base64 import b64decode, b64encode
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from http import HTTPStatus

import msgspec
import numpy as np
import numpy.typing as npt
import orjson

from ..base import NOTE, Array, RestWrites, equal_to, json_text, typed, vectors_json
from ..contract import (
    NativeAnswer,
    Operation,
    Question,
    Reason,
    RequestHead,
    UnsupportedError,
    may_be_json,
)
from ..wire.json import Span, last_values, object_of, string, value_spans, whole
from ..wire.json_requests import items_of, member_edit, present, read_object, required
from ..wire.json_vectors import (
    Shortened,
    decode_matrix,
    edited,
    stack,
)
from ..writes import Form, Inquiry, Neighbours, NewPoints, WriteNeeds, by_tenant, name_of
from .request import BACKEND, DOCUMENT_KEY, ID, scope

_WRITE = re.compile(rf"(/api/(?:v2/tenants/([^/]+)/databases/([^/]+)|v1)/collections/({ID}))/(upsert|add)")
_COLUMNS = ("ids", "embeddings", "metadatas", "documents", "uris")


@dataclass(frozen=True, slots=True)
class Document:
    """A parsed write. ``columns``: by name the span of each column in ``source.text``, and of its records. ``metadata``: the span of the column
    of metadata, also if it is null; ``at``: where a missing one is added.
    """

    source: Shortened
    columns: Mapping[str, tuple[Span, tuple[Span, ...]]]
    metadata: Span | None
    at: int


def _column(text: bytes, span: Span, count: int) -> list[Span]:
    items = items_of(text, span)
    if len(items) != count:
        raise UnsupportedError(Reason.AMBIGUOUS_FIELD)
    return items


def _matrix(values: Sequence[bytes]) -> npt.NDArray[np.float32]:
    if any(value[:1] == b'"' for value in values):
        packed = [b64decode(string(value), validate=True) if value[:1] == b'"' else b"" for value in values]
        return stack([np.frombuffer(raw, "<f4").astype(np.float64) if raw else None for raw in packed])
    return decode_matrix(values)[0]


def _fields(keys: tuple[str, ...], metadata: bytes, document: bytes | None) -> tuple[bytes | None, ...]:
    read = last_values(metadata, keys)
    text = None if document == b"null" else document
    return tuple([text if key == DOCUMENT_KEY else value for key, value in zip(keys, read, strict=True)])


class _Reply(msgspec.Struct):
    ids: list[list[str]]
    distances: list[list[float | None]]
    metadatas: list[list[msgspec.Raw]]
    documents: list[list[msgspec.Raw]]
    embeddings: list[list[msgspec.Raw]] | None = None


_REPLY = msgspec.json.Decoder(_Reply)


_COLUMN = msgspec.json.Decoder(list[msgspec.Raw] | None)


@dataclass(frozen=True, slots=True)
class _Record(Form):
    """A document becomes a member of the payload, under a reserved name."""

    payload: str = "metadatas"
    vectors: tuple[str, ...] = ("embeddings",)

    def payload_of(self, point: Mapping[str, object]) -> dict[str, object]:
        document = point.get("documents")
        return {**({} if document is None else {DOCUMENT_KEY: document}), **Form.payload_of(self, point)}

    def given(
        self, point: Mapping[str, object], payload: Mapping[str, object], vectors: Mapping[str, object]
    ) -> dict[str, object]:
        metadata = {key: value for key, value in payload.items() if key != DOCUMENT_KEY}
        return {
            **Form.given(self, point, metadata, vectors),
            "metadatas": metadata or None,
            "documents": payload.get(DOCUMENT_KEY),
        }


FORM = _Record()


def _packed(cell: bytes) -> bytes:
    """An embedding in Base64, because a column has one form."""
    return cell if cell[:1] == b'"' else b'"%s"' % b64encode(np.array(orjson.loads(cell), "<f4").tobytes())


MOST_COMPARED = 16  # values of a record's metadata
SHORTEST = 3  # characters: the text index finds no shorter text


class ChromaWrites(RestWrites):
    form: Form = FORM

    def ask_metric(self, write: Operation, _body: bytes) -> Question:
        """The collection's document by its id; servers before 1.1 lack this route."""
        before, _, identifier = write.partition.rpartition("/")
        return Question(method="GET", target=f"{before}/by-id/{identifier}")

    def classify(self, head: RequestHead) -> Operation | None:
        """An upsert or an addition; None for any other request. Never raises. ``partition``: the path of the collection, unchanged."""
        match = _WRITE.fullmatch(head.path)
        if head.method != "POST" or match is None or not may_be_json(head.content_type):
            return None
        before = scope(match[2], match[3])
        if before is None:
            return None
        identifier = match[4].lower()
        return Operation(
            backend=BACKEND, name=match[5], collection=before + identifier, partition=match[1], id=identifier
        )

    def read_points(self, _: Operation, source: Shortened, needs: WriteNeeds) -> NewPoints:
        text = source.text
        span = whole(text)
        request = read_object(text, span, _COLUMNS, reason=Reason.NOT_JSON)
        ids = items_of(text, required(text, request, "ids"))
        if len(ids) > needs.most:
            raise UnsupportedError(Reason.TOO_MANY_PARTS)
        places = {name: place for name in _COLUMNS if (place := present(text, request, name))}
        columns = {name: _column(text, place, len(ids)) for name, place in places.items()}
        matrix = _matrix([source.cut_value(value) for value in columns.get("embeddings", ())])
        name = name_of([{"": row} for row in matrix], needs.vector_name)
        if not matrix.shape[1]:
            raise UnsupportedError(Reason.NOTHING_TO_DO)
        metadata, documents = columns.get("metadatas"), columns.get("documents")
        fields = [
            _fields(
                needs.keys,
                b"null" if metadata is None else source.cut(*metadata[row]),
                None if documents is None else source.cut(*documents[row]),
            )
            for row in range(len(ids))
        ]
        return NewPoints(
            ids=tuple([orjson.dumps(string(source.cut(*span))) for span in ids]),
            vectors=matrix,
            vector_name=name,
            keys=needs.keys,
            fields=tuple(fields),
            document=Document(
                source=source,
                columns={name: (place, tuple(columns[name])) for name, place in places.items()},
                metadata=value_spans(request).get("metadatas"),
                at=span[1] - 1,
            ),
        )

    def ask(self, write: Operation, points: NewPoints, inquiry: Inquiry) -> Sequence[Question]:
        """A query for each tenant."""
        include = ["distances", "metadatas", "documents", *(["embeddings"] if inquiry.vectors else [])]
        return [
            Question(
                method="POST",
                target=f"{write.partition}/query",
                body=b'{"query_embeddings":%s,"n_results":%d,"include":%s%s}'
                % (
                    vectors_json(points, list(rows)),
                    inquiry.count,
                    orjson.dumps(include),
                    b',"where":' + equal_to(tenant) if tenant else b"",
                ),
            )
            for tenant, rows in by_tenant(inquiry).items()
        ]

    def read_neighbours(self, points: NewPoints, inquiry: Inquiry, bodies: Sequence[bytes]) -> Neighbours:
        """A score is one minus the distance."""
        rows: list[tuple[int, str, float | None, bytes, bytes, bytes]] = []
        for body, group in zip(bodies, by_tenant(inquiry).values(), strict=True):
            reply = _REPLY.decode(body)
            none = [[msgspec.Raw(b"null")] * len(listed) for listed in reply.ids]
            columns = (reply.ids, reply.distances, reply.metadatas, reply.documents, reply.embeddings or none)
            for row, *cells in zip(group, *columns, strict=True):
                rows += [(row, *candidate) for candidate in zip(*cells, strict=True)]
        return Neighbours(
            of=np.array([of for of, *_ in rows], np.intp),
            ids=tuple([orjson.dumps(identifier) for _, identifier, *_ in rows]),
            scores=np.array([math.nan if row[2] is None else 1.0 - row[2] for row in rows], np.float64),
            vectors=decode_matrix([bytes(row[5]) for row in rows])[0],
            fields=tuple([_fields(points.keys, bytes(row[3]), bytes(row[4])) for row in rows]),
        )

    def is_cosine(self, body: bytes, _: str) -> bool:
        """From the document of a collection. Never raises."""
        configuration = last_values(body, ("configuration_json",))[0] or b"{}"
        return any(
            index is not None and last_values(index, ("space",))[0] == b'"cosine"'
            for index in last_values(configuration, ("hnsw", "spann"))
        )

    def annotated(self, points: NewPoints, notes: Mapping[int, bytes]) -> bytes:
        """The client's bytes with a note in the metadata of some records."""
        document = typed(points.document, Document)
        texts = {row: json_text(note.decode()) for row, note in notes.items()}
        if "metadatas" in document.columns:
            text, (_, cells) = document.source.text, document.columns["metadatas"]
            edits = [member_edit(text, cells[row], NOTE, note) for row, note in texts.items()]
        else:
            noted = [
                b'{"%s":%s}' % (NOTE.encode(), texts[row]) if row in texts else b"null"
                for row in range(len(points.ids))
            ]
            column, at = b"[%s]" % b",".join(noted), document.at
            edits = [(*document.metadata, column) if document.metadata else (at, at, b',"metadatas":' + column)]
        return b"".join(edited(document.source, (0, len(document.source.text)), edits))

    def arrays(self, points: NewPoints) -> tuple[Shortened, Sequence[Array]]:
        document = typed(points.document, Document)
        return document.source, list(document.columns.values())

    def ask_stored(self, write: Operation, _: NewPoints, ids: Sequence[bytes], *, whole: bool) -> Sequence[Question]:
        """A read by ids that returns ids, or whole records."""
        include = orjson.dumps(_COLUMNS[1:] if whole else ())
        body = b'{"ids":[%s],"include":%s}' % (b",".join(ids), include)
        return [Question(method="POST", target=f"{write.partition}/get", body=body)]

    def read_stored(self, _: NewPoints, body: bytes) -> Mapping[bytes, bytes]:
        columns = {
            name: _COLUMN.decode(raw or b"null")
            for name, raw in zip(_COLUMNS, last_values(body, _COLUMNS), strict=True)
        }
        present = {name: list(map(bytes, column)) for name, column in columns.items() if column is not None}
        ids = [orjson.dumps(string(raw)) for raw in present["ids"]]
        names = [orjson.dumps(name) for name in present]
        rows = zip(*present.values(), strict=True)
        return {identifier: object_of(zip(names, row, strict=True)) for identifier, row in zip(ids, rows, strict=True)}

    def ask_removed(self, write: Operation, _: NewPoints, victims: Mapping[bytes, bytes]) -> Sequence[Question]:
        """A deletion for each record, with a filter for its metadata and its document."""
        questions: list[Question] = []
        for identifier, record in victims.items():
            metadata, document = last_values(record, ("metadatas", "documents"))
            values = orjson.loads(metadata or b"null") or {}
            comparable = [(key, orjson.dumps(value)) for key, value in values.items() if isinstance(value, str | int)]
            filters = b',"where":' + equal_to(tuple(comparable[:MOST_COMPARED])) if comparable else b""
            if document is not None and len(string(document) if document != b"null" else "") >= SHORTEST:
                filters += b',"where_document":{"$contains":%s}' % document
            body = b'{"ids":[%s]%s}' % (identifier, filters)
            questions.append(Question(method="POST", target=f"{write.partition}/delete", body=body))
        return questions

    def acknowledged(self, write: Operation, _points: NewPoints, _query: str) -> NativeAnswer:
        """The answer of servers since 1.0; 0.5 returned `true` or null, which no client reads."""
        status = HTTPStatus.CREATED if write.name == "add" else HTTPStatus.OK
        return NativeAnswer(status=status, content_type="application/json", body=b"{}")

    def point(self, points: NewPoints, row: int) -> bytes:
        """The members of one record, by the names of their columns, in the client's own bytes."""
        document = typed(points.document, Document)
        source, columns = document.source, document.columns
        cells = [b'"%s":%s' % (name.encode(), source.cut_value(rows[row])) for name, (_, rows) in columns.items()]
        return b"{%s}" % b",".join(cells)

    def merged(self, _: Operation, points: NewPoints, rows: Collection[int], merged: Mapping[int, bytes]) -> bytes:
        """The write with other columns. It has no other members, because such writes are not supported."""
        kept = [row for row in range(len(points.ids)) if row not in rows]
        records = [last_values(merged[row] if row in merged else self.point(points, row), _COLUMNS) for row in kept]
        columns = {
            name: [cell or b"null" for cell in cells]
            for name, cells in zip(_COLUMNS, zip(*records, strict=True), strict=True)
        }
        if any(cell[:1] == b'"' for cell in columns["embeddings"]):
            columns["embeddings"] = [_packed(cell) for cell in columns["embeddings"]]
        filled = {name: cells for name, cells in columns.items() if set(cells) != {b"null"}}
        return b"{%s}" % b",".join([b'"%s":[%s]' % (name.encode(), b",".join(cells)) for name, cells in filled.items()])
