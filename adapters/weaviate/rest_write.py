"""Objects over REST, single and in batches, and code that the writes of both transports share: their collection, its description, and the
additional reads, all over REST.

Over gRPC no request describes a collection, and a search has one vector. A GraphQL query can have any number of searches, each with its own
name. The answer to a batch has a row for each object: those of objects that were left out are added again.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import quote

import msgspec
import numpy as np
import orjson

from ..base import NOTE, Array, RestWrites, WrittenRows, typed, vectors_json
from ..contract import (
    DeclinedError,
    MalformedReplyError,
    NativeAnswer,
    Operation,
    Question,
    Reason,
    RequestHead,
    UnsupportedError,
    may_be_json,
)
from ..wire.json import Members, Span, elements, last_values, members_of, string, value_spans, whole
from ..wire.json_requests import items_of, present, read_object, required, text_of
from ..wire.json_vectors import Shortened, decode_matrix
from ..writes import Form, Inquiry, Neighbours, NewPoints, Receipt, Tenant, WriteNeeds, name_of, numbered
from .calls import BACKEND, UNNAMED, Schema, read_schema, spelled
from .deletions import MATCHING, collection_name
from .objects import FORM, can_hold, id_as_json

GRAPHQL = "/v1/graphql"
# Searches of one query.
SEARCHES_PER_QUERY = 32
# Types of properties without parts, and the names of their values in filters.
_VALUES: Mapping[str, str] = {
    "text": "valueText", "string": "valueText", "uuid": "valueText", "date": "valueDate", "int": "valueInt",
    "number": "valueNumber", "boolean": "valueBoolean",
}  # fmt: skip
_PLAIN = frozenset({*_VALUES, *[f"{kind}[]" for kind in _VALUES]})
_TEXTS = frozenset({"text", "string"})


@dataclass(frozen=True, slots=True, eq=False)
class Document:
    """A parsed write of one collection and one tenant. ``target``: the vector that is searched. ``source``: the transport's own."""

    schema: Schema
    tenant: str
    target: str
    source: object


def document_of(
    objects: Sequence[tuple[str, str]], vectors: Sequence[Mapping[str, object]], needs: WriteNeeds, source: object
) -> tuple[Document, str]:
    """The document of a write, and the name of its vector. ``objects``: their collections and tenants; ``vectors``: its
    vectors by name. Raises UnsupportedError.
    """
    schema, places = needs.known, set(objects)
    if not isinstance(schema, Schema):
        raise UnsupportedError(Reason.UNSUPPORTED_FIELD)
    if len(objects) > needs.most:
        raise UnsupportedError(Reason.TOO_MANY_PARTS)
    if len(places) > 1:
        raise UnsupportedError(Reason.AMBIGUOUS_FIELD)
    if needs.notes and schema.types.get(NOTE) not in _TEXTS:
        # The server would create a missing property, for all objects.
        raise UnsupportedError(Reason.PAYLOAD_SELECTOR)
    name = name_of(vectors, needs.vector_name)
    target = schema.target(name)
    if target is None:
        raise UnsupportedError(Reason.UNSUPPORTED_FIELD)
    return Document(schema, places.pop()[1], target, source), name


def described(collection: str) -> Question | None:
    """The request for the description of a collection; None for no name."""
    return Question(method="GET", target=f"/v1/schema/{quote(collection, safe='')}") if collection else None


def _searches(points: NewPoints, document: Document, inquiry: Inquiry, selected: str) -> Iterator[str]:
    place = f",tenant:{_text(document.tenant)}" if document.tenant else ""
    target = f",targetVectors:[{_text(document.target)}]" if document.target else ""
    for row, tenant in zip(inquiry.which, inquiry.tenants, strict=True):
        vector = vectors_json(points, row).decode()
        near = f"nearVector:{{vector:{vector}{target}}}"
        arguments = f"limit:{inquiry.count}{place},{near}{_where(document.schema, tenant)}"
        yield f"a{row}:{document.schema.name}({arguments}){selected}"


def _text(value: str) -> str:
    """A string of GraphQL, whose escapes are those of JSON."""
    return orjson.dumps(value).decode()


