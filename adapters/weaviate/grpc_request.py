"""Parses and widens a search over gRPC.

Additions are appended to the client's bytes, where the last number counts and messages are merged. An unknown field, several target
vectors, multivectors and Weaviate's own selection for diversity make a search unsupported.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ..contract import Needs, Operation, Reason, Search, SearchCall, UnsupportedError
from ..wire.protobuf import (
    Field,
    Found,
    Messages,
    Shape,
    length_field,
    message,
    messages,
    number_field,
    number_of,
    read,
    text_of,
)
from ..wire.vectors import packed_floats, row, usable
from .calls import SEARCH, default_limit

HYBRID, KEYWORDS, NEAR_VECTOR, NEAR_OBJECT, NEAR_TEXT = 41, 42, 43, 44, 45
_MEDIA = range(46, 52)  # an image, audio, video, depth, thermal, imu


@dataclass(frozen=True, slots=True, kw_only=True)
class Way:
    """One kind of search: its message's fields, and the numbers of those that are read; None if it has none."""

    shape: Shape
    targets: int | None = None
    old_targets: int | None = None
    selection: int | None = None


_NEAR_ONE = Way(shape=Shape(frozenset({1, 2, 3, 5, 6}), frozenset({4})), targets=5, old_targets=4, selection=6)
WAYS: Mapping[int, Way] = {
    HYBRID: Way(
        shape=Shape(frozenset({1, 4, 5, 6, 8, 9, 10, 11, 12, 13, 14, 20}), frozenset({2, 3, 7, 21})),
        targets=10, old_targets=7, selection=14,
    ),
    KEYWORDS: Way(shape=Shape(frozenset({1, 3}), frozenset({2}))),
    NEAR_VECTOR: Way(
        shape=Shape(frozenset({2, 3, 4, 6, 10}), frozenset({1, 5, 7, 8, 9})), targets=6, old_targets=5, selection=10
    ),
    NEAR_OBJECT: _NEAR_ONE,
    NEAR_TEXT: Way(
        shape=Shape(frozenset({2, 3, 4, 5, 7, 8}), frozenset({1, 6})), targets=7, old_targets=6, selection=8
    ),
    **dict.fromkeys(_MEDIA, _NEAR_ONE),
}  # fmt: skip
# Inside a hybrid search.
_SUB_TEXT, _SUB_VECTOR = 8, 9

# Targets.
_NAMES = 1
TARGETS = Shape(frozenset({2}), frozenset({_NAMES, 4}))
# NearVector, and the same in VectorForTarget and Vectors.
_FLOATS, _BYTES, _PER_TARGET, _FOR_TARGETS, _VECTORS = 1, 4, 7, 8, 9
_TARGET_BYTES, _TARGET_VECTORS = 2, 3
FOR_TARGET = Shape(frozenset({1, _TARGET_BYTES}), frozenset({_TARGET_VECTORS}))
_VECTOR_BYTES, _TYPE = 3, 4
VECTORS = Shape(frozenset({1, 2, _VECTOR_BYTES, _TYPE}))
_PAIR_VALUE = 2
_PAIR = Shape(frozenset({1, _PAIR_VALUE}))
_SINGLE_TYPES = frozenset({None, 0, 1})
_OBJECT_ID = 1

Vector = npt.NDArray[np.float32]


@dataclass(frozen=True, slots=True, kw_only=True)
class Ranking:
    """``target``: the named vector that is searched; None for none. ``self_id``: the object by which the search is made; "" for none."""

    way: int
    target: str | None = None
    query: Vector | None = None
    self_id: str = ""

    @property
    def is_measured(self) -> bool:
        """Whether results are ranked by a distance; otherwise by a score."""
        return self.way not in {HYBRID, KEYWORDS}


def ranking_of(data: bytes, found: Found) -> Ranking:
    """Of a SearchRequest. Raises UnsupportedError."""
    ways = [number for number in WAYS if number in found]
    if not ways:  # a list of objects
        raise UnsupportedError(Reason.ORDERING_CHOSEN)
    if len(ways) > 1:
        raise UnsupportedError(Reason.UNSUPPORTED_FIELD)
    (way,) = ways
    inside, target = _inside(data, message(found, way), WAYS[way])
    if way == NEAR_VECTOR:
        return Ranking(way=way, target=target, query=_query(data, inside))
    if way == NEAR_OBJECT:
        return Ranking(way=way, target=target, self_id=text_of(data, message(inside, _OBJECT_ID)).lower())
    if way == HYBRID:
        for number, part in ((_SUB_TEXT, NEAR_TEXT), (_SUB_VECTOR, NEAR_VECTOR)):
            if number in inside:
                _inside(data, message(inside, number), WAYS[part])
    return Ranking(way=way, target=target)


