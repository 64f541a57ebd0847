"""Weaviate over gRPC: parses a reply, cuts the client's answer from it; the adapter and its dialect.

Supported: searches near a vector, an object, a text or media, hybrid and keyword searches, servers 1.27 and later. Lists, groups, autocut,
cursors, boosts, reranking, generated text, several target vectors, multivector queries and Weaviate's own selection for diversity are
passed through. The answer is upstream's bytes without the other results and without the additions. Ambiguous replies are malformed.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import orjson

from ..base import GrpcDialect, Keep
from ..base_grpc import GrpcAdapter
from ..contract import Needs, Pool
from ..wire.protobuf import check_count
from ..wire.schema import check_certain, has_unknown, is_mistyped, parsed, serialized
from ..wire.values import RequestedKeys, Values, only, whole
from ..wire.vectors import matrix, whole_floats, without_vector
from . import calls, grpc_request
from .calls import UNNAMED, spelled
from .grpc_request import SINGLE_TYPES, Additions, Document, Ranking
from .grpc_schema import COUNTED, MESSAGES, proto

# A collection's unnamed vector is in two fields, its named ones in a list, all as little-endian floats. Multivectors are not compared.


def compare(metadata: Sequence[Any], requested: str | None) -> tuple[str | None, npt.NDArray[np.float32]]:
    """The name of the vector to compare by ("" is the unnamed one, None for none), and (n, d) the vectors, NaN rows for unusable ones.
    ``metadata``: of each result. ``requested``: the name; None chooses one. Raises ValueError.
    """
    if requested == UNNAMED:
        return UNNAMED, matrix(list(map(_unnamed, metadata)))
    if requested is None:
        unnamed = list(map(_unnamed, metadata))
        if any(unnamed):  # a search without a name uses the unnamed one, if there is one
            return UNNAMED, matrix(unnamed)
    named = list(map(named_vectors, metadata))
    # A search without a name uses the only vector; with several (keyword searches) the first by name is compared.
    name = requested if requested is not None else min((name for vectors in named for name in vectors), default=None)
    return name, matrix([None if name is None else vectors.get(name) for vectors in named])


def _unnamed(metadata: Any) -> bytes:
    return whole_floats(metadata.vector_bytes or b"".join(metadata.vector))


def named_vectors(message: Any) -> dict[str, bytes]:
    """The packed floats of the vectors of one row in a message's list, by name. Raises ValueError."""
    return {
        vector.name.decode(): whole_floats(vector.vector_bytes)
        for vector in message.vectors
        if vector.type in SINGLE_TYPES and vector.HasField("vector_bytes")
    }


class _Values(Values):
    """Weaviate's lists have a message for each kind of elements. Places, telephone numbers and unknown kinds have no exact JSON form, and are
    not in the schema.
    """

    def _plain(self, value: Any, depth: int) -> object:
        if not value.ListFields():
            raise ValueError("a value without a kind that has a JSON form")
        return super()._plain(value, depth)

    def _elements(self, content: bytes, depth: int) -> list[object]:
        listed = parsed(MESSAGES["List"], content)
        if not content:  # a list without a kind has no elements
            return []
        kind, elements = only(listed)
        if has_unknown(elements):
            raise ValueError("elements of a list have another wire type")
        values: list[object]
        match kind:
            case "object_values":
                values = [self._object(serialized(value), depth) for value in elements.values]
            case "number_values":
                values = list(map(whole, np.frombuffer(elements.values, "<f8").tolist()))
            case "int_values":
                values = np.frombuffer(elements.values, "<i8").tolist()
            case _:
                values = [value.decode() if isinstance(value, bytes) else value for value in elements.values]
        return values


VALUES = _Values(MESSAGES)

# The properties of servers before 1.23.
_OLD_PROPERTIES = (
    "old_properties", "number_array_properties", "int_array_properties", "text_array_properties", "boolean_array_properties",
    "object_properties", "object_array_properties",
)  # fmt: skip


def _results(body: bytes) -> Sequence[Any]:
    check_count(body, "reply", COUNTED)
    reply = parsed(proto.Results, body)
    if reply.group_by_results or is_mistyped(reply):
        raise ValueError("the reply holds groups, wanted results")
    results = list(reply.results)
    check_certain(results, parsed(proto.Reply, body).results)
    if any(not result.metadata.id or result.HasField("generative") for result in results):
        raise ValueError("a result has no id, or generated text")
    return results


