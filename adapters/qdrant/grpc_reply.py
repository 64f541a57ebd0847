"""Parses a reply over gRPC: its lists, their points and vectors, and their pools.

A list is the message that fills a span: the reply itself, or a result of a batch. Servers write the fields of a point in the order of
their numbers, each once. A list that is written so is read in one pass, which checks every tag and every length; any other list is walked
field by field (75 against 550 microseconds for 50 points of seven payload keys). Whatever is ambiguous is malformed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import repeat
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import orjson

from ..contract import MalformedReplyError, Needs, Pool
from ..wire.json_vectors import stack
from ..wire.protobuf import (
    FIXED32,
    LENGTH,
    REPLY_FIELDS,
    VARINT,
    Field,
    Span,
    entries,
    fields,
    held,
    message_spans,
    only,
    skipped,
    varint,
)
from ..wire.protobuf_values import QDRANT, Wanted, chosen, objects_json
from ..wire.vectors import (
    SparseRow,
    matrix,
    packed_floats,
    row,
    union_matrix,
    unsigned_numbers,
    without_vector,
)
from .grpc_request import Document, Plan
from .ranking import Kind, Shape, best

# ScoredPoint. Not read: order_value.
ID, PAYLOAD, SCORE, VERSION, VECTORS, SHARD_KEY, ORDER_VALUE = 1, 2, 3, 5, 6, 7, 8
_ID, _PAYLOAD, _VECTORS, _SHARD_KEY, _ORDER_VALUE = (
    number << 3 | LENGTH for number in (ID, PAYLOAD, VECTORS, SHARD_KEY, ORDER_VALUE)
)
_MESSAGES = frozenset({_ID, _PAYLOAD, _VECTORS, _SHARD_KEY})
_SCORE, _VERSION = SCORE << 3 | FIXED32, VERSION << 3 | VARINT
_KNOWN = frozenset({ID, PAYLOAD, SCORE, VERSION, VECTORS, SHARD_KEY})
# A list of points, in every reply and in each result of a batch.
RESULT = 1
_RESULT = RESULT << 3 | LENGTH

# The tags in PointId.
_NUMBER, _UUID = 1 << 3 | VARINT, 2 << 3 | LENGTH
_IDS = (_NUMBER, _UUID)
_FLOAT, _ZERO = np.dtype("<f4"), bytes(4)

# Makes a Point without NamedTuple's own function call.
_made = tuple.__new__

Place = tuple[int, int, int]
"""Offsets of a field: its tag, its value, its end."""


class Point(NamedTuple):
    """One candidate: its field in the list, its field of vectors (None if absent), and the entries of its payload."""

    place: Place
    vectors: Place | None
    entries: Sequence[Span]


@dataclass(frozen=True, slots=True)
class Points:
    """The points of a list in order, and their parsed fields.

    ``ids``: as over REST, a number or a quoted UUID. ``versions``: as over REST, zero if absent, because protobuf omits a zero; with the
    shard key's message. ``scores``: (n,) float64, zero if absent. ``is_together``: no other field is before or between the points.
    """

    each: Sequence[Point]
    ids: tuple[bytes, ...]
    versions: tuple[bytes, ...]
    scores: npt.NDArray[np.float64]
    is_together: bool = False


def read_points(data: bytes, span: Span, *, has_keys: bool = True) -> Points:
    """``has_keys``: whether payload keys are wanted; otherwise the entries are skipped. Raises ValueError."""
    try:
        return in_order(data, span, has_keys=has_keys)
    except (ValueError, IndexError):
        return walked(data, span)


def in_order(data: bytes, span: Span, *, has_keys: bool = True) -> Points:
    """The points of a list in the servers' format. Raises ValueError or IndexError for any other.

    The position only grows: a field that ends beyond its message, or is taken for a field of the previous one, fails the comparison with
    the point's end. Lengths of two bytes are read inline, because most are.
    """
    at, end = span
    left = REPLY_FIELDS
    each: list[Point] = []
    ids: list[bytes] = []
    versions: list[bytes] = []
    scores: list[bytes] = []
    while at < end and data[at] == _RESULT:
        start, size, value = at, data[at + 1], at + 2
        if size > 0x7F:
            size, value = varint(data, at + 1, end)
        stop = value + size
        tag, size, kind, low = data[value : value + 4]
        at = value + 2 + size
        if kind == _NUMBER:
            number, behind = varint(data, value + 3, stop)
            ids.append(b"%d" % number)
        else:
            behind = value + 4 + low
            ids.append(orjson.dumps(data[value + 4 : behind].decode()))
        if tag != _ID or kind not in _IDS or size > 0x7F or behind != at:
            raise ValueError(f"the point at byte {start} does not begin with an id")
        entries: list[Span] = []
        if data[at] == _PAYLOAD and left:
            at, left = _payload_in_order(data, at, stop, left, entries if has_keys else None)
        score = _ZERO
        if data[at] == _SCORE:
            at += 5
            score = data[at - 4 : at]
        scores.append(score)
        number = 0
        if data[at] == _VERSION:
            number, at = varint(data, at + 1, stop)
        versions.append(b"%d" % number)
        vectors = None
        if at != stop:
            at, vectors = _rest_in_order(data, at, stop, versions)
        each.append(_made(Point, ((start, value, at), vectors, entries)))
    _check_rest(data, at, end)
    return Points(each, tuple(ids), tuple(versions), _doubles(scores), is_together=True)


def _payload_in_order(data: bytes, at: int, stop: int, left: int, entries: list[Span] | None) -> tuple[int, int]:
    """The end of a payload of at most ``left`` keys, and how many more are allowed. Adds its spans to ``entries``."""
    while data[at] == _PAYLOAD and left:
        left -= 1
        size, value = data[at + 1], at + 2
        if size > 0x7F:
            size, value = varint(data, at + 1, stop)
        at = value + size
        if entries is not None:
            entries.append((value, at))
    return at, left


def _rest_in_order(data: bytes, at: int, stop: int, versions: list[bytes]) -> tuple[int, Place | None]:
    """The end of a point with more than a version, and its vectors. A shard key becomes part of the version."""
    vectors = None
    for tag in (_VECTORS, _SHARD_KEY, _ORDER_VALUE):
        if at < stop and data[at] == tag:
            start = at
            size, value = varint(data, at + 1, stop)
            at = value + size
            if tag == _VECTORS:
                vectors = start, value, at
            elif tag == _SHARD_KEY:
                versions[-1] = b"%s %s" % (versions[-1], data[value:at])
    if at != stop:
        raise ValueError(f"a point was read to byte {at}, its message ends at {stop}")
    return at, vectors


def _doubles(each: list[bytes]) -> npt.NDArray[np.float64]:
    return np.frombuffer(b"".join(each), _FLOAT).astype(np.float64)


def _check_rest(data: bytes, at: int, end: int) -> None:
    """Raises ValueError where a point stands in what is left of a list."""
    for _ in repeat(None, REPLY_FIELDS):
        if at == end:
            return
        number, at = skipped(data, at, end)
        if number == RESULT:
            break
    raise ValueError(f"a field at byte {at} stands before a point, or a list does not end at {end}")


def walked(data: bytes, span: Span) -> Points:
    """The points of any list. Raises ValueError."""
    each: list[Point] = []
    ids: list[bytes] = []
    versions: list[bytes] = []
    scores: list[bytes] = []
    left = REPLY_FIELDS
    for field in results(data, span):
        found, entries = _members(data, field)
        left -= len(entries)
        if left < 0:
            raise ValueError(f"payloads up to byte {field.end} have more than {REPLY_FIELDS} keys")
        score = found.get(_SCORE)
        each.append(Point((field.start, field.value, field.end), found.get(_VECTORS), entries))
        ids.append(_id(data, found[_ID]))
        versions.append(_version(data, found.get(_VERSION), found.get(_SHARD_KEY)))
        scores.append(_ZERO if score is None else data[score[1] : score[2]])
    return Points(each, tuple(ids), tuple(versions), _doubles(scores))


def results(data: bytes, span: Span) -> list[Field]:
    """The fields of points, or of the lists of a batch. Raises ValueError."""
    found = [field for field in fields(data, span) if field.number == RESULT]
    if any(field.wire != LENGTH for field in found):
        raise ValueError(f"results at byte {span[0]} are no messages")
    return found


def _members(data: bytes, field: Field) -> tuple[dict[int, Place], list[Span]]:
    """The fields of a point that are read, by tag, and the entries of its payload. Raises ValueError.

    Walks the message without `fields`: the ten fields of each candidate take most of the time of a reply.
    """
    at, end = field.span
    found: dict[int, Place] = {}
    entries: list[Span] = []
    for _ in repeat(None, REPLY_FIELDS):
        if at >= end:
            break
        start, tag = at, data[at]
        if tag in _MESSAGES:
            size, value = varint(data, at + 1, end)
            at = value + size
        elif tag == _SCORE:
            value, at = at + 1, at + 5
        elif tag == _VERSION:
            value = at + 1
            at = varint(data, value, end)[1]
        else:
            number, at = skipped(data, at, end)
            if number in _KNOWN:
                raise ValueError(
                    f"field {number} of the point at byte {field.start} is of another wire type, or of a longer tag"
                )
            continue
        if tag == _PAYLOAD:
            entries.append((value, at))
        elif tag in found:
            raise ValueError(f"field {tag >> 3} of the point at byte {field.start} is repeated")
        else:
            found[tag] = start, value, at
    if at != end or _ID not in found:
        raise ValueError(f"the point at byte {field.start} has no id or was read to {at}, its message ends at {end}")
    return found, entries


def _id(data: bytes, place: Place) -> bytes:
    start, value, end = place
    tag, at = held(data, (value, end))
    if tag == _NUMBER:
        return b"%d" % varint(data, at, end)[0]
    if tag == _UUID:
        return orjson.dumps(data[at:end].decode())
    raise ValueError(f"id at byte {start} is neither a number nor a UUID")


def _version(data: bytes, place: Place | None, shard_key: Place | None) -> bytes:
    version = b"0" if place is None else b"%d" % varint(data, place[1], place[2])[0]
    return version if shard_key is None else b"%s %s" % (version, data[shard_key[1] : shard_key[2]])


def fields_of(data: bytes, points: Points, needs: Needs) -> tuple[tuple[tuple[bytes | None, ...], ...], bool]:
    """Per point the JSON of each wanted payload key, None where absent, and whether some were left out for their size. Raises ValueError
    for a required key without a JSON form; optional keys of such a payload are absent.
    """
    must, may = needs.payload_fields, needs.optional_fields
    if not (must or may):
        return ((),) * len(points.each), False
    whole, least = Wanted(must, may), Wanted(must)
    return tuple([_fields(data, point.entries, whole, least) for point in points.each]), whole.is_cut


def _fields(data: bytes, entries: Sequence[Span], whole: Wanted, least: Wanted) -> tuple[bytes | None, ...]:
    try:
        return chosen(data, entries, whole, QDRANT)
    except ValueError:
        return chosen(data, entries, least, QDRANT) + (None,) * (len(whole.keys) - len(least.keys))


# Servers up to 1.16 write a vector as numbers beside a list of indices (sparse) or a count of rows (multivector), since 1.17 as a message
# of its kind. Whether names are shown differs between the points of a reply.

# VectorsOutput: the unnamed vector alone, or a message of named ones; the entries in the latter.
UNNAMED, NAMED, ENTRIES = 1, 2, 1

# VectorOutput: its old fields, and since 1.17 one of three messages.
_DATA, _INDICES, _COUNT = 1, 2, 3
_KINDS = {101: Kind.DENSE, 102: Kind.SPARSE, 103: Kind.MULTI}
# In those messages: the numbers (of a multivector the rows), and a sparse vector's indices.
_VALUES, _SPARSE_INDICES = 1, 2


class _Stored(NamedTuple):
    """One vector: its kind, the fields with its numbers, and whether they are those of servers up to 1.16."""

    kind: Kind
    fields: list[Field]
    is_old: bool


def named(data: bytes, span: Span | None) -> dict[str, Span]:
    """The spans of a point's vectors by name, "" being the unnamed one. Raises ValueError."""
    if span is None:
        return {}
    found = fields(data, span)
    alone, several = only(found, UNNAMED, LENGTH), only(found, NAMED, LENGTH)
    if alone is not None:
        if several is not None:
            raise ValueError(f"vectors at byte {span[0]} are both one and named ones")
        return {"": alone.span}
    if several is None:
        return {}
    each = entries(data, message_spans(fields(data, several.span), ENTRIES))
    vectors = {name.decode(): inner for name, inner in each}
    if len(vectors) < len(each):
        raise ValueError(f"vectors at byte {span[0]} have a name twice")
    return vectors


