"""Upserts of vectors over REST: parses them, makes the queries for their neighbours, and the client's bytes with notes in metadata, without
some vectors, or with some vectors replaced.

A query has one vector, so a write of many vectors has many queries, each of which costs read units. Metadata is flat: a note is JSON as a
string. Records whose vectors the service makes are passed through.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import quote

import msgspec
import numpy as np
import orjson

from ..base import RestWrites, WrittenRows, equal_to, payload_fields, typed, vectors_json
from ..contract import (
    NativeAnswer,
    Operation,
    Question,
    Reason,
    RequestHead,
    UnsupportedError,
    may_be_json,
)
from ..wire.json import last_values, string, value_spans, whole
from ..wire.json_requests import items_of, present, read_object, required
from ..wire.json_vectors import (
    Shortened,
    decode_matrix,
)
from ..writes import Form, Inquiry, Neighbours, NewPoints, WriteNeeds, name_of
from .calls import BACKEND, index_of
from .rest import PATH, chunks, parameter

UPSERT = "upsert"
FETCHED, FETCH_CHARACTERS = 100, 4096  # ids of one fetch, and their bytes in a URL
_VECTOR = ("id", "values", "sparseValues", "sparse_values", "metadata")
FORM = Form("metadata", ("values", "sparseValues", "sparse_values"))
DELETED = 1000  # ids of one deletion


@dataclass(frozen=True, slots=True, kw_only=True)
class Document(WrittenRows):
    """``namespace``: JSON, b"" if absent."""

    namespace: bytes


class _Match(msgspec.Struct):
    id: str
    score: float = float("nan")
    values: msgspec.Raw = msgspec.Raw(b"[]")
    metadata: msgspec.Raw = msgspec.Raw(b"null")


class _Reply(msgspec.Struct):
    matches: list[_Match]


_REPLY = msgspec.json.Decoder(_Reply)


class _Fetched(msgspec.Struct):
    vectors: dict[str, msgspec.Raw] = {}


_FETCHED = msgspec.json.Decoder(_Fetched)


class PineconeRestWrites(RestWrites):
    reads_lag = True  # by seconds: "Data freshness" in its documentation
    form = FORM
    payload = FORM.payload

    def partition(self, points: NewPoints) -> bytes:
        """The namespace, in one spelling; empty without one."""
        return orjson.dumps(string(typed(points.document, Document).namespace or b'""'))

    def ask_metric(self, _write: Operation, _body: bytes) -> Question:
        """The statistics of the index; since 2025 they name the metric."""
        return Question(method="POST", target="/describe_index_stats", body=b"{}")

    def classify(self, head: RequestHead) -> Operation | None:
        """The upsert of a request; None for any other. Never raises."""
        if (
            head.method != "POST"
            or "/" + head.path.lstrip("/") != "/vectors/upsert"
            or not may_be_json(head.content_type)
        ):
            return None
        return Operation(backend=BACKEND, name=UPSERT, collection=index_of(head.host))

    def read_points(self, _: Operation, source: Shortened, needs: WriteNeeds) -> NewPoints:
        text = source.text
        request = read_object(text, whole(text), ("vectors", "namespace"), reason=Reason.NOT_JSON)
        array = required(text, request, "vectors")
        rows = items_of(text, array)
        if len(rows) > needs.most:
            raise UnsupportedError(Reason.TOO_MANY_PARTS)
        objects = [read_object(text, row, _VECTOR) for row in rows]
        values = [present(text, row, "values") for row in objects]
        name = name_of([{} if span is None else {"": span} for span in values], needs.vector_name)
        matrix = decode_matrix([b"" if span is None else source.cut_value(span) for span in values])[0]
        if not matrix.shape[1]:
            raise UnsupportedError(Reason.NOTHING_TO_DO)
        metadata = [value_spans(row).get("metadata") for row in objects]
        namespace = present(text, request, "namespace")
        document = Document(
            source=source,
            arrays=[(array, rows)],
            rows=rows,
            payloads=metadata,
            namespace=b"" if namespace is None else source.cut(*namespace),
        )
        return NewPoints(
            ids=tuple([orjson.dumps(string(source.cut(*required(text, row, "id")))) for row in objects]),
            vectors=matrix,
            vector_name=name,
            keys=needs.keys,
            fields=payload_fields(source, metadata, needs.keys),
            document=document,
        )

    def ask(self, _: Operation, points: NewPoints, inquiry: Inquiry) -> Sequence[Question]:
        """A query for each vector."""
        document = typed(points.document, Document)
        shared = b'"topK":%d,"includeMetadata":true,"includeValues":%s' % (
            inquiry.count,
            b"true" if inquiry.vectors else b"false",
        )
        shared += b',"namespace":' + document.namespace if document.namespace else b""
        filters = [b',"filter":' + equal_to(tenant) if tenant else b"" for tenant in inquiry.tenants]
        bodies = [
            b'{"vector":%s,%s%s}' % (vectors_json(points, row), shared, condition)
            for row, condition in zip(inquiry.which, filters, strict=True)
        ]
        return [Question(method="POST", target="/query", body=body) for body in bodies]

    def read_neighbours(self, points: NewPoints, inquiry: Inquiry, bodies: Sequence[bytes]) -> Neighbours:
        lists = [_REPLY.decode(body).matches for body in bodies]
        matches = [match for hits in lists for match in hits]
        return Neighbours(
            of=np.repeat(np.array(inquiry.which, np.intp), [len(hits) for hits in lists]),
            ids=tuple([orjson.dumps(match.id) for match in matches]),
            scores=np.array([match.score for match in matches], np.float64),
            vectors=decode_matrix([bytes(match.values) for match in matches])[0],
            fields=tuple([last_values(bytes(match.metadata), points.keys) for match in matches]),
        )

    def is_cosine(self, body: bytes, _: str) -> bool:
        """From the statistics of an index, if they name the metric. Never raises."""
        return last_values(body, ("metric",))[0] == b'"cosine"'

    def ask_stored(self, _: Operation, points: NewPoints, ids: Sequence[bytes], *, whole: bool) -> Sequence[Question]:
        """Fetches with ids in the URL; they return whole vectors."""
        namespace = typed(points.document, Document).namespace
        suffix = f"&namespace={quote(string(namespace), safe='')}" if namespace else ""
        batches = chunks(map(string, ids), FETCH_CHARACTERS, FETCHED)
        targets = [f"{PATH}{'&'.join(map(parameter, batch))}{suffix}" for batch in batches]
        return [Question(method="GET", target=target, body=b"") for target in targets]

    def read_stored(self, _: NewPoints, body: bytes) -> Mapping[bytes, bytes]:
        return {orjson.dumps(identifier): bytes(vector) for identifier, vector in _FETCHED.decode(body).vectors.items()}

    def ask_removed(self, _: Operation, points: NewPoints, victims: Mapping[bytes, bytes]) -> Sequence[Question]:
        """Deletions by ids. The service takes ids or a filter, not both."""
        ids, namespace = list(victims), typed(points.document, Document).namespace
        suffix = b',"namespace":' + namespace if namespace else b""
        batches = [ids[start : start + DELETED] for start in range(0, len(ids), DELETED)]
        bodies = [b'{"ids":[%s]%s}' % (b",".join(batch), suffix) for batch in batches]
        return [Question(method="POST", target="/vectors/delete", body=body) for body in bodies]

    def acknowledged(self, _: Operation, _points: NewPoints, _query: str) -> NativeAnswer:
        """Nothing was stored."""
        return NativeAnswer(status=200, content_type="application/json", body=b'{"upsertedCount":0}')
