"""Milvus over REST: parses and widens a search, parses its reply, cuts the client's answer.

Supported: the search of version 1, and of version 2 from its documentation, by one dense vector. Go ignores the case of names and unknown
names: an unknown member makes a search unsupported. An error has status 200 and a code other than the version's code of success.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple
from urllib.parse import urlencode

import numpy as np
import numpy.typing as npt

from ..base import Keep, check_page
from ..contract import (
    FIELD_BYTES,
    Allowance,
    DeclinedError,
    Needs,
    Operation,
    Pool,
    Question,
    Reason,
    Search,
    UnsupportedError,
)
from ..wire.json import (
    Members,
    Span,
    check_members,
    cuts,
    elements,
    members_of,
    splice,
    whole,
    without_surrogates,
)
from ..wire.json_requests import (
    integer,
    items_of,
    present,
    read_object,
    required,
    text_of,
    texts_of,
    vector_of,
)
from ..wire.json_vectors import (
    Edit,
    Shortened,
    cut_list,
    field_values,
    guess_arrays,
    objects_of,
    read_aside,
    vectors_at,
)
from ..wire.vectors import usable, without_vector
from .calls import VERSION_1, VERSION_2, place
from .search import (
    LARGEST_WINDOW,
    Chosen,
    bound,
    choose,
    compared,
    most,
    read_inner,
    schema_of,
)


class _Version(NamedTuple):
    """The members of one version: ``known`` ones, and those of groups and functions, ``chosen``. ``query``: the name of the vector."""

    known: tuple[str, ...]
    chosen: tuple[str, ...]
    query: str


_BOTH = ("dbName", "collectionName", "filter", "limit", "offset", "outputFields")
_VERSIONS: Mapping[str, _Version] = {
    VERSION_1: _Version((*_BOTH, "vector", "params"), (), "vector"),
    VERSION_2: _Version(
        (*_BOTH, "data", "annsField", "partitionNames", "searchParams", "consistencyLevel", "exprParams",
         "groupingField", "groupSize", "strictGroupSize", "functionScore"),
        ("groupingField", "groupSize", "strictGroupSize", "functionScore"),
        "data",
    ),
}  # fmt: skip
# Parameters beside the index's own.
_SEARCH_PARAMS = ("metricType", "params")


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """A parsed request. ``limit``, ``offset``, ``listed``: spans of those values; None if absent. ``end``: of the last member.
    ``is_part``: of a hybrid search: its reply has the numbers that the database fuses, and sortable ids.
    """

    body: bytes
    version: str
    limit: Span
    offset: Span | None
    listed: Span | None
    top_k: int
    skipped: int
    end: int
    vector: str
    chosen: Chosen
    is_part: bool = False


def read_request(operation: Operation, body: bytes, needs: Needs) -> tuple[Search, Document]:
    version = _VERSIONS[operation.partition]
    span = whole(body)
    root = read_object(body, span, version.known, reason=Reason.NOT_JSON)
    if any(present(body, root, name) for name in version.chosen):
        raise UnsupportedError(Reason.ORDERING_CHOSEN)
    limit, offset = required(body, root, "limit"), present(body, root, "offset")
    top_k, skipped = integer(body, limit), 0 if offset is None else integer(body, offset)
    check_page(top_k, skipped)
    query = _query(body, root, version)
    vector = compared(text_of(body, present(body, root, "annsField")), needs)
    listed, chosen = outputs(body, root, vector, needs)
    search = Search(
        top_k=top_k,
        offset=skipped,
        pages=offset is not None,
        query=query,
        partition=partition_of(body, root),
        most=most(_bound(body, root), dimension=0 if query is None else len(query), queries=1),
    )
    document = Document(
        body=body, version=operation.partition, limit=limit, offset=offset, listed=listed,
        top_k=top_k, skipped=skipped, end=span[1] - 1, vector=vector, chosen=chosen,
    )  # fmt: skip
    return search, document


def widen(document: Document, fetch_k: Sequence[int]) -> bytes:
    """The request for ``fetch_k[0]`` candidates, with the fields that were chosen."""
    (count,) = fetch_k
    if not count:
        return document.body
    edits: list[Edit] = []
    if count != document.top_k:
        edits.append((*document.limit, b"%d" % count))
    if document.offset is not None and document.skipped:
        edits.append((*document.offset, b"0"))
    added = b",".join(json.dumps(name, ensure_ascii=False).encode() for name in document.chosen.added)
    if added and document.listed is not None:
        at = document.listed[1] - 1
        edits.append((at, at, (b"," if document.chosen.listed else b"") + added))
    elif added:
        edits.append((document.end, document.end, b',"outputFields":[' + added + b"]"))
    return splice(document.body, edits)


def collections_in(body: bytes) -> frozenset[str]:
    """The name of the collection, after the database's. Never raises."""
    try:
        root = members_of(body, whole(body))
        database, name = (text_of(body, present(body, root, key)) for key in ("dbName", "collectionName"))
    except (ValueError, IndexError, UnsupportedError):
        return frozenset()
    return frozenset([place(database, name)] if name else [])