def find_best(data: bytes, points: Sequence[Mapping[str, Span]], prefers: str) -> str | None:
    """The name to compare by, when all vectors were fetched. Raises ValueError."""
    first: dict[str, Shape] = {}
    for point in points:
        for name, span in point.items():
            if name not in first:
                stored = _stored(data, span)
                is_dense = stored.kind is Kind.DENSE
                first[name] = Shape(stored.kind, len(_floats(data, stored)) if is_dense else 0)
    return best(first, prefers)


def compare(data: bytes, spans: Sequence[Span | None]) -> npt.NDArray[np.float32]:
    """(n, d) float32, NaN rows for None and for unusable vectors. The first vector's kind decides for the pool; multivectors are not
    compared. Raises ValueError.
    """
    found = [None if span is None else _stored(data, span) for span in spans]
    kind = next((stored.kind for stored in found if stored is not None), Kind.DENSE)
    alike = [stored if stored is not None and stored.kind is kind else None for stored in found]
    if kind is Kind.DENSE:
        return matrix([None if stored is None else _floats(data, stored) for stored in alike])
    if kind is Kind.SPARSE:
        return union_matrix([None if stored is None else _sparse(data, stored) for stored in alike])
    return stack([None] * len(alike))


def written_alike(data: bytes, name: str, vectors: Sequence[Span | None]) -> npt.NDArray[np.float32] | None:
    """(n, d) of dense vectors whose messages all have the length and the leading bytes of the first; else None.

    The bytes before the numbers, which end the message, determine their offset: equal bytes and lengths give the result of walking
    each message, in a tenth of the time.
    """
    first = vectors[0] if vectors else None
    before = None if first is None else _before_numbers(data, name, first)
    if first is None or before is None:
        return None
    size, lead = first[1] - first[0], data[first[0] : before]
    packed: list[bytes] = []
    for each in vectors:
        if each is None or each[1] - each[0] != size or not data.startswith(lead, each[0]):
            return None
        packed.append(data[each[0] + len(lead) : each[1]])
    return matrix(packed)


