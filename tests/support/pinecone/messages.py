"""Strategies for whole conversations with Pinecone over gRPC, written by protobuf itself, which the adapter does without."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from hypothesis import strategies as st
from servers.pinecone.grpc_messages import message_type

from support.exchanges.conversation import Conversation
from support.qdrant.grpc_conversations import shuffled

SPARSE = {"indices": [1, 5], "values": [0.5, 0.25]}
UNKNOWN = b"\x9a\x06\x03new"  # field 99, of a version to come
KEYS = ("text", "doc", "größe", "values", "matches")
NUMBERS = st.floats(width=32, allow_nan=False, allow_infinity=False)
PLAIN: st.SearchStrategy[Any] = st.one_of(
    st.text(max_size=5), st.booleans(), st.integers(-(2**40), 2**40), st.lists(st.text(max_size=2), max_size=2)
)


def query(**fields: Any) -> bytes:
    """A QueryRequest."""
    return bytes(message_type("QueryRequest")(**fields).SerializeToString())


def read(name: str, raw: bytes) -> Any:
    """A message as protobuf reads it; messages compare by what they hold, unknown fields included."""
    return message_type(name).FromString(raw)


@dataclass(frozen=True, slots=True, kw_only=True)
class Service:
    """A namespace in rank order: ScoredVectors with everything they have. ``tail``: what stands behind a reply's matches."""

    records: tuple[Any, ...]
    namespace: str = ""
    tail: bytes = b""

    def answer(self, request: bytes) -> bytes:
        """The reply to a QueryRequest."""
        parameters = read("QueryRequest", request)
        reply = message_type("QueryResponse")(namespace=self.namespace, usage={"read_units": 6})
        for record in self.records[: parameters.top_k]:
            match = reply.matches.add()
            match.CopyFrom(record)
            if not parameters.include_values:
                match.ClearField("values")
                match.ClearField("sparse_values")
            if not parameters.include_metadata:
                match.ClearField("metadata")
        return bytes(reply.SerializeToString(deterministic=True)) + self.tail


# Made once, as in support/qdrant/bodies.py.
TWO_NUMBERS, THREE_NUMBERS = (st.lists(NUMBERS, min_size=size, max_size=size) for size in (2, 3))
METADATA = st.dictionaries(st.sampled_from(KEYS), PLAIN, max_size=3)


@st.composite
def scored_vectors(draw: st.DrawFn, kind: str) -> Any:
    """A record: dense, sparse or hybrid; now and then without what its kind has."""
    made = message_type("ScoredVector")(id=draw(st.sampled_from(["a", "é", 'x"y', "<1>"])), score=draw(NUMBERS))
    if kind != "sparse" and draw(st.integers(0, 4)):
        made.values.extend(draw(THREE_NUMBERS))
    if kind != "dense" and draw(st.integers(0, 4)):
        made.sparse_values.indices.extend([3, 70_000])
        made.sparse_values.values.extend(draw(TWO_NUMBERS))
    if draw(st.booleans()):
        made.metadata.update(draw(METADATA))
    if draw(st.integers(0, 4)) == 0:
        made.MergeFromString(UNKNOWN)
    return made


@st.composite
def services(draw: st.DrawFn) -> Service:
    kind = draw(st.sampled_from(["dense", "dense", "hybrid", "sparse"]))
    return Service(
        records=tuple(draw(st.lists(scored_vectors(kind), max_size=7))),
        namespace=draw(st.sampled_from(["", "ns"])),
        tail=draw(st.sampled_from([b"", UNKNOWN])),
    )


@st.composite
def queries(draw: st.DrawFn, /, **laid_over: Any) -> bytes:
    """A QueryRequest that is ours. ``laid_over``: fields with a value of their own."""
    ranking: dict[str, Any] = draw(
        st.sampled_from(
            [
                {"vector": [0.25, 1, -3.5]},
                {"id": "a"},
                {"id": "é"},
                {"sparse_vector": SPARSE},
                {"vector": [0.5], "sparse_vector": SPARSE},
            ]
        )
    )
    fields = {
        **ranking,
        "top_k": draw(st.sampled_from([2, 3, 5])),
        "include_values": draw(st.booleans()),
        "include_metadata": draw(st.sampled_from([True, True, True, False])),
        "namespace": draw(st.sampled_from(["", "ns", "größe"])),
        "filter": draw(st.sampled_from([None, {"top_k": "include_values"}])),
        "scan_factor": draw(st.sampled_from([None, 2.0])),
        "max_candidates": draw(st.sampled_from([None, 500])),
        **laid_over,
    }
    return query(**{name: value for name, value in fields.items() if value is not None})


@st.composite
def conversations(
    draw: st.DrawFn, *, operation: str | None = None, extra: dict[str, Any] | None = None
) -> Conversation:
    """A query and the service's answers. ``operation``: there is but one; ``extra``: fields with a value of their own."""
    assert operation in {None, "query"}
    service = draw(services())
    return Conversation("/VectorService/Query", draw(shuffled(draw(queries(**(extra or {}))))), service.answer)
