"""A Chroma query: what it asks for, and the same bytes asking for more.

One request may hold several query embeddings, each a search; all share one ``n_results`` and one ``include``. Rule of this
file: the client's bytes are spliced, never written anew. The server ignores members it does not know, but a newer one may
know what this adapter does not: a member outside the table leaves the request alone.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from vecsieve.adapters.contract import Needs, Reason, Search, UnsupportedError
from vecsieve.adapters.wire.json import (
    Members,
    RepeatedKeyError,
    Span,
    check_dimensions,
    elements,
    members,
    splice,
    string,
    whole,
)
from vecsieve.adapters.wire.json_vectors import Edit, decode_matrix

# How many candidates a reply can hold: Chroma answers all searches of a request in one JSON text, vectors as digits.
#
# The server has no limit of its own. What VecSieve holds of a reply has one (16 MiB by default): a request that is sure to
# pass it is not sent.

REPLY_BYTES = 12_000_000  # a quarter below what is held: records differ in size
NUMBER_BYTES = 12  # a float32 with its comma: 11.4 on average over 384 to 1,536 dimensions
RECORD_BYTES = 2048  # id, distance, a passage of text and its metadata


def most_candidates(*, searches: int, numbers: int) -> int:
    """How many candidates each of so many searches may ask for, when each has a vector of so many numbers."""
    return REPLY_BYTES // (max(searches, 1) * (RECORD_BYTES + NUMBER_BYTES * numbers))


DEFAULT_RESULTS = 10  # the server's
DEFAULT_INCLUDE = ("documents", "metadatas", "distances")  # the server's, in the order in which it tells them
EMBEDDINGS, DOCUMENTS, METADATAS, DISTANCES, URIS = "embeddings", "documents", "metadatas", "distances", "uris"
# The payload key that stands for the text of a record, as Chroma's own Search API spells it; no metadata key begins so.
DOCUMENT_KEY = "#document"

_COLUMNS = frozenset({EMBEDDINGS, DOCUMENTS, METADATAS, DISTANCES, URIS})
_KNOWN = frozenset({"ids", "query_embeddings", "n_results", "where", "where_document", "include"})
_INTEGER = re.compile(rb"0|[1-9][0-9]{0,8}")  # the server's are 32 bits wide


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """One request. ``opening``: right behind its brace. ``limit``, ``include``: where these values stand; None: nowhere.

    ``asked``: the columns the client gets. ``added``: those that are asked for by us alone.
    """

    body: bytes
    opening: int
    top_k: int
    limit: Span | None
    include: Span | None
    asked: tuple[str, ...]
    added: tuple[str, ...]


def parse(body: bytes, needs: Needs) -> tuple[tuple[Search, ...], Document]:
    """Read a request. Raises UnsupportedError, nothing else."""
    span = whole(body)
    found = _members(body, span)
    limit = _present(body, found, "n_results")
    top_k = DEFAULT_RESULTS if limit is None else _integer(body, limit)
    if top_k <= 1:
        raise UnsupportedError(Reason.SINGLE_RESULT if top_k else Reason.NOTHING_TO_DO)
    include = found.get("include")
    asked = DEFAULT_INCLUDE if include is None else _columns(body, (include.value, include.end))
    vectors = _embeddings(body, found, needs.bounds.searches)
    most = _most(body, found, most_candidates(searches=len(vectors), numbers=vectors.shape[1]), top_k)
    searches = tuple(Search(top_k=top_k, offset=0, pages=False, query=_usable(vector), most=most) for vector in vectors)
    document = Document(
        body=body, opening=span[0] + 1, top_k=top_k,
        limit=None if "n_results" not in found else (found["n_results"].value, found["n_results"].end),
        include=None if include is None else (include.value, include.end),
        asked=asked, added=tuple(column for column in _wanted(needs) if column not in asked),
    )  # fmt: skip
    return searches, document


def widen(document: Document, fetch_k: Sequence[int]) -> bytes:
    """The request that asks for as many candidates as the largest of ``fetch_k``, with what selection compares.

    All searches share one number. 0 for all of them leaves the request as it came.
    """
    count = max(fetch_k)
    if not count:
        return document.body
    edits: list[Edit] = []
    if count != document.top_k:
        edits.append(_edit(document, "n_results", document.limit, str(count).encode()))
    if document.added:
        edits.append(_edit(document, "include", document.include, _included(document)))
    return splice(document.body, edits)


def _edit(document: Document, name: str, span: Span | None, value: bytes) -> Edit:
    """A value in place of the client's own, or as a new first member: a request that is ours has another behind it."""
    if span is not None:
        return (*span, value)
    return document.opening, document.opening, b'"%s":%s,' % (name.encode(), value)


