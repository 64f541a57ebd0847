"""Pinecone over REST: a reply's matches and their pool, vectors fetched by id, the client's answer cut from a wider reply; the adapter.

Supported: query of every API version, records search since 2025-01, documents search of 2026-07, and fetch for the vectors of a records
search. The answer is upstream's bytes without the other matches and without what was added; around the matches only usage may change. A
search without values has ``"values":[]`` and no sparse values: clients fail on null.

Ambiguous replies are malformed. Vectors are compared by direction: the reply does not name the index's metric, and copies have the same
direction under each. Spans are offsets into the text without surrogate escapes; bytes are cut from the original.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import NamedTuple
from urllib.parse import quote, unquote_to_bytes

import numpy as np
import numpy.typing as npt

from ..base import Keep, NotingAdapter, typed
from ..contract import (
    FIELD_BYTES,
    Allowance,
    Lookup,
    LookupReply,
    MalformedReplyError,
    Needs,
    Operation,
    Pool,
    Reply,
    Search,
    SearchCall,
)
from ..wire.json import (
    Members,
    Span,
    check_members,
    cuts,
    elements,
    members_of,
    string,
    whole,
    without_surrogates,
)
from ..wire.json_vectors import (
    Edit,
    Row,
    Shortened,
    cut_list,
    decode_arrays,
    field_values,
    guess_arrays,
    objects_of,
    read_aside,
    sparse_matrix,
    stack,
    vectors_at,
)
from ..wire.vectors import without_vector
from . import calls, rest_request
from .rest_request import Document, Layout

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
        member = members_of(text, span).get(name)
        if member is None:
            raise ValueError(f"no {name}")
        span = member.value, member.end
    return span


def read_matches(text: bytes, array: Span, layout: Layout) -> tuple[Match, ...]:
    """The matches of the list that fills ``array``, in order. Raises ValueError."""
    return tuple(_read_members(text, span, layout) for span in elements(text, array))


def score_of(text: bytes, match: Match, layout: Layout) -> float:
    """A score; NaN for null, which the service writes for a document without one."""
    member = match.members[layout.score]
    value = text[member.value : member.end]
    return float("nan") if value == _NULL else float(value)


def has_id(text: bytes, match: Match, layout: Layout, expected: str) -> bool:
    member = match.members[layout.id]
    try:
        return string(text[member.value : member.end]) == expected
    except ValueError:  # invalid Unicode cannot be the id of a search
        return False


def _read_members(text: bytes, span: Span, layout: Layout) -> Match:
    members = members_of(text, span)
    if not {layout.id, layout.score} <= members.keys() or text[members[layout.id].value] != ord('"'):
        raise ValueError(f"no id or no score at byte {span[0]}")
    if text[members[layout.score].value] not in _SCORE_STARTS:
        raise ValueError(f"score at byte {members[layout.score].value} is no number")
    return Match(span, members, members if layout.payload is None else _payload(text, members, layout.payload))


def _payload(text: bytes, members: Members, name: str) -> Members:
    member = members.get(name)
    if member is None or text[member.value : member.end] == _NULL:
        return {}
    return members_of(text, member.span)


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
        payloads=partial(_payloads, request, document),
        ids=tuple(
            source.cut(match.members[layout.id].value, match.members[layout.id].end) for match in document.matches
        ),
        compared_by="" if unusable < len(vectors) else None,
        unusable=unusable,
        alone=_alone(request, document),
    )
    return pool, document


def _payloads(request: Document, document: ReplyDocument, rows: Sequence[int]) -> tuple[bytes, ...]:
    """The metadata, or the fields, of matches; without the vector of a document."""
    layout = request.layout
    aside = {layout.id, layout.score, request.vector, request.sparse} if layout.payload is None else ()
    return objects_of(document.source, [document.matches[row].payload for row in rows], aside)


def _vectors(request: Document, document: ReplyDocument) -> Matrix:
    """(n, d): the dense vectors, or the sparse ones if there are none. Raises ValueError, also for a wrong guess."""
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
    return None if member is None else member.span


def _alone(request: Document, document: ReplyDocument) -> tuple[int, ...]:
    """The record by which the search is made: it must not replace similar records."""
    if not request.self_id:
        return ()
    rows = enumerate(document.matches)
    return tuple(row for row, match in rows if has_id(document.text, match, request.layout, request.self_id))


# ``GET /vectors/fetch``: fetches the vectors of a records search, whose reply has none. Records deleted in the meantime are absent from
# the reply and not compared. Its metadata, which cannot be excluded, are not parsed.

PATH = "/vectors/fetch?"
TARGET_BYTES = 8000  # servers and gateways refuse request lines beyond 8 kB
MOST_IDS = 1000  # the service's limit
IDS_PER_UNIT = 10  # records fetched per read unit; a fetch costs at least one
MOST_DIGITS = 9  # read units, which have 32 bits


@dataclass(frozen=True, slots=True)
class Vectors:
    """Vectors by id: the dense ones as numbers, the sparse ones as JSON."""

    dense: Mapping[str, Row]
    sparse: Mapping[str, bytes]


def lookups(namespace: str, ids: Sequence[bytes], known: Collection[str]) -> tuple[Lookup, ...]:
    """The fewest requests for these ids without the known ones. ``namespace``: as in the search's path.

    None for fewer than two candidates. An id that does not fit into a request is left out.
    """
    if len(ids) < 2:
        return ()
    tail = f"&namespace={quote(unquote_to_bytes(namespace), safe='')}" if namespace else ""
    needed = [one for one in dict.fromkeys(filter(None, map(_text, ids))) if one not in known]
    return tuple(_lookup(chunk, tail) for chunk in chunks(needed, TARGET_BYTES - len(PATH) - len(tail), MOST_IDS))


def parse_lookup(lookup: Lookup, body: bytes) -> LookupReply:
    try:
        return read_aside(body, guess_arrays(body, "values"), lambda source: _read_lookup(lookup, source))
    except ValueError as error:
        raise MalformedReplyError(str(error)) from None


def joined(pool: Pool, results: Sequence[LookupReply]) -> Pool:
    """The pool with the dense vectors of ``results``, or with the sparse ones if there are none. Raises MalformedReplyError."""
    dense: dict[str, Row] = {}
    sparse: dict[str, bytes] = {}
    for result in results:
        if not isinstance(result.document, Vectors):
            raise TypeError("the lookup was read by another adapter")
        dense |= result.document.dense
        sparse |= result.document.sparse
    ids = [_text(raw) for raw in pool.ids]
    matrix = stack([dense.get(one) for one in ids])
    if not matrix.shape[1]:
        try:
            matrix = sparse_matrix([sparse.get(one) for one in ids])
        except ValueError as error:
            raise MalformedReplyError(str(error)) from None
    unusable = without_vector(matrix)
    return replace(pool, vectors=matrix, unusable=unusable, compared_by="" if unusable < pool.size else None)


def charged(document: ReplyDocument, read_units: int) -> ReplyDocument:
    """The document with ``read_units`` added to ``usage.read_units``; unchanged if that is no plain number."""
    text = document.text
    try:
        usage = members_of(text, whole(text))["usage"]
        span = members_of(text, usage.span)["read_units"].span
    except (KeyError, ValueError):  # ValueError: it is no object
        return document
    written = text[slice(*span)]
    if not read_units or not _is_count(written):
        return document
    return replace(document, edits=((*span, b"%d" % (int(written) + read_units)),))


def _text(raw: bytes) -> str:
    """An id; "" for invalid Unicode."""
    try:
        return string(raw)
    except ValueError:
        return ""


def chunks(ids: Iterable[str], room: int, most: int) -> Iterator[list[str]]:
    """The ids in runs of at most ``most`` that fit into ``room`` bytes of a target."""
    chunk: list[str] = []
    used = 0
    for one in ids:
        size = len(parameter(one)) + 1
        if size > room:
            continue
        if used + size > room or len(chunk) == most:
            yield chunk
            chunk, used = [], 0
        chunk.append(one)
        used += size
    if chunk:
        yield chunk


def _lookup(ids: Sequence[str], tail: str) -> Lookup:
    return Lookup(method="GET", target=PATH + "&".join(map(parameter, ids)) + tail, ids=tuple(ids))


def parameter(one: str) -> str:
    return "ids=" + quote(one, safe="")


def _read_lookup(lookup: Lookup, source: Shortened) -> LookupReply:
    # Surrogate escapes are not replaced: ids are compared.
    root = members_of(source.text, whole(source.text))
    if "vectors" not in root:
        raise ValueError("no vectors")
    entries = members_of(source.text, root["vectors"].span)
    records = {one: members_of(source.text, entry.span) for one, entry in entries.items()}
    dense, sparse = _rows(source, _values(source, records, "values")), _values(source, records, "sparseValues")
    requested = frozenset(lookup.ids)
    return LookupReply(
        read_units=_read_units(source, root, len(requested)),
        document=Vectors(
            dense={one: row for one, row in dense.items() if one in requested},
            sparse={one: source.cut(*span) for one, span in sparse.items() if one in requested},
        ),
    )


def _rows(source: Shortened, spans: Mapping[str, Span]) -> dict[str, Row]:
    """The non-empty vectors. Raises ValueError for an invalid vector, and for a wrong guess."""
    if sum(span in source.replaced for span in spans.values()) != len(source.spans):
        raise ValueError("a span that was set aside is no vector of a record")
    rows: dict[str, Row] = {}
    for one, row in zip(spans, decode_arrays([source.cut_value(span) for span in spans.values()]), strict=True):
        if row is None:
            raise ValueError("values of a record are no array of numbers")
        if len(row):
            rows[one] = row
    return rows


def _values(source: Shortened, records: Mapping[str, Members], name: str) -> dict[str, Span]:
    """The span of this member in each record that has it."""
    spans = {one: record[name].span for one, record in records.items() if name in record}
    return {one: span for one, span in spans.items() if source.text[slice(*span)] != b"null"}


def _read_units(source: Shortened, root: Members, ids: int) -> int:
    """The read units charged, from the reply, or from the price list."""
    usage = root.get("usage")
    if usage is not None and source.text[usage.value : usage.value + 1] == b"{":
        units = members_of(source.text, usage.span).get("readUnits")
        if units is not None and _is_count(source.text[slice(*units.span)]):
            return int(source.text[slice(*units.span)])
    return max(1, -(-ids // IDS_PER_UNIT))


def _is_count(value: bytes) -> bool:
    return value.isdigit() and len(value) <= MOST_DIGITS


def _edits(request: Document, match: Match) -> list[Edit]:
    """The edits of a match, disjoint, in any order."""
    edits: list[Edit] = []
    bare = {request.layout.payload or ""} if request.is_bare else set[str]()
    if request.added:
        edits += [(start, end, b"") for start, end in cuts(match.payload, request.added)]
    if request.emptied:
        values = None if request.vector is None else match.members.get(request.vector)
        edits += [] if values is None else [(values.value, values.end, b"[]")]
        edits += [(start, end, b"") for start, end in cuts(match.members, {request.sparse or ""} | bare)]
    elif bare:
        edits += [(start, end, b"") for start, end in cuts(match.members, bare)]
    return edits


_PARSERS: Mapping[str, Callable[[bytes, Span, Needs], tuple[Search, Document]]] = {
    calls.QUERY: rest_request.parse_query,
    calls.RECORDS_SEARCH: rest_request.parse_records,
    calls.DOCUMENTS_SEARCH: rest_request.parse_documents,
}


class PineconeRest(NotingAdapter[Document, ReplyDocument]):
    request_type, reply_type = Document, ReplyDocument
    classify = staticmethod(calls.classify)
    widen_request = staticmethod(rest_request.widen)
    read_reply = staticmethod(parse_reply)
    is_flat = True  # metadata has strings, numbers, booleans, lists of strings
    parse_lookup = staticmethod(parse_lookup)

    def lookups(self, call: SearchCall, reply: Reply, known: Collection[str]) -> tuple[Lookup, ...]:
        """Requests for the vectors of a records search; none for other searches."""
        if not call.needs.lookups or call.operation.name != calls.RECORDS_SEARCH:
            return ()
        return lookups(call.operation.partition, reply.pools[0].ids, known)

    def joined(self, reply: Reply, replies: Sequence[LookupReply]) -> Reply:
        return replace(reply, pools=(joined(reply.pools[0], replies),))

    def charged(self, reply: Reply, read_units: int) -> Reply:
        return replace(reply, document=charged(typed(reply.document, ReplyDocument), read_units))

    def payloads(self, request: Document, text: bytes) -> tuple[tuple[Span | None, ...], ...]:
        """The spans of the matches' metadata or fields, null included; None for a match without. Raises ValueError."""
        layout = request.layout
        spans = elements(text, array_of(text, layout.path))
        if layout.payload is None:
            return (tuple(spans),)
        metadata = [members_of(text, span).get(layout.payload) for span in spans]
        return (tuple(None if member is None else member.span for member in metadata),)

    def cut_reply(self, request: Document, reply: ReplyDocument, keep: Keep) -> bytes:
        """The client's answer: the matches ``keep[0]`` in that order."""
        (kept,) = keep

        def edits(index: int) -> list[Edit]:
            return _edits(request, reply.matches[index])

        spans = [match.span for match in reply.matches]
        return cut_list(reply.source, len(reply.text), reply.array, spans, kept.tolist(), edits, reply.edits)

    def read_request(self, operation: Operation, body: bytes, needs: Needs) -> tuple[Search, Document]:
        search, document = _PARSERS[operation.name](body, whole(body), needs)
        if operation.partition:  # a namespace in the path: ids are unique in it alone
            search = replace(search, partition=operation.partition.encode("utf-8", "surrogateescape"))
        return search, document
