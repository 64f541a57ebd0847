"""Reading a Weaviate search reply: where its results stand, and the pool in them.

What is not understood with certainty is Malformed, never guessed.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import orjson

from vecsieve.adapters.allowance import FIELD_BYTES, NESTED_BYTES, Allowance
from vecsieve.adapters.contract import Malformed, Needs, Pool
from vecsieve.adapters.proto_maps import entries, messages
from vecsieve.adapters.proto_wire import (
    FIXED32,
    LENGTH,
    REPLY_FIELDS,
    VARINT,
    Field,
    Span,
    fields,
    only,
    text,
    unsigned,
)
from vecsieve.adapters.usable import without_vector
from vecsieve.adapters.weaviate_grpc_query import Ranking
from vecsieve.adapters.weaviate_grpc_request import Document
from vecsieve.adapters.weaviate_grpc_shown import spelled
from vecsieve.adapters.weaviate_grpc_values import as_json, is_nested
from vecsieve.adapters.weaviate_grpc_vectors import compare

# SearchReply, SearchResult, PropertiesResult, Properties.
RESULTS, _GROUPS = 2, 4
PROPERTIES, METADATA, _GENERATIVE = 1, 2, 3
OWN_PROPERTIES = 11
ENTRIES = 1
# Where servers kept properties before they had OWN_PROPERTIES.
_OLD_PROPERTIES = frozenset({1, 5, 6, 7, 8, 9, 10})

# MetadataResult: what is read or taken out, and how it is written.
_ID, _DISTANCE, _IS_DISTANCE, _SCORE, _IS_SCORE = 1, 7, 8, 11, 12
_WIRES: Mapping[int, frozenset[int]] = {
    _ID: frozenset({LENGTH}), 2: frozenset({LENGTH, FIXED32}), _DISTANCE: frozenset({FIXED32}),
    _IS_DISTANCE: frozenset({VARINT}), _SCORE: frozenset({FIXED32}), _IS_SCORE: frozenset({VARINT}),
    19: frozenset({LENGTH}), 20: frozenset({LENGTH}), 23: frozenset({LENGTH}),
}  # fmt: skip
_FLOAT = struct.Struct("<f")


@dataclass(frozen=True, slots=True)
class Result:
    """One candidate: its field in the reply, those of its metadata and of its properties, and the fields in them. ``is_old``:
    it has properties where servers of old kept them.
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
    """Read a reply. Raises Malformed, nothing else."""
    try:
        results = _results(body)
        return _pool(request, needs, body, results), ReplyDocument(body, results)
    except ValueError as error:
        raise Malformed(str(error)) from None


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
    ids = [_id_of(data, result) for result in results]
    self_id = request.ranking.self_id
    return Pool(
        scores=np.array([_score_of(data, result.inside, request.ranking) for result in results], dtype=np.float64),
        vectors=vectors,
        fields=_fields(data, results, needs),
        ids=tuple([orjson.dumps(each) for each in ids]),
        vector_name=name if request.shown.compared is None else None,
        compared_by=name if unusable < len(results) else None,
        unusable=unusable,
        # Who looks for what is like an object must not get it in place of what is like it.
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
    messages(held, ENTRIES)
    is_old = any(member.number in _OLD_PROPERTIES for member in members)
    return Result(field, metadata, inside, properties, own, held, is_old)


def _id_of(data: bytes, result: Result) -> str:
    own = only(result.inside, _ID, LENGTH)
    if own is None or own.value == own.end:
        raise ValueError(f"result at byte {result.field.start} has no id")
    return text(data, own)


def _score_of(data: bytes, inside: Sequence[Field], ranking: Ranking) -> float:
    """The number a result is ranked by; NaN where the server says that it has none. A zero is not written."""
    value, is_there = (_DISTANCE, _IS_DISTANCE) if ranking.is_measured else (_SCORE, _IS_SCORE)
    number, present = only(inside, value, FIXED32), only(inside, is_there, VARINT)
    if present is None or not unsigned(data, present):
        return float("nan")
    return 0.0 if number is None else float(_FLOAT.unpack_from(data, number.value)[0])


def _fields(data: bytes, results: Sequence[Result], needs: Needs) -> tuple[tuple[bytes | None, ...], ...]:
    """Per result the JSON of each wanted property, None where absent. Raises ValueError.

    Optional ones that cannot be spelled are absent; what decides about tenants is not guessed.
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


def _keys(names: Iterable[str]) -> list[bytes]:
    return [spelled(name).encode(errors="surrogatepass") for name in names]


def _readable(data: bytes, span: Span | None, plain: Allowance, nested: Allowance) -> bytes | None:
    """A value as JSON; None where it cannot be spelled, and beyond the allowance."""
    if span is None or not (nested if is_nested(data, span) else plain).covers(span[1] - span[0]):
        return None
    try:
        return as_json(data, span)
    except ValueError:
        return None