def _where(schema: Schema, tenant: Tenant) -> str:
    terms: list[str] = []
    for key, value in tenant:
        kind = _VALUES.get(schema.types.get(spelled(key), ""))
        if kind is None:
            raise UnsupportedError(Reason.PAYLOAD_SELECTOR)
        terms.append(f"{{path:[{_text(spelled(key))}],operator:Equal,{kind}:{value.decode()}}}")
    if not terms:
        return ""
    return f",where:{terms[0]}" if len(terms) == 1 else f",where:{{operator:And,operands:[{','.join(terms)}]}}"


class _Error(msgspec.Struct):
    message: str = ""


class _Data(msgspec.Struct):
    Get: dict[str, list[msgspec.Raw] | None]


class _Reply(msgspec.Struct):
    data: _Data | None = None
    errors: list[_Error] | None = None


_REPLY = msgspec.json.Decoder(_Reply)


def _lists(body: bytes) -> Mapping[str, list[msgspec.Raw] | None]:
    """Raises ValueError, and DeclinedError."""
    reply = _REPLY.decode(body)
    if reply.errors:
        raise DeclinedError(0, reply.errors[0].message.encode())
    if reply.data is None:
        raise ValueError("no data")
    return reply.data.Get


def _object(document: Document, identifier: bytes, *parameters: str) -> str:
    """The target of an object. ``parameters``: of its query."""
    tenant = [f"tenant={quote(document.tenant, safe='')}"] if document.tenant else []
    path = f"/v1/objects/{quote(document.schema.name, safe='')}/{quote(orjson.loads(identifier), safe='')}"
    return "?".join(filter(None, (path, "&".join([*parameters, *tenant]))))


def by_ids(collection: str, tenant: str, ids: Sequence[bytes]) -> Sequence[bytes]:
    """The bodies of queries for which of these ids are stored. ``ids``: JSON."""
    place = f",tenant:{_text(tenant)}" if tenant else ""
    searches = [
        f'a{row}:{collection}(limit:1{place},where:{{path:["id"],operator:Equal,valueText:{identifier.decode()}}})'
        "{_additional{id}}"
        for row, identifier in enumerate(ids)
    ]
    return _together(searches)


def _together(searches: Sequence[str]) -> Sequence[bytes]:
    batches = [searches[start : start + SEARCHES_PER_QUERY] for start in range(0, len(searches), SEARCHES_PER_QUERY)]
    return [orjson.dumps({"query": f"{{Get{{{' '.join(batch)}}}}}"}) for batch in batches]


# Members of an object that can be stored again, and one that shows a change.
_STORED_MEMBERS = ("class", "id", "properties", "vector", "vectors", "tenant", "lastUpdateTimeUnix")


def ids_in(body: bytes) -> Sequence[bytes]:
    """Of the answer to one of these queries. Raises ValueError and the like, and DeclinedError."""
    return [_id_of(row) for rows in _lists(body).values() for row in rows or ()]


def _id_of(row: bytes) -> bytes:
    (more,) = last_values(row, ("_additional",))
    (identifier,) = last_values(more or b"null", ("id",))
    return id_as_json(orjson.loads(identifier or b""))


