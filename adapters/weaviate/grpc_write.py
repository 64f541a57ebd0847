"""Batches of objects over gRPC: parses them, makes the client's message with notes in a property of type text, or without some objects.

A note is one more entry at the end of the properties: for equal keys the last one counts, for all readers of protobuf. Streams of batches
are passed through.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import orjson

from ..base import NOTE, typed
from ..base_grpc import GrpcWrites
from ..contract import MalformedReplyError, NativeAnswer, Operation, Question, Reason, RequestHead, UnsupportedError
from ..wire.protobuf import Messages, text_at
from ..wire.schema import check_certain, checked, is_mistyped, parsed, read, serialized
from ..wire.values import GOOGLE, RequestedKeys, chosen_of
from ..wire.vectors import matrix, spelled_floats, whole_floats
from ..writes import Deletion, NewPoints, Receipt, WriteNeeds, numbered
from . import rest_write
from .calls import BACKEND, UNNAMED, Schema, spelled
from .deletions import MATCHING, collection_name
from .grpc import named_vectors
from .grpc_schema import COUNTED, proto
from .objects import id_as_json, is_number
from .rest_write import Document, WeaviateWrites, document_of

_SERVICE = "/weaviate.v1.Weaviate/"
_STREAM = "batch stream"
_PATHS = {_SERVICE + "BatchObjects": "batch", _SERVICE + "BatchStream": _STREAM}
# Of the first object.
_OBJECTS, _COLLECTION, _TENANT = 1, 4, 5
_DELETED = 1  # the collection of a deletion


@dataclass(frozen=True, slots=True)
class Source:
    """The client's message, and those of its objects."""

    data: bytes
    objects: tuple[bytes, ...]


def _place(data: bytes) -> tuple[str, str]:
    """Collection and tenant of the first object. Never raises."""
    return text_at(data, _OBJECTS, _COLLECTION), text_at(data, _OBJECTS, _TENANT)


def _vectors(written: Any) -> dict[str, bytes]:
    """The packed floats of an object's vectors by name; of several rows none. Raises ValueError."""
    unnamed = whole_floats(written.vector_bytes or b"".join(written.vector))
    vectors = named_vectors(written) | ({UNNAMED: unnamed} if unnamed else {})
    return {name: packed for name, packed in vectors.items() if packed}


def _ids(objects: Sequence[Any], needs: WriteNeeds) -> tuple[bytes, ...]:
    ids = [written.uuid.decode() for written in objects]
    if not any(ids):
        return numbered(len(ids), needs)
    if not all(ids):
        raise ValueError("an object has no id, others have")
    return tuple(map(id_as_json, ids))


# Properties that are no Struct: arrays of one kind, each with its name, and the names of empty lists. References and objects are not read.
_ARRAYS: Mapping[str, tuple[Any, Callable[[Any], list[object]]]] = {
    "number_array_properties": (
        proto.NumberArray,
        lambda array: np.frombuffer(array.values_bytes, "<f8").tolist() or list(array.values),
    ),
    "int_array_properties": (proto.IntArray, lambda array: list(array.values)),
    "text_array_properties": (proto.TextArray, lambda array: [text.decode() for text in array.values]),
    "boolean_array_properties": (proto.BoolArray, lambda array: list(array.values)),
}
_READ = {"non_ref_properties", "empty_list_props", *_ARRAYS}


