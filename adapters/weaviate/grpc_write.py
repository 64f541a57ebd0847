"""Batches of objects over gRPC: parses them, makes the client's message with notes in a property of type text, or without some objects.

A note is one more entry at the end of the properties: for equal keys the last one counts, for all readers of protobuf. Streams of batches
are passed through.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import orjson

from ..base import NOTE, GrpcWrites, own
from ..contract import (
    MalformedReplyError,
    NativeAnswer,
    Operation,
    Question,
    Reason,
    RequestHead,
    UnsupportedError,
)
from ..wire.protobuf import (
    LENGTH,
    VARINT,
    Field,
    Found,
    Messages,
    Shape,
    fields,
    length_field,
    message,
    message_spans,
    messages,
    messages_in,
    number_field,
    number_of,
    only,
    read,
    replaced,
    text,
    text_of,
    unsigned,
    value_at,
    without,
)
from ..wire.protobuf_values import GOOGLE, Wanted, chosen, map_message, object_json
from ..wire.vectors import matrix, packed_floats, spelled_floats, whole_numbers
from ..writes import NewPoints, Told, WriteNeeds, numbered
from . import rest_write
from .calls import BACKEND, UNNAMED
from .deletions import MATCHING, collection_of
from .grpc_request import VECTORS, spelled
from .objects import object_message
from .rest_write import Document, WeaviateWrites, document_of

_SERVICE = "/weaviate.v1.Weaviate/"
_STREAM = "batch stream"
_PATHS = {_SERVICE + "BatchObjects": "batch", _SERVICE + "BatchStream": _STREAM}
# BatchObjectsRequest, BatchObject; of its properties those that are a Struct.
_OBJECTS = 1
_BATCH = Shape(frozenset({2}), frozenset({_OBJECTS}))
_ID, _FLOATS, _PROPERTIES, _COLLECTION, _TENANT, _BYTES, _VECTORS = 1, 2, 3, 4, 5, 6, 23
_OBJECT = Shape(frozenset({_ID, _PROPERTIES, _COLLECTION, _TENANT, _BYTES}), frozenset({_FLOATS, _VECTORS}))
_PLAIN = 1
_OWN = Shape(frozenset({_PLAIN}), frozenset(range(2, 11)))
_ENTRIES = 1
# Vectors.
_NAME, _PACKED, _TYPE = 1, 3, 4
_SINGLE_TYPES = frozenset({None, 0, 1})


@dataclass(frozen=True, slots=True)
class Source:
    """For each object its field, and those of its properties and of the Struct in them, None if absent."""

    data: bytes
    objects: tuple[Field, ...]
    properties: tuple[Field | None, ...]
    plain: tuple[Field | None, ...]


def _place(data: bytes) -> tuple[str, str]:
    """Collection and tenant of the first object. Never raises."""
    try:
        span = value_at(data, (_OBJECTS,))
        first = b"" if span is None else data[slice(*span)]
        at = [value_at(first, (number,)) for number in (_COLLECTION, _TENANT)]
        collection, tenant = ["" if each is None else first[slice(*each)].decode() for each in at]
    except ValueError:
        return "", ""
    return collection, tenant


def _vectors(data: bytes, found: Found) -> dict[str, bytes]:
    """The packed floats of an object's vectors by name; of several rows none. Raises ValueError, UnsupportedError."""
    vectors: dict[str, bytes] = {}
    for field in messages(found, _VECTORS):
        inside = read(data, field.span, VECTORS)
        packed = message(inside, _PACKED)
        if packed is not None and number_of(data, inside, _TYPE) in _SINGLE_TYPES:
            vectors[text_of(data, message(inside, _NAME))] = data[slice(*packed.span)]
    bare = message(found, _BYTES)
    own_floats = packed_floats(data, found.get(_FLOATS, ()), _FLOATS) if bare is None else data[slice(*bare.span)]
    if own_floats:
        vectors[UNNAMED] = own_floats
    if any(len(each) % 4 for each in vectors.values()):
        raise ValueError("a vector holds no whole floats")
    return {name: each for name, each in vectors.items() if each}


def _ids(data: bytes, each: list[Found], needs: WriteNeeds) -> tuple[bytes, ...]:
    """Raises ValueError, UnsupportedError."""
    ids = [text_of(data, message(found, _ID)).lower() for found in each]
    if not any(ids):
        return numbered(len(ids), needs)
    if not all(ids):
        raise ValueError("an object has no id, others have")
    return tuple(map(orjson.dumps, ids))