class WeaviateWrites:
    """The verbs that both transports share. ``describe``, ``point``, ``reaches_all``, ``data``: the transport's own."""

    describe: Callable[[Operation, bytes], Question | None]
    point: Callable[[NewPoints, int], bytes]
    reaches_all: Callable[[str, bytes], bool]
    """Whether a write with this query and body is answered when all replicas have it."""
    data: Callable[[NewPoints], bytes]
    parse_description = staticmethod(read_schema)
    has_receipts = True
    form: Form = FORM

    def collection(self, _: Operation, points: NewPoints) -> str:
        """Its name, without the tenant."""
        return typed(points.document, Document).schema.name

    def partition(self, points: NewPoints) -> bytes:
        """The tenant; b"" for none."""
        tenant = typed(points.document, Document).tenant
        return orjson.dumps(tenant) if tenant else b""

    def shows(self, points: NewPoints, query: str) -> bool:
        """A read asks one replica."""
        document = typed(points.document, Document)
        return self.shows_unread(query, self.data(points), document.schema)

    def shows_unread(self, query: str, body: bytes, known: object | None) -> bool:
        """A read asks one replica."""
        return not self.lags(known) or self.reaches_all(query, body)

    def lags(self, known: object | None) -> bool:
        """A read asks one replica. An unknown number of replicas counts as several."""
        return not isinstance(known, Schema) or known.replicas > 1

    def holds(self, points: NewPoints, row: int, point: bytes) -> bool:
        """By the types of the collection's properties."""
        schema = typed(points.document, Document).schema
        before, after = [FORM.payload_of(json.loads(value)) for value in (self.point(points, row), point)]
        return can_hold(schema, before, after)

    def ask_metric(self, write: Operation, body: bytes) -> Question:
        """The description of the collection. Raises UnsupportedError."""
        question = self.describe(write, body)
        if question is None:
            raise UnsupportedError(Reason.UNSUPPORTED_FIELD)
        return question

    def read_neighbours(self, points: NewPoints, inquiry: Inquiry, bodies: Sequence[bytes]) -> Neighbours:
        """A score is one minus the distance. Raises ValueError and the like, and DeclinedError."""
        target = typed(points.document, Document).target
        lists = {name: rows for body in bodies for name, rows in _lists(body).items()}
        near = [(row, raw) for row in inquiry.which for raw in lists[f"a{row}"] or ()]
        objects = [last_values(raw, (*map(spelled, points.keys), "_additional")) for _, raw in near]
        more = [last_values(row[-1] or b"null", ("id", "distance", "vector", "vectors")) for row in objects]
        ids = tuple([id_as_json(orjson.loads(identifier or b"")) for identifier, *_ in more])
        scores = np.array(
            [math.nan if distance in {None, b"null"} else 1.0 - float(distance) for _, distance, *_ in more], np.float64
        )
        vectors = [last_values(named or b"null", (target,))[0] if target else bare for _, _, bare, named in more]
        return Neighbours(
            of=np.array([row for row, _ in near], np.intp),
            ids=ids,
            scores=scores,
            vectors=decode_matrix([vector or b"" for vector in vectors])[0],
            # A property that an object lacks is null.
            fields=tuple([tuple([None if value == b"null" else value for value in row[:-1]]) for row in objects]),
        )

    def ask_stored(self, _: Operation, points: NewPoints, ids: Sequence[bytes], *, whole: bool) -> Sequence[Question]:
        """GraphQL queries with a search for each id. ``whole``: complete objects are read one by one, because GraphQL has no exact numbers;
        one that is gone is refused.
        """
        document = typed(points.document, Document)
        others = [identifier for identifier in ids if identifier not in points.ids] if whole else []
        repeated = [identifier for identifier in ids if identifier not in others]
        queries = by_ids(document.schema.name, document.tenant, repeated)
        return [
            *[Question(method="POST", target=GRAPHQL, body=query) for query in queries],
            *[Question(method="GET", target=f"{_object(document, other, 'include=vector')}") for other in others],
        ]

    def ask_removed(self, _: Operation, points: NewPoints, victims: Mapping[bytes, bytes]) -> Sequence[Question]:
        """A deletion for each object."""
        document = typed(points.document, Document)
        return [Question(method="DELETE", target=_object(document, identifier)) for identifier in victims]

    def read_stored(self, points: NewPoints, body: bytes) -> Mapping[bytes, bytes]:
        """Raises ValueError and the like, and DeclinedError."""
        stored = dict(zip(_STORED_MEMBERS, last_values(body, _STORED_MEMBERS), strict=True))
        if not stored["class"]:
            return dict.fromkeys(ids_in(body), b"")
        document = typed(points.document, Document)
        stored["tenant"] = orjson.dumps(document.tenant) if document.tenant else None
        named = last_values(stored["vectors"] or b"null", (document.target,))[0]
        if not (named if document.target else stored["vector"]):
            raise ValueError("an object came without its vector")
        identifier = id_as_json(orjson.loads(stored["id"] or b""))
        members = [b'"%s":%s' % (name.encode(), value) for name, value in stored.items() if value and value != b"null"]
        return {identifier: b"{%s}" % b",".join(members)}

    def is_cosine(self, body: bytes, vector_name: str) -> bool:
        """From the description. Never raises."""
        try:
            schema = read_schema(body)
        except MalformedReplyError:
            return False
        target = schema.target(vector_name)
        return target is not None and schema.distances[target] == "cosine"

    def ask(self, _: Operation, points: NewPoints, inquiry: Inquiry) -> Sequence[Question]:
        """GraphQL queries with a search for each object. Raises UnsupportedError for a tenant's key that is no property of the collection."""
        document = typed(points.document, Document)
        names = [name for name in map(spelled, points.keys) if document.schema.types.get(name) in _PLAIN]
        additional = "id distance"
        if inquiry.vectors:
            additional += f" vectors{{{document.target}}}" if document.target else " vector"
        selected = f"{{{' '.join(dict.fromkeys(names))} _additional{{{additional}}}}}"
        searches = list(_searches(points, document, inquiry, selected))
        return [Question(method="POST", target=GRAPHQL, body=query) for query in _together(searches)]


