"""Weaviate over gRPC: parses a reply, cuts the client's answer from it; the adapter and its dialect.

Supported: searches near a vector, an object, a text or media, hybrid and keyword searches, servers 1.27 and later. Lists, groups, autocut,
cursors, boosts, reranking, generated text, several target vectors, multivector queries and Weaviate's own selection for diversity are
passed through. The answer is upstream's bytes without the other results and without the additions. Ambiguous replies are malformed.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from struct import Struct

import numpy as np
import numpy.typing as npt
import orjson

from ..base import GrpcAdapter, GrpcDialect, Keep
from ..contract import FIELD_BYTES, NESTED_BYTES, Allowance, MalformedReplyError, Needs, Pool
from ..wire.json import object_of
from ..wire.protobuf import (
    FIXED32,
    FIXED64,
    LENGTH,
    REPLY_FIELDS,
    VARINT,
    Field,
    Span,
    entries,
    fields,
    held,
    length_field,
    message_spans,
    only,
    replaced,
    text,
    unsigned,
    varint,
    without,
)
from ..wire.protobuf_values import spelled_text
from ..wire.vectors import matrix, packed_floats, whole_numbers, without_vector
from . import calls, grpc_request
from .grpc_request import (
    LEGACY_BYTES,
    LEGACY_FLOATS,
    NAMED,
    Document,
    Ranking,
    Shown,
    spelled,
)

# A collection's unnamed vector is in two fields, its named ones in a list, all as little-endian floats. Multivectors are not compared.

# Vectors.
_NAME, _BYTES, _TYPE = 1, 3, 4
_SINGLE_TYPES = frozenset({0, 1})
UNNAMED = ""


def compare(
    data: bytes, results: Sequence[Sequence[Field]], wanted: str | None
) -> tuple[str | None, npt.NDArray[np.float32]]:
    """The name of the vector to compare by ("" is the unnamed one, None for none), and (n, d) the vectors, NaN rows for unusable ones.
    ``results``: the fields of each metadata. ``wanted``: the name; None chooses one. Raises ValueError.
    """
    if wanted == UNNAMED:
        return UNNAMED, matrix([_unnamed(data, inside) for inside in results])
    if wanted is None:
        unnamed = [_unnamed(data, inside) for inside in results]
        if any(unnamed):  # a search without a name uses the unnamed one, if there is one
            return UNNAMED, matrix(unnamed)
    found = [_named(data, inside) for inside in results]
    # A search without a name uses the only vector; with several (keyword searches) the first by name is compared.
    name = wanted if wanted is not None else min((name for each in found for name in each), default=None)
    return name, matrix([None if name is None else each.get(name) for each in found])


def name_of(data: bytes, field: Field) -> str:
    """The name of a vector in the list. Raises ValueError."""
    return _spelled(data, fields(data, field.span))


def _spelled(data: bytes, found: Sequence[Field]) -> str:
    named = only(found, _NAME, LENGTH)
    return "" if named is None else text(data, named)


def _unnamed(data: bytes, inside: Sequence[Field]) -> bytes | None:
    packed = only(inside, LEGACY_BYTES, LENGTH)
    if packed is None:
        return packed_floats(data, inside, LEGACY_FLOATS) or None
    return _whole(data[packed.value : packed.end])


def _named(data: bytes, inside: Sequence[Field]) -> dict[str, bytes]:
    """The vectors of one row in the list, by name. Raises ValueError."""
    vectors: dict[str, bytes] = {}
    for field in inside:
        if field.number != NAMED:
            continue
        found = fields(data, field.span)
        packed, kind = only(found, _BYTES, LENGTH), only(found, _TYPE, VARINT)
        if packed is not None and (kind is None or unsigned(data, kind) in _SINGLE_TYPES):
            vectors[_spelled(data, found)] = _whole(data[packed.value : packed.end])
    return vectors


def _whole(packed: bytes) -> bytes:
    if len(packed) % 4:
        raise ValueError(f"a vector of {len(packed)} bytes holds no whole floats")
    return packed


# Property values as canonical JSON: keys in order, no white space, numbers as over REST. A value without an exact JSON form (places,
# telephone numbers, unknown kinds) raises ValueError.

# Value.
_NUMBER, _OLD_TEXT, _BOOL, _OBJECT, _LIST = 1, 2, 3, 4, 5
_DATE, _UUID, _INT, _BLOB, _NULL, _TEXT = 6, 7, 8, 10, 12, 13
_NUMBER_TAG = _NUMBER << 3 | FIXED64
_BOOL_TAG, _INT_TAG, _NULL_TAG = _BOOL << 3 | VARINT, _INT << 3 | VARINT, _NULL << 3 | VARINT
_OBJECT_TAG, _LIST_TAG = _OBJECT << 3 | LENGTH, _LIST << 3 | LENGTH
_TEXT_TAGS = frozenset(number << 3 | LENGTH for number in (_OLD_TEXT, _DATE, _UUID, _BLOB, _TEXT))

# ListValue: each kind is a message whose field 1 holds the elements.
_NUMBERS, _BOOLS, _OBJECTS, _DATES, _UUIDS, _INTS, _TEXTS = (number << 3 | LENGTH for number in (2, 3, 4, 5, 6, 7, 8))
_ELEMENTS = _MEMBERS = 1
_DOUBLE, _LONG = Struct("<d"), Struct("<q")
# Integers up to here are exact as doubles.
_EXACT = 2.0**53
# Protobuf's own readers refuse messages nested deeper than 100.
_MAX_DEPTH = 100


def is_nested(data: bytes, span: Span) -> bool:
    """Whether a Value is an object or a list."""
    return span[0] < span[1] and data[span[0]] in {_OBJECT_TAG, _LIST_TAG}


def as_json(data: bytes, span: Span) -> bytes | None:
    """The JSON of the Value that fills ``span``; None for null, which the server writes for an absent property. Raises ValueError."""
    value = _value(data, span, _MAX_DEPTH)
    if isinstance(value, str):
        return spelled_text(value)
    try:
        return None if value is None else orjson.dumps(value, option=orjson.OPT_SORT_KEYS)
    except orjson.JSONEncodeError as error:
        raise ValueError(str(error)) from None


def _value(data: bytes, span: Span, depth: int) -> object:
    if span[0] == span[1] or not depth:
        raise ValueError(f"value at byte {span[0]} is empty, or nested deeper than {_MAX_DEPTH}")
    tag, at = held(data, span)
    if tag in _TEXT_TAGS:
        return data[at : span[1]].decode()
    if tag == _NUMBER_TAG:
        return _number(_DOUBLE.unpack_from(data, at)[0])
    if tag in _INTEGERS:
        return _INTEGERS[tag](varint(data, at, span[1])[0])
    if tag in _NESTED:
        return _NESTED[tag](data, (at, span[1]), depth - 1)
    raise ValueError(f"value at byte {span[0]} begins with tag {tag}, a kind without a JSON form")


def _object(data: bytes, span: Span, depth: int) -> dict[str, object]:
    members = entries(data, message_spans(fields(data, span), _MEMBERS))
    return {key.decode(): _value(data, value, depth) for key, value in members}


def _list(data: bytes, span: Span, depth: int) -> list[object]:
    if span[0] == span[1]:  # a list without a kind has no elements
        return []
    tag, at = held(data, span)
    inside: Span = at, span[1]
    if tag == _OBJECTS:
        return [_object(data, each, depth) for each in message_spans(fields(data, inside), _ELEMENTS)]
    if tag in _READERS:
        return _READERS[tag](data, inside)
    raise ValueError(f"list at byte {span[0]} begins with tag {tag}, a kind without a JSON form")


def _texts(data: bytes, span: Span) -> list[object]:
    found = fields(data, span)
    message_spans(found, _ELEMENTS)
    return [text(data, field) for field in found if field.number == _ELEMENTS]


def _bools(data: bytes, span: Span) -> list[object]:
    return [value != 0 for value in whole_numbers(data, fields(data, span), _ELEMENTS)]


def _fixed(shape: Struct, spelling: Callable[[float], object]) -> Callable[[bytes, Span], list[object]]:
    """Reads numbers of eight bytes each, all of them in one field."""

    def read(data: bytes, span: Span) -> list[object]:
        packed = only(fields(data, span), _ELEMENTS, LENGTH)
        if packed is None:
            return []
        if (packed.end - packed.value) % shape.size:
            raise ValueError(f"numbers at byte {packed.value} are not {shape.size} bytes each")
        return [spelling(value) for (value,) in shape.iter_unpack(data[packed.value : packed.end])]

    return read


def _number(number: float) -> object:
    return int(number) if number.is_integer() and abs(number) <= _EXACT else number


def _signed(number: int) -> int:
    return number - 2**64 if number >= 2**63 else number


_INTEGERS: Mapping[int, Callable[[int], object]] = {_INT_TAG: _signed, _BOOL_TAG: bool, _NULL_TAG: lambda _: None}
_NESTED: Mapping[int, Callable[[bytes, Span, int], object]] = {_OBJECT_TAG: _object, _LIST_TAG: _list}
_READERS: Mapping[int, Callable[[bytes, Span], list[object]]] = {
    _NUMBERS: _fixed(_DOUBLE, _number),
    _INTS: _fixed(_LONG, int),
    _BOOLS: _bools,
    _DATES: _texts,
    _UUIDS: _texts,
    _TEXTS: _texts,
}

# SearchReply, SearchResult, PropertiesResult, Properties.
RESULTS, _GROUPS = 2, 4
PROPERTIES, METADATA, _GENERATIVE = 1, 2, 3
OWN_PROPERTIES = 11
ENTRIES = 1
# The properties of servers without OWN_PROPERTIES.
_OLD_PROPERTIES = frozenset({1, 5, 6, 7, 8, 9, 10})

# MetadataResult: the fields that are read or removed, and their wire types.
_ID, _DISTANCE, _IS_DISTANCE, _SCORE, _IS_SCORE = 1, 7, 8, 11, 12
_WIRES: Mapping[int, frozenset[int]] = {
    _ID: frozenset({LENGTH}), 2: frozenset({LENGTH, FIXED32}), _DISTANCE: frozenset({FIXED32}),
    _IS_DISTANCE: frozenset({VARINT}), _SCORE: frozenset({FIXED32}), _IS_SCORE: frozenset({VARINT}),
    19: frozenset({LENGTH}), 20: frozenset({LENGTH}), 23: frozenset({LENGTH}),
}  # fmt: skip
_FLOAT = struct.Struct("<f")


@dataclass(frozen=True, slots=True)
class Result:
    """One candidate: its field in the reply, those of its metadata and properties, and the fields in them. ``is_old``: its properties have
    the form of servers before 1.23.
    """

    field: Field
    metadata: Field
    inside: list[Field]
    properties: Field | None
    own: Field | None
    entries: list[Field]
    is_old: bool


@dataclass(frozen=True, slots=True)
class ReplyDocument:
    """A parsed reply: its bytes, and its results in order."""

    data: bytes
    results: tuple[Result, ...]


def parse_reply(request: Document, needs: Needs, body: bytes) -> tuple[Pool, ReplyDocument]:
    """Raises MalformedReplyError, nothing else."""
    try:
        results = _results(body)
        return _pool(request, needs, body, results), ReplyDocument(body, results)
    except ValueError as error:
        raise MalformedReplyError(str(error)) from None


def _results(data: bytes) -> tuple[Result, ...]:
    found = fields(data)
    if any(field.number == _GROUPS for field in found):
        raise ValueError("the reply holds groups, wanted results")
    results: list[Result] = []
    left = REPLY_FIELDS
    for field in found:
        if field.number == RESULTS:
            results.append(_result(data, field))
            left -= len(results[-1].entries)
        if left < 0:
            raise ValueError(f"results up to byte {field.end} have more than {REPLY_FIELDS} properties")
    return tuple(results)


def _pool(request: Document, needs: Needs, data: bytes, results: tuple[Result, ...]) -> Pool:
    name, vectors = compare(data, [result.inside for result in results], request.shown.compared)
    unusable = without_vector(vectors)
    known = needs.vector_hint if request.shown.compared is None else request.shown.compared
    missing = None if needs.vectors else known
    ids = [_id_of(data, result) for result in results]
    self_id = request.ranking.self_id
    return Pool(
        scores=np.array([_score_of(data, result.inside, request.ranking) for result in results], dtype=np.float64),
        vectors=vectors,
        fields=_fields(data, results, needs),
        payloads=partial(_payloads, data, results),
        ids=tuple([orjson.dumps(each) for each in ids]),
        vector_name=name if request.shown.compared is None else None,
        compared_by=name if unusable < len(results) else missing,
        unusable=unusable,
        # The object by which the search is made must not replace similar objects.
        alone=tuple([place for place, each in enumerate(ids) if each == self_id]) if self_id else (),
    )


def _result(data: bytes, field: Field) -> Result:
    if field.wire != LENGTH:
        raise ValueError(f"result at byte {field.start} is of wire type {field.wire}")
    found = fields(data, field.span)
    metadata, properties = only(found, METADATA, LENGTH), only(found, PROPERTIES, LENGTH)
    if metadata is None or any(inner.number == _GENERATIVE for inner in found):
        raise ValueError(f"result at byte {field.start} has no metadata, or generated text")
    inside = fields(data, metadata.span)
    for inner in inside:
        if inner.number in _WIRES and inner.wire not in _WIRES[inner.number]:
            raise ValueError(f"metadata field {inner.number} at byte {inner.start} is of wire type {inner.wire}")
    members = [] if properties is None else fields(data, properties.span)
    own = only(members, OWN_PROPERTIES, LENGTH)
    held = (
        [] if own is None else [inner for inner in fields(data, own.span, most=REPLY_FIELDS) if inner.number == ENTRIES]
    )
    message_spans(held, ENTRIES)
    is_old = any(member.number in _OLD_PROPERTIES for member in members)
    return Result(field, metadata, inside, properties, own, held, is_old)


def _id_of(data: bytes, result: Result) -> str:
    own = only(result.inside, _ID, LENGTH)
    if own is None or own.value == own.end:
        raise ValueError(f"result at byte {result.field.start} has no id")
    return text(data, own)


def _score_of(data: bytes, inside: Sequence[Field], ranking: Ranking) -> float:
    """The number that ranks a result; NaN if the server has none. protobuf omits a zero."""
    value, is_there = (_DISTANCE, _IS_DISTANCE) if ranking.is_measured else (_SCORE, _IS_SCORE)
    number, present = only(inside, value, FIXED32), only(inside, is_there, VARINT)
    if present is None or not unsigned(data, present):
        return float("nan")
    return 0.0 if number is None else float(_FLOAT.unpack_from(data, number.value)[0])


def _fields(data: bytes, results: Sequence[Result], needs: Needs) -> tuple[tuple[bytes | None, ...], ...]:
    """Per result the JSON of each wanted property, None if absent. Raises ValueError for a required one without a JSON form; such optional
    ones count as absent.
    """
    must, may = (_keys(names) for names in (needs.payload_fields, needs.optional_fields))
    if not (must or may):
        return ((),) * len(results)
    rows: list[tuple[bytes | None, ...]] = []
    plain, nested = Allowance(FIELD_BYTES), Allowance(NESTED_BYTES)
    for result in results:
        if must and result.is_old:
            raise ValueError(f"result at byte {result.field.start} has properties in a form of servers before 1.23")
        found = dict(entries(data, [field.span for field in result.entries]))
        values = [as_json(data, found[key]) if key in found else None for key in must]
        rows.append((*values, *[_readable(data, found.get(key), plain, nested) for key in may]))
    return tuple(rows)


def _payloads(data: bytes, results: Sequence[Result], most: int) -> tuple[bytes, ...]:
    """The properties; without those that are beyond the allowance, or have no JSON form."""
    plain, nested = Allowance(FIELD_BYTES), Allowance(NESTED_BYTES)
    found: list[bytes] = []
    for result in results[:most]:
        pairs = entries(data, [field.span for field in result.entries])
        values = [
            (orjson.dumps(key.decode(errors="replace")), _readable(data, span, plain, nested)) for key, span in pairs
        ]
        found.append(object_of([(key, value) for key, value in values if value is not None]))
    return tuple(found)


def _keys(names: Iterable[str]) -> list[bytes]:
    return [spelled(name).encode(errors="surrogatepass") for name in names]


def _readable(data: bytes, span: Span | None, plain: Allowance, nested: Allowance) -> bytes | None:
    """A value as JSON; None without a JSON form, and beyond the allowance."""
    if span is None or not (nested if is_nested(data, span) else plain).covers(span[1] - span[0]):
        return None
    try:
        return as_json(data, span)
    except ValueError:
        return None


def trim(request: Document, reply: ReplyDocument, keep: Keep) -> bytes:
    """The client's answer: the results ``keep[0]`` in that order."""
    (kept,) = keep
    data, results = reply.data, reply.results
    shown = [_shown(data, request.shown, results[index]) for index in kept.tolist()]
    return replaced(data, (0, len(data)), [result.field.whole for result in results], shown)


