"""Pinecone over gRPC: parses and widens a query, parses its reply, cuts the client's answer; the adapter.

Supported: ``/VectorService/Query``. Changes are appended to the client's bytes: for a number or switch that occurs twice the last value
counts (https://protobuf.dev/programming-guides/encoding/#last-one-wins). Vectors are compared by direction, as over REST.
"""

from __future__ import annotations

import struct
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import orjson

from ..base import GrpcAdapter, Keep, check_page, noted_entry
from ..contract import (
    MalformedReplyError,
    Needs,
    Operation,
    Pool,
    Reason,
    RequestHead,
    Search,
    SearchCall,
    UnsupportedError,
)
from ..wire.protobuf import (
    FIXED32,
    LENGTH,
    REPLY_FIELDS,
    VARINT,
    Field,
    Messages,
    entries,
    fields,
    length_field,
    messages_in,
    methods,
    number_field,
    only,
    replaced,
    text,
    unsigned,
    without,
)
from ..wire.protobuf_values import GOOGLE, Wanted, chosen, objects_json
from ..wire.vectors import (
    SparseRow,
    matrix,
    packed_floats,
    row,
    union_matrix,
    unsigned_numbers,
    usable,
    without_vector,
)
from . import rest_request
from .calls import BACKEND, QUERY, index_of
from .rest_request import only_one_ranking

NAMESPACE, TOP_K, FILTER, INCLUDE_VALUES, INCLUDE_METADATA = 1, 2, 3, 4, 5
VECTOR, _QUERY_ID, _SPARSE_VECTOR, _SCAN_FACTOR, _MAX_CANDIDATES = 7, 8, 9, 10, 11

# Fields that may be set once. Not supported: the legacy ``queries``.
_QUERY_SINGLE: Mapping[int, int] = {
    NAMESPACE: LENGTH,
    TOP_K: VARINT,
    FILTER: LENGTH,
    INCLUDE_VALUES: VARINT,
    INCLUDE_METADATA: VARINT,
    _QUERY_ID: LENGTH,
    _SPARSE_VECTOR: LENGTH,
    _SCAN_FACTOR: FIXED32,
    _MAX_CANDIDATES: VARINT,
}
_MOST = 2**32 - 1
# No inner message is parsed.
MESSAGES: Messages = {QUERY: {}}


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """One query. ``emptied``: the client did not request the values; ``is_bare``: nor the metadata, which is added. ``self_id``: the record by which it searches; "" for none."""

    body: bytes
    top_k: int
    emptied: bool
    is_bare: bool
    self_id: str


def parse(body: bytes, needs: Needs) -> tuple[Search, Document]:
    """Parse a request. Raises UnsupportedError, nothing else."""
    single, packed = _read_query(body)
    top_k = _number(body, single.get(TOP_K)) or 0
    check_page(top_k, 0)
    has_metadata = bool(_number(body, single.get(INCLUDE_METADATA)))
    if needs.payload_fields and not has_metadata:
        raise UnsupportedError(Reason.PAYLOAD_SELECTOR)
    is_bare = not has_metadata and bool(needs.whole or needs.seen_fields)
    vector, self_id, is_sparse = row(packed), _text(body, single.get(_QUERY_ID)), _SPARSE_VECTOR in single
    only_one_ranking(is_dense=bool(len(vector)), is_by_id=bool(self_id), is_sparse=is_sparse)
    candidates = _number(body, single.get(_MAX_CANDIDATES))
    search = Search(
        top_k=top_k,
        offset=0,
        pages=False,
        query=usable(vector),
        partition=_partition(_text(body, single.get(NAMESPACE))),
        most=rest_request.within(candidates, numbers=len(vector), is_sparse=is_sparse, has_texts=is_bare),
    )
    is_forced = not _number(body, single.get(INCLUDE_VALUES)) and needs.vectors
    return search, Document(body=body, top_k=top_k, emptied=is_forced, is_bare=is_bare, self_id=self_id)


def widen(document: Document, fetch_k: Sequence[int]) -> bytes:
    """The request for ``fetch_k[0]`` candidates, with the values; 0 leaves it unchanged."""
    (count,) = fetch_k
    if not count:
        return document.body
    raised = b"" if count == document.top_k else number_field(TOP_K, count)
    switches = number_field(INCLUDE_VALUES, 1) if document.emptied else b""
    switches += number_field(INCLUDE_METADATA, 1) if document.is_bare else b""
    return document.body + raised + switches


