"""Reading a Chroma reply: its columns, and the pool of each search in them.

What is not understood with certainty is malformed, never guessed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from vecsieve.adapters.chroma.request import DISTANCES, DOCUMENT_KEY, DOCUMENTS, EMBEDDINGS, METADATAS, Document
from vecsieve.adapters.contract import FIELD_BYTES, Allowance, MalformedReplyError, Needs, Pool, Search
from vecsieve.adapters.wire.json import (
    Member,
    Members,
    Span,
    check_members,
    elements,
    last_values,
    members,
    part,
    string,
    whole,
    without_surrogates,
)
from vecsieve.adapters.wire.json_vectors import Shortened, decode_matrix, guess_rows, set_aside
from vecsieve.adapters.wire.vectors import without_vector

# The columns of a Chroma reply: where each stands, and in it the cells of every search.
#
# A column is null, or an array of one array for each search, with one cell for each result; ``ids`` is always there. Spans
# are offsets into the text with harmless escapes; bytes a client gets are cut elsewhere, from the original.

IDS = "ids"
NAMES = ("ids", "embeddings", "documents", "uris", "metadatas", "distances")
# Servers before 0.6 wrote a column for what a data loader had loaded, always null over HTTP, and told under another name,
# in an order of their own, what was included.
UNUSED = "data"
ECHO, OLD_ECHO = "include", "included"

_NULL = b"null"
# A value whose grammar was checked is known by its first byte.
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
    """What one column holds for one search: the array, and its elements."""

    array: Span
    spans: tuple[Span, ...]


@dataclass(frozen=True, slots=True)
class Column:
    """A column that is not null. ``span``: all of it."""

    name: str
    span: Span
    cells: tuple[Cells, ...]


@dataclass(frozen=True, slots=True)
class Echo:
    """The list that repeats what was included: the array, its elements, and what they say."""

    array: Span
    spans: tuple[Span, ...]
    said: tuple[str, ...]


def read_columns(text: bytes, found: Members) -> dict[str, Column]:
    """The columns that are not null, in the order of the text. Raises ValueError for anything but a table."""
    unknown = found.keys() - {*NAMES, UNUSED, ECHO, OLD_ECHO}
    if unknown or IDS not in found:
        raise ValueError("members that are unknown, or no ids")
    unused = found.get(UNUSED)
    if unused is not None and not _is_null(text, unused):
        raise ValueError("a data column, of which nothing is known")
    columns = {name: _read_column(text, name, member) for name, member in found.items() if name in NAMES}
    present = {name: column for name, column in columns.items() if column is not None}
    shape = [len(cells.spans) for cells in present[IDS].cells] if IDS in present else None
    for name, column in present.items():
        if [len(cells.spans) for cells in column.cells] != shape:
            raise ValueError(f"{name} has other rows than ids")
    return present


def read_echo(text: bytes, found: Members, wanted: Sequence[str]) -> Echo | None:
    """The list that repeats what was included; None where there is none. Raises ValueError for one that is not ``wanted``."""
    names = [name for name in (ECHO, OLD_ECHO) if name in found]
    if not names:
        return None
    array = found[names[0]].value, found[names[0]].end
    spans = tuple(elements(text, array))
    said = tuple(string(text[start:end]) for start, end in spans)
    is_wanted = said == tuple(wanted) if names == [ECHO] else set(said) == set(wanted)
    if len(names) > 1 or not is_wanted:
        raise ValueError("it includes other columns than were asked for")
    return Echo(array, spans, said)


def _read_column(text: bytes, name: str, member: Member) -> Column | None:
    if _is_null(text, member):
        if name == IDS:
            raise ValueError("ids are null")
        return None
    span = member.value, member.end
    return Column(name, span, tuple(_cells(text, name, array) for array in elements(text, span)))


def _cells(text: bytes, name: str, array: Span) -> Cells:
    spans = tuple(elements(text, array))
    _check(text, spans, _STARTS[name], name)
    return Cells(array, spans)


def _check(text: bytes, spans: Sequence[Span], starts: bytes, name: str) -> None:
    for start, _ in spans:
        if text[start] not in starts:
            raise ValueError(f"{name}: no value of its kind at byte {start}")


def _is_null(text: bytes, member: Member) -> bool:
    return text[member.value : member.end] == _NULL


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplyDocument:
    """A parsed reply. Spans are offsets into the harmless text of ``source``; bytes are taken through ``source``.

    ``columns``: those that are not null, by name. ``echo``: the list that repeats what was included; None where there is none.
    """

    source: Shortened
    text: bytes
    columns: dict[str, Column]
    echo: Echo | None

    def cells(self, column: str, search: int) -> tuple[Span | None, ...]:
        """Where the values of one column stand for one search; None for null, and in a column that is null."""
        rows = self.columns[IDS].cells[search].spans
        if column not in self.columns:
            return (None,) * len(rows)
        spans = self.columns[column].cells[search].spans
        return tuple(None if self.text[start:end] == _NULL else (start, end) for start, end in spans)


def parse_reply(
    request: Document, searches: Sequence[Search], needs: Needs, body: bytes
) -> tuple[tuple[Pool, ...], ReplyDocument]:
    """Read a reply. Raises MalformedReplyError, nothing else."""
    spans = guess_rows(body, EMBEDDINGS)
    try:
        return _read(request, searches, needs, set_aside(body, spans))
    except ValueError as error:
        if not spans:
            raise MalformedReplyError(str(error)) from None
    try:  # something that was set aside may be no vector: an older server may write metadata first
        return _read(request, searches, needs, set_aside(body, []))
    except ValueError as error:
        raise MalformedReplyError(str(error)) from None


def _read(
    request: Document, searches: Sequence[Search], needs: Needs, source: Shortened
) -> tuple[tuple[Pool, ...], ReplyDocument]:
    text = without_surrogates(source.text)
    found = members(text, whole(text))
    columns = read_columns(text, found)
    if len(columns[IDS].cells) != len(searches):
        raise ValueError(f"{len(columns[IDS].cells)} lists of ids, wanted {len(searches)}")
    echo = read_echo(text, found, (*request.asked, *request.added))
    document = ReplyDocument(source=source, text=text, columns=columns, echo=echo)
    _all_in_place(document)
    if needs.payload_fields:
        check_members(text)
    return tuple(_pool(document, place, search, needs) for place, search in enumerate(searches)), document


def _all_in_place(document: ReplyDocument) -> None:
    """Raises ValueError when something that was set aside is no cell of the embeddings."""
    column = document.columns.get(EMBEDDINGS)
    cells = () if column is None else column.cells
    found = sum(document.source.aside(span) is not None for each in cells for span in each.spans)
    if found != len(document.source.spans):
        raise ValueError("something that was set aside is no embedding")


def _pool(document: ReplyDocument, place: int, search: Search, needs: Needs) -> Pool:
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
        ids=tuple(document.source.cut(*span) for span in document.columns[IDS].cells[place].spans),
        compared_by="" if unusable < len(vectors) else None,
        unusable=unusable,
    )


def _vectors(document: ReplyDocument, spans: Sequence[Span | None]) -> npt.NDArray[np.float32]:
    """(n, d), a row of NaN where there is none. Raises ValueError for a cell that is no array of numbers."""
    matrix, proven = decode_matrix([b"" if span is None else document.source.cut_value(span) for span in spans])
    if any(span is not None and not is_array for span, is_array in zip(spans, proven, strict=True)):
        raise ValueError("an embedding is no array of numbers")
    return matrix


def _fields(document: ReplyDocument, place: int, needs: Needs) -> tuple[tuple[bytes | None, ...], ...]:
    """Per candidate the raw JSON of each wanted key, None where absent; of the optional ones as far as the allowance goes.
    Raises ValueError for a key that decides about tenants and is there twice.
    """
    must, may, allowance = needs.payload_fields, needs.optional_fields, Allowance(FIELD_BYTES)
    texts = document.cells(DOCUMENTS, place)
    metadatas = document.cells(METADATAS, place) if any(name != DOCUMENT_KEY for name in (*must, *may)) else texts
    is_proven = document.text is not document.source.text
    rows = []
    for text, metadata in zip(texts, metadatas, strict=True):
        first = _spans(document, text, metadata, must) if must else ()
        values = tuple(_cut(document, span) for span in first)
        if is_proven:
            values += tuple(_within(document, span, allowance) for span in _spans(document, text, metadata, may))
        else:
            values += _last(document, text, metadata, may, allowance)
        rows.append(values)
    return tuple(rows)


def _spans(
    document: ReplyDocument, text: Span | None, metadata: Span | None, names: Sequence[str]
) -> tuple[Span | None, ...]:
    """Where the value of each key stands. Raises ValueError for a key that is there twice."""
    is_looked_into = metadata is not None and any(name != DOCUMENT_KEY for name in names)
    found = members(document.text, metadata) if is_looked_into and metadata is not None else {}
    return tuple(
        text if name == DOCUMENT_KEY else (found[name].value, found[name].end) if name in found else None
        for name in names
    )


def _last(
    document: ReplyDocument,
    text: Span | None,
    metadata: Span | None,
    names: tuple[str, ...],
    allowance: Allowance,
) -> tuple[bytes | None, ...]:
    """Of a repeated key the last value, in a fraction of the time. Only for a text in which no escape was changed."""
    keys = tuple(name for name in names if name != DOCUMENT_KEY)
    empty: tuple[bytes | None, ...] = (None,) * len(keys)
    whole = empty if metadata is None or not keys else last_values(part(document.text, metadata), keys, allowance)
    found = iter(whole)
    return tuple(_within(document, text, allowance) if name == DOCUMENT_KEY else next(found) for name in names)


def _within(document: ReplyDocument, span: Span | None, allowance: Allowance) -> bytes | None:
    return None if span is None or not allowance.covers(span[1] - span[0]) else _cut(document, span)


def _cut(document: ReplyDocument, span: Span | None) -> bytes | None:
    return None if span is None else document.source.cut(*span)
