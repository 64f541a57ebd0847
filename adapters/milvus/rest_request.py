"""A Milvus search over REST: what it asks for, and the same bytes asking for more.

Go reads names without regard to case and passes over those it does not know: a member that is not known here leaves the
search alone, whatever it would be taken for.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple
from urllib.parse import urlencode

import numpy as np
import numpy.typing as npt

from vecsieve.adapters.contract import Needs, Operation, Question, Reason, Search, SearchCall, UnsupportedError
from vecsieve.adapters.milvus.calls import VERSION_1, VERSION_2
from vecsieve.adapters.milvus.schema import schema_of
from vecsieve.adapters.milvus.search import LARGEST_WINDOW, Chosen, bound, check_page, choose, most, read_inner
from vecsieve.adapters.wire.json import Members, Span, members, splice, whole
from vecsieve.adapters.wire.json_requests import (
    integer,
    items_of,
    present,
    read_object,
    required,
    text_of,
    texts_of,
    usable,
    vector_of,
)
from vecsieve.adapters.wire.json_vectors import Edit


class _Version(NamedTuple):
    """What the two versions have, each under its name: everything that may be said, and what changes a search's kind."""

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
    """A parsed request. ``limit``, ``offset``, ``listed``: where those members' values stand; None where one is absent."""

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


def parse_request(operation: Operation, body: bytes, needs: Needs) -> SearchCall:
    """Read what the client wants. Raises UnsupportedError, nothing else."""
    version = _VERSIONS[operation.partition]
    span = whole(body)
    found = read_object(body, span, version.known, reason=Reason.NOT_JSON)
    if any(present(body, found, name) for name in version.chosen):
        raise UnsupportedError(Reason.ORDERING_CHOSEN)
    limit, offset = required(body, found, "limit"), present(body, found, "offset")
    top_k, skipped = integer(body, limit), 0 if offset is None else integer(body, offset)
    check_page(top_k, skipped)
    query = _query(body, found, version)
    vector = _compared(body, found, needs)
    listed = present(body, found, "outputFields")
    search = Search(
        top_k=top_k,
        offset=skipped,
        pages=offset is not None,
        query=query,
        most=most(_bound(body, found), dimension=0 if query is None else len(query), queries=1),
    )
    document = Document(
        body=body, version=operation.partition, limit=limit, offset=offset, listed=listed, top_k=top_k,
        skipped=skipped, end=span[1] - 1, vector=vector,
        chosen=choose(() if listed is None else texts_of(body, listed), vector, needs, keys_apart=True),
    )  # fmt: skip
    if listed is None and "outputFields" in found and document.chosen.added:  # null: it cannot be said twice
        raise UnsupportedError(Reason.PAYLOAD_SELECTOR)
    return SearchCall(operation=operation, searches=(search,), needs=needs, document=document)


def widen(document: Document, fetch_k: Sequence[int]) -> bytes:
    """The request that asks for ``fetch_k[0]`` candidates from rank 0 with the fields that were chosen."""
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


def question(version: str, body: bytes) -> Question | None:
    """What describes the collection that a search names; None where it names none. Total."""
    try:
        found = members(body, whole(body))
        names = {name: text_of(body, present(body, found, name)) for name in ("dbName", "collectionName")}
    except (ValueError, IndexError, UnsupportedError):
        return None
    said = {name: value for name, value in names.items() if value}
    if "collectionName" not in said:
        return None
    if version == VERSION_1:
        return Question(method="GET", target=f"/v1/vector/collections/describe?{urlencode(said)}")
    return Question(method="POST", target="/v2/vectordb/collections/describe", body=json.dumps(said).encode())


def _query(body: bytes, found: Members, version: _Version) -> npt.NDArray[np.float32] | None:
    """The one vector that is searched by. Raises UnsupportedError for several, for none, and for text."""
    span = required(body, found, version.query)
    if version.query == "data":
        items = items_of(body, span)
        if len(items) != 1:  # their rows would follow each other with nothing between
            raise UnsupportedError(Reason.UNSUPPORTED_FIELD)
        span = items[0]
    if body[span[0] : span[0] + 1] != b"[":
        raise UnsupportedError(Reason.NOTHING_TO_DO)
    return usable(vector_of(body, span))


def _compared(body: bytes, found: Members, needs: Needs) -> str:
    if needs.vector_name is not None:
        return needs.vector_name
    schema = schema_of(needs)
    name = text_of(body, present(body, found, "annsField")) or (None if schema is None else schema.only_vector)
    if not name:
        raise UnsupportedError(Reason.NOTHING_TO_DO)
    return name


def _bound(body: bytes, found: Members) -> int:
    """How many candidates the parameters allow."""
    inner: Span | None = present(body, found, "params")
    outer = present(body, found, "searchParams")
    if outer is not None:
        inner = present(body, read_object(body, outer, _SEARCH_PARAMS), "params")
    return LARGEST_WINDOW if inner is None else bound(body, read_inner(body, inner))