def _inside(data: bytes, field: Field | None, way: Way) -> tuple[Found, str | None]:
    """The fields of a kind of search, and its target. Raises UnsupportedError."""
    if field is None:
        raise UnsupportedError(Reason.UNSUPPORTED_FIELD)
    inside = read(data, field.span, way.shape)
    if way.selection in inside:
        raise UnsupportedError(Reason.ORDERING_CHOSEN)
    return inside, _target(data, inside, way)


def _target(data: bytes, inside: Found, way: Way) -> str | None:
    if way.targets is None or way.old_targets is None:
        return None
    field = message(inside, way.targets)
    # The newer field counts if both are set.
    names = messages(inside, way.old_targets) if field is None else messages(read(data, field.span, TARGETS), _NAMES)
    if len(names) > 1:
        raise UnsupportedError(Reason.UNSUPPORTED_FIELD)
    return text_of(data, names[0]) if names else None


def _query(data: bytes, inside: Found) -> Vector | None:
    """The vector of a NearVector, from the field that the server reads first. Raises UnsupportedError."""
    several, per_target = messages(inside, _FOR_TARGETS), messages(inside, _PER_TARGET)
    if len(several) + len(per_target) > 1:
        raise UnsupportedError(Reason.UNSUPPORTED_FIELD)
    if vectors := messages(inside, _VECTORS):
        return _floats(_only_single(data, vectors))
    if (packed := message(inside, _BYTES)) is not None:
        return _floats(data[slice(*packed.span)])
    if _FLOATS in inside:
        return _numbers(data, inside)
    if several:
        return _for_target(data, several[0])
    if per_target:
        value = message(read(data, per_target[0].span, _PAIR), _PAIR_VALUE)
        return None if value is None else _floats(data[slice(*value.span)])
    return None


def _numbers(data: bytes, inside: Found) -> Vector | None:
    try:
        return usable(row(packed_floats(data, inside[_FLOATS], _FLOATS)))
    except ValueError:
        raise UnsupportedError(Reason.UNSUPPORTED_FIELD) from None


def _for_target(data: bytes, field: Field) -> Vector | None:
    inside = read(data, field.span, FOR_TARGET)
    if vectors := messages(inside, _TARGET_VECTORS):
        return _floats(_only_single(data, vectors))
    packed = message(inside, _TARGET_BYTES)
    return None if packed is None else _floats(data[slice(*packed.span)])


def _only_single(data: bytes, vectors: list[Field]) -> bytes:
    """The bytes of the only vector, which has one row. Raises UnsupportedError."""
    if len(vectors) > 1:
        raise UnsupportedError(Reason.UNSUPPORTED_FIELD)
    inside = read(data, vectors[0].span, VECTORS)
    packed = message(inside, _VECTOR_BYTES)
    if number_of(data, inside, _TYPE) not in _SINGLE_TYPES:
        raise UnsupportedError(Reason.UNSUPPORTED_FIELD)
    return b"" if packed is None else data[slice(*packed.span)]


def _floats(packed: bytes) -> Vector | None:
    if len(packed) % 4:
        raise UnsupportedError(Reason.UNSUPPORTED_FIELD)
    return usable(row(packed))


# Metadata, vectors and properties of each result. The server refuses the name of a missing property: only those are added that are
# required, or that objects have had.

# MetadataRequest.
_UUID, _VECTOR, _DISTANCE, _SCORE, _SHOWN_VECTORS = 1, 2, 5, 7, 10
METADATA = Shape(frozenset({1, 2, 3, 4, 5, 6, 7, 8, 9, 11}), frozenset({_SHOWN_VECTORS}))
# PropertiesRequest, and in its references and objects the name.
_SHOWN_NAMES, _REFERENCES, _OBJECTS, _ALL = 1, 2, 3, 11
PROPERTIES = Shape(frozenset({_ALL}), frozenset({_SHOWN_NAMES, _REFERENCES, _OBJECTS}))
_OWN_NAME = 1
_REFERENCE = Shape(frozenset({_OWN_NAME, 2, 3, 4}))
_OBJECT = Shape(frozenset({_OWN_NAME}), frozenset({2, 3}))

