"""Parses and widens a search over gRPC.

Additions are appended to the client's bytes, where the last number counts and messages are merged. An unknown field, several target
vectors, multivectors and Weaviate's own selection for diversity make a search unsupported.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from ..contract import MalformedReplyError, Needs, Operation, Question, Reason, Search, UnsupportedError
from ..wire.schema import checked, parsed, serialized, text_of
from ..wire.vectors import row, usable, whole_floats
from .calls import PATH, default_limit, spelled
from .grpc_schema import proto

HYBRID, KEYWORDS, NEAR_VECTOR, NEAR_OBJECT, NEAR_TEXT = (
    "hybrid_search", "bm25_search", "near_vector", "near_object", "near_text",
)  # fmt: skip
_MEDIA = ("near_image", "near_audio", "near_video", "near_depth", "near_thermal", "near_imu")
_WAYS = (HYBRID, KEYWORDS, NEAR_VECTOR, NEAR_OBJECT, NEAR_TEXT, *_MEDIA)
SINGLE_TYPES = frozenset({0, 1})  # of vectors with one row

Vector = npt.NDArray[np.float32]


@dataclass(frozen=True, slots=True, kw_only=True)
class Ranking:
    """``target``: the named vector that is searched; None for none. ``self_id``: the object by which the search is made; "" for none."""

    way: str
    target: str | None = None
    query: Vector | None = None
    self_id: str = ""

    @property
    def is_measured(self) -> bool:
        """Whether results are ranked by a distance; otherwise by a score."""
        return self.way not in {HYBRID, KEYWORDS}


def ranking_of(request: Any) -> Ranking:
    """Of a SearchRequest. Raises UnsupportedError."""
    ways = [way for way in _WAYS if request.HasField(way)]
    if not ways:  # a list of objects
        raise UnsupportedError(Reason.ORDERING_CHOSEN)
    if len(ways) > 1:
        raise UnsupportedError(Reason.UNSUPPORTED_FIELD)
    (way,) = ways
    search = getattr(request, way)
    if way == KEYWORDS:
        return Ranking(way=way)
    target = _target(search)
    if way == NEAR_VECTOR:
        return Ranking(way=way, target=target, query=_query(search))
    if way == NEAR_OBJECT:
        return Ranking(way=way, target=target, self_id=text_of(search.id).lower())
    if way == HYBRID:
        for part in (search.near_text, search.near_vector):
            _target(part)
    return Ranking(way=way, target=target)


def _target(search: Any) -> str | None:
    """The target of a kind of search. Raises UnsupportedError."""
    if search.HasField("selection"):
        raise UnsupportedError(Reason.ORDERING_CHOSEN)
    # The newer field counts if both are set.
    names = (search.targets if search.HasField("targets") else search).target_vectors
    if len(names) > 1:
        raise UnsupportedError(Reason.UNSUPPORTED_FIELD)
    return text_of(names[0]) if names else None


def _query(near: Any) -> Vector | None:
    """The vector of a NearVector, from the field that the server reads first. Raises UnsupportedError."""
    if len(near.vector_for_targets) + len(near.vector_per_target) > 1:
        raise UnsupportedError(Reason.UNSUPPORTED_FIELD)
    if near.vectors:
        return _floats(_only_single(near.vectors))
    if near.HasField("vector_bytes"):
        return _floats(near.vector_bytes)
    if near.vector:
        return _floats(b"".join(near.vector))
    for target in near.vector_for_targets:
        return _floats(_only_single(target.vectors) if target.vectors else target.vector_bytes)
    return _floats(b"".join([target.value for target in near.vector_per_target]))


def _only_single(vectors: Sequence[Any]) -> bytes:
    """The bytes of the only vector, which has one row. Raises UnsupportedError."""
    if len(vectors) > 1 or vectors[0].type not in SINGLE_TYPES:
        raise UnsupportedError(Reason.UNSUPPORTED_FIELD)
    packed: bytes = vectors[0].vector_bytes
    return packed


def _floats(packed: bytes) -> Vector | None:
    try:
        return usable(row(whole_floats(packed)))
    except ValueError:
        raise UnsupportedError(Reason.UNSUPPORTED_FIELD) from None


# Metadata, vectors and properties of each result. The server refuses the name of a missing property: only those are added that are
# required, or that objects have had.

# Switch -> fields of a result's metadata.
_FIELDS_OF_SWITCH = {
    "uuid": frozenset({"id", "id_as_bytes"}),
    "distance": frozenset({"distance", "distance_present"}),
    "score": frozenset({"score", "score_present"}),
}
NAMED = "vectors"
_ALL_VECTORS = frozenset({"vector", "vector_bytes", NAMED})


@dataclass(frozen=True, slots=True, kw_only=True)
class Additions:
    """``added``: the addition to the metadata request. ``hidden``: the fields of a result's metadata that it adds. ``listed``: the vectors
    named by the client, if another was added; else None. ``compared``: the vector to compare by, "" being the unnamed one; None chooses one
    of the reply. ``properties``: those added.
    """

    added: Mapping[str, Any]
    hidden: frozenset[str]
    listed: frozenset[str] | None
    compared: str | None
    properties: tuple[str, ...] = ()


def plan_additions(request: Any, ranking: Ranking, needs: Needs) -> Additions:
    """The additions to a SearchRequest for what the needs require. Raises UnsupportedError."""
    metadata = request.metadata
    missing = [
        switch for switch in ("uuid", "distance" if ranking.is_measured else "score") if not getattr(metadata, switch)
    ]
    hidden = frozenset[str]().union(*(_FIELDS_OF_SWITCH[switch] for switch in missing))
    added: dict[str, Any] = dict.fromkeys(missing, True)
    compared = ranking.target if needs.vector_name is None else needs.vector_name
    listed = frozenset(map(text_of, metadata.vectors))
    is_added = False
    # The name of an unnamed vector is known from an earlier reply.
    is_lean = not needs.vectors and (compared is not None or needs.vector_hint is not None)
    # If the client names some, and no other is required, those are compared.
    if not (is_lean or metadata.vector):
        if compared and compared not in listed:
            is_added = bool(listed)
            added["vectors"] = [compared.encode()]
            hidden |= frozenset() if listed else {NAMED}
        elif not listed:
            added["vector"] = True
            hidden |= _ALL_VECTORS
    names = _missing(request, needs.payload_fields, needs.seen_fields)
    return Additions(
        added=added, hidden=hidden, listed=listed if is_added else None, compared=compared, properties=names
    )


def added_fields(additions: Additions) -> Mapping[str, Any]:
    """The additions as fields of a SearchRequest."""
    names = [name.encode() for name in additions.properties]
    return ({"metadata": additions.added} if additions.added else {}) | (
        {"properties": {"non_ref_properties": names}} if names else {}
    )


def _missing(request: Any, needed: Sequence[str], seen: Sequence[str]) -> tuple[str, ...]:
    """The wanted properties that the client does not select, with those of ``seen`` that can be removed again. Raises UnsupportedError."""
    selected = request.properties
    if not request.HasField("properties") or selected.return_all_nonref_properties:  # all are returned
        return ()
    listed = {spelled(text_of(name)) for name in selected.non_ref_properties}
    references = [part.reference_property for part in selected.ref_properties]
    parts = {spelled(text_of(name)) for name in (*references, *[part.prop_name for part in selected.object_properties])}
    names = tuple(dict.fromkeys(spelled(name) for name in needed if spelled(name) not in listed))
    if parts.intersection(names):  # a part of it is selected: the rest could not be removed
        raise UnsupportedError(Reason.PAYLOAD_SELECTOR)
    more = (spelled(name) for name in seen if spelled(name) not in listed | parts)
    return tuple(dict.fromkeys((*names, *more)))


# The client's own order or limit: groups, a cursor, reranking (billed by candidate), boosts.
_CHOSEN = ("group_by", "after", "rerank", "boost")
# The server's limit on offset and limit together, unless its operator chose another.
LARGEST_WINDOW = 10_000
# A hybrid search fuses the first 100 results of each part, or more for a larger limit: up to 100 a wider request changes no score.
HYBRID_PARTS = 100
# Limits the vectors of a reply; the server sends an unnamed one twice.
_REPLY_BYTES = 64 * 1024 * 1024
_NUMBER_BYTES = 8
_MOST = 2**31 - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """A parsed request. ``limit``: the client's; None for the server's default."""

    body: bytes
    limit: int | None
    offset: int
    ranking: Ranking
    additions: Additions


def read_request(_: Operation, body: bytes, needs: Needs) -> tuple[Search, Document]:
    request = checked(proto.Search, body)
    _check_chosen(request)
    ranking = ranking_of(request)
    limit, offset = request.limit or None, request.offset
    top_k = default_limit(needs) if limit is None else limit
    if top_k is None:
        raise UnsupportedError(Reason.NOTHING_TO_DO)
    if max(top_k, offset) > _MOST:
        raise UnsupportedError(Reason.AMBIGUOUS_FIELD)
    if top_k + offset == 1:
        raise UnsupportedError(Reason.SINGLE_RESULT)
    additions = plan_additions(request, ranking, needs)
    search = Search(
        top_k=top_k,
        offset=offset,
        pages=request.HasField("offset"),
        # Vectors of another name are not comparable.
        query=ranking.query if additions.compared == ranking.target else None,
        partition=text_of(request.tenant).encode(),
        most=_most(ranking),
    )
    return search, Document(body=body, limit=limit, offset=offset, ranking=ranking, additions=additions)


def widen(document: Document, fetch_k: Sequence[int]) -> bytes:
    """The request for ``fetch_k[0]`` candidates from rank 0, with the additions; 0 leaves it unchanged."""
    (count,) = fetch_k
    if not count:
        return document.body
    added = proto.Search(
        **({"limit": count} if count != document.limit else {}),
        **({"offset": 0} if document.offset else {}),
        **added_fields(document.additions),
    )
    return document.body + serialized(added)


def describe(_: Operation, message: bytes) -> Question | None:
    """The smallest list without a limit, identifiers without properties; None if the search has a limit, or names no collection. Never raises."""
    try:
        request = parsed(proto.Limit, message)
    except ValueError:
        return None
    if request.limit or not request.collection:
        return None
    place = {field.name: value for field, value in request.ListFields() if field.name in {"collection", "tenant"}}
    least = proto.Search(**place, properties={}, metadata={"uuid": True}, uses_127_api=True)
    return Question(method="POST", target=PATH, body=serialized(least))


def parse_description(body: bytes) -> int:
    """The length of the list. Raises MalformedReplyError, nothing else."""
    try:
        return len(parsed(proto.Reply, body).results)
    except ValueError as error:
        raise MalformedReplyError(f"list: {error}") from None


def _check_chosen(request: Any) -> None:
    if request.HasField("generative"):  # a language model would be called for every candidate
        raise UnsupportedError(Reason.UNSUPPORTED_FIELD)
    if request.sort_by or request.autocut or any(map(request.HasField, _CHOSEN)):
        raise UnsupportedError(Reason.ORDERING_CHOSEN)


def _most(ranking: Ranking) -> int:
    """The most candidates, from rank 0."""
    if ranking.way == HYBRID:
        return HYBRID_PARTS
    width = 0 if ranking.query is None else len(ranking.query)
    return min(LARGEST_WINDOW, _REPLY_BYTES // (_NUMBER_BYTES * max(width, 1)))