def _read_query(body: bytes) -> tuple[dict[int, Field], bytes]:
    """The single fields by number, and the floats of the vector."""
    try:
        found = fields(body)
    except ValueError:
        raise UnsupportedError(Reason.UNSUPPORTED_FIELD) from None
    if not {field.number for field in found} <= {*_QUERY_SINGLE, VECTOR}:
        raise UnsupportedError(Reason.UNSUPPORTED_FIELD)
    try:
        single = {number: only(found, number, wire) for number, wire in _QUERY_SINGLE.items()}
        packed = packed_floats(body, found, VECTOR)
    except ValueError:
        raise UnsupportedError(Reason.AMBIGUOUS_FIELD) from None
    return {number: field for number, field in single.items() if field is not None}, packed


def _number(body: bytes, field: Field | None) -> int | None:
    """A number or a switch; None if absent, which means zero or off."""
    value = None if field is None else unsigned(body, field)
    if value is not None and value > _MOST:  # a reader of 32 bits would truncate it
        raise UnsupportedError(Reason.AMBIGUOUS_FIELD)
    return value


def _text(body: bytes, field: Field | None) -> str:
    try:
        return "" if field is None else text(body, field)
    except ValueError:
        raise UnsupportedError(Reason.AMBIGUOUS_FIELD) from None


def _partition(namespace: str) -> bytes:
    """A namespace as over REST, so that both transports share remembered vectors."""
    return orjson.dumps(namespace) if namespace else b""


_MATCHES = 2
_ID, _SCORE, _VALUES, _METADATA, _SPARSE_VALUES = 1, 2, 3, 4, 5
_SINGLE = {_ID: LENGTH, _SCORE: FIXED32, _METADATA: LENGTH, _SPARSE_VALUES: LENGTH}
_INDICES, _WEIGHTS = 1, 2
_STRUCT_FIELDS = 1
_FLOAT = struct.Struct("<f")


class Match(NamedTuple):
    """One candidate: its field in the reply, the fields in it, and their values; None if absent."""

    field: Field
    inside: list[Field]
    id: str
    score: float
    metadata: Field | None
    sparse: Field | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplyDocument:
    """A parsed reply: its bytes, and its matches in the order of the wire."""

    body: bytes
    matches: tuple[Match, ...]


def parse_reply(request: Document, needs: Needs, body: bytes) -> tuple[Pool, ReplyDocument]:
    """Raises MalformedReplyError, nothing else."""
    try:
        return _read(request, needs, body)
    except ValueError as error:
        raise MalformedReplyError(str(error)) from None


def trim(request: Document, reply: ReplyDocument, keep: Keep) -> bytes:
    """The client's answer: the matches ``keep[0]`` in that order, without added values."""
    (kept,) = keep
    body, matches = reply.body, reply.matches
    added = ({_VALUES, _SPARSE_VALUES} if request.emptied else set()) | ({_METADATA} if request.is_bare else set())
    shown = [_shown(body, matches[index], added) for index in kept.tolist()]
    return replaced(body, (0, len(body)), [match.field.whole for match in matches], shown)


def _read(request: Document, needs: Needs, body: bytes) -> tuple[Pool, ReplyDocument]:
    matches = matches_in(body)
    vectors = _vectors(body, matches)
    unusable = without_vector(vectors)
    wanted = Wanted(needs.payload_fields, needs.optional_fields)
    pool = Pool(
        scores=np.array([match.score for match in matches], dtype=np.float64),
        vectors=vectors,
        fields=metadata_of(body, matches, wanted),
        payloads=partial(_payloads, body, matches),
        # As over REST: both transports share remembered vectors.
        ids=tuple(orjson.dumps(match.id) for match in matches),
        compared_by="" if unusable < len(vectors) else None,
        unusable=unusable,
        # The record by which the search is made must not replace similar records.
        alone=tuple(place for place, match in enumerate(matches) if match.id == request.self_id),
    )
    return pool, ReplyDocument(body=body, matches=matches)


def matches_in(body: bytes) -> tuple[Match, ...]:
    """The matches of a reply, in the order of the wire. Raises ValueError."""
    return tuple(_match(body, field) for field in fields(body) if field.number == _MATCHES)


def _match(body: bytes, field: Field) -> Match:
    if field.wire != LENGTH:
        raise ValueError(f"match at byte {field.start} is of wire type {field.wire}")
    inside = fields(body, field.span)
    found: dict[int, Field] = {}
    for each in inside:
        number = each.number
        if number not in _SINGLE:
            continue
        if number in found or each.wire != _SINGLE[number]:
            raise ValueError(
                f"field {number} of the match at byte {field.start} is repeated or is of wire type {each.wire}"
            )
        found[number] = each
    own, score = found.get(_ID), found.get(_SCORE)
    if own is None or own.value == own.end:
        raise ValueError(f"no id at byte {field.start}")
    # protobuf omits a zero.
    value = 0.0 if score is None else float(_FLOAT.unpack_from(body, score.value)[0])
    return Match(field, inside, text(body, own), value, found.get(_METADATA), found.get(_SPARSE_VALUES))


