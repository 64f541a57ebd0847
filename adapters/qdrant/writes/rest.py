"""The adapter of Qdrant's upserts over REST: points left out of them, read whole, put in place of others; stored ones removed.

A removal names what it was decided on: it is a deletion by a filter for the id and for the values of the payload that a filter can
compare (text, integers, booleans). A point whose payload was changed meanwhile stays.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping, Sequence
from itertools import islice
from urllib.parse import quote

import msgspec

from vecsieve.adapters.base import own
from vecsieve.adapters.base_writes import Array, RestWrites
from vecsieve.adapters.contract import NativeAnswer, Operation, Question
from vecsieve.adapters.qdrant import calls
from vecsieve.adapters.qdrant.writes import rest_upserts
from vecsieve.adapters.qdrant.writes.rest_upserts import Document, points_of, spelled
from vecsieve.adapters.wire.json_vectors import Shortened
from vecsieve.adapters.writes import NewPoints

# In a filter other keys are paths.
_PLAIN_KEY = re.compile(r"[A-Za-z0-9_-]+")
MOST_COMPARED = 16  # values of a payload


def _arrays(points: NewPoints) -> tuple[Shortened, Sequence[Array]]:
    document = own(points.document, Document)
    return document.source, [(each.array, each.each) for each in document.lists]


def point(points: NewPoints, row: int) -> bytes:
    """An object as in the list of points."""
    document = own(points.document, Document)
    cells = {(each.kind, each.name): document.source.cut(*each.each[row]) for each in document.lists}
    whole_point = cells.get(("points", ""))
    if whole_point is not None:
        return whole_point
    several = [b"%s:%s" % (json.dumps(name).encode(), cell) for (kind, name), cell in cells.items() if kind == "named"]
    vector = cells.get(("vectors", "")) or b"{%s}" % b",".join(several)
    payload = cells.get(("payloads", ""), b"null")
    return b'{"id":%s,"vector":%s,"payload":%s}' % (cells["ids", ""], vector, payload)


def merged(write: Operation, points: NewPoints, rows: Collection[int], merged: Mapping[int, bytes]) -> bytes:
    """The same upsert as a list of points. It had no other members that matter, or it would not have been read."""
    kept = [row for row in range(len(points.ids)) if row not in rows]
    each = b",".join([merged[row] if row in merged else point(points, row) for row in kept])
    upsert = b'{"points":[%s]%s}' % (each, _behind(points))
    return upsert if write.name == calls.UPSERT else b'{"operations":[{"upsert":%s}]}' % upsert


def _behind(points: NewPoints) -> bytes:
    partition = own(points.document, Document).partition
    return b',"shard_key":' + partition if partition else b""


def ask_stored(write: Operation, points: NewPoints, ids: Sequence[bytes], *, whole: bool) -> Sequence[Question]:
    """A retrieval by ids."""
    shown = b"true" if whole else b"false"
    body = b'{"ids":[%s],"with_payload":%s,"with_vector":%s%s}' % (b",".join(ids), shown, shown, _behind(points))
    return [Question(method="POST", target=points_of(write), body=body)]


class _Point(msgspec.Struct):
    id: int | str
    payload: msgspec.Raw = msgspec.Raw(b"null")
    vector: msgspec.Raw = msgspec.Raw(b"{}")


class _Stored(msgspec.Struct):
    result: list[_Point]


_STORED = msgspec.json.Decoder(_Stored)


def _stored(_: NewPoints, body: bytes) -> Mapping[bytes, bytes]:
    found = _STORED.decode(body).result
    ids = [spelled(each.id) for each in found]
    return {
        identifier: b'{"id":%s,"vector":%s,"payload":%s}' % (identifier, each.vector, each.payload)
        for identifier, each in zip(ids, found, strict=True)
    }


def acknowledged(write: Operation, points: NewPoints, query: str) -> NativeAnswer:
    """No operation was made, so there is no number of one; the member may be null."""
    result = b'{"operation_id":null,"status":"%s"}' % (b"completed" if waits(points, query) else b"acknowledged")
    results = result if write.name == calls.UPSERT else b"[%s]" % result
    body = b'{"result":%s,"status":"ok","time":0.0}' % results
    return NativeAnswer(status=200, content_type="application/json", body=body)


def waits(_: NewPoints, query: str) -> bool:
    """By the query string."""
    return "wait=true" in query[1:].split("&")


def ask_removed(write: Operation, points: NewPoints, victims: Mapping[bytes, bytes]) -> Sequence[Question]:
    """A deletion by one filter for each point."""
    each = [
        b'{"must":[%s]}' % b",".join([b'{"has_id":[%s]}' % identifier, *map(_condition, compared(point).items())])
        for identifier, point in victims.items()
    ]
    body = b'{"filter":{"should":[%s]}%s}' % (b",".join(each), _behind(points))
    return [Question(method="POST", target=points_of(write) + "/delete?wait=true", body=body)]


def _condition(value: tuple[str, str | int]) -> bytes:
    return b'{"key":%s,"match":{"value":%s}}' % (json.dumps(value[0]).encode(), json.dumps(value[1]).encode())


def compared(point: bytes) -> dict[str, str | int]:
    """The values of a point's payload that a filter can compare, booleans as such."""
    payload = json.loads(point)["payload"]
    each = payload.items() if isinstance(payload, dict) else ()
    usable = ((key, value) for key, value in each if _PLAIN_KEY.fullmatch(key) and is_comparable(value))
    return dict(islice(usable, MOST_COMPARED))


def is_comparable(value: object) -> bool:
    """Text, a boolean, or an integer of 64 bits."""
    return isinstance(value, str) or (isinstance(value, int) and -(2**63) <= value < 2**63)


class QdrantRestWrites(RestWrites):
    """The verbs of the contract."""

    classify = staticmethod(calls.classify_rest_write)
    guess = staticmethod(rest_upserts.guess)
    read_points = staticmethod(rest_upserts.parsed)
    read_neighbours = staticmethod(rest_upserts.neighbours)
    read_stored = staticmethod(_stored)
    arrays = staticmethod(_arrays)
    ask = staticmethod(rest_upserts.ask)
    is_cosine = staticmethod(rest_upserts.is_cosine)
    annotated = staticmethod(rest_upserts.annotated)
    point = staticmethod(point)
    ask_stored = staticmethod(ask_stored)
    acknowledged = staticmethod(acknowledged)
    waits = staticmethod(waits)
    merged = staticmethod(merged)
    ask_removed = staticmethod(ask_removed)
    is_conditional = True

    def partition(self, points: NewPoints) -> bytes:
        """The value of `shard_key`."""
        return own(points.document, Document).partition

    def ask_metric(self, write: Operation, _: bytes) -> Question:
        """The collection's own description."""
        return Question(method="GET", target=f"/collections/{quote(write.collection, safe='')}")
