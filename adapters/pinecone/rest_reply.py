"""Parses a reply over REST: its matches, and their pool.

Whatever is ambiguous is malformed. Vectors are compared by direction: the reply does not have the index's metric, and two copies have
the same direction under each. Spans are offsets into the text without surrogate escapes; bytes are cut from the original.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from vecsieve.adapters.contract import FIELD_BYTES, Allowance, Needs, Pool
from vecsieve.adapters.pinecone.rest_request import Document, Layout
from vecsieve.adapters.wire.json import (
    Members,
    Span,
    check_members,
    elements,
    members,
    string,
    whole,
    without_surrogates,
)
from vecsieve.adapters.wire.json_vectors import (
    Edit,
    Shortened,
    field_values,
    guess_arrays,
    read_aside,
    sparse_matrix,
    vectors_at,
)
from vecsieve.adapters.wire.vectors import without_vector

# The first byte shows the type of a value whose grammar was checked.
_SCORE_STARTS = b"-0123456789n"
_NULL = b"null"


class Match(NamedTuple):
    """One candidate. A NamedTuple for speed, as `Member`."""

    span: Span
    members: Members
    payload: Members


def array_of(text: bytes, path: Sequence[str]) -> Span:
    """The list at the path of members. Raises ValueError."""
    span = whole(text)
    for name in path:
        member = members(text, span).get(name)
        if member is None:
            raise ValueError(f"no {name}")
        span = member.value, member.end
    return span


def read_matches(text: bytes, array: Span, layout: Layout) -> tuple[Match, ...]:
    """The matches of the list that fills ``array``, in order. Raises ValueError."""
    return tuple(_read_members(text, span, layout) for span in elements(text, array))


def payloads_of(request: Document, text: bytes) -> tuple[tuple[Span | None, ...], ...]:
    """The spans of the matches' metadata or fields, null included; None where a match has none. Raises ValueError."""
    layout = request.layout
    spans = elements(text, array_of(text, layout.path))
    if layout.payload is None:
        return (tuple(spans),)
    found = [members(text, span).get(layout.payload) for span in spans]
    return (tuple(None if member is None else (member.value, member.end) for member in found),)


def score_of(text: bytes, match: Match, layout: Layout) -> float:
    """A score; NaN for null, which the service writes for a document without one."""
    member = match.members[layout.score]
    value = text[member.value : member.end]
    return float("nan") if value == _NULL else float(value)


def has_id(text: bytes, match: Match, layout: Layout, wanted: str) -> bool:
    """Whether a match has this id."""
    member = match.members[layout.id]
    try:
        return string(text[member.value : member.end]) == wanted
    except ValueError:  # invalid Unicode cannot be a search's id
        return False


def _read_members(text: bytes, span: Span, layout: Layout) -> Match:
    found = members(text, span)
    if not {layout.id, layout.score} <= found.keys() or text[found[layout.id].value] != ord('"'):
        raise ValueError(f"no id or no score at byte {span[0]}")
    if text[found[layout.score].value] not in _SCORE_STARTS:
        raise ValueError(f"score at byte {found[layout.score].value} is no number")
    return Match(span, found, found if layout.payload is None else _payload(text, found, layout.payload))


def _payload(text: bytes, found: Members, name: str) -> Members:
    member = found.get(name)
    if member is None or text[member.value : member.end] == _NULL:
        return {}
    return members(text, (member.value, member.end))


Matrix = npt.NDArray[np.float32]

_ARRAY = ord("[")


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplyDocument:
    """A parsed reply. ``text``: that of ``source`` without surrogate escapes. ``edits``: changes outside ``array``."""

    source: Shortened
    text: bytes
    array: Span
    matches: tuple[Match, ...]
    edits: tuple[Edit, ...] = ()


def parse_reply(request: Document, needs: Needs, body: bytes) -> tuple[Pool, ReplyDocument]:
    """Raises MalformedReplyError, nothing else."""
    spans = [] if request.vector is None else guess_arrays(body, request.vector)
    return read_aside(body, spans, lambda source: _read(request, needs, source))


def _read(request: Document, needs: Needs, source: Shortened) -> tuple[Pool, ReplyDocument]:
    text = without_surrogates(source.text)
    check_members(text)
    layout = request.layout
    array = array_of(text, layout.path)
    document = ReplyDocument(source=source, text=text, array=array, matches=read_matches(text, array, layout))
    vectors = _vectors(request, document)
    unusable, allowance = without_vector(vectors), Allowance(FIELD_BYTES)
    pool = Pool(
        scores=np.array([score_of(text, match, layout) for match in document.matches], dtype=np.float64),
        vectors=vectors,
        fields=tuple(
            field_values(source, match.payload, needs.payload_fields, needs.optional_fields, allowance)
            for match in document.matches
        ),
        ids=tuple(
            source.cut(match.members[layout.id].value, match.members[layout.id].end) for match in document.matches
        ),
        compared_by="" if unusable < len(vectors) else None,
        unusable=unusable,
        alone=_alone(request, document),
    )
    return pool, document


def _vectors(request: Document, document: ReplyDocument) -> Matrix:
    """(n, d): the dense vectors, or the sparse ones where there are none. Raises ValueError, also for a wrong guess."""
    source = document.source
    spans = [_span(match, request.vector) for match in document.matches]
    matrix = vectors_at(source, spans)
    if request.emptied and any(span is not None and document.text[span[0]] != _ARRAY for span in spans):
        raise ValueError(f"{request.vector} of a match is no array")
    if matrix.shape[1]:
        return matrix
    sparse = [_span(match, request.sparse) for match in document.matches]
    return sparse_matrix([None if span is None else source.cut(*span) for span in sparse])


def _span(match: Match, name: str | None) -> Span | None:
    member = None if name is None else match.members.get(name)
    return None if member is None else (member.value, member.end)


def _alone(request: Document, document: ReplyDocument) -> tuple[int, ...]:
    """The record that the search is by: it must not replace the records like it."""
    if not request.self_id:
        return ()
    rows = enumerate(document.matches)
    return tuple(row for row, match in rows if has_id(document.text, match, request.layout, request.self_id))