def _before_numbers(data: bytes, name: str, span: Span) -> int | None:
    """The offset of a dense vector's numbers, where they are one packed field at the end of the message; else None."""
    found = named(data, span)
    stored = _stored(data, found[name]) if found.keys() == {name} else None
    if stored is None or stored.kind is not Kind.DENSE:
        return None
    numbers = [inner for inner in stored.fields if inner.number == _DATA]
    if len(numbers) != 1 or numbers[0].wire != LENGTH or numbers[0].end != span[1]:
        return None
    return None if (numbers[0].end - numbers[0].value) % 4 else numbers[0].value


def _stored(data: bytes, span: Span) -> _Stored:
    found = fields(data, span)
    variants = [field for field in found if field.number in _KINDS]
    if not variants:
        numbers = {field.number for field in found}
        kind = Kind.SPARSE if _INDICES in numbers else Kind.MULTI if _COUNT in numbers else Kind.DENSE
        return _Stored(kind, found, is_old=True)
    if len(variants) > 1 or variants[0].wire != LENGTH:
        raise ValueError(f"vector at byte {span[0]} is not one message")
    return _Stored(_KINDS[variants[0].number], fields(data, variants[0].span), is_old=False)


def dense(data: bytes, span: Span) -> bytes:
    """The packed floats of the vector that fills ``span``; b"" of any that is not dense. Raises ValueError."""
    stored = _stored(data, span)
    return _floats(data, stored) if stored.kind is Kind.DENSE else b""