# Switch -> fields of MetadataResult.
_SHOWN_BY = {_UUID: frozenset({1, 20}), _DISTANCE: frozenset({7, 8}), _SCORE: frozenset({11, 12})}
LEGACY_FLOATS, LEGACY_BYTES, NAMED = 2, 19, 23


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """``asked``: the addition to the metadata request. ``hidden``: the fields of a result's metadata that it adds. ``listed``: the vectors
    named by the client, if another was added; else None. ``compared``: the vector to compare by, "" being the unnamed one; None chooses one
    of the reply. ``properties``: those added.
    """

    asked: bytes
    hidden: frozenset[int]
    listed: frozenset[str] | None
    compared: str | None
    properties: tuple[str, ...] = ()


def plan_shown(data: bytes, metadata: Field | None, properties: Field | None, ranking: Ranking, needs: Needs) -> Shown:
    """The additions to both requests for what the needs require. Raises UnsupportedError."""
    found: Found = {} if metadata is None else read(data, metadata.span, METADATA)
    missing = [
        switch for switch in (_UUID, _DISTANCE if ranking.is_measured else _SCORE) if not number_of(data, found, switch)
    ]
    hidden = frozenset[int]().union(*(_SHOWN_BY[switch] for switch in missing))
    asked = b"".join(number_field(switch, 1) for switch in missing)
    compared = ranking.target if needs.vector_name is None else needs.vector_name
    listed = frozenset(text_of(data, name) for name in messages(found, _SHOWN_VECTORS))
    is_added = False
    # The name of an unnamed vector is known from an earlier reply.
    is_lean = not needs.vectors and (compared is not None or needs.vector_hint is not None)
    # If the client names some, and no other is required, those are compared.
    if not (is_lean or number_of(data, found, _VECTOR)):
        if compared and compared not in listed:
            is_added = bool(listed)
            asked += length_field(_SHOWN_VECTORS, compared.encode())
            hidden |= frozenset() if listed else {NAMED}
        elif not listed:
            asked += number_field(_VECTOR, 1)
            hidden |= {LEGACY_FLOATS, LEGACY_BYTES, NAMED}
    names = _missing(data, properties, needs.payload_fields, needs.seen_fields)
    return Shown(asked=asked, hidden=hidden, listed=listed if is_added else None, compared=compared, properties=names)


def widen_shown(metadata: int, properties: int, shown: Shown) -> bytes:
    """The additions as fields of these numbers; b"" for none."""
    names = b"".join(length_field(_SHOWN_NAMES, name.encode()) for name in shown.properties)
    return (length_field(metadata, shown.asked) if shown.asked else b"") + (
        length_field(properties, names) if names else b""
    )


def spelled(name: str) -> str:
    """A property's name as the server stores it."""
    return name[:1].lower() + name[1:]


def _missing(data: bytes, field: Field | None, wanted: Sequence[str], seen: Sequence[str]) -> tuple[str, ...]:
    """The wanted properties that the client does not select, with those of ``seen`` that can be removed again. Raises UnsupportedError."""
    if field is None:  # all are returned
        return ()
    found = read(data, field.span, PROPERTIES)
    if number_of(data, found, _ALL):
        return ()
    listed = {spelled(text_of(data, name)) for name in messages(found, _SHOWN_NAMES)}
    parts = {spelled(_own_name(data, part)) for part in (*messages(found, _REFERENCES), *messages(found, _OBJECTS))}
    names = tuple(dict.fromkeys(spelled(name) for name in wanted if spelled(name) not in listed))
    if parts.intersection(names):  # a part of it is selected: the rest could not be removed
        raise UnsupportedError(Reason.PAYLOAD_SELECTOR)
    more = (spelled(name) for name in seen if spelled(name) not in listed | parts)
    return tuple(dict.fromkeys((*names, *more)))


def _own_name(data: bytes, part: Field) -> str:
    shape = _REFERENCE if part.number == _REFERENCES else _OBJECT
    return text_of(data, message(read(data, part.span, shape), _OWN_NAME))


# SearchRequest.
_TENANT, _PROPERTIES, _METADATA, _LIMIT, _OFFSET, _AUTOCUT = 10, 20, 21, 30, 31, 32
_FILTERS = 40
_TEXTS = frozenset({1, _TENANT, _FILTERS, *WAYS, _PROPERTIES, _METADATA})
# The client's own order or limit: groups, a cursor, sorting, reranking (billed by candidate), boosts.
_CHOSEN = frozenset({22, _AUTOCUT, 33, 34, 61, 62})
_GENERATIVE = 60  # a language model would be called for every candidate
REQUEST = Shape(frozenset({*_TEXTS, 11, _LIMIT, _OFFSET, 100, 101, 102, _GENERATIVE, *_CHOSEN - {34}}), frozenset({34}))

