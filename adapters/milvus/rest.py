"""Milvus over REST: the adapter, composed of the files beside it.

Spoken: the search of version 1, and of version 2 from its description, by one dense vector. Everything else, hybrid searches
among it, is passed through.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from vecsieve.adapters.contract import (
    FIELD_BYTES,
    Allowance,
    Bounds,
    DeclinedError,
    MalformedReplyError,
    Needs,
    Operation,
    Pool,
    Question,
    Reply,
    RequestHead,
    SearchCall,
)
from vecsieve.adapters.milvus import calls, rest_request, schema
from vecsieve.adapters.milvus.calls import VERSION_1, VERSION_2
from vecsieve.adapters.milvus.rest_request import Document
from vecsieve.adapters.milvus.schema import Schema
from vecsieve.adapters.wire import json as wire_json
from vecsieve.adapters.wire.json import Members, Span, check_members, cuts, elements, members, whole, without_surrogates
from vecsieve.adapters.wire.json_vectors import (
    Edit,
    Shortened,
    decode_matrix,
    edited,
    guess_arrays,
    kept_inside,
    set_aside,
)
from vecsieve.adapters.wire.vectors import without_vector

# A Milvus reply over REST: where its rows stand, the pool in them, and the client's answer cut from it.
#
# An error comes with status 200, as a code that is not the version's own for success. What is not understood with certainty
# is malformed.

_SUCCESS: Mapping[str, bytes] = {VERSION_1: b"200", VERSION_2: b"0"}
_SCORE = "distance"
_COUNTS = "topks"
_RECALLS = "recalls"  # one a query
_OPENINGS = b"[{"
_DIGITS = b"-0123456789"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplyDocument:
    """A parsed reply. Spans are offsets into the harmless text of ``source``. ``counts``: where the number of rows is said."""

    source: Shortened
    length: int
    array: Span
    spans: tuple[Span, ...]
    rows: tuple[Members, ...]
    counts: Span | None


def parse_reply(request: Document, needs: Needs, body: bytes) -> tuple[Pool, ReplyDocument]:
    """Read a reply. Raises MalformedReplyError, nothing else."""
    spans = guess_arrays(body, request.vector)
    try:
        return _read(request, needs, set_aside(body, spans))
    except ValueError as error:
        if not spans:
            raise MalformedReplyError(str(error)) from None
    try:  # something that was set aside may be no vector: a JSON field can look like one
        return _read(request, needs, set_aside(body, []))
    except ValueError as error:
        raise MalformedReplyError(str(error)) from None


def trim(request: Document, reply: ReplyDocument, keep: Sequence[npt.NDArray[np.intp]]) -> bytes:
    """The client's answer: the rows ``keep[0]`` in that order, without what the request added."""
    (kept,) = keep
    added = frozenset(request.chosen.added)

    def edits(index: int) -> list[Edit]:
        return [(start, end, b"") for start, end in cuts(reply.rows[index], added)]

    inside = kept_inside(reply.source, reply.array, reply.spans, kept.tolist(), edits)
    said: list[Edit] = [] if reply.counts is None else [(*reply.counts, b"%d" % len(kept))]
    start, end = reply.array[0] + 1, reply.array[1] - 1
    before = edited(reply.source, (0, start), [edit for edit in said if edit[0] < start])
    behind = edited(reply.source, (end, reply.length), [edit for edit in said if edit[0] >= end])
    return b"".join([*before, *inside, *behind])


def _read(request: Document, needs: Needs, source: Shortened) -> tuple[Pool, ReplyDocument]:
    text = without_surrogates(source.text)
    check_members(text)
    root = members(text, whole(text))
    _check_code(request, text, root)
    if "data" not in root or text[root["data"].value : root["data"].value + 1] != b"[":
        raise ValueError("no list of rows")
    array = root["data"].value, root["data"].end
    spans = tuple(elements(text, array))
    rows = tuple(members(text, span) for span in spans)
    document = ReplyDocument(
        source=source, length=len(text), array=array, spans=spans, rows=rows, counts=_counts(text, root, len(rows))
    )
    vectors = _vectors(request, document, text)
    unusable = without_vector(vectors)
    allowance = Allowance(FIELD_BYTES)
    pool = Pool(
        scores=np.array([_score(text, row) for row in rows], dtype=np.float64),
        vectors=vectors,
        fields=tuple(_fields(source, row, needs, allowance) for row in rows),
        compared_by=request.vector if unusable < len(rows) else None,
        unusable=unusable,
    )
    return pool, document


