"""``/VectorService/Query``: what its message asks for, and the same bytes asking for more.

Rule of this file: what changes is said again behind the client's bytes. Of a field that holds one number or switch the last
counts (https://protobuf.dev/programming-guides/encoding/#last-one-wins), so no byte of the client's is touched.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import orjson

from vecsieve.adapters import pinecone_sizes
from vecsieve.adapters.contract import Needs, Reason, Search, Unsupported
from vecsieve.adapters.json_members import usable
from vecsieve.adapters.pinecone_paths import QUERY
from vecsieve.adapters.pinecone_query import only_one_ranking
from vecsieve.adapters.proto_floats import packed_floats, row
from vecsieve.adapters.proto_size import Messages
from vecsieve.adapters.proto_wire import FIXED32, LENGTH, VARINT, Field, fields, number_field, only, text, unsigned

_NAMESPACE, _TOP_K, _FILTER, _INCLUDE_VALUES, _INCLUDE_METADATA = 1, 2, 3, 4, 5
_VECTOR, _ID, _SPARSE_VECTOR, _SCAN_FACTOR, _MAX_CANDIDATES = 7, 8, 9, 10, 11

# What is there once at most. The legacy ``queries`` is not among it: such a request goes through.
_SINGLE: Mapping[int, int] = {
    _NAMESPACE: LENGTH,
    _TOP_K: VARINT,
    _FILTER: LENGTH,
    _INCLUDE_VALUES: VARINT,
    _INCLUDE_METADATA: VARINT,
    _ID: LENGTH,
    _SPARSE_VECTOR: LENGTH,
    _SCAN_FACTOR: FIXED32,
    _MAX_CANDIDATES: VARINT,
}
_MOST = 2**32 - 1
# What is entered of a request, for the count of its fields: nothing. The numbers of its vector need not be packed.
MESSAGES: Messages = {QUERY: {}}


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """One query. ``emptied``: the values were asked for by us alone. ``self_id``: what it was made by; "" for none."""

    body: bytes
    top_k: int
    emptied: bool
    self_id: str


def parse(body: bytes, needs: Needs) -> tuple[Search, Document]:
    """Read a request. Raises Unsupported, nothing else."""
    single, packed = _read(body)
    top_k = _number(body, single.get(_TOP_K)) or 0
    pinecone_sizes.is_worthwhile(top_k)
    if needs.payload_fields and not _number(body, single.get(_INCLUDE_METADATA)):
        raise Unsupported(Reason.PAYLOAD_SELECTOR)
    vector, self_id, is_sparse = row(packed), _text(body, single.get(_ID)), _SPARSE_VECTOR in single
    only_one_ranking(is_dense=bool(len(vector)), is_by_id=bool(self_id), is_sparse=is_sparse)
    candidates = _number(body, single.get(_MAX_CANDIDATES))
    search = Search(
        top_k=top_k,
        offset=0,
        pages=False,
        query=usable(vector),
        partition=_partition(_text(body, single.get(_NAMESPACE))),
        most=pinecone_sizes.within(candidates, numbers=len(vector), is_sparse=is_sparse),
    )
    is_forced = not _number(body, single.get(_INCLUDE_VALUES)) and needs.vectors
    return search, Document(body=body, top_k=top_k, emptied=is_forced, self_id=self_id)


def widen(document: Document, fetch_k: Sequence[int]) -> bytes:
    """The request that asks for ``fetch_k[0]`` candidates, with what selection compares. 0 leaves it as it came."""
    (count,) = fetch_k
    if not count:
        return document.body
    raised = b"" if count == document.top_k else number_field(_TOP_K, count)
    return document.body + raised + (number_field(_INCLUDE_VALUES, 1) if document.emptied else b"")


def _read(body: bytes) -> tuple[dict[int, Field], bytes]:
    """The fields that are there once, by number, and the floats of the vector."""
    try:
        found = fields(body)
    except ValueError:
        raise Unsupported(Reason.UNSUPPORTED_FIELD) from None
    if not {field.number for field in found} <= {*_SINGLE, _VECTOR}:
        raise Unsupported(Reason.UNSUPPORTED_FIELD)
    try:
        single = {number: only(found, number, wire) for number, wire in _SINGLE.items()}
        packed = packed_floats(body, found, _VECTOR)
    except ValueError:
        raise Unsupported(Reason.AMBIGUOUS_FIELD) from None
    return {number: field for number, field in single.items() if field is not None}, packed


def _number(body: bytes, field: Field | None) -> int | None:
    """A number or a switch; None when absent, which reads as zero and as off."""
    value = None if field is None else unsigned(body, field)
    if value is not None and value > _MOST:  # a reader of 32 bits would take it for another number
        raise Unsupported(Reason.AMBIGUOUS_FIELD)
    return value


def _text(body: bytes, field: Field | None) -> str:
    try:
        return "" if field is None else text(body, field)
    except ValueError:
        raise Unsupported(Reason.AMBIGUOUS_FIELD) from None


def _partition(namespace: str) -> bytes:
    """A namespace as a request over REST spells it, so that what is remembered of one transport serves the other."""
    return orjson.dumps(namespace) if namespace else b""
