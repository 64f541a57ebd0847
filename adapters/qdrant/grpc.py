"""Qdrant over gRPC: the adapter, the client's answer cut from a wider reply, and fusions as a batch of searches.

Supported: Query, Search, Recommend, Discover and their batches, server versions as over REST. The answer is upstream's bytes without the
other points and without the additions. Everything around the points is unchanged. The vectors have the form that the server chooses for
each point: bare if only the unnamed vector is left, otherwise named, and an empty named form if an enabled selector leaves nothing.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from ..base import GrpcAdapter, Keep, own
from ..contract import Reason, Reply, Search, SearchCall, UnsupportedError
from ..fusions import Divided, Ending, Fused, Fusion, Method, Part, Undivided, UndividedError
from ..wire import protobuf
from ..wire.protobuf import (
    FIXED32,
    LENGTH,
    VARINT,
    Field,
    copied,
    fields,
    length_field,
    message_spans,
    only,
    unsigned,
    value_at,
)
from ..wire.schema import parsed
from ..wire.vectors import packed_floats
from . import calls, grpc_reply, grpc_request
from .grpc_reply import ReplyDocument
from .grpc_request import LAYOUTS, Document, Payload, Plan
from .grpc_schema import HIT, REPLY
from .ranking import Kind
from .rest_fusion import DEFAULT_K
from .rest_request import QUERY_LIMIT

# A fusion: its prefetches as one batch of searches, and the batch's reply as one list; the rules are those of REST. Fields are copied with
# their bytes; those whose numbers differ between a prefetch and a search get the other number. A message that occurs twice is merged by its
# reader, so the root's filter is placed before the prefetch's.

_QUERY = LAYOUTS["query"]
# QueryPoints.
_COLLECTION, _PREFETCHES, _VARIANT, _THRESHOLD, _CONSISTENCY, _TIMEOUT = 1, 2, 3, 7, 12, 15
_ROOT = frozenset({_COLLECTION, _PREFETCHES, _VARIANT, 5, _THRESHOLD, 8, 9, 10, 11, _CONSISTENCY, 13, _TIMEOUT})
_SHARED = frozenset({_COLLECTION, _QUERY.vectors, _QUERY.payload, _QUERY.shard_key})
# PrefetchQuery -> QueryPoints.
_NESTED = 1
_LEAF = {2: 3, 3: 4, 4: 5, 5: 6, 6: 7, 7: 8, 8: 14}
# QueryBatchPoints.
_SEARCHES, _OF_BATCH = 2, {_CONSISTENCY: 3, _TIMEOUT: 4}
# Query.variant, Rrf, Filter.
_FUSION, _FORMULA, _RRF = 6, 8, 10
_K, _WEIGHTS = 1, 2
# Query, nearest, and a text, an image or an object, which refer to no stored point.
_INFERRED = ((_VARIANT, 1, 5), (_VARIANT, 1, 6), (_VARIANT, 1, 7))
_CONJUNCTIONS = frozenset({2, 3})  # must, must_not
_METHODS = {0: Method.RRF, 1: Method.DBSF}


def _fusion(body: bytes, root: list[Field]) -> Fusion | None:
    """The fusion of the root; None if there is none. Raises UndividedError or ValueError."""
    query = only(root, _VARIANT, LENGTH)
    variant = [] if query is None else fields(body, query.span)
    if len(variant) != 1:
        return None
    (chosen,) = variant
    if chosen.number == _FORMULA:
        raise UndividedError(Undivided.FORMULA)
    if chosen.number not in {_FUSION, _RRF}:
        return None
    limit = _last(body, root, _QUERY.limit)  # the widened one follows the client's
    threshold = only(root, _THRESHOLD, FIXED32)
    least = None if threshold is None else _finite(struct.unpack_from("<f", body, threshold.value)[0])
    count = QUERY_LIMIT if limit is None else limit
    if chosen.number == _FUSION:
        method = _METHODS.get(unsigned(body, chosen)) if chosen.wire == VARINT else None
        if method is None:
            raise UndividedError(Undivided.MEMBER)
        return Fusion(method=method, limit=count, k=DEFAULT_K, threshold=least)
    if chosen.wire != LENGTH:
        raise UndividedError(Undivided.MEMBER)
    return _rrf(body, fields(body, chosen.span), count, least)


def _rrf(body: bytes, found: list[Field], limit: int, threshold: float | None) -> Fusion:
    """Raises UndividedError or ValueError."""
    given = only(found, _K, VARINT)
    k = DEFAULT_K if given is None else unsigned(body, given)
    packed = packed_floats(body, found, _WEIGHTS)
    weights = tuple(map(_finite, struct.unpack(f"<{len(packed) // 4}f", packed))) or None
    if not k or {field.number for field in found} - {_K, _WEIGHTS} or any(weight < 0 for weight in weights or ()):
        raise UndividedError(Undivided.MEMBER)
    return Fusion(method=Method.RRF, limit=limit, k=k, weights=weights, threshold=threshold)


def _batch(call: SearchCall, request: Plan, body: bytes, root: list[Field], fusion: Fusion) -> Divided:
    """Raises UndividedError or ValueError."""
    prefetches = message_spans(root, _PREFETCHES)
    if {field.number for field in root} - _ROOT or not prefetches or _last(body, root, _QUERY.offset):
        raise UndividedError(Undivided.MEMBER)
    if len(prefetches) > call.needs.bounds.searches:
        raise UndividedError(Undivided.MANY)
    if fusion.weights is not None and len(fusion.weights) != len(prefetches):
        raise UndividedError(Undivided.MEMBER)  # the server refuses it
    shared = copied(body, root, _SHARED)
    held = only(root, _QUERY.filter, LENGTH)
    searches, plans, items = [], [], []
    for index, span in enumerate(prefetches):
        leaf = _as_search(body, fields(body, span))
        search, plan = _read(leaf, request, index, call.searches[0].partition)
        searches.append(search)
        plans.append(plan)
        items.append(length_field(_SEARCHES, shared + _filter_before(body, held, leaf) + leaf))
    text = copied(body, root, {_COLLECTION}) + b"".join(items) + copied(body, root, _OF_BATCH, _OF_BATCH)
    framed = tuple(field for field in fields(text) if field.number == _SEARCHES)
    document = Document(body=text, plans=tuple(plans), items=framed)
    read = SearchCall(operation=call.operation, searches=tuple(searches), needs=call.needs, document=document)
    return Divided(ending=Ending(new="Batch"), parts=(Part(text, read),), fusion=fusion)


def _as_search(body: bytes, found: list[Field]) -> bytes:
    """A prefetch as a QueryPoints. Raises UndividedError."""
    numbers = {field.number for field in found}
    if _NESTED in numbers:
        raise UndividedError(Undivided.NESTED)
    if numbers - _LEAF.keys():
        raise UndividedError(Undivided.MEMBER)
    return copied(body, found, _LEAF, _LEAF)


def _read(leaf: bytes, root: Plan, index: int, partition: bytes) -> tuple[Search, Plan]:
    """How the list of a prefetch is read. Raises UndividedError or ValueError."""
    whole = 0, len(leaf)
    try:
        found = protobuf.read(leaf, whole, _QUERY.shape)
        ranking = grpc_request.of_query(leaf, whole, found, 0)
        query = grpc_request.dense_at(leaf, ranking, _QUERY)
    except UnsupportedError as verdict:
        is_order = verdict.reason is Reason.ORDERING_CHOSEN
        raise UndividedError(Undivided.UNRANKED if is_order else Undivided.MEMBER) from None
    if ranking.kind is Kind.REFERENCE and all(value_at(leaf, way) is None for way in _INFERRED):
        raise UndividedError(Undivided.POINTS)
    limit = protobuf.number_of(leaf, found, _QUERY.limit)
    count = QUERY_LIMIT if limit is None else limit
    search = Search(
        top_k=count, offset=0, pages=False, query=query if ranking.name == root.name else None, partition=partition
    )
    plan = Plan(
        index=index, layout=_QUERY, top_k=count, offset=0, wanted=True, payload=Payload(is_cut=root.payload.is_cut),
        name=root.name, prefers=root.prefers, fetches=root.fetches,
    )  # fmt: skip
    return search, plan


def _filter_before(body: bytes, held: Field | None, leaf: bytes) -> bytes:
    """The root's filter, to be merged with that of a search. Raises UndividedError if the merged filter would not require both."""
    if held is None:
        return b""
    its_own = only(fields(leaf), _QUERY.filter, LENGTH)
    if its_own is not None and not (_is_conjunction(body, held) and _is_conjunction(leaf, its_own)):
        raise UndividedError(Undivided.MEMBER)
    return body[held.start : held.end]