def _check_code(request: Document, text: bytes, root: Members) -> None:
    """Raises DeclinedError where another code than success is said, ValueError where none is."""
    code = b"" if "code" not in root else text[root["code"].value : root["code"].end]
    if not code.isdigit():
        raise ValueError("no code")
    if code != _SUCCESS[request.version]:
        said = root.get("message")
        raise DeclinedError(int(code[:9]), b"" if said is None else text[said.value : said.end])


def _counts(text: bytes, root: Members, rows: int) -> Span | None:
    """Where the one number of rows stands; None where it is not said. Raises ValueError for other lists and objects."""
    for name, member in root.items():
        if text[member.value] in _OPENINGS and name not in {"data", _COUNTS, _RECALLS}:
            raise ValueError(f"the member at byte {member.key} may have a part for each row")
    if _COUNTS not in root:
        return None
    inner = elements(text, (root[_COUNTS].value, root[_COUNTS].end))
    if len(inner) != 1 or text[slice(*inner[0])] != b"%d" % rows:
        raise ValueError(f"topks is not the number of {rows} rows")
    return inner[0]


def _score(text: bytes, row: Members) -> float:
    member = row.get(_SCORE)
    if member is None or text[member.value] not in _DIGITS:
        raise ValueError("no distance in a row")
    return float(text[member.value : member.end])


def _vectors(request: Document, document: ReplyDocument, text: bytes) -> npt.NDArray[np.float32]:
    """(n, d), where every row has one. Raises ValueError for a guess that was wrong."""
    found = [row.get(request.vector) for row in document.rows]
    spans = [None if member is None else (member.value, member.end) for member in found]
    if any(span is None or text[span[0]] not in b"[n" for span in spans):
        raise ValueError(f"{spans.count(None)} rows have no vector, or one that is no list")
    guessed = [span is not None and document.source.aside(span) is not None for span in spans]
    matrix, proven = decode_matrix([b"" if span is None else document.source.cut_value(span) for span in spans])
    if sum(guessed) != len(document.source.spans) or not all(
        is_array for aside, is_array in zip(guessed, proven, strict=True) if aside
    ):
        raise ValueError("something that was set aside is no vector of a row")
    return matrix


def _fields(source: Shortened, row: Members, needs: Needs, allowance: Allowance) -> tuple[bytes | None, ...]:
    """The raw JSON of each wanted field, None where absent; of the optional ones as far as the allowance goes."""
    must = [row.get(name) for name in needs.payload_fields]
    may = [row.get(name) for name in needs.optional_fields]
    read = [*must, *(each if each is None or allowance.covers(each.end - each.value) else None for each in may)]
    return tuple(None if each is None else source.cut(each.value, each.end) for each in read)


class MilvusRest:
    """The six verbs, and the two of the first step. Holds nothing: one instance serves any number of callers."""

    def classify(self, head: RequestHead) -> Operation | None:
        """Name the ranked search, or None. Total."""
        return calls.classify_rest(head)

    def check_size(self, operation: Operation, body: bytes, bounds: Bounds) -> None:
        """Count the parts of a body. Raises UnsupportedError where there are too many, nothing else."""
        wire_json.check_size(body, bounds)

    def parse_request(self, operation: Operation, body: bytes, needs: Needs) -> SearchCall:
        """Read what the client wants. Raises UnsupportedError, nothing else."""
        return rest_request.parse_request(operation, body, needs)

    def widen(self, call: SearchCall, fetch_k: Sequence[int]) -> bytes:
        """The client's bytes, asking for ``fetch_k[0]`` candidates with the fields that are compared."""
        return rest_request.widen(_request(call), fetch_k)

    def parse_reply(self, call: SearchCall, body: bytes) -> Reply:
        """Read a successful reply to a widened request. Raises MalformedReplyError, nothing else."""
        pool, document = parse_reply(_request(call), call.needs, body)
        return Reply(pools=(pool,), document=document)

    def trim(self, call: SearchCall, reply: Reply, keep: Sequence[npt.NDArray[np.intp]]) -> bytes:
        """The native answer: kept rows are upstream's own bytes, what was added is gone."""
        if not isinstance(reply.document, ReplyDocument):
            raise TypeError("the reply was parsed by another adapter")
        return trim(_request(call), reply.document, keep)

    def question(self, operation: Operation, body: bytes) -> Question | None:
        """What describes the collection of a search. Total."""
        return rest_request.question(operation.partition, body)

    def told(self, body: bytes) -> Schema:
        """Read a description. Raises MalformedReplyError, nothing else."""
        return schema.read_rest_description(body)


def _request(call: SearchCall) -> Document:
    if not isinstance(call.document, Document):
        raise TypeError("the call was parsed by another adapter")
    return call.document
