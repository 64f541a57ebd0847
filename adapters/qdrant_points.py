"""The points of a Qdrant reply: where each stands, and its score, payload and vector in it.

Servers write a point's members compactly and in one order. So the common list is read in a single pass and proven by
building it anew from its pieces: equal bytes leave no room for another reading, a repeated key included. Any other list
is walked member by member (0.1 against 0.5 ms for 50 points).
"""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from vecsieve.adapters.json_spans import Members, Span, elements, members, part

# A value whose grammar was checked is known by its first byte.
_ID_STARTS = b'"0123456789'
_SCORE_STARTS = b"-0123456789n"
_PAYLOAD_STARTS = b"{n"
_NULL = ord("n")
_SPACE = b" \t\n\r"
_COPIED = 1 << 20  # bytes of a list that are put together anew sooner than its pieces are compared one by one

# What servers write between values; an id is preceded by the end of the point before.
_ID = b'},{"id":'
_VERSION = b',"version":'
_SCORE = b',"score":'
_PAYLOAD = b',"payload":'
_VECTOR = b',"vector":'
_SHARD_KEY = b',"shard_key":'
_ORDER_VALUE = b',"order_value":'
_BEFORE_ID = len('{"id":')
_BEFORE_SCORE = len(_VERSION) + len(_SCORE)
_BEFORE_PAYLOAD = len(_PAYLOAD)
_BEFORE_VECTOR = len(_VECTOR)


class Point(NamedTuple):
    """One candidate: the span of its object and of four values in it; None where a member is absent.

    A NamedTuple for the same reason as `Member`: there is one for every candidate.
    """

    span: Span
    id: Span
    score: Span
    payload: Span | None
    vector: Span | None


# Stands for an absent member, as this one object: no value that was read is it.
_ABSENT = msgspec.Raw()


class _Compact(msgspec.Struct):
    """A point as servers write it."""

    id: msgspec.Raw
    version: msgspec.Raw
    score: msgspec.Raw
    payload: msgspec.Raw = _ABSENT
    vector: msgspec.Raw = _ABSENT
    shard_key: msgspec.Raw = _ABSENT
    order_value: msgspec.Raw = _ABSENT


_COMPACT = msgspec.json.Decoder(list[_Compact])


def read_points(text: bytes, array: Span) -> tuple[Point, ...]:
    """The points of the list that fills ``array``, in order. Raises ValueError for anything but points."""
    points = _read_compact(text, array)
    if points is None:
        points = [_read_any(text, span) for span in elements(text, array)]
    for point in points:
        if text[point.score[0]] not in _SCORE_STARTS:
            raise ValueError(f"score at byte {point.score[0]} is no number")
        if point.payload is not None and text[point.payload[0]] not in _PAYLOAD_STARTS:
            raise ValueError(f"payload at byte {point.payload[0]} is no object")
    return tuple(points)


def score_of(text: bytes, point: Point) -> float:
    """A score; NaN for null, which is how the server writes a score that is no number."""
    value = text[point.score[0] : point.score[1]]
    return float("nan") if value == b"null" else float(value)


def members_of(text: bytes, point: Point) -> Members:
    """All members of a point."""
    return members(text, point.span)


def member_cut(text: bytes, name: str, value: Span) -> Span | None:
    """The member that has this value, with the comma right before it; None where it does not stand so.

    What `cuts` would find, without reading the point again, for members that are not the object's first.
    """
    lead = b',"%s":' % name.encode()
    start = value[0] - len(lead)
    return (start, value[1]) if text.startswith(lead, start) and text[start - 1] not in _SPACE else None


def has_null(text: bytes, point: Point) -> bool:
    """Whether the server wrote null where others leave a member out (Qdrant up to 1.9)."""
    payload, vector = point.payload, point.vector
    return (payload is not None and text[payload[0]] == _NULL) or (vector is not None and text[vector[0]] == _NULL)


def _read_compact(text: bytes, array: Span) -> list[Point] | None:
    """All points of the list if it is exactly as servers write it, else None."""
    start, end = array
    try:
        raws = _COMPACT.decode(part(text, array))
    except (msgspec.DecodeError, RecursionError):
        return None
    if not raws:
        return [] if text[start:end] == b"[]" else None
    points, built = _rebuilt(raws, start + 1)
    built[0] = b"[" + _ID[2:]
    built.append(b"}]")
    if not _is_made_of(built, text, start, end):
        return None
    return points if all(text[point.span[0] + len(_ID) - 2] in _ID_STARTS for point in points) else None


def _is_made_of(pieces: list[bytes | msgspec.Raw], text: bytes, start: int, end: int) -> bool:
    """Whether the pieces together are ``text[start:end]``. Megabytes are compared where they stand, without a copy."""
    if end - start <= _COPIED:
        return b"".join(pieces) == text[start:end]
    for piece in pieces:
        if not text.startswith(piece, start):
            return False
        start += len(piece)
    return start == end


def _rebuilt(raws: list[_Compact], start: int) -> tuple[list[Point], list[bytes | msgspec.Raw]]:
    """Where each point stands when the first one starts there, and the text up to the end of the last one's values."""
    points: list[Point] = []
    built: list[bytes | msgspec.Raw] = []
    for raw in raws:
        identity = start + _BEFORE_ID
        behind = identity + len(raw.id)
        score = behind + _BEFORE_SCORE + len(raw.version)
        end = after = score + len(raw.score)
        built += (_ID, raw.id, _VERSION, raw.version, _SCORE, raw.score)
        payload = vector = None
        if raw.payload is not _ABSENT:
            value = after + _BEFORE_PAYLOAD
            after = value + len(raw.payload)
            payload = value, after
            built += (_PAYLOAD, raw.payload)
        if raw.vector is not _ABSENT:
            value = after + _BEFORE_VECTOR
            after = value + len(raw.vector)
            vector = value, after
            built += (_VECTOR, raw.vector)
        for name, more in ((_SHARD_KEY, raw.shard_key), (_ORDER_VALUE, raw.order_value)):
            if more is not _ABSENT:
                built += (name, more)
                after += len(name) + len(more)
        points.append(Point((start, after + 1), (identity, behind), (score, end), payload, vector))
        start = after + 2
    return points, built


def _read_any(text: bytes, span: Span) -> Point:
    """A point in any order and with any white space. Raises ValueError."""
    found = members(text, span)
    if not {"id", "score"} <= found.keys() or text[found["id"].value] not in _ID_STARTS:
        raise ValueError(f"no id or no score at byte {span[0]}")
    payload, vector = found.get("payload"), found.get("vector")
    return Point(
        span,
        (found["id"].value, found["id"].end),
        (found["score"].value, found["score"].end),
        None if payload is None else (payload.value, payload.end),
        None if vector is None else (vector.value, vector.end),
    )