def read_reply(request: Document, needs: Needs, body: bytes) -> tuple[Pool, bytes]:
    results = _results(body)
    metadata = [result.metadata for result in results]
    name, vectors = compare(metadata, request.additions.compared)
    unusable = without_vector(vectors)
    known = needs.vector_hint if request.additions.compared is None else request.additions.compared
    missing = None if needs.vectors else known
    ids = [result.id.decode() for result in metadata]
    self_id = request.ranking.self_id
    pool = Pool(
        scores=np.array([_score_of(result, request.ranking) for result in metadata], dtype=np.float64),
        vectors=vectors,
        fields=_fields(results, needs),
        payloads=partial(_payloads, body),
        ids=tuple([orjson.dumps(object_id) for object_id in ids]),
        vector_name=name if request.additions.compared is None else None,
        compared_by=name if unusable < len(results) else missing,
        unusable=unusable,
        # The object by which the search is made must not replace similar objects.
        alone=tuple([place for place, object_id in enumerate(ids) if object_id == self_id]) if self_id else (),
    )
    return pool, body


def _score_of(metadata: Any, ranking: Ranking) -> float:
    """The number that ranks a result; NaN if the server has none. protobuf omits a zero."""
    if ranking.is_measured:
        return float(metadata.distance) if metadata.distance_present else float("nan")
    return float(metadata.score) if metadata.score_present else float("nan")


def _members(result: Any) -> Any:
    return result.properties.non_ref_props.fields


def _fields(results: Sequence[Any], needs: Needs) -> tuple[tuple[bytes | None, ...], ...]:
    """Per result the JSON of each wanted property, None if absent or null, as the server writes an absent one. Raises ValueError for a
    required one without a JSON form.
    """
    requested = RequestedKeys(map(spelled, needs.payload_fields), map(spelled, needs.optional_fields))
    if needs.payload_fields and any(getattr(result.properties, name) for result in results for name in _OLD_PROPERTIES):
        raise ValueError("a result has properties in a form of servers before 1.23")
    return tuple([VALUES.chosen(_present(result), requested) for result in results])


def _present(result: Any) -> dict[str, Any]:
    """The properties that are not null."""
    members = _members(result)
    return {
        member.key.decode(errors="replace"): member.value
        for member in members
        if not member.value.HasField("null_value")
    }


def _payloads(body: bytes, rows: Sequence[int]) -> tuple[bytes | None, ...]:
    """The properties, from the bytes, which are kept in any case."""
    hits = parsed(proto.Reply, body).results
    return VALUES.readable(proto.Result, [hits[row] for row in rows], _members)


def trim(request: Document, reply: bytes, keep: Keep) -> bytes:
    """The client's answer: the results ``keep[0]`` in that order."""
    (kept,) = keep
    answer = parsed(proto.Reply, reply)
    hits = answer.results
    trimmed = [_restored(request.additions, hits[index]) for index in kept.tolist()]
    if len(trimmed) == len(hits) and trimmed == hits:  # fields that are not named keep their places
        return reply
    hits[:] = trimmed
    return serialized(answer)


def _restored(additions: Additions, hit: bytes) -> bytes:
    """A result in the client's answer."""
    if not (additions.hidden or additions.properties or additions.listed is not None):
        return hit
    result = parsed(proto.Result, hit)
    for name in additions.hidden:
        result.metadata.ClearField(name)
    if additions.listed is not None:
        names = [vector.name.decode(errors="replace") for vector in result.metadata.vectors]
        _remove(result.metadata.vectors, [place for place, name in enumerate(names) if name not in additions.listed])
    added = {name.encode(errors="surrogatepass") for name in additions.properties}
    places = [place for place, member in enumerate(_members(result)) if member.key in added]
    if places:
        _remove(_members(result), places)
        if not result.properties.non_ref_props.ByteSize():  # nothing else was selected
            result.properties.ClearField("non_ref_props")
    return serialized(result)


def _remove(messages: Any, places: Collection[int]) -> None:
    for place in sorted(places, reverse=True):
        del messages[place]


class WeaviateGrpc(GrpcAdapter[Document, bytes]):
    request_type, reply_type, messages = Document, bytes, COUNTED
    classify = staticmethod(calls.classify)
    read_request = staticmethod(grpc_request.read_request)
    widen_request = staticmethod(grpc_request.widen)
    read_reply = staticmethod(read_reply)
    cut_reply = staticmethod(trim)
    describe = staticmethod(grpc_request.describe)
    parse_description = staticmethod(grpc_request.parse_description)


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