def describe(operation: Operation, body: bytes) -> Question | None:
    """The request for the description of the collection; None if the search names none. Never raises."""
    try:
        root = members_of(body, whole(body))
        names = {name: text_of(body, present(body, root, name)) for name in ("dbName", "collectionName")}
    except (ValueError, IndexError, UnsupportedError):
        return None
    named = {name: value for name, value in names.items() if value}
    if "collectionName" not in named:
        return None
    if operation.partition == VERSION_1:
        return Question(method="GET", target=f"/v1/vector/collections/describe?{urlencode(named)}")
    return Question(method="POST", target="/v2/vectordb/collections/describe", body=json.dumps(named).encode())


def _query(body: bytes, root: Members, version: _Version) -> npt.NDArray[np.float32] | None:
    """The query vector. Raises UnsupportedError for several, for none, and for text."""
    span = required(body, root, version.query)
    if version.query == "data":
        items = items_of(body, span)
        if len(items) != 1:  # nothing separates their rows in the reply
            raise UnsupportedError(Reason.UNSUPPORTED_FIELD)
        span = items[0]
    if body[span[0] : span[0] + 1] != b"[":
        raise UnsupportedError(Reason.NOTHING_TO_DO)
    return usable(vector_of(body, span))


def outputs(body: bytes, root: Members, vector: str, needs: Needs) -> tuple[Span | None, Chosen]:
    """The span of the client's list of fields, and what it becomes. Raises UnsupportedError."""
    listed = present(body, root, "outputFields")
    chosen = choose(() if listed is None else texts_of(body, listed), vector, needs, keys_apart=True)
    if listed is None and "outputFields" in root and chosen.added:  # null: the member cannot be repeated
        raise UnsupportedError(Reason.PAYLOAD_SELECTOR)
    return listed, chosen


def partition_of(body: bytes, root: Members) -> bytes:
    """The names of database, collection and partitions in the client's spelling, because the operation names no collection."""
    spans = [present(body, root, name) for name in ("dbName", "collectionName", "partitionNames")]
    return b"\0".join(b"" if span is None else body[slice(*span)] for span in spans)


def _bound(body: bytes, root: Members) -> int:
    """The most candidates that the parameters allow."""
    inner: Span | None = present(body, root, "params")
    outer = present(body, root, "searchParams")
    if outer is not None:
        inner = present(body, read_object(body, outer, _SEARCH_PARAMS), "params")
    return LARGEST_WINDOW if inner is None else bound(body, read_inner(body, inner))


_SUCCESS: Mapping[str, bytes] = {VERSION_1: b"200", VERSION_2: b"0"}
SCORE = "distance"
_COUNTS = "topks"
RECALLS = "recalls"  # one a query
_OPENINGS = b"[{"
_DIGITS = b"-0123456789"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplyDocument:
    """A parsed reply. Spans are offsets into ``text``, that of ``source`` without surrogate escapes. ``counts``: of the number of rows."""

    source: Shortened
    text: bytes
    root: Members
    array: Span
    spans: tuple[Span, ...]
    rows: tuple[Members, ...]
    counts: Span | None


def parse_reply(request: Document, needs: Needs, body: bytes) -> tuple[Pool, ReplyDocument]:
    """Raises ValueError, and DeclinedError."""
    return read_aside(body, guess_arrays(body, request.vector), lambda source: _read(request, needs, source))


def trim(request: Document, reply: ReplyDocument, keep: Keep) -> bytes:
    """The client's answer: the rows ``keep[0]`` in that order, without what the request added."""
    (kept,) = keep
    added = frozenset(request.chosen.added)

    def edits(index: int) -> list[Edit]:
        return [(start, end, b"") for start, end in cuts(reply.rows[index], added)]

    counts: list[Edit] = [] if reply.counts is None else [(*reply.counts, b"%d" % len(kept))]
    return cut_list(reply.source, len(reply.text), reply.array, reply.spans, kept.tolist(), edits, counts)