def _noted(source: Source, row: int, note: bytes) -> bytes:
    data, added = source.data, map_message({NOTE: note.decode()}, GOOGLE)
    properties, plain = source.properties[row], source.plain[row]
    at = source.objects[row].span
    if properties is None:
        return length_field(_OBJECTS, data[slice(*at)] + length_field(_PROPERTIES, length_field(_PLAIN, added)))
    if plain is None:
        inside = data[slice(*properties.span)] + length_field(_PLAIN, added)
    else:
        struct = length_field(_PLAIN, data[slice(*plain.span)] + added)
        inside = replaced(data, properties.span, [plain.whole], [struct])
    return length_field(_OBJECTS, replaced(data, at, [properties.whole], [length_field(_PROPERTIES, inside)]))


# Properties that are no Struct: arrays of one kind, each with its name, and the names of empty lists. References and objects are not read.
_DOUBLES, _INTEGERS, _TEXTS, _BOOLS, _EMPTY = 4, 5, 6, 7, 10
_NUMBERS, _PROPERTY, _DOUBLE_BYTES = 1, 2, 3
_ARRAYS = frozenset({_DOUBLES, _INTEGERS, _TEXTS, _BOOLS})


def _properties(data: bytes, found: list[Field]) -> bytes:
    """Raises ValueError."""
    members: list[bytes] = []
    for field in found:
        if field.number == _PLAIN:
            members.append(object_json(data, messages_in(data, field.span, _ENTRIES), GOOGLE)[1:-1])
        elif field.number == _EMPTY:
            members.append(b"%s:[]" % orjson.dumps(text(data, field)))
        elif field.number in _ARRAYS:
            inside = fields(data, field.span)
            name = only(inside, _PROPERTY, LENGTH)
            if name is None:
                raise ValueError(f"array at byte {field.start} has no name")
            members.append(
                b"%s:%s" % (orjson.dumps(text(data, name)), orjson.dumps(_values(data, field.number, inside)))
            )
        else:
            raise ValueError(f"property at byte {field.start} is of kind {field.number}")
    return b"{%s}" % b",".join(filter(None, members))


def _values(data: bytes, kind: int, found: list[Field]) -> list[object]:
    """Raises ValueError."""
    those = [field for field in found if field.number == _NUMBERS]
    if kind == _TEXTS:
        return [text(data, field) for field in those]
    if kind == _DOUBLES:
        packed = [field for field in found if field.number == _DOUBLE_BYTES] or those
        return list(np.frombuffer(b"".join([data[slice(*field.span)] for field in packed]), "<f8").tolist())
    each = whole_numbers(data, found, _NUMBERS)
    return [bool(number) for number in each] if kind == _BOOLS else [n - 2**64 if n >= 2**63 else n for n in each]


def _spelled_vectors(data: bytes, found: Found, target: str) -> list[bytes]:
    """An unnamed vector is that of the target, if the collection names its vectors. Raises ValueError."""
    each = {name or target: spelled_floats(packed) for name, packed in _vectors(data, found).items()}
    if len(each) < len(messages(found, _VECTORS)):
        raise ValueError("a vector of several rows")
    bare = each.pop(UNNAMED, None)
    named = b",".join([b"%s:%s" % (orjson.dumps(name), numbers) for name, numbers in each.items()])
    return [*([b'"vector":%s' % bare] if bare else []), *([b'"vectors":{%s}' % named] if named else [])]


# BatchObjectsReply; its errors by the places of the objects.
_ERRORS, _PLACE, _WORDS = 2, 1, 2


_LEVEL, _ALL = 2, 3