def _floats(data: bytes, stored: _Stored) -> bytes:
    """The numbers of a dense vector, or the values of a sparse one."""
    return packed_floats(data, stored.fields, _DATA if stored.is_old else _VALUES)


def _sparse(data: bytes, stored: _Stored) -> SparseRow | None:
    """Indices and values; None where there are none, or their numbers differ."""
    if stored.is_old:
        wrapped = only(stored.fields, _INDICES, LENGTH)
        indices = unsigned_numbers(data, [] if wrapped is None else fields(data, wrapped.span), _DATA)
    else:
        indices = unsigned_numbers(data, stored.fields, _SPARSE_INDICES)
    values = row(_floats(data, stored))
    return (indices, values) if indices.size and indices.shape == values.shape else None


@dataclass(frozen=True, slots=True)
class Ranked:
    """The list of one search: its span, its points, and its field in a batch."""

    span: Span
    points: Points
    item: Field | None


@dataclass(frozen=True, slots=True)
class ReplyDocument:
    """A parsed reply: its bytes, and one list per plan."""

    data: bytes
    lists: tuple[Ranked, ...]


def parse_reply(request: Document, needs: Needs, body: bytes) -> tuple[tuple[Pool, ...], ReplyDocument]:
    """Raises MalformedReplyError, nothing else."""
    try:
        lists = _lists(request, body, has_keys=bool(needs.payload_fields or needs.optional_fields))
        pools = tuple(
            [_pool(body, plan, ranked.points, needs) for plan, ranked in zip(request.plans, lists, strict=True)]
        )
    except ValueError as error:
        raise MalformedReplyError(str(error)) from None
    return pools, ReplyDocument(body, lists)


