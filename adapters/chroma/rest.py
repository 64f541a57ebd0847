"""Chroma over REST: parses a reply and cuts the client's answer from it; the adapter and its dialect.

Supported: query of version 2, and of version 1 (servers before 0.6). The answer has upstream's cells without the other rows; an added
column becomes null again, and its name is removed from the list of included ones. All other bytes are unchanged. Ambiguous replies are
malformed.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from http import HTTPStatus

import msgspec
import numpy as np
import numpy.typing as npt

from ..base import Keep, NotingAdapter, RestDialect, json_text
from ..contract import (
    FIELD_BYTES,
    Allowance,
    NativeAnswer,
    Needs,
    Operation,
    Pool,
    Search,
)
from ..wire.json import (
    Member,
    Members,
    Span,
    check_members,
    elements,
    members_of,
    string,
    whole,
    without_surrogates,
)
from ..wire.json_vectors import (
    Edit,
    Shortened,
    decode_matrix,
    edited,
    guess_rows,
    kept_inside,
    payload_values,
    read_aside,
)
from ..wire.vectors import without_vector
from . import request
from .request import DISTANCES, DOCUMENT_KEY, DOCUMENTS, EMBEDDINGS, METADATAS, Document

# A column is null, or an array with an array for each search, which has a cell for each result; ``ids`` is always present. Spans are offsets
# into the text without surrogate escapes; bytes are cut from the original.

IDS = "ids"
NAMES = ("ids", "embeddings", "documents", "uris", "metadatas", "distances")
# Servers before 0.6 write a data loader's column, always null over HTTP, and another name for the list of included columns, in another
# order.
UNUSED = "data"
ECHO, OLD_ECHO = "include", "included"

_NULL = b"null"
# The first byte shows the type of a value whose grammar was checked.
_STARTS = {
    "ids": b'"',
    "embeddings": b"[n",
    "documents": b'"n',
    "uris": b'"n',
    "metadatas": b"{n",
    "distances": b"-0123456789n",
}


@dataclass(frozen=True, slots=True)
class Cells:
    """One column of one search: the array, and its elements."""

    array: Span
    spans: tuple[Span, ...]


@dataclass(frozen=True, slots=True)
class Column:
    """A column that is not null. ``span``: of its value."""

    name: str
    span: Span
    cells: tuple[Cells, ...]


@dataclass(frozen=True, slots=True)
class Echo(Cells):
    """The list of included columns, and its values."""

    columns: tuple[str, ...]


def read_columns(text: bytes, members: Members) -> dict[str, Column]:
    """The columns that are not null, in the order of the text. Raises ValueError."""
    unknown = members.keys() - {*NAMES, UNUSED, ECHO, OLD_ECHO}
    if unknown or IDS not in members:
        raise ValueError("members that are unknown, or no ids")
    unused = members.get(UNUSED)
    if unused is not None and not _is_null(text, unused):
        raise ValueError("a data column, of which nothing is known")
    columns = {name: _read_column(text, name, member) for name, member in members.items() if name in NAMES}
    present = {name: column for name, column in columns.items() if column is not None}
    shape = [len(cells.spans) for cells in present[IDS].cells] if IDS in present else None
    for name, column in present.items():
        if [len(cells.spans) for cells in column.cells] != shape:
            raise ValueError(f"{name} has other rows than ids")
    return present


def read_echo(text: bytes, members: Members, expected: Sequence[str]) -> Echo | None:
    """The list of included columns; None if there is none. Raises ValueError for another list than ``expected``."""
    names = [name for name in (ECHO, OLD_ECHO) if name in members]
    if not names:
        return None
    array = members[names[0]].value, members[names[0]].end
    spans = tuple(elements(text, array))
    listed = tuple(string(text[start:end]) for start, end in spans)
    is_expected = listed == tuple(expected) if names == [ECHO] else set(listed) == set(expected)
    if len(names) > 1 or not is_expected:
        raise ValueError("the list of included columns is not the requested one")
    return Echo(array, spans, listed)


def _read_column(text: bytes, name: str, member: Member) -> Column | None:
    if _is_null(text, member):
        if name == IDS:
            raise ValueError("ids are null")
        return None
    span = member.value, member.end
    return Column(name, span, tuple(_cells(text, name, array) for array in elements(text, span)))


def _cells(text: bytes, name: str, array: Span) -> Cells:
    spans = tuple(elements(text, array))
    for start, _ in spans:
        if text[start] not in _STARTS[name]:
            raise ValueError(f"{name}: no value of its kind at byte {start}")
    return Cells(array, spans)


def _is_null(text: bytes, member: Member) -> bool:
    return text[member.value : member.end] == _NULL


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplyDocument:
    """A parsed reply. ``text``: that of ``source`` without surrogate escapes. ``columns``: those that are not null, by name. ``echo``: the
    list of included columns; None if there is none.
    """

    source: Shortened
    text: bytes
    columns: dict[str, Column]
    echo: Echo | None

    def cells(self, column: str, search: int) -> tuple[Span | None, ...]:
        """The spans of one column's values for one search; None for null, and for a column that is null."""
        rows = self.columns[IDS].cells[search].spans
        if column not in self.columns:
            return (None,) * len(rows)
        spans = self.columns[column].cells[search].spans
        return tuple(None if self.text[start:end] == _NULL else (start, end) for start, end in spans)


