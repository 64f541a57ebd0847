"""Weaviate over gRPC: parses a reply, cuts the client's answer from it; the adapter and its dialect.

Supported: searches near a vector, an object, a text or media, hybrid and keyword searches, servers 1.27 and later. Lists, groups, autocut,
cursors, boosts, reranking, generated text, several target vectors, multivector queries and Weaviate's own selection for diversity are
passed through. The answer is upstream's bytes without the other results and without the additions. Ambiguous replies are malformed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import orjson

from ..base import GrpcAdapter, GrpcDialect, Keep
from ..contract import FIELD_BYTES, NESTED_BYTES, Allowance, MalformedReplyError, Needs, Pool
from ..wire.json import object_of
from ..wire.protobuf import check_count
from ..wire.protobuf_values import spelled_text
from ..wire.schema import check_certain, has_unknown, is_mistyped, parsed
from ..wire.vectors import matrix, whole_floats, without_vector
from . import calls, grpc_request
from .calls import UNNAMED, spelled
from .grpc_request import SINGLE_TYPES, Document, Ranking, Shown
from .grpc_schema import COUNTED, REPLY, RESULT, RESULTS, VALUE

# A collection's unnamed vector is in two fields, its named ones in a list, all as little-endian floats. Multivectors are not compared.


def compare(metadata: Sequence[Any], wanted: str | None) -> tuple[str | None, npt.NDArray[np.float32]]:
    """The name of the vector to compare by ("" is the unnamed one, None for none), and (n, d) the vectors, NaN rows for unusable ones.
    ``metadata``: of each result. ``wanted``: the name; None chooses one. Raises ValueError.
    """
    if wanted == UNNAMED:
        return UNNAMED, matrix(list(map(_unnamed, metadata)))
    if wanted is None:
        unnamed = list(map(_unnamed, metadata))
        if any(unnamed):  # a search without a name uses the unnamed one, if there is one
            return UNNAMED, matrix(unnamed)
    named = list(map(named_vectors, metadata))
    # A search without a name uses the only vector; with several (keyword searches) the first by name is compared.
    name = wanted if wanted is not None else min((name for each in named for name in each), default=None)
    return name, matrix([None if name is None else each.get(name) for each in named])


def _unnamed(metadata: Any) -> bytes:
    return whole_floats(metadata.vector_bytes or b"".join(metadata.vector))


def named_vectors(message: Any) -> dict[str, bytes]:
    """The packed floats of the vectors of one row in a message's list, by name. Raises ValueError."""
    return {
        vector.name.decode(): whole_floats(vector.vector_bytes)
        for vector in message.vectors
        if vector.type in SINGLE_TYPES and vector.HasField("vector_bytes")
    }


# Property values as canonical JSON: keys in order, no white space, numbers as over REST. A value without an exact JSON form (places,
# telephone numbers, unknown kinds) raises ValueError.

_NESTED = (b"\x22", b"\x2a")  # the tags of objects and lists
# Integers up to here are exact as doubles.
_EXACT = 2.0**53
# Protobuf's own readers refuse messages nested deeper than 100.
_MAX_DEPTH = 100


def as_json(data: bytes) -> bytes | None:
    """The JSON of a Value's message; None for null, which the server writes for an absent property. Raises ValueError."""
    value = _value(data, _MAX_DEPTH)
    if isinstance(value, str):
        return spelled_text(value)
    try:
        return None if value is None else orjson.dumps(value, option=orjson.OPT_SORT_KEYS)
    except orjson.JSONEncodeError as error:
        raise ValueError(str(error)) from None


def _value(data: bytes, depth: int) -> object:
    if not depth:
        raise ValueError(f"a value is nested deeper than {_MAX_DEPTH}")
    kind, value = _only(parsed(VALUE, data))
    if kind == "object_value":
        return _object(value, depth - 1)
    return _list(value, depth - 1) if kind == "list_value" else _SCALARS[kind](value)


