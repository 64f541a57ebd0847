"""Reading a Chroma reply: its columns, and the pool of each search in them.

What is not understood with certainty is Malformed, never guessed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from vecsieve.adapters.allowance import FIELD_BYTES, Allowance
from vecsieve.adapters.chroma_columns import IDS, Column, Echo, read_columns, read_echo
from vecsieve.adapters.chroma_request import DISTANCES, DOCUMENT_KEY, DOCUMENTS, EMBEDDINGS, METADATAS, Document
from vecsieve.adapters.contract import Malformed, Needs, Pool, Search
from vecsieve.adapters.json_floats import decode_matrix
from vecsieve.adapters.json_spans import Span, check_members, last_values, members, part, whole, without_surrogates
from vecsieve.adapters.json_vectors import Shortened, guess_rows, set_aside
from vecsieve.adapters.usable import without_vector

_NULL = b"null"


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
    """Read a reply. Raises Malformed, nothing else."""
    spans = guess_rows(body, EMBEDDINGS)
    try:
        return _read(request, searches, needs, set_aside(body, spans))
    except ValueError as error:
        if not spans:
            raise Malformed(str(error)) from None
    try:  # something that was set aside may be no vector: an older server may write metadata first
        return _read(request, searches, needs, set_aside(body, []))
    except ValueError as error:
        raise Malformed(str(error)) from None


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
