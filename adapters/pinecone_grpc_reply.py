"""A QueryResponse: where its matches stand, the pool in them, and the client's answer cut from it.

What is not understood with certainty is Malformed. Vectors are compared by direction, as over REST. A query without values
shows none, that is neither field; everything else stays as it came, fields nobody knows included.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import orjson

from vecsieve.adapters.contract import Malformed, Needs, Pool
from vecsieve.adapters.pinecone_grpc_request import Document
from vecsieve.adapters.proto_floats import matrix, packed_floats, row, unsigned_numbers
from vecsieve.adapters.proto_maps import messages_in
from vecsieve.adapters.proto_values import GOOGLE, Wanted, chosen
from vecsieve.adapters.proto_wire import FIXED32, LENGTH, REPLY_FIELDS, Field, fields, length_field, text, without
from vecsieve.adapters.sparse_rows import SparseRow, union_matrix
from vecsieve.adapters.usable import without_vector

_MATCHES = 2
_ID, _SCORE, _VALUES, _METADATA, _SPARSE_VALUES = 1, 2, 3, 4, 5
_SINGLE = {_ID: LENGTH, _SCORE: FIXED32, _METADATA: LENGTH, _SPARSE_VALUES: LENGTH}
_INDICES, _WEIGHTS = 1, 2
_STRUCT_FIELDS = 1
_FLOAT = struct.Struct("<f")


class Match(NamedTuple):
    """One candidate: its field in the reply, the fields in it, and what they hold that matters; None where absent."""

    field: Field
    inside: list[Field]
    id: str
    score: float
    metadata: Field | None
    sparse: Field | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplyDocument:
    """A parsed reply: its fields in the order of the wire, and the matches among them."""

    body: bytes
    fields: tuple[Field, ...]
    matches: tuple[Match, ...]


def parse_reply(request: Document, needs: Needs, body: bytes) -> tuple[Pool, ReplyDocument]:
    """Read a reply. Raises Malformed, nothing else."""
    try:
        return _read(request, needs, body)
    except ValueError as error:
        raise Malformed(str(error)) from None


def trim(request: Document, reply: ReplyDocument, keep: Sequence[npt.NDArray[np.intp]]) -> bytes:
    """The client's answer: the matches ``keep[0]`` in that order, without what the request added.

    They take the places of the first matches, one each, so that keeping all of them in order changes no byte.
    """
    (kept,) = keep
    shown = iter([_shown(reply.body, reply.matches[index], emptied=request.emptied) for index in kept.tolist()])
    pieces = [
        next(shown, b"") if field.number == _MATCHES else reply.body[field.start : field.end] for field in reply.fields
    ]
    return b"".join(pieces)


def _read(request: Document, needs: Needs, body: bytes) -> tuple[Pool, ReplyDocument]:
    found = fields(body)
    matches = tuple(_match(body, field) for field in found if field.number == _MATCHES)
    vectors = _vectors(body, matches)
    unusable = without_vector(vectors)
    wanted = Wanted(needs.payload_fields, needs.optional_fields)
    pool = Pool(
        scores=np.array([match.score for match in matches], dtype=np.float64),
        vectors=vectors,
        fields=_all_fields(body, matches, wanted),
        # As the service's JSON spells them: what is remembered of one transport serves the other.
        ids=tuple(orjson.dumps(match.id) for match in matches),
        compared_by="" if unusable < len(vectors) else None,
        unusable=unusable,
        # Who looks for what is like a record must not get it in place of what is like it.
        alone=tuple(place for place, match in enumerate(matches) if match.id == request.self_id),
    )
    return pool, ReplyDocument(body=body, fields=tuple(found), matches=matches)


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
                f"field {number} of the match at byte {field.start} stands twice or is of wire type {each.wire}"
            )
        found[number] = each
    own, score = found.get(_ID), found.get(_SCORE)
    if own is None or own.value == own.end:
        raise ValueError(f"no id at byte {field.start}")
    # A score of zero is not written.
    value = 0.0 if score is None else float(_FLOAT.unpack_from(body, score.value)[0])
    return Match(field, inside, text(body, own), value, found.get(_METADATA), found.get(_SPARSE_VALUES))


def _vectors(body: bytes, matches: Sequence[Match]) -> npt.NDArray[np.float32]:
    """(n, d): the dense vectors; where nobody has one, the sparse ones. Raises ValueError."""
    dense = matrix([packed_floats(body, match.inside, _VALUES) for match in matches])
    if dense.shape[1]:
        return dense
    return union_matrix([None if match.sparse is None else _sparse(body, match.sparse) for match in matches])


def _sparse(body: bytes, field: Field) -> SparseRow | None:
    inside = fields(body, field.span)
    indices, weights = unsigned_numbers(body, inside, _INDICES), row(packed_floats(body, inside, _WEIGHTS))
    return (indices, weights) if indices.size and indices.shape == weights.shape else None


def _all_fields(body: bytes, matches: Sequence[Match], wanted: Wanted) -> tuple[tuple[bytes | None, ...], ...]:
    """Per match the JSON of each wanted field, None where absent. Raises ValueError."""
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


def _shown(body: bytes, match: Match, *, emptied: bool) -> bytes:
    """A match as the client asked for it."""
    dropped = [field for field in match.inside if field.number in {_VALUES, _SPARSE_VALUES}] if emptied else []
    if not dropped:
        return body[match.field.start : match.field.end]
    return length_field(_MATCHES, without(body, match.field.span, dropped))
