"""Base classes of adapters and write adapters over gRPC, and notes in the payloads of their answers."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, ClassVar

from .base import METADATA, NODE, NOTE, ReplyT, RequestT, Verbs, Writes, noted_node
from .contract import Bounds, Operation, Reason, UnsupportedError
from .wire import protobuf
from .wire.values import Values
from .writes import NewPoints, WriteNeeds


class GrpcAdapter(Verbs[RequestT, ReplyT]):
    """The verbs over single messages. ``messages``: those that a request reader parses, from each operation's name on."""

    messages: protobuf.Messages

    def check_size(self, operation: Operation, body: bytes, bounds: Bounds) -> None:
        protobuf.check_size(body, operation.name, self.messages, bounds)


def noted_entry(entries: Iterable[Any], note: bytes, values: Values, *, is_flat: bool = False) -> Any | None:
    """As NotingAdapter for a payload over gRPC: the entry to add, because the last of several entries with one key counts; None if the payload
    has a note. ``entries``: those of the payload.
    """
    members = {entry.key: entry.value for entry in entries}
    value = note.decode() if is_flat else json.loads(note)
    node = members.get(NODE.encode())
    noted = noted_node(values.json(node), note) if node is not None and node.HasField("string_value") else None
    if noted is not None:
        return values.entry(NODE, json.loads(noted))
    key = next((key for key in METADATA if key.encode() in members), "")
    inner = members.get(key.encode())
    if inner is not None and inner.HasField("struct_value"):
        return values.with_member(key, inner, NOTE, value)
    return None if NOTE.encode() in members else values.entry(NOTE, value)


class GrpcWrites(Writes):
    """Over single messages. ``upsert``: the type of a write, and the name of the opaque messages of its points; ``data``: a parsed write's
    bytes; ``message``: of a single point. ``counted``: the messages whose fields are counted in a large write, from `upsert` on.
    """

    conflict = 6  # ALREADY_EXISTS
    counted: ClassVar[protobuf.Messages] = {"upsert": {}}
    read_points: Callable[[Operation, bytes, WriteNeeds], NewPoints]
    upsert: ClassVar[tuple[Any, str]]
    data: Callable[[NewPoints], bytes]
    message: Callable[[NewPoints, int, bytes], bytes]

    def parse(self, write: Operation, body: bytes, needs: WriteNeeds) -> NewPoints:
        try:
            protobuf.check_count(body, "upsert", self.counted)
            return self.read_points(write, body, needs)
        except ValueError:
            raise UnsupportedError(Reason.UNSUPPORTED_FIELD) from None

    def without(self, points: NewPoints, rows: Collection[int]) -> bytes:
        return self.rewritten(points, dict.fromkeys(rows))

    def merged(self, _: Operation, points: NewPoints, rows: Collection[int], merged: Mapping[int, bytes], /) -> bytes:
        messages = {row: self.message(points, row, point) for row, point in merged.items()}
        return self.rewritten(points, {**dict.fromkeys(rows), **messages})

    def rewritten(self, points: NewPoints, other: Mapping[int, bytes | None]) -> bytes:
        """The client's message with replaced messages of some points, None to omit them; its own bytes if nothing changes."""
        data = self.data(points)
        if not other:
            return data
        kind, name = self.upsert
        upsert = kind.FromString(data)
        written = getattr(upsert, name)
        messages = [other.get(row, point) for row, point in enumerate(written)]
        written[:] = [point for point in messages if point is not None]
        encoded: bytes = upsert.SerializeToString()
        return encoded
