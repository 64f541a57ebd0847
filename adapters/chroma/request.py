"""Chroma's queries: which requests they are, which requests alter collections or contain their names; parses and widens a query.

The server matches paths literally: a path with a doubled or trailing slash is unknown. Queries name a collection by its id alone; the
server ignores the tenant and the database in their paths. A request may have several query embeddings, each a search; all share
``n_results`` and ``include``. The client's bytes are spliced. The server ignores unknown members, but a newer one may know them: they make
a request unsupported.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import unquote_to_bytes

import msgspec
import numpy as np
import numpy.typing as npt

from ..contract import (
    SAFE_METHODS,
    Called,
    Needs,
    Operation,
    Reason,
    RequestHead,
    Search,
    Touched,
    Unsettled,
    UnsupportedError,
    may_be_json,
)
from ..wire.json import Members, Span, check_dimensions, splice, value_spans, whole
from ..wire.json_requests import integer, items_of, present, read_object, required, texts_of
from ..wire.json_vectors import Edit, decode_matrix
from ..wire.vectors import usable

BACKEND = "chroma"
QUERY = "query"

ID = r"[0-9A-Fa-f]{8}(?:-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}"
# Version 1, of servers before 0.6, has neither tenant nor database.
_QUERY = re.compile(rf"/api/(?:v2/tenants/([^/]+)/databases/([^/]+)|v1)/collections/({ID})/query")


def classify(head: RequestHead) -> Operation | None:
    """The ranked search of a request; None for any other. Never raises."""
    match = _QUERY.fullmatch(head.path)
    if head.method != "POST" or match is None or not may_be_json(head.content_type):
        return None
    before = scope(match[1], match[2])
    if before is None:
        return None
    identifier = match[3].lower()
    return Operation(backend=BACKEND, name=QUERY, collection=before + identifier, id=identifier)


def scope(tenant: str | None, database: str | None) -> str | None:
    """``tenant/database/``, decoded; "" if a path names neither; None for invalid UTF-8 and for segments of dots."""
    if tenant is None or database is None:
        return ""
    try:
        parts = [unquote_to_bytes(part).decode() for part in (tenant, database)]
    except UnicodeError:
        return None
    return None if {".", ".."} & set(parts) else "/".join([*parts, ""])


# Names. Queries have ids; the documents of collections have ids and names, with tenant and database.

_DATABASE = r"/api/v2/tenants/([^/]+)/databases/([^/]+)"
# create and list; get; by id; a copy under another name.
_DESCRIBING = re.compile(
    rf"(?:{_DATABASE}|/api/v1)/collections(?:/[^/]+(?:/fork)?|/by-id/[^/]+)?|/api/v2/collections/[^/]+"
)
_ONE = re.compile(rf"{_DATABASE}/collections/([^/]+)")
_ALL = re.compile(_DATABASE)
# Version 1 has tenant and database in the query string, which is not parsed; a reset removes everything.
_ANY = re.compile(r"/api/v1/(?:collections|databases)/[^/]+|/api/v[12]/reset")
_ID = re.compile(ID)
_CHANGING = frozenset({"PUT", "DELETE", "PATCH"})


class _Collection(msgspec.Struct):
    id: str
    name: str
    tenant: str
    database: str


_DECODER = msgspec.json.Decoder(_Collection | list[_Collection])


class ChromaNames:
    def describes(self, head: RequestHead) -> bool:
        """Whether the reply is a collection's document, or a list of them."""
        return head.method in {"GET", "POST"} and _DESCRIBING.fullmatch(head.path) is not None

    def described(self, body: bytes) -> tuple[Called, ...]:
        """The collections of a reply, in its order."""
        try:
            read = _DECODER.decode(body)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return ()
        documents = read if isinstance(read, list) else [read]
        return tuple(
            Called(id=document.id.lower(), name=f"{document.tenant}/{document.database}/{document.name}")
            for document in documents
            if _ID.fullmatch(document.id)
        )

    def unsettles(self, head: RequestHead) -> Unsettled | None:
        """For a renamed collection (by its id), a deleted one (by its name), a deleted database, or a reset."""
        if _ANY.fullmatch(head.path) and head.method in _CHANGING | {"POST"}:
            return Unsettled(scope="")
        if head.method not in _CHANGING:
            return None
        one, every = _ONE.fullmatch(head.path), _ALL.fullmatch(head.path)
        if one is not None:
            before, name = (
                scope(one[1], one[2]),
                one[3],
            )  # an id, or a name without characters that need percent-encoding
            if before is None:
                return Unsettled(scope="")
            return Unsettled(key=name.lower() if _ID.fullmatch(name) else before + name)
        return None if every is None else Unsettled(scope=scope(every[1], every[2]) or "")