def _only(message: Any) -> tuple[str, Any]:
    """The name and the value of the only field. Raises ValueError."""
    fields = message.ListFields()
    if len(fields) != 1 or has_unknown(message):
        raise ValueError(f"a value has {len(fields)} kinds, wanted one with a JSON form")
    return fields[0][0].name, fields[0][1]


def _object(members: Any, depth: int) -> dict[str, object]:
    return {member.key.decode(): _value(member.value, depth) for member in members.fields}


def _list(values: Any, depth: int) -> list[object]:
    if not values.ByteSize():  # a list without a kind has no elements
        return []
    kind, elements = _only(values)
    if has_unknown(elements):
        raise ValueError("elements of a list have another wire type")
    return [_object(each, depth) for each in elements.values] if kind == "object_values" else _LISTS[kind](elements)


def _number(number: float) -> object:
    return int(number) if number.is_integer() and abs(number) <= _EXACT else number


def _texts(elements: Any) -> list[object]:
    return [text.decode() for text in elements.values]


_SCALARS: Mapping[str, Callable[[Any], object]] = {
    "number_value": _number,
    "bool_value": bool,
    "int_value": int,
    "null_value": lambda _: None,
    **dict.fromkeys(("string_value", "date_value", "uuid_value", "blob_value", "text_value"), bytes.decode),
}
_LISTS: Mapping[str, Callable[[Any], list[object]]] = {
    "number_values": lambda packed: list(map(_number, np.frombuffer(packed.values, "<f8").tolist())),
    "int_values": lambda packed: list(np.frombuffer(packed.values, "<i8").tolist()),
    "bool_values": lambda bools: list(bools.values),
    **dict.fromkeys(("date_values", "uuid_values", "text_values"), _texts),
}