_OBJECT, _BATCH = "object", "batch"
_PATHS = {"/v1/objects": _OBJECT, "/v1/batch/objects": _BATCH}
_MEMBERS = (
    "class", "id", "properties", "vector", "vectors", "tenant", "creationTimeUnix", "lastUpdateTimeUnix", "additional",
    "vectorWeights",
)  # fmt: skip


def _vectors(text: bytes, row: Members) -> dict[str, Span]:
    """The spans of an object's vectors by name. Raises ValueError, UnsupportedError."""
    named, bare = present(text, row, "vectors"), present(text, row, "vector")
    spans = {} if named is None else value_spans(members_of(text, named))
    return spans if bare is None else {**spans, UNNAMED: bare}


def _ids(source: Shortened, rows: list[Members], needs: WriteNeeds) -> tuple[bytes, ...]:
    spans = [present(source.text, row, "id") for row in rows]
    if not any(spans):
        return numbered(len(rows), needs)
    if not all(spans):
        raise ValueError("an object has no id, others have")
    return tuple([id_as_json(string(source.cut(*span))) for span in spans if span is not None])


def _fields(source: Shortened, span: Span | None, keys: tuple[str, ...]) -> tuple[bytes | None, ...]:
    """The server stores names with their first letter in lower case. Raises ValueError."""
    if span is None or source.text[span[0] : span[0] + 1] != b"{":
        return (None,) * len(keys)
    by_key = {spelled(name): member for name, member in members_of(source.text, span).items()}
    selected = [by_key.get(spelled(key)) for key in keys]
    return tuple([None if member is None else source.cut(*member.span) for member in selected])


_STORED = b'{"status":"SUCCESS"}'


_ROWS = msgspec.json.Decoder(list[msgspec.Raw])


