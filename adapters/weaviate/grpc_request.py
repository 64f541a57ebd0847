"""A Weaviate search: what it asks for, and the same bytes asking for more.

Rule of this file: what is asked for in addition stands behind the client's bytes, where the last number counts and messages
are merged; nothing is written anew.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from vecsieve.adapters.contract import Needs, Operation, Reason, Search, SearchCall, UnsupportedError
from vecsieve.adapters.weaviate.calls import SEARCH, default_limit
from vecsieve.adapters.weaviate.grpc_query import (
    HYBRID,
    KEYWORDS,
    NEAR_TEXT,
    NEAR_VECTOR,
    WAYS,
    Ranking,
    Shown,
    plan_shown,
    ranking_of,
    widen_shown,
)
from vecsieve.adapters.wire.protobuf import number_field
from vecsieve.adapters.wire.protobuf_requests import Found, Messages, Shape, message, messages, number_of, read

# SearchRequest.
_PROPERTIES, _METADATA, _LIMIT, _OFFSET, _AUTOCUT = 20, 21, 30, 31, 32
_TEXTS = frozenset({1, 10, 40, *WAYS, _PROPERTIES, _METADATA})
# An order or a cut of the client's own: groups, a cursor, sorting, reranking (paid for by the candidate), boosts.
_CHOSEN = frozenset({22, _AUTOCUT, 33, 34, 61, 62})
_GENERATIVE = 60  # a language model would be asked about every candidate
REQUEST = Shape(frozenset({*_TEXTS, 11, _LIMIT, _OFFSET, 100, 101, 102, _GENERATIVE, *_CHOSEN - {34}}), frozenset({34}))

# What is entered of a request, for the count of its fields.
MESSAGES: Messages = {
    SEARCH: {
        HYBRID: "hybrid", KEYWORDS: "keywords", NEAR_VECTOR: "near vector", NEAR_TEXT: "near text",
        **{way: "near one" for way in WAYS if way not in {HYBRID, KEYWORDS, NEAR_VECTOR, NEAR_TEXT}},
        _PROPERTIES: "properties", _METADATA: "metadata",
    },
    "hybrid": {8: "near text", 9: "near vector", 10: "targets"},
    "keywords": {},
    "near vector": {6: "targets", 7: "pair", 8: "for target", 9: "vectors"},
    "near text": {7: "targets"},
    "near one": {5: "targets"},
    "for target": {3: "vectors"},
    "properties": {2: "part", 3: "part"},
    "metadata": {},
    "part": {},
    "targets": {},
    "pair": {},
    "vectors": {},
}  # fmt: skip

# The server's limit on offset and limit together, unless its operator chose another.
LARGEST_WINDOW = 10_000
# A hybrid search fuses the first 100 of each of its parts, or as many as its limit where that is more: up to there a wider
# request leaves all scores as they are.
HYBRID_PARTS = 100
# A reply of more vectors than this is neither needed nor wanted; the server sends an unnamed one twice.
_REPLY_BYTES = 64 * 1024 * 1024
_VECTOR_BYTES = 8
_MOST = 2**31 - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """A parsed request. ``limit``: as the client says it, None where it leaves that to the server."""

    body: bytes
    limit: int | None
    offset: int
    ranking: Ranking
    shown: Shown


def parse_request(operation: Operation, body: bytes, needs: Needs) -> SearchCall:
    """Read what the client wants. Raises UnsupportedError, nothing else."""
    found = read(body, (0, len(body)), REQUEST)
    for number in _TEXTS & found.keys():
        messages(found, number)
    _check_chosen(body, found)
    ranking = ranking_of(body, found)
    limit, offset = _size(body, found, _LIMIT) or None, _size(body, found, _OFFSET)
    top_k = default_limit(needs) if limit is None else limit
    if top_k is None:
        raise UnsupportedError(Reason.NOTHING_TO_DO)
    if top_k + offset == 1:
        raise UnsupportedError(Reason.SINGLE_RESULT)
    shown = plan_shown(body, message(found, _METADATA), message(found, _PROPERTIES), ranking, needs)
    search = Search(
        top_k=top_k,
        offset=offset,
        pages=_OFFSET in found,
        # Another vector lives in another space.
        query=ranking.query if shown.compared == ranking.target else None,
        most=_most(ranking),
    )
    document = Document(body=body, limit=limit, offset=offset, ranking=ranking, shown=shown)
    return SearchCall(operation=operation, searches=(search,), needs=needs, document=document)


def widen(document: Document, fetch_k: Sequence[int]) -> bytes:
    """The request that asks for ``fetch_k[0]`` candidates from rank 0, with what selection reads. 0 leaves it as it came."""
    (count,) = fetch_k
    if not count:
        return document.body
    return (
        document.body
        + (number_field(_LIMIT, count) if count != document.limit else b"")
        + (number_field(_OFFSET, 0) if document.offset else b"")
        + widen_shown(_METADATA, _PROPERTIES, document.shown)
    )


def _check_chosen(body: bytes, found: Found) -> None:
    if _GENERATIVE in found:
        raise UnsupportedError(Reason.UNSUPPORTED_FIELD)
    chosen = _CHOSEN & found.keys()
    if chosen - {_AUTOCUT} or number_of(body, found, _AUTOCUT):
        raise UnsupportedError(Reason.ORDERING_CHOSEN)


def _size(body: bytes, found: Found, number: int) -> int:
    """A number of results; absent and zero are the same to the server."""
    size = number_of(body, found, number) or 0
    if size > _MOST:
        raise UnsupportedError(Reason.AMBIGUOUS_FIELD)
    return size


def _most(ranking: Ranking) -> int:
    """How many candidates may be asked for, from rank 0."""
    if ranking.way == HYBRID:
        return HYBRID_PARTS
    width = 0 if ranking.query is None else len(ranking.query)
    return min(LARGEST_WINDOW, _REPLY_BYTES // (_VECTOR_BYTES * max(width, 1)))
