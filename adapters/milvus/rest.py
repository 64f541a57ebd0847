"""Milvus over REST: hybrid searches, which are divided into their searches and fused again; the adapter.

From the handlers' source (2.4 to 3.0). Each part is answered like a search with its members. The metric of a part is that of its field's
index, which the description of the collection names; servers ignore a metric in the part. Some older servers ignore an offset of the whole
request: such a request is passed through.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ..base import NotingAdapter, check_page, typed
from ..contract import (
    MalformedReplyError,
    Needs,
    Operation,
    Reason,
    Reply,
    Search,
    SearchCall,
    UnsupportedError,
)
from ..fusions import Divided, Ending, Fused, Part, Undivided, UndividedError
from ..wire.json import Members, Span, cuts, members_of, whole
from ..wire.json_requests import (
    integer,
    items_of,
    present,
    read_object,
    required,
    text_of,
    vector_of,
)
from ..wire.json_vectors import Edit, edited
from ..wire.vectors import usable
from . import calls, rest_search, search
from .calls import HYBRID_SEARCH, SEARCH, VERSION_2
from .rest_search import RECALLS, SCORE, Document, ReplyDocument
from .search import (
    LARGEST_WINDOW,
    check_chosen,
    compared,
    fusion_of,
    most,
    read_inner,
    schema_of,
)

_CHOSEN = ("groupingField", "groupSize", "strictGroupSize", "functionScore")
# The members that each search gets from the whole request, and those from its part; ``params`` are a search's ``searchParams``.
_SHARED = ("dbName", "collectionName", "partitionNames", "outputFields", "consistencyLevel")
_LEAF = {name: name for name in ("data", "annsField", "filter", "exprParams", "limit")} | {"params": "searchParams"}
_ROOT = (*_SHARED, *_CHOSEN, "search", "rerank", "limit", "offset")
# The documentation shows a metric and output fields in a part, but servers read neither.
_PART = (*_LEAF, "groupingField", "metricType", "outputFields", "offset")
_COST = "cost"


@dataclass(frozen=True, slots=True)
class _Part:
    """A parsed part. ``query``: of its vector, or of a text."""

    span: Span
    members: Members
    field: str
    query: Span
    is_dense: bool
    top_k: int


def _number(body: bytes, members: Members, name: str) -> int:
    """0 if absent. Raises UnsupportedError."""
    span = present(body, members, name)
    return 0 if span is None else integer(body, span)


def _parts(body: bytes, root: Members) -> list[_Part]:
    return [_part(body, span) for span in items_of(body, required(body, root, "search"))]


def _part(body: bytes, span: Span) -> _Part:
    members = read_object(body, span, _PART)
    if present(body, members, "groupingField"):
        raise UnsupportedError(Reason.ORDERING_CHOSEN)
    queries = items_of(body, required(body, members, "data"))
    if len(queries) != 1:  # nothing separates their rows in the reply
        raise UnsupportedError(Reason.UNSUPPORTED_FIELD)
    params = present(body, members, "params")
    if params is not None:  # newer servers read index parameters here or one level below
        inner = read_inner(body, params)
        below = present(body, inner, "params")
        check_chosen(read_inner(body, below) if below is not None else ())
    (query,) = queries
    return _Part(
        span=span,
        members=members,
        field=text_of(body, present(body, members, "annsField")),
        query=query,
        is_dense=body[query[0] : query[0] + 1] == b"[",
        top_k=integer(body, required(body, members, "limit")),
    )


def _divided(call: SearchCall, request: Document, body: bytes) -> Divided:
    root = members_of(body, whole(body))
    known = schema_of(call.needs)
    if known is None or not known.primary:
        raise UndividedError(Undivided.INEXACT)
    parts = _parts(body, root)
    if len(parts) > call.needs.bounds.searches:
        raise UndividedError(Undivided.MANY)
    shared = [b'"%s":%s' % (name.encode(), _value(body, root, name)) for name in _SHARED if name in root]
    searches, metrics = [], []
    for part in parts:
        metric, named = known.metric_of(part.field), text_of(body, present(body, part.members, "metricType"))
        if _number(body, part.members, "offset") or (named and named.upper() != metric):
            raise UndividedError(Undivided.MEMBER)
        searches.append(_search(call, request, body, part, shared))
        metrics.append(metric)
    ranking = read_object(body, required(body, root, "rerank"), ("strategy", "params"))
    params = present(body, ranking, "params")
    fusion = fusion_of(
        text_of(body, present(body, ranking, "strategy")),
        b"" if params is None else body[slice(*params)],
        metrics=metrics,
        limit=integer(body, required(body, root, "limit")),
        needs=call.needs,
    )
    return Divided(ending=Ending(old=call.operation.partition, new="search"), parts=tuple(searches), fusion=fusion)


def _value(body: bytes, members: Members, name: str) -> bytes:
    return body[members[name].value : members[name].end]


def _search(call: SearchCall, request: Document, body: bytes, part: _Part, shared: Sequence[bytes]) -> Part:
    """A part as a search. Raises UnsupportedError."""
    entries = [
        b'"%s":%s' % (new.encode(), _value(body, part.members, name))
        for name, new in _LEAF.items()
        if name in part.members
    ]
    text = b"{%s}" % b",".join((*shared, *entries))
    query = usable(vector_of(body, part.query)) if part.is_dense and part.field == request.vector else None
    search = Search(top_k=part.top_k, offset=0, pages=False, query=query)
    document = Document(
        body=text, version=VERSION_2, limit=(0, 0), offset=None, listed=None, top_k=part.top_k, skipped=0, end=len(text) - 1,
        vector=request.vector, chosen=request.chosen, is_part=True,
    )  # fmt: skip
    return Part(text, SearchCall(operation=call.operation, searches=(search,), needs=call.needs, document=document))


def _row(document: ReplyDocument, row: int, score: np.float32) -> bytes:
    member = document.rows[row][SCORE]
    return b"".join(edited(document.source, document.spans[row], [(member.value, member.end, written(score))]))


def written(score: np.float32) -> bytes:
    """A float32 as servers write it: with the fewest digits that identify it. Raises MalformedReplyError for a value that is no number."""
    if not np.isfinite(score):
        raise MalformedReplyError("a fused score that is no number")
    if score and not 1e-6 <= abs(score) < 1e21:
        return np.format_float_scientific(score, trim="-", exp_digits=1).encode()
    return np.format_float_positional(score, trim="-").encode()


class MilvusRest(NotingAdapter[Document, ReplyDocument]):
    request_type, reply_type = Document, ReplyDocument
    classify = staticmethod(calls.classify_rest)
    widen_request = staticmethod(rest_search.widen)
    read_reply = staticmethod(rest_search.parse_reply)
    cut_reply = staticmethod(rest_search.trim)
    payloads = staticmethod(rest_search.payloads_of)
    describe = staticmethod(rest_search.describe)
    collections_in = staticmethod(rest_search.collections_in)
    parse_description = staticmethod(search.read_rest_description)

    def read_request(self, operation: Operation, body: bytes, needs: Needs) -> tuple[Search, Document]:
        if operation.name == SEARCH:
            return rest_search.read_request(operation, body, needs)
        span = whole(body)
        root = read_object(body, span, _ROOT, reason=Reason.NOT_JSON)
        if any(present(body, root, name) for name in _CHOSEN):
            raise UnsupportedError(Reason.ORDERING_CHOSEN)
        if _number(body, root, "offset"):
            raise UnsupportedError(Reason.UNSUPPORTED_FIELD)
        parts = _parts(body, root)
        dense = [part.field for part in parts if part.is_dense]
        if not dense:
            raise UnsupportedError(Reason.NOTHING_TO_DO)
        limit = required(body, root, "limit")
        top_k = integer(body, limit)
        check_page(top_k, 0)
        vector = needs.vector_name or dense[0] or compared(None, needs)
        listed, chosen = rest_search.outputs(body, root, vector, needs)
        # A limit beyond the candidates of all parts is allowed; fewer results show that the list has ended.
        bound = most(LARGEST_WINDOW, dimension=0, queries=1)
        search = Search(
            top_k=top_k, offset=0, pages=False, query=None, most=bound, partition=rest_search.partition_of(body, root)
        )
        document = Document(
            body=body, version=VERSION_2, limit=limit, offset=None, listed=listed, top_k=top_k, skipped=0, end=span[1] - 1,
            vector=vector, chosen=chosen,
        )  # fmt: skip
        return search, document

    def divided(self, call: SearchCall, body: bytes) -> Divided | None:
        if call.operation.name != HYBRID_SEARCH:
            return None
        try:
            return _divided(call, typed(call.document, Document), body)
        except (ValueError, UnsupportedError):
            raise UndividedError(Undivided.MEMBER) from None

    def fused(self, _: Divided, replies: Sequence[Reply], ranked: Fused) -> bytes:
        """As in the contract. The cost is that of all searches."""
        documents = [typed(reply.document, ReplyDocument) for reply in replies]
        if not ranked:
            return documents[0].source.original
        model = documents[ranked[0][0]]
        rows = b",".join(_row(documents[index], row, score) for index, row, score in ranked)
        edits: list[Edit] = [(*model.array, b"[%s]" % rows), *((*span, b"") for span in cuts(model.root, {RECALLS}))]
        if model.counts is not None:
            edits.append((*model.counts, b"%d" % len(ranked)))
        costs = [_value(document.text, document.root, _COST) for document in documents if _COST in document.root]
        if _COST in model.root and all(cost.isdigit() for cost in costs):
            member = model.root[_COST]
            edits.append((member.value, member.end, b"%d" % sum(map(int, costs))))
        return b"".join(edited(model.source, (0, len(model.text)), edits))