MESSAGES: Messages = {
    SEARCH: {
        HYBRID: "hybrid", KEYWORDS: "keywords", NEAR_VECTOR: "near vector", NEAR_TEXT: "near text",
        **{way: "near one" for way in WAYS if way not in {HYBRID, KEYWORDS, NEAR_VECTOR, NEAR_TEXT}},
        _PROPERTIES: "properties", _METADATA: "metadata",
    },
    "hybrid": {8: "near text", 9: "near vector", 10: "targets"},
    "keywords": {},
    "near vector": {6: "targets", 7: "pair", 8: "for target", 9: "vectors"},
    "near text": {7: "targets"},
    "near one": {5: "targets"},
    "for target": {3: "vectors"},
    "properties": {2: "part", 3: "part"},
    "metadata": {},
    "part": {},
    "targets": {},
    "pair": {},
    "vectors": {},
}  # fmt: skip

# The server's limit on offset and limit together, unless its operator chose another.
LARGEST_WINDOW = 10_000
# A hybrid search fuses the first 100 results of each part, or more for a larger limit: up to 100 a wider request changes no score.
HYBRID_PARTS = 100
# Limits the vectors of a reply; the server sends an unnamed one twice.
_REPLY_BYTES = 64 * 1024 * 1024
_SHOWN_BYTES = 8
_MOST = 2**31 - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """A parsed request. ``limit``: the client's; None for the server's default."""

    body: bytes
    limit: int | None
    offset: int
    ranking: Ranking
    shown: Shown


def parse_request(operation: Operation, body: bytes, needs: Needs) -> SearchCall:
    """Raises UnsupportedError, nothing else."""
    found = read(body, (0, len(body)), REQUEST)
    for number in _TEXTS & found.keys():
        messages(found, number)
    _check_chosen(body, found)
    ranking = ranking_of(body, found)
    limit, offset = _size(body, found, _LIMIT) or None, _size(body, found, _OFFSET)
    top_k = default_limit(needs) if limit is None else limit
    if top_k is None:
        raise UnsupportedError(Reason.NOTHING_TO_DO)
    if top_k + offset == 1:
        raise UnsupportedError(Reason.SINGLE_RESULT)
    shown = plan_shown(body, message(found, _METADATA), message(found, _PROPERTIES), ranking, needs)
    search = Search(
        top_k=top_k,
        offset=offset,
        pages=_OFFSET in found,
        # Vectors of another name are not comparable.
        query=ranking.query if shown.compared == ranking.target else None,
        partition=text_of(body, message(found, _TENANT)).encode(),
        most=_most(ranking),
    )
    document = Document(body=body, limit=limit, offset=offset, ranking=ranking, shown=shown)
    return SearchCall(operation=operation, searches=(search,), needs=needs, document=document)


def widen(document: Document, fetch_k: Sequence[int]) -> bytes:
    """The request for ``fetch_k[0]`` candidates from rank 0, with the additions; 0 leaves it unchanged."""
    (count,) = fetch_k
    if not count:
        return document.body
    return (
        document.body
        + (number_field(_LIMIT, count) if count != document.limit else b"")
        + (number_field(_OFFSET, 0) if document.offset else b"")
        + widen_shown(_METADATA, _PROPERTIES, document.shown)
    )


def _check_chosen(body: bytes, found: Found) -> None:
    if _GENERATIVE in found:
        raise UnsupportedError(Reason.UNSUPPORTED_FIELD)
    chosen = _CHOSEN & found.keys()
    if chosen - {_AUTOCUT} or number_of(body, found, _AUTOCUT):
        raise UnsupportedError(Reason.ORDERING_CHOSEN)


def _size(body: bytes, found: Found, number: int) -> int:
    """A number of results; 0 when absent, as for the server."""
    size = number_of(body, found, number) or 0
    if size > _MOST:
        raise UnsupportedError(Reason.AMBIGUOUS_FIELD)
    return size


def _most(ranking: Ranking) -> int:
    """The most candidates, from rank 0."""
    if ranking.way == HYBRID:
        return HYBRID_PARTS
    width = 0 if ranking.query is None else len(ranking.query)
    return min(LARGEST_WINDOW, _REPLY_BYTES // (_SHOWN_BYTES * max(width, 1)))