class WeaviateGrpcWrites(WeaviateWrites, GrpcWrites):
    counted: ClassVar[Messages] = {
        "upsert": {_OBJECTS: "object"},
        "object": {_PROPERTIES: "properties"},
        "properties": dict.fromkeys((_PLAIN, *_ARRAYS), "inside"),
        "inside": {},
    }

    def reaches_all(self, _query: str, body: bytes) -> bool:
        """The level is in the message."""
        try:
            level = only(fields(body), _LEVEL, VARINT)
            return level is not None and unsigned(body, level) == _ALL
        except ValueError:
            return False

    def data_of(self, document: Document) -> bytes:
        """The client's message."""
        return own(document.source, Source).data

    def holds(self, points: NewPoints, row: int, point: bytes) -> bool:
        """By the types of the collection's properties, and by what a message can hold."""
        try:
            object_message(point, own(points.document, Document).schema)
        except (ValueError, TypeError):
            return False
        return super().holds(points, row, point)

    def merged(self, _: Operation, points: NewPoints, rows: Collection[int], merged: Mapping[int, bytes], /) -> bytes:
        """The client's message with other objects."""
        schema = own(points.document, Document).schema
        put = {row: length_field(_OBJECTS, object_message(each, schema)) for row, each in merged.items()}
        return self.shown(points, {row: put.get(row, b"") for row in {*rows, *merged}})

    def acknowledged(self, _write: Operation, _points: NewPoints, _query: str) -> NativeAnswer:
        """No errors: each object was stored."""
        return NativeAnswer(status=0, content_type="", body=b"")

    def annotated(self, points: NewPoints, notes: Mapping[int, bytes]) -> bytes:
        """The client's message with a note in the properties of some objects."""
        source = own(own(points.document, Document).source, Source)
        return self.shown(points, {row: _noted(source, row, note) for row, note in notes.items()})

    def classify(self, head: RequestHead) -> Operation | None:
        """The batch of a call, in the first object's collection; None for any other. Never raises."""
        name = _PATHS.get(head.path)
        if name is None:
            return None
        place = "" if name == _STREAM else "/".join(filter(None, _place(head.message)))
        return Operation(backend=BACKEND, name=name, collection=place)

    def describe(self, write: Operation, data: bytes) -> Question | None:
        """The request for the description of the first object's collection, or of that of a deletion; None if none is named. Never raises."""
        return rest_write.described(collection_of(data) if write.name == MATCHING else _place(data)[0])

    def read_points(self, _: Operation, body: bytes, needs: WriteNeeds) -> NewPoints:
        objects = messages(read(body, (0, len(body)), _BATCH), _OBJECTS)
        each = [read(body, field.span, _OBJECT) for field in objects]
        properties = [message(found, _PROPERTIES) for found in each]
        plain = [None if field is None else message(read(body, field.span, _OWN), _PLAIN) for field in properties]
        vectors = [_vectors(body, found) for found in each]
        places = [
            (text_of(body, message(found, _COLLECTION)), text_of(body, message(found, _TENANT))) for found in each
        ]
        source = Source(body, tuple(objects), tuple(properties), tuple(plain))
        document, name = document_of(places, vectors, needs, source)
        wanted = Wanted([spelled(key) for key in needs.keys])
        return NewPoints(
            has_ids=any(message(found, _ID) is not None for found in each),
            ids=_ids(body, each, needs),
            vectors=matrix([row.get(name) or None for row in vectors]),
            vector_name=name,
            keys=needs.keys,
            fields=tuple(
                [
                    chosen(body, [] if field is None else messages_in(body, field.span, _ENTRIES), wanted, GOOGLE)
                    for field in plain
                ]
            ),
            document=document,
        )

    def fields(self, points: NewPoints) -> tuple[bytes, Sequence[Field]]:
        source = own(own(points.document, Document).source, Source)
        return source.data, source.objects

    def point(self, points: NewPoints, row: int) -> bytes:
        """As JSON. Raises UnsupportedError for data without a JSON form here, such as references."""
        document = own(points.document, Document)
        source = own(document.source, Source)
        data, properties = source.data, source.properties[row]
        found = read(data, source.objects[row].span, _OBJECT)
        members = [b'"class":%s' % orjson.dumps(text_of(data, message(found, _COLLECTION)))]
        if points.has_ids:
            members.append(b'"id":%s' % points.ids[row])
        if document.tenant:
            members.append(b'"tenant":%s' % orjson.dumps(document.tenant))
        try:
            if properties is not None:
                members.append(b'"properties":%s' % _properties(data, fields(data, properties.span)))
            members += _spelled_vectors(data, found, document.target)
        except ValueError:
            raise UnsupportedError(Reason.UNSUPPORTED_FIELD) from None
        return b"{%s}" % b",".join(members)

    def told(self, _write: Operation, points: NewPoints, gone: Mapping[int, int | None], body: bytes) -> Told:
        """The server's errors, with the places of the client's own objects. An object without an error was stored. One that was left out
        gets an error if its original in the same batch has one. Raises MalformedReplyError.
        """
        kept = [row for row in range(len(points.ids)) if row not in gone]
        try:
            found = fields(body)
            errors = [fields(body, span) for span in message_spans(found, _ERRORS)]
            places = [0 if (at := only(each, _PLACE, VARINT)) is None else unsigned(body, at) for each in errors]
            words = {kept[at]: only(each, _WORDS, LENGTH) for at, each in zip(places, errors, strict=True)}
            rest = without(body, (0, len(body)), [field for field in found if field.number == _ERRORS])
        except (ValueError, IndexError) as error:
            raise MalformedReplyError(f"answer to a batch: {error}") from None
        refused = {row: words[of] for row, of in gone.items() if of in words}
        shown = [
            length_field(_ERRORS, number_field(_PLACE, row) + (b"" if each is None else body[each.start : each.end]))
            for row, each in sorted({**words, **refused}.items())
        ]
        return Told(body=rest + b"".join(shown), refused=frozenset(refused), failed=frozenset(words))
