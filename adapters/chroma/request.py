"""Parses and widens a query.

A request may have several query embeddings, each a search; all share ``n_results`` and ``include``. The client's bytes are spliced. The
server ignores unknown members, but a newer one may know them: they make a request unsupported.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from vecsieve.adapters.contract import Needs, Reason, Search, UnsupportedError
from vecsieve.adapters.wire.json import Members, Span, check_dimensions, splice, whole
from vecsieve.adapters.wire.json_requests import integer, items_of, present, read_object, required, texts_of
from vecsieve.adapters.wire.json_vectors import Edit, decode_matrix
from vecsieve.adapters.wire.vectors import usable

# The largest fetch_k. A reply has all searches of a request as JSON. The server has no limit, but VecSieve holds 16 MiB of a reply by
# default: a request that would exceed it is not sent.

REPLY_BYTES = 12_000_000  # a quarter below the limit: records differ in size
NUMBER_BYTES = 12  # a float32 with its comma: 11.4 on average over 384 to 1,536 dimensions
RECORD_BYTES = 2048  # id, distance, a passage of text and its metadata


def most_candidates(*, searches: int, numbers: int) -> int:
    """The largest fetch_k of each of so many searches, with vectors of so many numbers."""
    return REPLY_BYTES // (max(searches, 1) * (RECORD_BYTES + NUMBER_BYTES * numbers))


DEFAULT_RESULTS = 10  # the server's
DEFAULT_INCLUDE = ("documents", "metadatas", "distances")  # the server's, in its order
EMBEDDINGS, DOCUMENTS, METADATAS, DISTANCES, URIS = "embeddings", "documents", "metadatas", "distances", "uris"
# The payload key of a record's text, as in Chroma's Search API; no metadata key begins with #.
DOCUMENT_KEY = "#document"

_COLUMNS = frozenset({EMBEDDINGS, DOCUMENTS, METADATAS, DISTANCES, URIS})
_KNOWN = frozenset({"ids", "query_embeddings", "n_results", "where", "where_document", "include"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """One request. ``opening``: the offset behind its brace. ``limit``, ``include``, ``named``: spans of these values, the last of ``ids``; None
    where they are absent.

    ``searches``: their number. ``asked``: the columns that the client selects. ``added``: further ones.
    """

    body: bytes
    opening: int
    searches: int
    top_k: int
    limit: Span | None
    include: Span | None
    named: Span | None
    asked: tuple[str, ...]
    added: tuple[str, ...]


def parse(body: bytes, needs: Needs) -> tuple[tuple[Search, ...], Document]:
    """Raises UnsupportedError, nothing else."""
    span = whole(body)
    found = read_object(body, span, _KNOWN, reason=Reason.NOT_JSON)
    limit = present(body, found, "n_results")
    top_k = DEFAULT_RESULTS if limit is None else integer(body, limit)
    if top_k <= 1:
        raise UnsupportedError(Reason.SINGLE_RESULT if top_k else Reason.NOTHING_TO_DO)
    include = found.get("include")
    asked = DEFAULT_INCLUDE if include is None else _columns(body, (include.value, include.end))
    vectors = _embeddings(body, found, needs.bounds.searches)
    most = _most(body, found, most_candidates(searches=len(vectors), numbers=vectors.shape[1]), top_k)
    searches = tuple(Search(top_k=top_k, offset=0, pages=False, query=usable(vector), most=most) for vector in vectors)
    document = Document(
        body=body, opening=span[0] + 1, searches=len(searches), top_k=top_k,
        limit=None if "n_results" not in found else (found["n_results"].value, found["n_results"].end),
        include=None if include is None else (include.value, include.end),
        named=None if "ids" not in found else (found["ids"].value, found["ids"].end),
        asked=asked, added=tuple(column for column in _wanted(needs) if column not in asked),
    )  # fmt: skip
    return searches, document


def widen(document: Document, fetch_k: Sequence[int]) -> bytes:
    """The request for the largest of ``fetch_k``, which all searches share, with the added columns; 0 leaves it unchanged."""
    count = max(fetch_k)
    if not count:
        return document.body
    edits: list[Edit] = []
    if count != document.top_k:
        edits.append(_edit(document, "n_results", document.limit, str(count).encode()))
    if document.added:
        edits.append(_edit(document, "include", document.include, _included(document)))
    return splice(document.body, edits)


def again(document: Document, ids: Sequence[bytes]) -> bytes:
    """The widened request for the records of these ids (JSON) alone. Servers before 1.0 ignore ``ids`` and return others."""
    edits = [
        _edit(document, "n_results", document.limit, b"%d" % len(ids)),
        _edit(document, "ids", document.named, b"[%s]" % b",".join(ids)),
    ]
    if document.added:
        edits.append(_edit(document, "include", document.include, _included(document)))
    return splice(document.body, edits)


def _edit(document: Document, name: str, span: Span | None, value: bytes) -> Edit:
    """A value in place of the client's, or as a new first member: a request has at least one other."""
    if span is not None:
        return (*span, value)
    return document.opening, document.opening, b'"%s":%s,' % (name.encode(), value)


def _included(document: Document) -> bytes:
    """The client's list with the added columns appended."""
    added = b",".join(b'"%s"' % name.encode() for name in document.added)
    if document.include is None:
        return b'["%s",%s]' % ('","'.join(document.asked).encode(), added)
    inside = document.body[document.include[0] : document.include[1] - 1]
    return inside + (b"," if document.asked else b"") + added + b"]"


def _wanted(needs: Needs) -> tuple[str, ...]:
    """The columns that the needs require."""
    fields = (*needs.payload_fields, *needs.optional_fields)
    wanted = [EMBEDDINGS] if needs.vectors else []
    wanted += [DISTANCES]
    wanted += [DOCUMENTS] if DOCUMENT_KEY in fields else []
    wanted += [METADATAS] if any(name != DOCUMENT_KEY for name in fields) else []
    return tuple(wanted)


def _columns(body: bytes, span: Span) -> tuple[str, ...]:
    names = texts_of(body, span)
    if not set(names) <= _COLUMNS:  # the server refuses unknown ones
        raise UnsupportedError(Reason.UNSUPPORTED_FIELD)
    return names


def _embeddings(body: bytes, found: Members, searches: int) -> npt.NDArray[np.float32]:
    """(n, d) float32, n being ``searches`` at most; NaN rows for unusable vectors."""
    items = items_of(body, required(body, found, "query_embeddings"))
    if not items:
        raise UnsupportedError(Reason.NOTHING_TO_DO)
    if len(items) > searches:
        raise UnsupportedError(Reason.TOO_MANY_SEARCHES)
    for start, end in items:
        check_dimensions(body, start, end)
    rows, proven = decode_matrix([body[start:end] for start, end in items])
    if not all(proven):
        raise UnsupportedError(Reason.AMBIGUOUS_FIELD)
    return rows


def _most(body: bytes, found: Members, fitting: int, top_k: int) -> int:
    """The most candidates: ``fitting``, or the number of records that the request names."""
    named = present(body, found, "ids")
    if named is None:
        return fitting
    count = len(items_of(body, named))
    if count <= top_k:
        raise UnsupportedError(Reason.NOTHING_TO_DO)
    return min(fitting, count)