def payloads_of(request: Document, text: bytes) -> tuple[tuple[Span, ...], ...]:
    """The rows: fields are their members. Raises ValueError."""
    data = members_of(text, whole(text))["data"]
    return (tuple(elements(text, data.span)),)


def _read(request: Document, needs: Needs, source: Shortened) -> tuple[Pool, ReplyDocument]:
    text = without_surrogates(source.text)
    check_members(text)
    root = members_of(text, whole(text))
    _check_code(request, text, root)
    if "data" not in root or text[root["data"].value : root["data"].value + 1] != b"[":
        raise ValueError("no list of rows")
    array = root["data"].value, root["data"].end
    spans = tuple(elements(text, array))
    rows = tuple(members_of(text, span) for span in spans)
    document = ReplyDocument(
        source=source, text=text, root=root, array=array, spans=spans, rows=rows, counts=_counts(text, root, len(rows))
    )
    vectors = _vectors(request, needs, document, text)
    unusable = without_vector(vectors)
    allowance, schema = Allowance(FIELD_BYTES), schema_of(needs)
    aside = {SCORE, request.vector, None if schema is None else schema.primary}
    pool = Pool(
        scores=_scores(request, document),
        vectors=vectors,
        fields=tuple(field_values(source, row, needs.payload_fields, needs.optional_fields, allowance) for row in rows),
        payloads=lambda places: objects_of(source, [rows[place] for place in places], aside),
        ids=_ids(request, document, needs),
        compared_by=request.vector if unusable < len(rows) or not needs.vectors else None,
        unusable=unusable,
    )
    return pool, document


def _check_code(request: Document, text: bytes, root: Members) -> None:
    """Raises DeclinedError for a code other than success, ValueError for none."""
    code = b"" if "code" not in root else text[root["code"].value : root["code"].end]
    if not code.isdigit():
        raise ValueError("no code")
    if code != _SUCCESS[request.version]:
        message = root.get("message")
        raise DeclinedError(int(code[:9]), b"" if message is None else text[message.value : message.end])


def _counts(text: bytes, root: Members, rows: int) -> Span | None:
    """The span of the number of rows; None if absent. Raises ValueError for other lists and objects."""
    for name, member in root.items():
        if text[member.value] in _OPENINGS and name not in {"data", _COUNTS, RECALLS}:
            raise ValueError(f"the member at byte {member.key} may have an element for each row")
    if _COUNTS not in root:
        return None
    inner = elements(text, root[_COUNTS].span)
    if len(inner) != 1 or text[slice(*inner[0])] != b"%d" % rows:
        raise ValueError(f"topks is not the number of {rows} rows")
    return inner[0]


def _scores(request: Document, document: ReplyDocument) -> npt.NDArray[np.float64]:
    """(n,) as written, with the digits that identify a float32; for a part the float32 themselves."""
    written = np.array([_score(document.text, row) for row in document.rows], dtype=np.float64)
    if not request.is_part:
        return written
    with np.errstate(over="ignore"):
        return written.astype(np.float32).astype(np.float64)


def _score(text: bytes, row: Members) -> float:
    member = row.get(SCORE)
    if member is None or text[member.value] not in _DIGITS:
        raise ValueError("no distance in a row")
    return float(text[member.value : member.end])


def _ids(request: Document, document: ReplyDocument, needs: Needs) -> tuple[bytes, ...]:
    """The ids of the rows; () if their field is unknown, or one is missing. Servers write numbers as texts, unless the client's head
    requests otherwise; in a part they are numbers.
    """
    schema = schema_of(needs)
    is_text = schema is None or schema.has_texts
    identifiers = [row.get(schema.primary) for row in document.rows] if schema is not None else []
    ids = tuple(document.source.cut(*member.span) for member in identifiers if member is not None)
    if len(ids) < len(document.rows):
        return ()
    return tuple(point_id.strip(b'"') for point_id in ids) if request.is_part and not is_text else ids


def _vectors(request: Document, needs: Needs, document: ReplyDocument, text: bytes) -> npt.NDArray[np.float32]:
    """(n, d). Raises ValueError if a row lacks the requested vector, or a guess was wrong."""
    vectors = [row.get(request.vector) for row in document.rows]
    if not needs.vectors and None in vectors:
        return np.full((len(vectors), 0), np.nan, dtype=np.float32)
    spans = [None if member is None else member.span for member in vectors]
    if any(span is None or text[span[0]] not in b"[n" for span in spans):
        raise ValueError(f"{spans.count(None)} rows have no vector, or one that is no list")
    return vectors_at(document.source, spans)
