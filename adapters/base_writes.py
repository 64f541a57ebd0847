"""The base classes of the adapters of writes, one for each transport.

An adapter names its functions; the base class turns what they raise into the contract's errors, and cuts points out of the client's own bytes.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping, Sequence

import msgspec

from vecsieve.adapters.contract import MalformedReplyError, Operation, Reason, UnsupportedError
from vecsieve.adapters.wire.json import RepeatedKeyError, Span
from vecsieve.adapters.wire.json_vectors import Shortened, edited, guess_numbers, kept_inside, set_aside
from vecsieve.adapters.wire.protobuf import Field, replaced
from vecsieve.adapters.writes import PLAIN, Form, Inquiry, Neighbours, NewPoints, Tenant, Told, WriteNeeds

_UNREADABLE = (msgspec.DecodeError, RecursionError, ValueError, LookupError, AttributeError, UnsupportedError)

Array = tuple[Span, Sequence[Span]]
"""The span of an array with one element for each point, and those elements."""


class _Writes:
    """``read_neighbours``, ``read_stored``: may raise ValueError and the like."""

    conflict: int
    is_told = False
    form: Form = PLAIN
    is_conditional = False
    read_neighbours: Callable[[NewPoints, Inquiry, Sequence[bytes]], Neighbours]
    read_stored: Callable[[NewPoints, bytes], Mapping[bytes, bytes]]

    def found(self, points: NewPoints, inquiry: Inquiry, bodies: Sequence[bytes]) -> Neighbours:
        """As in the contract."""
        try:
            return self.read_neighbours(points, inquiry, bodies)
        except _UNREADABLE as error:
            raise MalformedReplyError(f"neighbours: {type(error).__name__}") from None

    def stored(self, points: NewPoints, body: bytes) -> Mapping[bytes, bytes]:
        """As in the contract."""
        try:
            return self.read_stored(points, body)
        except _UNREADABLE as error:
            raise MalformedReplyError(f"stored points: {type(error).__name__}") from None

    def collection(self, write: Operation, _points: NewPoints, /) -> str:
        """That of the request."""
        return write.collection

    def partition(self, _points: NewPoints, /) -> bytes:
        """Most collections have no parts."""
        return b""

    def waits(self, _points: NewPoints, _query: str, /) -> bool:
        """Most databases answer when a write is in their log."""
        return True

    def removed(self, _body: bytes, /) -> None:
        """Most databases refuse by status."""

    def told(self, _write: Operation, _points: NewPoints, _gone: Mapping[int, int | None], body: bytes, /) -> Told:
        """The answer as it is."""
        return Told(body=body)


class KeepsPoints:
    """For databases on which a merge keeps one of two points as it is, and never combines their payloads."""

    def merged(
        self, _: Operation, _points: NewPoints, _rows: Collection[int], _merged: Mapping[int, bytes], /
    ) -> bytes:
        """Unsupported. The settings refuse a policy that combines payloads at start; a reload may still bring one."""
        raise UnsupportedError(Reason.UNSUPPORTED_FIELD)


class RestWrites(_Writes):
    """Over JSON bodies. ``guess``: the arrays that are set aside before the rest is parsed. ``arrays``: of a parsed write, all that have
    an element for each point.
    """

    conflict = 409
    guess: Callable[[bytes], list[Span]] = staticmethod(guess_numbers)
    read_points: Callable[[Operation, Shortened, WriteNeeds], NewPoints]
    arrays: Callable[[NewPoints], tuple[Shortened, Sequence[Array]]]

    def parse(self, write: Operation, body: bytes, needs: WriteNeeds) -> NewPoints:
        """As in the contract."""
        try:
            return self.read_points(write, set_aside(body, self.guess(body)), needs)
        except RepeatedKeyError:
            raise UnsupportedError(Reason.AMBIGUOUS_FIELD) from None
        except ValueError:
            raise UnsupportedError(Reason.NOT_JSON) from None

    def point(self, points: NewPoints, row: int) -> bytes:
        """The element of the only array; the client's own bytes."""
        source, (((_, each)),) = self.arrays(points)
        return source.cut(*each[row])

    def without(self, points: NewPoints, rows: Collection[int]) -> bytes:
        """As in the contract."""
        return self._shown(points, rows, {})

    def merged(self, _: Operation, points: NewPoints, rows: Collection[int], merged: Mapping[int, bytes], /) -> bytes:
        """As in the contract, where a point alone is an element of the only array."""
        return self._shown(points, rows, merged)

    def _shown(self, points: NewPoints, rows: Collection[int], merged: Mapping[int, bytes]) -> bytes:
        source, arrays = self.arrays(points)
        kept = [row for row in range(len(points.ids)) if row not in rows]

        def inside(array: Span, each: Sequence[Span]) -> bytes:
            put = {row: [(*each[row], point)] for row, point in merged.items()}
            return b"".join(kept_inside(source, array, each, kept, lambda row: put.get(row, [])))

        edits = [(at + 1, end - 1, inside((at, end), each)) for (at, end), each in arrays]
        return b"".join(edited(source, (0, len(source.text)), edits))


class GrpcWrites(_Writes):
    """Over single messages. ``fields``: of a parsed write, its message and the field of each point."""

    conflict = 6  # ALREADY_EXISTS
    read_points: Callable[[Operation, bytes, WriteNeeds], NewPoints]
    fields: Callable[[NewPoints], tuple[bytes, Sequence[Field]]]

    def parse(self, write: Operation, body: bytes, needs: WriteNeeds) -> NewPoints:
        """As in the contract."""
        try:
            return self.read_points(write, body, needs)
        except ValueError:
            raise UnsupportedError(Reason.UNSUPPORTED_FIELD) from None

    def without(self, points: NewPoints, rows: Collection[int]) -> bytes:
        """As in the contract."""
        return self.shown(points, dict.fromkeys(rows, b""))

    def shown(self, points: NewPoints, fields: Mapping[int, bytes]) -> bytes:
        """The client's message with other fields in the places of some points."""
        data, each = self.fields(points)
        rows = sorted(fields)
        return replaced(data, (0, len(data)), [each[row].whole for row in rows], [fields[row] for row in rows])


def numbers_of(source: Shortened, span: Span | None) -> bytes:
    """The array to ask for neighbours by. Raises ValueError."""
    if span is None:
        raise ValueError("a point without numbers has no neighbours")
    return source.cut_value(span)


def equal_to(tenant: Tenant) -> bytes:
    """A filter in the words that Pinecone and Chroma share; b"" for none."""
    each = [b'{%s:{"$eq":%s}}' % (json.dumps(key).encode(), value) for key, value in tenant]
    return each[0] if len(each) == 1 else b'{"$and":[%s]}' % b",".join(each) if each else b""
