"""Strategies for whole conversations with Weaviate over gRPC, written by protobuf itself, which the adapter does without."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from hypothesis import strategies as st

from support.exchanges.conversation import Conversation
from support.qdrant.grpc_conversations import shuffled
from support.weaviate.messages import message_type, single
from support.weaviate.model import Collection, Hit, Stored

PATH = "/weaviate.v1.Weaviate/Search"
UNKNOWN = b"\x9a\x06\x03new"  # field 99, of a version to come
KEYS = ("text", "doc", "größe", "vector", "metadata")
NUMBERS = st.floats(width=32, allow_nan=False, allow_infinity=False)
VALUES: st.SearchStrategy[Any] = st.one_of(
    st.text(max_size=5), st.booleans(), st.integers(-(2**40), 2**40), st.floats(allow_nan=False, allow_infinity=False),
    st.lists(st.text(max_size=2), max_size=2), st.lists(st.integers(0, 9), max_size=2),
    st.dictionaries(st.sampled_from(["a", "ß"]), st.text(max_size=2), max_size=2),
)  # fmt: skip
NAMED = ("dense", "other")


def search(**fields: Any) -> bytes:
    """A SearchRequest. ``near``, ``metadata``, ``properties``: the fields of those messages; a name of a way to search too."""
    made = message_type("SearchRequest")(uses_123_api=True, uses_125_api=True, uses_127_api=True)
    for name, value in fields.items():
        if value is None:
            continue
        if isinstance(value, dict):
            inner = getattr(made, name)
            inner.SetInParent()
            inner.MergeFrom(type(inner)(**value))
        else:
            setattr(made, name, value)
    return bytes(made.SerializeToString())


def read(name: str, raw: bytes) -> Any:
    """A message as protobuf reads it; messages compare by what they hold, unknown fields included."""
    return message_type(name).FromString(raw)


def stored_properties(result: Any) -> set[str]:
    """The names of a result's properties that have a value: the server shows those that have none as null."""
    return {name for name, value in result.properties.non_ref_props.fields.items() if not value.HasField("null_value")}


@dataclass(frozen=True, slots=True, kw_only=True)
class Service:
    """A collection whose objects stand in rank order. ``tail``: what stands behind a reply's results, and in each of them."""

    collection: Collection
    hits: tuple[Hit, ...]
    tail: bytes = b""

    def answer(self, request: bytes) -> bytes:
        """The reply to a SearchRequest."""
        parameters = read("SearchRequest", request)
        page = self.hits[parameters.offset : parameters.offset + (parameters.limit or self.collection.default_limit)]
        reply = self.collection.reply(page, parameters)
        for result in reply.results:
            result.metadata.MergeFromString(self.tail)
        return bytes(reply.SerializeToString(deterministic=True)) + self.tail


# Made once, as in support/qdrant/bodies.py.
PROPERTIES = st.dictionaries(st.sampled_from(KEYS), VALUES, max_size=3)
VECTORS = st.lists(NUMBERS, min_size=3, max_size=3)


@st.composite
def stored(draw: st.DrawFn, names: tuple[str, ...]) -> Stored:
    """An object; now and then without a vector."""
    vectors = {name: draw(VECTORS) for name in names if draw(st.integers(0, 4))}
    vector = None if names or not draw(st.integers(0, 4)) else draw(VECTORS)
    properties = draw(PROPERTIES)
    number = draw(st.integers(0, 9))
    return Stored(
        id=f"00000000-0000-0000-0000-00000000000{number}", properties=properties, vector=vector, vectors=vectors
    )


@st.composite
def services(draw: st.DrawFn, names: tuple[str, ...]) -> Service:
    objects = draw(st.lists(stored(names), max_size=7))
    return Service(
        collection=Collection(name="Docs", properties=KEYS, named=names),
        hits=tuple(Hit(stored=one, number=draw(NUMBERS)) for one in objects),
        tail=draw(st.sampled_from([b"", UNKNOWN])),
    )


@st.composite
def ways(draw: st.DrawFn, target: str | None) -> dict[str, Any]:
    """A way to search that is ours, and its fields."""
    targets = {} if target is None else draw(_spellings(target))
    vector = [0.25, 1, -3.5]
    near_vector = draw(
        st.sampled_from(
            [{"vectors": [single(vector)]}, {"vector_bytes": single(vector).vector_bytes}, {"vector": vector}]
        )
    )
    if target is not None and draw(st.booleans()):
        near_vector = {"vector_for_targets": [{"name": target, "vectors": [single(vector)]}]}
    return draw(
        st.sampled_from(
            [
                {"near_vector": {**near_vector, **targets}},
                {"near_vector": {**near_vector, **targets, "distance": 0.5}},
                {"near_object": {"id": "00000000-0000-0000-0000-000000000001", **targets}},
                {"near_text": {"query": ["x"], **targets}},
                {"near_image": {"id": "aGk=", **targets}},
                {"hybrid_search": {"query": "x", "alpha": 0.5, "vectors": [single(vector)], **targets}},
                {"bm25_search": {"query": "x"}},
            ]
        )
    )


def _spellings(target: str) -> st.SearchStrategy[dict[str, Any]]:
    return st.sampled_from([{"targets": {"target_vectors": [target]}}, {"target_vectors": [target]}])


@st.composite
def requests(draw: st.DrawFn, names: tuple[str, ...], /, **laid_over: Any) -> bytes:
    """A SearchRequest that is ours. ``laid_over``: fields with a value of their own."""
    target = draw(st.sampled_from(names)) if names and (len(names) > 1 or draw(st.booleans())) else None
    fields = {
        "collection": "Docs",
        "tenant": draw(st.sampled_from(["", "größe"])),
        "limit": draw(st.sampled_from([2, 3, 5])),
        "offset": draw(st.sampled_from([0, 0, 1, 2])),
        "metadata": draw(metadata(names)),
        "properties": draw(
            st.sampled_from([None, {}, {"non_ref_properties": ["doc"]}, {"non_ref_properties": list(KEYS)}])
        ),
        "filters": draw(st.sampled_from([None, {"value_text": "limit"}])),
        "consistency_level": draw(st.sampled_from([None, 2])),
        **draw(ways(target)),
        **laid_over,
    }
    return search(**fields)


def metadata(names: tuple[str, ...]) -> st.SearchStrategy[dict[str, Any] | None]:
    """What a client wants of it."""
    return st.sampled_from(
        [
            None,
            {"uuid": True},
            {"uuid": True, "distance": True, "score": True},
            {"uuid": True, "vector": True},
            {"certainty": True, "creation_time_unix": True},
            {"uuid": True, "vectors": list(names[:1])},
        ]
    )


EVERYTHING = {"uuid": True, "distance": True, "score": True, "vector": True}


@st.composite
def conversations(
    draw: st.DrawFn, *, operation: str | None = None, extra: dict[str, Any] | None = None
) -> Conversation:
    """A search and the service's answers. ``operation``: there is but one; ``extra``: fields with a value of their own."""
    assert operation in {None, "query"}
    names = draw(st.sampled_from([(), (), NAMED[:1], NAMED]))
    service = draw(services(names))
    return Conversation(PATH, draw(shuffled(draw(requests(names, **(extra or {}))))), service.answer)