def _shown(data: bytes, shown: Shown, result: Result) -> bytes:
    """A result in the client's answer."""
    hidden = [field for field in result.inside if _is_hidden(data, shown, field)]
    pieces: list[tuple[Field, bytes]] = []
    if hidden:
        pieces.append((result.metadata, length_field(METADATA, without(data, result.metadata.span, hidden))))
    if shown.properties and result.properties is not None and result.own is not None:
        pieces.append((result.properties, _properties(data, shown, result.properties, result.own, result.entries)))
    if not pieces:
        return data[result.field.start : result.field.end]
    at, inside = result.field.value, b""
    for field, changed in sorted(pieces):
        inside += data[at : field.start] + changed
        at = field.end
    return length_field(RESULTS, inside + data[at : result.field.end])


def _is_hidden(data: bytes, shown: Shown, field: Field) -> bool:
    if field.number in shown.hidden:
        return True
    return shown.listed is not None and field.number == NAMED and name_of(data, field) not in shown.listed


def _properties(data: bytes, shown: Shown, properties: Field, own: Field, held: list[Field]) -> bytes:
    """A result's properties without the added ones; without their field if none is left."""
    added = {name.encode(errors="surrogatepass") for name in shown.properties}
    keys = [key for key, _ in entries(data, [field.span for field in held])]
    dropped = [field for field, key in zip(held, keys, strict=True) if key in added]
    if not dropped:
        return data[properties.start : properties.end]
    left = without(data, own.span, dropped)
    inside = length_field(OWN_PROPERTIES, left) if left else b""
    return length_field(PROPERTIES, data[properties.value : own.start] + inside + data[own.end : properties.end])


class WeaviateGrpc(GrpcAdapter[Document, ReplyDocument]):
    request_type, reply_type, messages = Document, ReplyDocument, grpc_request.MESSAGES
    classify = staticmethod(calls.classify)
    parse_request = staticmethod(grpc_request.parse_request)
    widen_request = staticmethod(grpc_request.widen)
    read_reply = staticmethod(parse_reply)
    cut_reply = staticmethod(trim)
    describe = staticmethod(calls.describe)
    parse_description = staticmethod(calls.parse_description)


_OK = 0
_TOO_MANY = b"429 too many requests"


class WeaviateGrpcDialect(GrpcDialect):
    """Over gRPC: the details of a status, mostly UNKNOWN. ``limit``: of offset and limit together."""

    limit = re.compile(r"QUERY_MAXIMUM_RESULTS '([1-9][0-9]{0,8})'")
    unknown_vector = "does not have named vector "

    def words(self, status: int, body: bytes) -> str:
        return "" if status == _OK else super().words(status, body)

    def is_quota(self, status: int, body: bytes) -> bool:
        """Also by the details: MAXIMUM_CONCURRENT_GET_REQUESTS has no code of its own."""
        return super().is_quota(status, body) or (status != _OK and _TOO_MANY in body.lower())