def _properties(properties: Any) -> bytes:
    if unread := {field.name for field, _ in properties.ListFields()} - _READ:
        raise ValueError(f"{unread} are not read")
    lists: dict[str, list[object]] = {name.decode(): [] for name in properties.empty_list_props}
    for field, (kind, values_of) in _ARRAYS.items():
        for data in getattr(properties, field):
            array = parsed(kind, data)
            if is_mistyped(array) or not array.HasField("prop_name"):
                raise ValueError("an array has no name, or values of another kind")
            lists[array.prop_name.decode()] = values_of(array)
    entries = parsed(GOOGLE.struct, properties.non_ref_properties).fields
    more = json.dumps(lists, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()
    return b"{%s}" % b",".join(filter(None, (GOOGLE.object_json(entries)[1:-1], more[1:-1])))


def _spelled_vectors(written: Any, target: str) -> list[bytes]:
    """An unnamed vector is that of the target, if the collection names its vectors. Raises ValueError."""
    by_name = {name or target: spelled_floats(packed) for name, packed in _vectors(written).items()}
    if len(by_name) < len(written.vectors):
        raise ValueError("a vector of several rows")
    bare = by_name.pop(UNNAMED, None)
    named = b",".join([b"%s:%s" % (orjson.dumps(name), numbers) for name, numbers in by_name.items()])
    return [*([b'"vector":%s' % bare] if bare else []), *([b'"vectors":{%s}' % named] if named else [])]


def object_message(point: bytes, schema: Schema) -> bytes:
    """The message of a single object. Raises ValueError for one that it cannot hold, such as vectors of several rows."""
    value = orjson.loads(point)
    vectors = (value.get("vectors") or {}).items()
    return serialized(
        proto.Object(
            uuid=value["id"].encode() or None,
            collection=value["class"].encode() or None,
            tenant=(value.get("tenant") or "").encode() or None,
            properties=_given(value.get("properties") or {}, schema),
            vector_bytes=_packed(value["vector"]) if value.get("vector") else None,
            vectors=[
                {"name": name.encode(), "vector_bytes": _packed(vector), "type": _SINGLE} for name, vector in vectors
            ],
        )
    )


def _packed(numbers: Sequence[float]) -> bytes:
    row = np.array(numbers, "<f4")
    if row.ndim != 1:
        raise ValueError("a vector of several rows")
    return row.tobytes()


def _given(properties: Mapping[str, Any], schema: Schema) -> Mapping[str, Any]:
    """The fields of the message of properties; lists have a message per kind."""
    plain = {name: value for name, value in properties.items() if not isinstance(value, list)}
    given: dict[str, Any] = {"non_ref_properties": GOOGLE.encoded(plain)} if plain else {}
    for name, value in properties.items():
        if value == []:
            given.setdefault("empty_list_props", []).append(name.encode())
        elif isinstance(value, list):
            field, values = _listed(value, schema.types.get(spelled(name), ""))
            array = _ARRAYS[field][0](prop_name=name.encode(), **values)
            given.setdefault(field, []).append(serialized(array))
    return given


def _listed(values: Sequence[Any], kind: str) -> tuple[str, Mapping[str, Any]]:
    """The field of a list, and its values. ``kind``: of the property, "" for unknown. Raises ValueError for elements of several kinds, and
    for objects.
    """
    if all(isinstance(element, str) for element in values):
        return "text_array_properties", {"values": [element.encode() for element in values]}
    if all(isinstance(element, bool) for element in values):
        return "boolean_array_properties", {"values": values}
    if kind != "number[]" and all(isinstance(element, int) and not isinstance(element, bool) for element in values):
        return "int_array_properties", {"values": values}
    if all(map(is_number, values)):
        return "number_array_properties", {"values_bytes": np.array(values, "<f8").tobytes()}
    raise ValueError("a list of several kinds")


_SINGLE = 1  # a type of vectors
_ALL = 3  # a consistency level


class WeaviateGrpcWrites(WeaviateWrites, GrpcWrites):
    counted: ClassVar[Messages] = COUNTED
    upsert = proto.Batch, "objects"

    def reaches_all(self, _query: str, body: bytes) -> bool:
        """The level is in the message."""
        try:
            return bool(parsed(proto.Batch, body).consistency_level == _ALL)
        except ValueError:
            return False

    def data(self, points: NewPoints) -> bytes:
        """The client's message."""
        return _source(points).data

    def message(self, points: NewPoints, _row: int, point: bytes) -> bytes:
        return object_message(point, typed(points.document, Document).schema)

    def holds(self, points: NewPoints, row: int, point: bytes) -> bool:
        """By the types of the collection's properties and the forms of a message."""
        try:
            object_message(point, typed(points.document, Document).schema)
        except (ValueError, TypeError):
            return False
        return super().holds(points, row, point)

    def acknowledged(self, _write: Operation, _points: NewPoints, _query: str) -> NativeAnswer:
        """No errors: each object was stored."""
        return NativeAnswer(status=0, content_type="", body=b"")

    def annotated(self, points: NewPoints, notes: Mapping[int, bytes]) -> bytes:
        """The client's message with a note in the properties of some objects."""
        written = {row: parsed(proto.Object, _source(points).objects[row]) for row in notes}
        for row, note in notes.items():
            written[row].properties.non_ref_properties += GOOGLE.encoded({NOTE: note.decode()})
        return self.rewritten(points, {row: serialized(message) for row, message in written.items()})

    def classify(self, head: RequestHead) -> Operation | None:
        """The batch of a call, in the first object's collection; None for any other. Never raises."""
        name = _PATHS.get(head.path)
        if name is None:
            return None
        place = "" if name == _STREAM else "/".join(filter(None, _place(head.message)))
        return Operation(backend=BACKEND, name=name, collection=place)

    def describe(self, write: Operation, data: bytes) -> Question | None:
        """The request for the description of the first object's collection, or of that of a deletion; None if none is named. Never raises."""
        return rest_write.described(
            collection_name(text_at(data, _DELETED)) if write.name == MATCHING else _place(data)[0]
        )

    def read_points(self, _: Operation, body: bytes, needs: WriteNeeds) -> NewPoints:
        source = Source(body, tuple(read(proto.Batch, body).objects))
        objects = [checked(proto.Object, written) for written in source.objects]
        vectors = [_vectors(written) for written in objects]
        places = [(written.collection.decode(), written.tenant.decode()) for written in objects]
        document, name = document_of(places, vectors, needs, source)
        fields = RequestedKeys([spelled(key) for key in needs.keys])
        return NewPoints(
            has_ids=any(written.HasField("uuid") for written in objects),
            ids=_ids(objects, needs),
            vectors=matrix([row.get(name) or None for row in vectors]),
            vector_name=name,
            keys=needs.keys,
            fields=chosen_of([written.properties.non_ref_properties for written in objects], fields),
            document=document,
        )

    def point(self, points: NewPoints, row: int) -> bytes:
        """As JSON. Raises UnsupportedError for data without a JSON form here, such as references."""
        document = typed(points.document, Document)
        written = checked(proto.Object, _source(points).objects[row])
        members = [b'"class":%s' % orjson.dumps(written.collection.decode())]
        if points.has_ids:
            members.append(b'"id":%s' % points.ids[row])
        if document.tenant:
            members.append(b'"tenant":%s' % orjson.dumps(document.tenant))
        try:
            if written.HasField("properties"):
                members.append(b'"properties":%s' % _properties(written.properties))
            members += _spelled_vectors(written, document.target)
        except ValueError:
            raise UnsupportedError(Reason.UNSUPPORTED_FIELD) from None
        return b"{%s}" % b",".join(members)

    def receipt(self, _write: Operation, points: NewPoints, copies: Mapping[int, int | None], body: bytes) -> Receipt:
        """The server's errors, with the places of the client's own objects. An object without an error was stored. One that was left out
        gets an error if its original in the same batch has one. Raises MalformedReplyError.
        """
        kept = [row for row in range(len(points.ids)) if row not in copies]
        try:
            check_certain([parsed(proto.Written, body)], [body])
            reply = parsed(proto.Written, body)
            words = {kept[message.index]: message.error for message in reply.errors}
        except (ValueError, IndexError) as error:
            raise MalformedReplyError(f"answer to a batch: {error}") from None
        refused = {row: words[of] for row, of in copies.items() if of in words}
        del reply.errors[:]
        reply.errors.extend(
            [proto.Error(index=row, error=message) for row, message in sorted({**words, **refused}.items())]
        )
        return Receipt(body=serialized(reply), refused=frozenset(refused), failed=frozenset(words))


def _source(points: NewPoints) -> Source:
    return typed(typed(points.document, Document).source, Source)


def classify_deletion(head: RequestHead) -> Operation | None:
    return Operation(backend=BACKEND, name=MATCHING, collection="") if head.path == _SERVICE + "BatchDelete" else None


def deletions_of(_request: Operation, body: bytes, _: object | None) -> Sequence[Deletion]:
    deletion = parsed(proto.BatchDelete, body)
    if deletion.dry_run:
        return []
    tenant = deletion.tenant.decode()
    return [
        Deletion(
            collection=collection_name(deletion.collection.decode()) or None,
            partition=orjson.dumps(tenant) if tenant else None,
            is_certain=False,
        )
    ]