def _included(document: Document) -> bytes:
    """The client's list, in its bytes, with what is added behind."""
    added = b",".join(b'"%s"' % name.encode() for name in document.added)
    if document.include is None:
        return b'["%s",%s]' % ('","'.join(document.asked).encode(), added)
    inside = document.body[document.include[0] : document.include[1] - 1]
    return inside + (b"," if document.asked else b"") + added + b"]"


def _wanted(needs: Needs) -> tuple[str, ...]:
    """The columns that selection reads."""
    fields = (*needs.payload_fields, *needs.optional_fields)
    wanted = [EMBEDDINGS] if needs.vectors else []
    wanted += [DISTANCES]
    wanted += [DOCUMENTS] if DOCUMENT_KEY in fields else []
    wanted += [METADATAS] if any(name != DOCUMENT_KEY for name in fields) else []
    return tuple(wanted)


def _members(body: bytes, span: Span) -> Members:
    try:
        found = members(body, span)
    except RepeatedKeyError:
        raise UnsupportedError(Reason.AMBIGUOUS_FIELD) from None
    except ValueError:
        raise UnsupportedError(Reason.NOT_JSON) from None
    if not found.keys() <= _KNOWN:
        raise UnsupportedError(Reason.UNSUPPORTED_FIELD)
    return found


def _present(body: bytes, found: Members, name: str) -> Span | None:
    """Where a member's value stands; None when it is absent or null."""
    member = found.get(name)
    return None if member is None or body[member.value : member.end] == b"null" else (member.value, member.end)


def _integer(body: bytes, span: Span) -> int:
    value = body[span[0] : span[1]]
    if not _INTEGER.fullmatch(value):
        raise UnsupportedError(Reason.AMBIGUOUS_FIELD)
    return int(value)


def _items(body: bytes, span: Span) -> list[Span]:
    if body[span[0] : span[0] + 1] != b"[":
        raise UnsupportedError(Reason.AMBIGUOUS_FIELD)
    try:
        return elements(body, span)
    except ValueError:
        raise UnsupportedError(Reason.AMBIGUOUS_FIELD) from None


def _columns(body: bytes, span: Span) -> tuple[str, ...]:
    try:
        names = tuple(string(body[start:end]) for start, end in _items(body, span))
    except ValueError:
        raise UnsupportedError(Reason.AMBIGUOUS_FIELD) from None
    if not set(names) <= _COLUMNS:  # the server refuses what it does not know
        raise UnsupportedError(Reason.UNSUPPORTED_FIELD)
    return names


def _embeddings(body: bytes, found: Members, searches: int) -> npt.NDArray[np.float32]:
    """(n, d) float32, n being ``searches`` at most; a row of NaN for a vector that cannot be compared with."""
    span = _present(body, found, "query_embeddings")
    if span is None:
        raise UnsupportedError(Reason.AMBIGUOUS_FIELD)
    items = _items(body, span)
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
    """How many candidates can be had: of a search among named records never more than are named."""
    named = _present(body, found, "ids")
    if named is None:
        return fitting
    count = len(_items(body, named))
    if count <= top_k:
        raise UnsupportedError(Reason.NOTHING_TO_DO)
    return min(fitting, count)


def _usable(vector: npt.NDArray[np.float32]) -> npt.NDArray[np.float32] | None:
    """A query vector to compare with, or None."""
    return vector if len(vector) and bool(np.isfinite(vector).all()) else None