class WeaviateRestWrites(WeaviateWrites, RestWrites):
    payload = FORM.payload

    def reaches_all(self, query: str, _body: bytes) -> bool:
        """The level is in the query."""
        return "consistency_level=ALL" in query[1:].split("&")

    def data(self, _points: NewPoints) -> bytes:
        """The body has no level."""
        return b""

    def classify(self, head: RequestHead) -> Operation | None:
        """The write of objects; None for any other request. Never raises. Their collection is named in the body."""
        name = _PATHS.get(head.path)
        if name is None or head.method != "POST" or not may_be_json(head.content_type):
            return None
        return Operation(backend=BACKEND, name=name, collection="")

    def describe(self, write: Operation, body: bytes) -> Question | None:
        """The request for the description of the first object's collection, or of that of a deletion; None if none is named. Never raises."""
        if write.collection:
            return described(write.collection)
        try:
            span, request = whole(body), members_of(body, whole(body))
            if write.name == MATCHING:
                request = members_of(body, request["match"].span)
            if write.name == _BATCH:
                span = elements(body, request["objects"].span)[0]
                request = members_of(body, span)
            return described(collection_name(text_of(body, present(body, request, "class"))))
        except (ValueError, IndexError, KeyError, UnsupportedError):
            return None

    def read_points(self, write: Operation, source: Shortened, needs: WriteNeeds) -> NewPoints:
        text = source.text
        rows, arrays = [whole(text)], list[Array]()
        if write.name == _BATCH:
            request = read_object(text, rows[0], ("objects", "fields"), reason=Reason.NOT_JSON)
            array = required(text, request, "objects")
            rows = items_of(text, array)
            arrays.append((array, rows))
        objects = [read_object(text, row, _MEMBERS, reason=Reason.NOT_JSON) for row in rows]
        properties = [value_spans(row).get("properties") for row in objects]
        vectors = [_vectors(text, row) for row in objects]
        places = [
            (collection_name(text_of(text, present(text, row, "class"))), text_of(text, present(text, row, "tenant")))
            for row in objects
        ]
        spans = WrittenRows(source=source, arrays=arrays, rows=rows, payloads=properties)
        document, name = document_of(places, vectors, needs, spans)
        matrix = decode_matrix([source.cut_value(row[name]) if name in row else b"" for row in vectors])[0]
        if not matrix.shape[1]:
            raise UnsupportedError(Reason.NOTHING_TO_DO)
        return NewPoints(
            has_ids=any(present(text, row, "id") for row in objects),
            ids=_ids(source, objects, needs),
            vectors=matrix,
            vector_name=name,
            keys=needs.keys,
            fields=tuple([_fields(source, span, needs.keys) for span in properties]),
            document=document,
        )

    def rows_of(self, points: NewPoints) -> WrittenRows:
        return typed(typed(points.document, Document).source, WrittenRows)

    def acknowledged(self, write: Operation, points: NewPoints, _query: str) -> NativeAnswer:
        """The client's objects, which is the server's answer."""
        rows = [self._row_of_answer(points, row) for row in range(len(points.ids))]
        body = b"[%s]" % b",".join(rows) if write.name == _BATCH else self.point(points, 0)
        return NativeAnswer(status=200, content_type="application/json", body=body)

    def receipt(self, write: Operation, points: NewPoints, copies: Mapping[int, int | None], body: bytes) -> Receipt:
        """The server's rows, and rows for the objects that were left out, in the client's order. Such an object is reported as stored,
        unless its original in the same batch was refused. Raises MalformedReplyError.
        """
        if write.name == _OBJECT:
            return Receipt(body=body)
        kept = [row for row in range(len(points.ids)) if row not in copies]
        try:
            rows = dict(zip(kept, _ROWS.decode(body), strict=True))
            results = {row: last_values(raw, ("result",))[0] or _STORED for row, raw in rows.items()}
            failed = {row for row, raw in results.items() if last_values(raw, ("errors",))[0] not in {None, b"null"}}
        except (msgspec.DecodeError, RecursionError, ValueError) as error:
            raise MalformedReplyError(f"answer to a batch: {type(error).__name__}") from None
        refused = frozenset(row for row, of in copies.items() if of in failed)
        raw = [
            rows[row]
            if row in rows
            else self._row_of_answer(points, row, results[of] if (of := copies[row]) in failed else _STORED)
            for row in range(len(points.ids))
        ]
        return Receipt(body=b"[%s]" % b",".join(raw), refused=refused, failed=frozenset(failed))

    def point(self, points: NewPoints, row: int) -> bytes:
        """An object as in a batch, in the client's own bytes."""
        written = self.rows_of(points)
        return written.source.cut(*written.rows[row])

    def merged(self, write: Operation, points: NewPoints, rows: Collection[int], merged: Mapping[int, bytes]) -> bytes:
        """A single object is the whole write."""
        return merged[0] if write.name == _OBJECT else super().merged(write, points, rows, merged)

    def _row_of_answer(self, points: NewPoints, row: int, result: bytes = _STORED) -> bytes:
        """The row of an object in the answer to a batch."""
        return b'%s,"result":%s}' % (self.point(points, row)[:-1], result)