# The properties of servers before 1.23.
_OLD_PROPERTIES = (
    "old_properties", "number_array_properties", "int_array_properties", "text_array_properties", "boolean_array_properties",
    "object_properties", "object_array_properties",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class ReplyDocument:
    """A reply that was read: its bytes."""

    data: bytes


def parse_reply(request: Document, needs: Needs, body: bytes) -> tuple[Pool, ReplyDocument]:
    """Raises MalformedReplyError, nothing else."""
    try:
        return _pool(request, needs, body), ReplyDocument(body)
    except ValueError as error:
        raise MalformedReplyError(str(error)) from None


def _results(body: bytes) -> Sequence[Any]:
    """Raises ValueError."""
    check_count(body, "reply", COUNTED)
    reply = parsed(RESULTS, body)
    if reply.group_by_results or is_mistyped(reply):
        raise ValueError("the reply holds groups, wanted results")
    results = list(reply.results)
    check_certain(results, parsed(REPLY, body).results)
    if any(not result.metadata.id or result.HasField("generative") for result in results):
        raise ValueError("a result has no id, or generated text")
    return results


def _pool(request: Document, needs: Needs, body: bytes) -> Pool:
    results = _results(body)
    metadata = [result.metadata for result in results]
    name, vectors = compare(metadata, request.shown.compared)
    unusable = without_vector(vectors)
    known = needs.vector_hint if request.shown.compared is None else request.shown.compared
    missing = None if needs.vectors else known
    ids = [each.id.decode() for each in metadata]
    self_id = request.ranking.self_id
    return Pool(
        scores=np.array([_score_of(each, request.ranking) for each in metadata], dtype=np.float64),
        vectors=vectors,
        fields=_fields(results, needs),
        payloads=partial(_payloads, body),
        ids=tuple([orjson.dumps(each) for each in ids]),
        vector_name=name if request.shown.compared is None else None,
        compared_by=name if unusable < len(results) else missing,
        unusable=unusable,
        # The object by which the search is made must not replace similar objects.
        alone=tuple([place for place, each in enumerate(ids) if each == self_id]) if self_id else (),
    )


def _score_of(metadata: Any, ranking: Ranking) -> float:
    """The number that ranks a result; NaN if the server has none. protobuf omits a zero."""
    if ranking.is_measured:
        return float(metadata.distance) if metadata.distance_present else float("nan")
    return float(metadata.score) if metadata.score_present else float("nan")


def _members(result: Any) -> Iterable[Any]:
    members: Iterable[Any] = result.properties.non_ref_props.fields
    return members


def _fields(results: Sequence[Any], needs: Needs) -> tuple[tuple[bytes | None, ...], ...]:
    """Per result the JSON of each wanted property, None if absent. Raises ValueError for a required one without a JSON form; such optional
    ones count as absent.
    """
    must, may = (_keys(names) for names in (needs.payload_fields, needs.optional_fields))
    if not (must or may):
        return ((),) * len(results)
    if must and any(getattr(result.properties, name) for result in results for name in _OLD_PROPERTIES):
        raise ValueError("a result has properties in a form of servers before 1.23")
    rows: list[tuple[bytes | None, ...]] = []
    plain, nested = Allowance(FIELD_BYTES), Allowance(NESTED_BYTES)
    for result in results:
        found = {member.key: member.value for member in _members(result)}
        values = [as_json(found[key]) if key in found else None for key in must]
        rows.append((*values, *[_readable(found.get(key), plain, nested) for key in may]))
    return tuple(rows)


def _payloads(body: bytes, most: int) -> tuple[bytes, ...]:
    """The properties, from the bytes, which are kept in any case; without those that are beyond the allowance, or have no JSON form."""
    plain, nested = Allowance(FIELD_BYTES), Allowance(NESTED_BYTES)
    found: list[bytes] = []
    for hit in parsed(REPLY, body).results[:most]:
        values = [
            (orjson.dumps(member.key.decode(errors="replace")), _readable(member.value, plain, nested))
            for member in _members(parsed(RESULT, hit))
        ]
        found.append(object_of([(key, value) for key, value in values if value is not None]))
    return tuple(found)


def _keys(names: Iterable[str]) -> list[bytes]:
    return [spelled(name).encode(errors="surrogatepass") for name in names]


def _readable(value: bytes | None, plain: Allowance, nested: Allowance) -> bytes | None:
    """A value as JSON; None without a JSON form, and beyond the allowance."""
    if value is None or not (nested if value.startswith(_NESTED) else plain).covers(len(value)):
        return None
    try:
        return as_json(value)
    except ValueError:
        return None


def trim(request: Document, reply: ReplyDocument, keep: Keep) -> bytes:
    """The client's answer: the results ``keep[0]`` in that order."""
    (kept,) = keep
    answer = parsed(REPLY, reply.data)
    hits = answer.results
    shown = [_shown(request.shown, hits[index]) for index in kept.tolist()]
    if len(shown) == len(hits) and shown == hits:  # fields that are not named keep their places
        return reply.data
    hits[:] = shown
    cut: bytes = answer.SerializeToString()
    return cut


def _shown(shown: Shown, hit: bytes) -> bytes:
    """A result in the client's answer."""
    if not (shown.hidden or shown.properties or shown.listed is not None):
        return hit
    result = parsed(RESULT, hit)
    for name in shown.hidden:
        result.metadata.ClearField(name)
    if shown.listed is not None:
        names = [vector.name.decode(errors="replace") for vector in result.metadata.vectors]
        _remove(result.metadata.vectors, [place for place, name in enumerate(names) if name not in shown.listed])
    added = {name.encode(errors="surrogatepass") for name in shown.properties}
    places = [place for place, member in enumerate(_members(result)) if member.key in added]
    if places:
        _remove(_members(result), places)
        if not result.properties.non_ref_props.ByteSize():  # nothing else was selected
            result.properties.ClearField("non_ref_props")
    whole: bytes = result.SerializeToString()
    return whole


def _remove(messages: Any, places: Collection[int]) -> None:
    for place in sorted(places, reverse=True):
        del messages[place]


class WeaviateGrpc(GrpcAdapter[Document, ReplyDocument]):
    request_type, reply_type, messages = Document, ReplyDocument, COUNTED
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
