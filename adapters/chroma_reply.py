"""Reading a Chroma reply: its columns, and the pool of each search in them.

What is not understood with certainty is Malformed, never guessed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from vecsieve.adapters.chroma_columns import IDS, Column, Echo, read_columns, read_echo
from vecsieve.adapters.chroma_request import DISTANCES, DOCUMENT_KEY, DOCUMENTS, EMBEDDINGS, METADATAS, Document
from vecsieve.adapters.chroma_space import is_cosine
from vecsieve.adapters.contract import Malformed, Needs, Pool, Search
from vecsieve.adapters.json_floats import decode_matrix
from vecsieve.adapters.json_spans import Span, check_members, last_values, members, part, whole, without_surrogates
from vecsieve.adapters.json_vectors import Shortened, guess_rows, set_aside
from vecsieve.adapters.vector_lengths import measured

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
    unusable, magnitude = measured(vectors)
    text = document.text
    distances = [
        float("nan") if span is None else float(text[span[0] : span[1]]) for span in document.cells(DISTANCES, place)
    ]
    scores = np.array(distances, dtype=np.float64)
    return Pool(
        scores=scores,
        vectors=vectors,
        magnitude=magnitude and not is_cosine(search.query, vectors, scores),
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
    """Per candidate the raw JSON of each wanted key, None where absent. Raises ValueError for a key that decides about tenants
    and is there twice.
    """
    names = (*needs.payload_fields, *needs.optional_fields)
    keys = tuple(name for name in names if name != DOCUMENT_KEY)
    texts = document.cells(DOCUMENTS, place)
    if not keys:
        return tuple(tuple(_cut(document, text) for _ in names) for text in texts)
    is_proven = bool(needs.payload_fields) or document.text is not document.source.text
    read = _proven if is_proven else _last
    rows = []
    for text, metadata in zip(texts, document.cells(METADATAS, place), strict=True):
        values = iter((None,) * len(keys) if metadata is None else read(document, metadata, keys))
        rows.append(tuple(_cut(document, text) if name == DOCUMENT_KEY else next(values) for name in names))
    return tuple(rows)


def _last(document: ReplyDocument, metadata: Span, keys: tuple[str, ...]) -> tuple[bytes | None, ...]:
    """Of a repeated key the last value, in a fraction of the time. Only for a text in which no escape was changed."""
    return last_values(part(document.text, metadata), keys)


def _proven(document: ReplyDocument, metadata: Span, keys: tuple[str, ...]) -> tuple[bytes | None, ...]:
    found = members(document.text, metadata)
    return tuple(_cut(document, (found[key].value, found[key].end) if key in found else None) for key in keys)


def _cut(document: ReplyDocument, span: Span | None) -> bytes | None:
    return None if span is None else document.source.cut(*span)