def _read(request: Document, needs: Needs, source: Shortened) -> tuple[tuple[Pool, ...], ReplyDocument]:
    text = without_surrogates(source.text)
    root = members_of(text, whole(text))
    columns = read_columns(text, root)
    if len(columns[IDS].cells) != request.searches:
        raise ValueError(f"{len(columns[IDS].cells)} lists of ids, wanted {request.searches}")
    echo = read_echo(text, root, (*request.requested, *request.added))
    document = ReplyDocument(source=source, text=text, columns=columns, echo=echo)
    _all_in_place(document)
    if needs.payload_fields:
        check_members(text)
    return tuple(_pool(document, place, needs) for place in range(request.searches)), document


def _all_in_place(document: ReplyDocument) -> None:
    """Raises ValueError if a span that was set aside is no cell of the embeddings."""
    column = document.columns.get(EMBEDDINGS)
    cells = () if column is None else column.cells
    vectors = sum(document.source.aside(span) is not None for cell in cells for span in cell.spans)
    if vectors != len(document.source.spans):
        raise ValueError("a span that was set aside is no embedding")


def _pool(document: ReplyDocument, place: int, needs: Needs) -> Pool:
    vectors = _vectors(document, document.cells(EMBEDDINGS, place))
    unusable = without_vector(vectors)
    text = document.text
    distances = [
        float("nan") if span is None else float(text[span[0] : span[1]]) for span in document.cells(DISTANCES, place)
    ]
    scores = np.array(distances, dtype=np.float64)
    return Pool(
        scores=scores,
        vectors=vectors,
        fields=_fields(document, place, needs),
        payloads=partial(_payloads, document, place),
        ids=tuple(document.source.cut(*span) for span in document.columns[IDS].cells[place].spans),
        compared_by="" if unusable < len(vectors) else None,
        unusable=unusable,
    )


def _vectors(document: ReplyDocument, spans: Sequence[Span | None]) -> npt.NDArray[np.float32]:
    """(n, d), NaN rows for None. Raises ValueError for a cell that is no array of numbers."""
    matrix, proven = decode_matrix([b"" if span is None else document.source.cut_value(span) for span in spans])
    if any(span is not None and not is_array for span, is_array in zip(spans, proven, strict=True)):
        raise ValueError("an embedding is no array of numbers")
    return matrix


def _fields(document: ReplyDocument, place: int, needs: Needs) -> tuple[tuple[bytes | None, ...], ...]:
    """Per candidate the raw JSON of each wanted key, None if absent; optional ones within the allowance. Raises ValueError for a repeated
    required key.
    """
    names, allowance = (needs.payload_fields, needs.optional_fields), Allowance(FIELD_BYTES)
    must, may = [tuple(name for name in listed if name != DOCUMENT_KEY) for listed in names]
    rows = []
    for text, metadata in zip(document.cells(DOCUMENTS, place), document.cells(METADATAS, place), strict=True):
        values = iter(payload_values(document.source, document.text, metadata, must, may, allowance))
        required = [_cut(document, text) if name == DOCUMENT_KEY else next(values) for name in names[0]]
        optional = [_within(document, text, allowance) if name == DOCUMENT_KEY else next(values) for name in names[1]]
        rows.append((*required, *optional))
    return tuple(rows)


def _payloads(document: ReplyDocument, place: int, rows: Sequence[int]) -> tuple[bytes | None, ...]:
    """The metadata, with the document under its key."""
    texts, metadatas = document.cells(DOCUMENTS, place), document.cells(METADATAS, place)
    return tuple([_together(_cut(document, texts[row]), _cut(document, metadatas[row])) for row in rows])


