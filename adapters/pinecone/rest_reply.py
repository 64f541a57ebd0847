"""Reading a Pinecone search reply: its list, and the pool in it.

What is not understood with certainty is malformed, never guessed. Vectors are compared by direction whatever the index
measures: what a reply shows does not tell its metric, and two copies point the same way under each of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from vecsieve.adapters.contract import FIELD_BYTES, Allowance, MalformedReplyError, Needs, Pool
from vecsieve.adapters.pinecone.request import Document, Layout
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
from vecsieve.adapters.wire.json_vectors import Edit, Shortened, decode_matrix, guess_arrays, set_aside, sparse_matrix
from vecsieve.adapters.wire.vectors import without_vector

# The matches of a Pinecone reply: where each stands, its members, and the score, id and fields in them.
#
# Spans are offsets into the text with harmless escapes; bytes a client gets are cut elsewhere, from the original.

# A value whose grammar was checked is known by its first byte.
_SCORE_STARTS = b"-0123456789n"
_NULL = b"null"


class Match(NamedTuple):
    """One candidate. A NamedTuple for the same reason as `Member`: there is one for every candidate."""

    span: Span
    members: Members
    payload: Members


def array_of(text: bytes, path: Sequence[str]) -> Span:
    """The list that the members ``path`` lead to, each inside the one before. Raises ValueError."""
    span = whole(text)
    for name in path:
        member = members(text, span).get(name)
        if member is None:
            raise ValueError(f"no {name}")
        span = member.value, member.end
    return span


def read_matches(text: bytes, array: Span, layout: Layout) -> tuple[Match, ...]:
    """The matches of the list that fills ``array``, in order. Raises ValueError for anything but matches."""
    return tuple(_read_members(text, span, layout) for span in elements(text, array))


def score_of(text: bytes, match: Match, layout: Layout) -> float:
    """A score; NaN for null, which is how the service writes that a document has none."""
    member = match.members[layout.score]
    value = text[member.value : member.end]
    return float("nan") if value == _NULL else float(value)


def has_id(text: bytes, match: Match, layout: Layout, wanted: str) -> bool:
    """Whether a match is the one of this id."""
    member = match.members[layout.id]
    try:
        return string(text[member.value : member.end]) == wanted
    except ValueError:  # an id that is no Unicode text cannot have been asked for
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
    """A parsed reply. Spans are offsets into the harmless text of ``source``; bytes are taken through ``source``.

    ``edits``: what the answer says differently outside ``array``.
    """

    source: Shortened
    text: bytes
    array: Span
    matches: tuple[Match, ...]
    edits: tuple[Edit, ...] = ()


def parse_reply(request: Document, needs: Needs, body: bytes) -> tuple[Pool, ReplyDocument]:
    """Read a reply. Raises MalformedReplyError, nothing else."""
    spans = [] if request.vector is None else guess_arrays(body, request.vector)
    try:
        return _read(request, needs, set_aside(body, spans))
    except ValueError as error:
        if not spans:
            raise MalformedReplyError(str(error)) from None
    try:  # something that was set aside may be no vector: metadata can look like one
        return _read(request, needs, set_aside(body, []))
    except ValueError as error:
        raise MalformedReplyError(str(error)) from None


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
        fields=tuple(_fields(document, match, needs, allowance) for match in document.matches),
        ids=tuple(
            source.cut(match.members[layout.id].value, match.members[layout.id].end) for match in document.matches
        ),
        compared_by="" if unusable < len(vectors) else None,
        unusable=unusable,
        alone=_alone(request, document),
    )
    return pool, document


def _vectors(request: Document, document: ReplyDocument) -> Matrix:
    """(n, d): the dense vectors; where nobody has one, the sparse ones. Raises ValueError for a guess that was wrong."""
    source = document.source
    spans = [_span(match, request.vector) for match in document.matches]
    guessed = [span is not None and source.aside(span) is not None for span in spans]
    matrix, proven = decode_matrix([b"" if span is None else source.cut_value(span) for span in spans])
    if sum(guessed) != len(source.spans) or any(
        aside and not is_array for aside, is_array in zip(guessed, proven, strict=True)
    ):
        raise ValueError("something that was set aside is no vector of a match")
    if request.emptied and any(span is not None and document.text[span[0]] != _ARRAY for span in spans):
        raise ValueError(f"{request.vector} of a match is no array")
    if matrix.shape[1]:
        return matrix
    sparse = [_span(match, request.sparse) for match in document.matches]
    return sparse_matrix([None if span is None else source.cut(*span) for span in sparse])


def _span(match: Match, name: str | None) -> Span | None:
    member = None if name is None else match.members.get(name)
    return None if member is None else (member.value, member.end)


def _fields(document: ReplyDocument, match: Match, needs: Needs, allowance: Allowance) -> tuple[bytes | None, ...]:
    """The raw JSON of each wanted field, None where absent; of the optional ones as far as the allowance goes."""
    must = [match.payload.get(name) for name in needs.payload_fields]
    may = [match.payload.get(name) for name in needs.optional_fields]
    read = [*must, *(each if each is None or allowance.covers(each.end - each.value) else None for each in may)]
    return tuple(None if each is None else document.source.cut(each.value, each.end) for each in read)


def _alone(request: Document, document: ReplyDocument) -> tuple[int, ...]:
    """The record a search was made by: who looks for what is like it must not get it in place of what is like it."""
    if not request.self_id:
        return ()
    rows = enumerate(document.matches)
    return tuple(row for row, match in rows if has_id(document.text, match, request.layout, request.self_id))