# Reads of a collection's records, and writes that a later reply shows: values come with each reply, and its distances prove the vectors. All
# other requests may change collections, or are those of a newer server.
_HARMLESS = re.compile(
    rf"/api/(?:v2/tenants/[^/]+/databases/[^/]+|v1)/collections/{ID}/(?:query|search|get|count|add|upsert|update|delete)"
)


def reshaped(head: RequestHead) -> Touched | None:
    """Any collection for a request that may create, alter or delete one; else None. Never raises.

    Such requests are rare, and name a collection by its id or by its name.
    """
    is_harmless = head.method in SAFE_METHODS or _HARMLESS.fullmatch(head.path) is not None
    return None if is_harmless else Touched(collection=None)


# The largest fetch_k. A reply has all searches of a request as JSON. The server has no limit, but VecSieve holds 16 MiB of a reply by
# default: a request that would exceed it is not sent.

REPLY_BYTES = 12_000_000  # a quarter below the limit: records differ in size
NUMBER_BYTES = 12  # a float32 with its comma: 11.4 on average over 384 to 1,536 dimensions
RECORD_BYTES = 2048  # id, distance, a passage of text and its metadata


def most_candidates(*, searches: int, numbers: int) -> int:
    """The largest fetch_k per search, for this many searches with vectors of this many numbers."""
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
    """One request. ``opening``: the offset after its brace. ``limit``, ``include``: spans of these values;
    None if absent.

    ``searches``: their number. ``requested``: the columns that the client selects. ``added``: further ones.
    """

    body: bytes
    opening: int
    searches: int
    top_k: int
    limit: Span | None
    include: Span | None
    requested: tuple[str, ...]
    added: tuple[str, ...]


def parse(body: bytes, needs: Needs) -> tuple[tuple[Search, ...], Document]:
    span = whole(body)
    root = read_object(body, span, _KNOWN, reason=Reason.NOT_JSON)
    limit = present(body, root, "n_results")
    top_k = DEFAULT_RESULTS if limit is None else integer(body, limit)
    if top_k <= 1:
        raise UnsupportedError(Reason.SINGLE_RESULT if top_k else Reason.NOTHING_TO_DO)
    spans = value_spans(root)
    include = spans.get("include")
    requested = DEFAULT_INCLUDE if include is None else _columns(body, include)
    vectors = _embeddings(body, root, needs.bounds.searches)
    most = _most(body, root, most_candidates(searches=len(vectors), numbers=vectors.shape[1]), top_k)
    searches = tuple(Search(top_k=top_k, offset=0, pages=False, query=usable(vector), most=most) for vector in vectors)
    document = Document(
        body=body, opening=span[0] + 1, searches=len(searches), top_k=top_k,
        limit=spans.get("n_results"), include=include, requested=requested, added=tuple(column for column in _requested_columns(needs) if column not in requested),
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


def _edit(document: Document, name: str, span: Span | None, value: bytes) -> Edit:
    """Replace the client's value, or add a first member: a request has at least one other."""
    if span is not None:
        return (*span, value)
    return document.opening, document.opening, b'"%s":%s,' % (name.encode(), value)


def _included(document: Document) -> bytes:
    """The client's list with the added columns appended."""
    added = b",".join(b'"%s"' % name.encode() for name in document.added)
    if document.include is None:
        return b'["%s",%s]' % ('","'.join(document.requested).encode(), added)
    inside = document.body[document.include[0] : document.include[1] - 1]
    return inside + (b"," if document.requested else b"") + added + b"]"


def _requested_columns(needs: Needs) -> tuple[str, ...]:
    """The columns that the needs require."""
    fields = (*needs.payload_fields, *needs.optional_fields)
    columns = [EMBEDDINGS] if needs.vectors else []
    columns += [DISTANCES]
    columns += [DOCUMENTS] if DOCUMENT_KEY in fields else []
    columns += [METADATAS] if any(name != DOCUMENT_KEY for name in fields) else []
    return tuple(columns)


def _columns(body: bytes, span: Span) -> tuple[str, ...]:
    names = texts_of(body, span)
    if not set(names) <= _COLUMNS:  # the server refuses unknown ones
        raise UnsupportedError(Reason.UNSUPPORTED_FIELD)
    return names


def _embeddings(body: bytes, root: Members, searches: int) -> npt.NDArray[np.float32]:
    """(n, d) float32, at most ``searches`` rows; NaN rows for unusable vectors."""
    items = items_of(body, required(body, root, "query_embeddings"))
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


def _most(body: bytes, root: Members, fitting: int, top_k: int) -> int:
    """The most candidates: ``fitting``, or the number of records that the request names."""
    named = present(body, root, "ids")
    if named is None:
        return fitting
    count = len(items_of(body, named))
    if count <= top_k:
        raise UnsupportedError(Reason.NOTHING_TO_DO)
    return min(fitting, count)