def _together(text: bytes | None, metadata: bytes | None) -> bytes | None:
    if text is None:
        return metadata
    inside = b"" if metadata is None else metadata.strip()[1:-1]
    return b'{"%s":%s%s%s}' % (DOCUMENT_KEY.encode(), text, b"," if inside.strip() else b"", inside)


def _within(document: ReplyDocument, span: Span | None, allowance: Allowance) -> bytes | None:
    return None if span is None or not allowance.covers(span[1] - span[0]) else _cut(document, span)


def _cut(document: ReplyDocument, span: Span | None) -> bytes | None:
    return None if span is None else document.source.cut(*span)


def _kept(reply: ReplyDocument, cells: Cells, kept: Sequence[int]) -> Edit:
    """The inside of an array, with the kept elements."""
    inside = kept_inside(reply.source, cells.array, cells.spans, kept, lambda _: [])
    return cells.array[0] + 1, cells.array[1] - 1, b"".join(inside)


class ChromaRest(NotingAdapter[Document, ReplyDocument]):
    request_type, reply_type = Document, ReplyDocument
    classify = staticmethod(request.classify)
    widen_request = staticmethod(request.widen)
    is_flat = True  # metadata has strings, numbers, booleans

    def read_reply(self, request: Document, needs: Needs, body: bytes) -> tuple[tuple[Pool, ...], ReplyDocument]:
        return read_aside(body, guess_rows(body, EMBEDDINGS), lambda source: _read(request, needs, source))

    def cut_reply(self, request: Document, reply: ReplyDocument, keep: Keep) -> bytes:
        """The client's answer: of search i the rows ``keep[i]`` in that order, in every column that the client selected."""
        rows = [kept.tolist() for kept in keep]
        edits: list[Edit] = []
        for column in reply.columns.values():
            if column.name in request.added:
                edits.append((*column.span, b"null"))
            else:
                edits += [_kept(reply, cells, kept) for cells, kept in zip(column.cells, rows, strict=True)]
        if reply.echo is not None:
            listed = [place for place, name in enumerate(reply.echo.columns) if name not in request.added]
            edits.append(_kept(reply, reply.echo, listed))
        return b"".join(edited(reply.source, (0, len(reply.text)), edits))

    def payloads(self, request: Document, text: bytes) -> tuple[tuple[Span | None, ...], ...]:
        """For each search the spans of the results' metadata, null included; None if the column is null. Raises ValueError."""
        columns = read_columns(text, members_of(text, whole(text)))
        if METADATAS in columns:
            return tuple(cells.spans for cells in columns[METADATAS].cells)
        return tuple((None,) * len(cells.spans) for cells in columns[IDS].cells)

    def read_request(self, _: Operation, body: bytes, needs: Needs) -> tuple[tuple[Search, ...], Document]:
        return request.parse(body, needs)


# HTTP status -> the name of the error.
_NAMES: Mapping[int, str] = {
    400: "InvalidArgumentError",
    401: "AuthorizationError",
    403: "AuthError",
    404: "NotFoundError",
    409: "UniqueConstraintError",
    429: "RateLimitError",
    500: "InternalError",
}
_OTHER = "ChromaError"

# `Quota exceeded: 'Number of results' exceeded quota limit for action 'Query': current usage of 500 exceeds limit of 300`, perhaps followed
# by more. Other quotas have the same wording and are not about the limit.
_REFUSED = re.compile(
    r"'Number of results' exceeded quota limit for action 'Query': current usage of \d+ exceeds limit of (\d{1,9})\b"
)


class _Error(msgspec.Struct):
    message: str


_DECODER = msgspec.json.Decoder(_Error)


class ChromaDialect(RestDialect):
    limit = _REFUSED

    def error(self, status: int, message: str, *, path: str = "") -> NativeAnswer:
        """An error with the name by which clients choose the exception to raise."""
        body = b'{"error":"%s","message":%s}' % (_NAMES.get(status, _OTHER).encode(), json_text(message))
        return NativeAnswer(status=status, content_type="application/json", body=body)

    def words(self, status: int, body: bytes) -> str:
        if status != HTTPStatus.UNPROCESSABLE_ENTITY:
            return ""
        try:
            return _DECODER.decode(body).message
        except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
            return ""