def _is_conjunction(data: bytes, field: Field) -> bool:
    return {inner.number for inner in fields(data, field.span)} <= _CONJUNCTIONS


def _last(body: bytes, found: list[Field], number: int) -> int | None:
    """The value that counts of a number that may be set twice. Raises ValueError."""
    those = [field for field in found if field.number == number]
    if any(field.wire != VARINT for field in those):
        raise ValueError(f"field {number} is no number")
    return unsigned(body, those[-1]) if those else None


def _finite(value: float) -> float:
    """Raises ValueError."""
    if not math.isfinite(value):
        raise ValueError("wanted a finite number")
    return value


def cut(plan: Plan, body: bytes, kept: Iterable[int]) -> bytes:
    """A list's message with the kept points, each without what was added."""
    reply = parsed(REPLY, body)
    hits = reply.result
    shown = [hits[index] for index in kept]
    if plan.payload.asked or (plan.fetches and plan.wanted is not True):
        shown = [_restored(plan, hit) for hit in shown]
    hits[:] = shown
    answer: bytes = reply.SerializeToString()
    return answer


def _restored(plan: Plan, point: bytes) -> bytes:
    hit = parsed(HIT, point)
    if plan.payload.is_forced:
        hit.ClearField("payload")
    elif plan.payload.asked:
        _remove(hit.payload, lambda key: key in plan.payload.asked)
    if plan.wanted is False:
        hit.ClearField("vectors")
    elif plan.wanted is not True and hit.HasField("vectors"):
        _select(hit.vectors, plan.wanted)
    shown: bytes = hit.SerializeToString()
    return shown