def _lists(request: Document, body: bytes, *, has_keys: bool) -> tuple[Ranked, ...]:
    whole = 0, len(body)
    if request.items is None:
        return (Ranked(whole, read_points(body, whole, has_keys=has_keys), None),)
    items = results(body, whole)
    if len(items) != len(request.items):
        raise ValueError(f"{len(items)} results, wanted {len(request.items)}")
    supported = [items[plan.index] for plan in request.plans]
    return tuple(Ranked(item.span, read_points(body, item.span, has_keys=has_keys), item) for item in supported)


def _pool(data: bytes, plan: Plan, points: Points, needs: Needs) -> Pool:
    """Raises ValueError."""
    name, vectors = _compared(data, plan, points)
    values, is_cut = fields_of(data, points, needs)
    return Pool(
        scores=points.scores,
        vectors=vectors,
        fields=values,
        payloads=lambda most: objects_json(data, [point.entries for point in points.each[:most]], QDRANT),
        is_cut=is_cut or plan.payload.is_cut,
        ids=points.ids,
        versions=points.versions,
        vector_name=name if plan.name is None else None,
        compared_by=name,
        unusable=without_vector(vectors),
    )


def _compared(data: bytes, plan: Plan, points: Points) -> tuple[str | None, npt.NDArray[np.float32]]:
    """The name of the vector to compare by, and (n, d) the vectors. Raises ValueError."""
    name, spans = plan.name, [None if point.vectors is None else point.vectors[1:] for point in points.each]
    if name is not None:
        if not any(spans):  # of a reply to a request for none
            return name, np.empty((len(spans), 0), np.float32)
        alike = written_alike(data, name, spans)
        if alike is not None:
            return name, alike
    found = [named(data, span) for span in spans]
    if name is None:
        name = find_best(data, found, plan.prefers)
    return name, compare(data, [None if name is None else each.get(name) for each in found])
