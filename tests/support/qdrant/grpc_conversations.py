"""Strategies for whole gRPC conversations with a Qdrant server, each beside the REST one that says the same."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from hypothesis import strategies as st

from support.exchanges.conversation import Conversation
from support.qdrant import bodies as qdrant_bodies
from support.qdrant.grpc_bodies import UNKNOWN_FIELD, message_of, path_of, stored_of
from support.qdrant.grpc_model import TIME, GrpcServer
from support.qdrant.model import Server
from vecsieve.adapters.wire.protobuf import fields

Json = dict[str, Any]

# Time, usage with an empty hardware part, and a field nobody knows.
TAILS = (TIME, TIME + b"\x1a\x02\x0a\x00", UNKNOWN_FIELD + TIME, b"")
_OTHER_SPELLINGS = {"limit": "top", "with_vector": "with_vectors"}


@dataclass(frozen=True, slots=True)
class Twins:
    """One request by two interfaces."""

    operation: str
    rest: Conversation
    grpc: Conversation


@st.composite
def twins(draw: st.DrawFn, *, operation: str | None = None, extra: Json | None = None) -> Twins:
    """A request of a kind that is ours (in a batch: at least one item), and the servers' answers.

    ``extra`` is laid over every item: it fixes what a test wants fixed.
    """
    if operation is None:
        operation = draw(st.sampled_from(sorted(qdrant_bodies.PATHS)))
    name, _, is_batch = operation.partition("_")
    rest, schema = draw(qdrant_bodies.servers())
    document: Json = _laid_over(draw(qdrant_bodies.items(name, schema, ours=True)), extra)
    if is_batch:
        more = [
            _laid_over(draw(qdrant_bodies.items(name, schema, ours=draw(st.booleans()))), extra)
            for _ in range(draw(st.integers(0, 3)))
        ]
        document = {"searches": draw(st.permutations([document, *more]))}
    is_old = draw(st.booleans())
    server = GrpcServer(
        points=tuple(stored_of(point, is_old=is_old) for point in rest.points), tail=draw(st.sampled_from(TAILS))
    )
    body = draw(shuffled(message_of(operation, document)))
    return Twins(
        operation,
        Conversation(
            f"/collections/c/points/{qdrant_bodies.PATHS[operation]}",
            json.dumps(document).encode(),
            _answering(rest, operation),
        ),
        Conversation(path_of(operation), body, _answering(server, operation)),
    )


def conversations(*, operation: str | None = None, extra: Json | None = None) -> st.SearchStrategy[Conversation]:
    """The gRPC half of the twins."""
    return twins(operation=operation, extra=extra).map(lambda both: both.grpc)


@st.composite
def shuffled(draw: st.DrawFn, message: bytes) -> bytes:
    """The same message with its fields in another order, those of one number in theirs."""
    read = fields(message)
    numbers = draw(st.permutations(sorted({field.number for field in read})))
    return b"".join(message[field.start : field.end] for number in numbers for field in read if field.number == number)


def _answering(server: Server | GrpcServer, operation: str) -> Callable[[bytes], bytes]:
    return lambda wide: server.answer(operation, wide)


def _laid_over(item: Json, extra: Json | None) -> Json:
    dropped = {_OTHER_SPELLINGS[key] for key in extra or {} if key in _OTHER_SPELLINGS}
    return {**{key: value for key, value in item.items() if key not in dropped}, **(extra or {})}