def _remove(entries: Any, is_added: Callable[[str], bool]) -> None:
    """Take entries out of a map."""
    for index in reversed(range(len(entries))):
        if is_added(entries[index].key.decode(errors="replace")):
            del entries[index]


def _select(vectors: Any, wanted: tuple[str, ...]) -> None:
    """Reduce a point's vectors to ``wanted``: the unnamed vector alone is shown bare."""
    if not vectors.HasField("vectors"):
        if vectors.vector and "" not in wanted:
            vectors.ClearField("vector")
            vectors.vectors.SetInParent()
        return
    entries = vectors.vectors.vectors
    before = len(entries)
    _remove(entries, lambda name: name not in wanted)
    if len(entries) == 1 < before and not entries[0].key:
        vectors.vector[:] = entries[0].value
        vectors.ClearField("vectors")


def _scored(point: bytes, score: float) -> bytes:
    hit = parsed(HIT, point)
    if score:
        hit.score = score
    else:
        hit.ClearField("score")
    scored: bytes = hit.SerializeToString()
    return scored


class QdrantGrpc(GrpcAdapter[Document, ReplyDocument]):
    request_type, reply_type, messages = Document, ReplyDocument, grpc_request.MESSAGES
    classify = staticmethod(calls.classify_grpc)
    parse_request = staticmethod(grpc_request.parse_request)
    widen_request = staticmethod(grpc_request.widen)
    read_reply = staticmethod(grpc_reply.parse_reply)

    def divided(self, call: SearchCall, body: bytes) -> Divided | None:
        request = own(call.document, Document)
        if request.items is not None or request.plans[0].layout is not _QUERY:
            return None
        try:
            root = fields(body)
            fusion = _fusion(body, root)
            return None if fusion is None else _batch(call, request.plans[0], body, root, fusion)
        except ValueError:
            raise UndividedError(Undivided.MEMBER) from None

    def fused(self, _: Divided, replies: Sequence[Reply], ranked: Fused) -> bytes:
        """As in the contract. Servers omit a score of 0."""
        (reply,) = replies
        answer = parsed(REPLY, own(reply.document, ReplyDocument).data)
        hits = [parsed(REPLY, each).result for each in answer.result]
        answer.result[:] = [_scored(hits[index][row], float(score)) for index, row, score in ranked]
        fused: bytes = answer.SerializeToString()
        return fused

    def cut_reply(self, request: Document, reply: ReplyDocument, keep: Keep) -> bytes:
        """The client's answer: of list i the points ``keep[i]`` in that order."""
        if request.items is None:
            return cut(request.plans[0], reply.data, keep[0].tolist())
        answer = parsed(REPLY, reply.data)
        for plan, kept in zip(request.plans, keep, strict=True):
            answer.result[plan.index] = cut(plan, answer.result[plan.index], kept.tolist())
        whole: bytes = answer.SerializeToString()
        return whole