def _vectors(body: bytes, matches: Sequence[Match]) -> npt.NDArray[np.float32]:
    """(n, d): the dense vectors, or the sparse ones if there are none. Raises ValueError."""
    dense = matrix([values_of(body, match) for match in matches])
    if dense.shape[1]:
        return dense
    return union_matrix([None if match.sparse is None else _sparse(body, match.sparse) for match in matches])


def values_of(body: bytes, match: Match) -> bytes:
    """The packed floats of a match, b"" without any. Raises ValueError."""
    return packed_floats(body, match.inside, _VALUES)


def _sparse(body: bytes, field: Field) -> SparseRow | None:
    inside = fields(body, field.span)
    indices, weights = unsigned_numbers(body, inside, _INDICES), row(packed_floats(body, inside, _WEIGHTS))
    return (indices, weights) if indices.size and indices.shape == weights.shape else None


def metadata_of(body: bytes, matches: Sequence[Match], wanted: Wanted) -> tuple[tuple[bytes | None, ...], ...]:
    """Per match the JSON of each wanted field, None if absent. Raises ValueError."""
    rows: list[tuple[bytes | None, ...]] = []
    left = REPLY_FIELDS
    for match in matches:
        if match.metadata is None or not wanted.keys:
            rows.append((None,) * len(wanted.keys))
            continue
        held = messages_in(body, match.metadata.span, _STRUCT_FIELDS)
        left -= len(held)
        if left < 0:
            raise ValueError(f"metadata up to byte {match.metadata.end} have more than {REPLY_FIELDS} keys")
        rows.append(chosen(body, held, wanted, GOOGLE))
    return tuple(rows)


def _payloads(body: bytes, matches: Sequence[Match], most: int) -> tuple[bytes | None, ...]:
    """The metadata, which was parsed before."""
    spans = [None if match.metadata is None else match.metadata.span for match in matches[:most]]
    each = [() if span is None else messages_in(body, span, _STRUCT_FIELDS) for span in spans]
    return objects_json(body, each, GOOGLE)


def _shown(body: bytes, match: Match, added: Collection[int]) -> bytes:
    """A match in the client's answer, without the ``added`` fields."""
    dropped = [field for field in match.inside if field.number in added]
    if not dropped:
        return body[match.field.start : match.field.end]
    return length_field(_MATCHES, without(body, match.field.span, dropped))


def _noted(body: bytes, match: Match, note: bytes | None) -> bytes:
    """A match of an answer. The note is JSON as a string, because metadata is flat; a match without metadata has none."""
    data = body[match.field.start : match.field.end]
    if note is None or match.metadata is None:
        return data
    spans = entries(body, messages_in(body, match.metadata.span, _STRUCT_FIELDS))
    added = noted_entry({key: body[slice(*span)] for key, span in spans}, note, GOOGLE, is_flat=True)
    if added is None:
        return data
    shown = length_field(_METADATA, body[slice(*match.metadata.span)] + length_field(_STRUCT_FIELDS, added))
    return length_field(_MATCHES, replaced(body, match.field.span, [match.metadata.whole], [shown]))


PATH = "/VectorService/Query"
# Any other method is forwarded as a stream, which costs more.
UNARY = methods(
    "VectorService",
    "Upsert Delete Fetch List Query Update DescribeIndexStats ListNamespaces DescribeNamespace DeleteNamespace CreateNamespace "
    "FetchByMetadata",
)


class PineconeGrpc(GrpcAdapter[Document, ReplyDocument]):
    request_type, reply_type, messages = Document, ReplyDocument, MESSAGES
    widen_request = staticmethod(widen)
    read_reply = staticmethod(parse_reply)
    cut_reply = staticmethod(trim)

    def noted(self, _: SearchCall, answer: bytes, notes: Sequence[Sequence[bytes | None]]) -> bytes:
        matches = matches_in(answer)
        shown = [_noted(answer, match, note) for match, note in zip(matches, notes[0], strict=True)]
        return replaced(answer, (0, len(answer)), [match.field.whole for match in matches], shown)

    def classify(self, head: RequestHead) -> Operation | None:
        """The ranked search of a call; None for any other. Never raises. The index is the host's, as over REST."""
        if head.method != "POST" or head.path != PATH:
            return None
        return Operation(backend=BACKEND, name=QUERY, collection=index_of(head.host))

    def parse_request(self, operation: Operation, body: bytes, needs: Needs) -> SearchCall:
        search, document = parse(body, needs)
        return SearchCall(operation=operation, searches=(search,), needs=needs, document=document)
