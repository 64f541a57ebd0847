"""Qdrant over gRPC: the adapter, the client's answer cut from a wider reply, and fusions as a batch of searches.

Supported: Query, Search, Recommend, Discover and their batches, server versions as over REST. The answer is upstream's bytes without the
other points and without the additions. Everything around the points is unchanged. The vectors have the form that the server chooses for
each point: bare if only the unnamed vector is left, otherwise named, and an empty named form if an enabled selector leaves nothing.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from ..base import Keep, typed
from ..base_grpc import GrpcAdapter, noted_entry
from ..contract import Reason, Reply, Search, SearchCall, UnsupportedError
from ..fusions import Divided, Ending, Fused, Fusion, Method, Part, Undivided, UndividedError
from ..wire.schema import has_unknown, members, parsed, serialized
from ..wire.vectors import row, usable
from . import calls, grpc_reply, grpc_request
from .grpc_request import INFERRED, LAYOUTS, Document, Plan, choice
from .grpc_schema import COUNTED, VALUES, proto
from .ranking import Kind, Payload
from .rest_fusion import DEFAULT_K
from .rest_request import QUERY_LIMIT

# A fusion: its prefetches as one batch of searches, and the batch's reply as one list; the rules are those of REST. A prefetch and a search
# call their fields alike. A message that occurs twice is merged by its reader, so the root's filter is placed before the prefetch's.

_QUERY = LAYOUTS["query"]
_SHARED = {"collection_name", "with_vectors", "with_payload", "shard_key_selector"}
_OF_BATCH = {"collection_name", "read_consistency", "timeout"}
_UNDIVIDED = {"using", "params", "lookup_from"}
_METHODS = {0: Method.RRF, 1: Method.DBSF}


def _fusion(root: Any) -> Fusion | None:
    """The fusion of the root; None if there is none. Raises UndividedError, UnsupportedError or ValueError."""
    name, value = choice(root.query)
    if name == "formula":
        raise UndividedError(Undivided.FORMULA)
    if name not in {"fusion", "rrf"}:
        return None
    method, k, weights = (Method.RRF, *_rrf(value)) if name == "rrf" else (_METHODS.get(value), DEFAULT_K, None)
    if method is None:
        raise UndividedError(Undivided.MEMBER)
    limit = root.limit if root.HasField("limit") else QUERY_LIMIT
    threshold = _finite(root.score_threshold) if root.HasField("score_threshold") else None
    return Fusion(method=method, limit=limit, k=k, weights=weights, threshold=threshold)


def _rrf(rrf: Any) -> tuple[int, tuple[float, ...] | None]:
    """Its constant and its weights. Raises UndividedError or ValueError."""
    k = rrf.k if rrf.HasField("k") else DEFAULT_K
    weights = tuple(map(_finite, rrf.weights)) or None
    if not k or has_unknown(rrf) or any(weight < 0 for weight in weights or ()):
        raise UndividedError(Undivided.MEMBER)
    return k, weights


def _batch(call: SearchCall, request: Plan, root: Any, fusion: Fusion) -> Divided:
    if not root.prefetch or root.offset or _UNDIVIDED & {field.name for field, _ in root.ListFields()}:
        raise UndividedError(Undivided.MEMBER)
    if len(root.prefetch) > call.needs.bounds.searches:
        raise UndividedError(Undivided.MANY)
    if fusion.weights is not None and len(fusion.weights) != len(root.prefetch):
        raise UndividedError(Undivided.MEMBER)  # the server refuses it
    searches, plans, items = [], [], []
    for index, prefetch in enumerate(root.prefetch):
        leaf = _as_search(prefetch)
        search, plan = _read(leaf, request, index, call.searches[0].partition)
        searches.append(search)
        plans.append(plan)
        items.append(_joined(root, leaf))
    text = serialized(proto.Batch(searches=items, **members(root, _OF_BATCH)))
    document = Document(body=text, plans=tuple(plans), items=len(items))
    read = SearchCall(operation=call.operation, searches=tuple(searches), needs=call.needs, document=document)
    return Divided(ending=Ending(new="Batch"), parts=(Part(text, read),), fusion=fusion)


def _as_search(prefetch: Any) -> Any:
    """A prefetch as a QueryPoints. Raises UndividedError."""
    if prefetch.prefetch:
        raise UndividedError(Undivided.NESTED)
    return proto.Query(**members(prefetch, _QUERY_FIELDS))


_QUERY_FIELDS = frozenset(proto.Query.DESCRIPTOR.fields_by_name)


def _joined(root: Any, leaf: Any) -> bytes:
    """A search with what it shares with the root. Raises UndividedError if the merged filter would not require both."""
    search = proto.Query(**members(root, _SHARED))
    if leaf.filter and root.filter and not (_is_conjunction(root) and _is_conjunction(leaf)):
        raise UndividedError(Undivided.MEMBER)
    search.filter.extend(root.filter)
    search.MergeFrom(leaf)
    return serialized(search)


def _is_conjunction(search: Any) -> bool:
    return not has_unknown(parsed(proto.Filter, b"".join(search.filter)))


def _read(leaf: Any, root: Plan, index: int, partition: bytes) -> tuple[Search, Plan]:
    """How the list of a prefetch is read. Raises UndividedError."""
    try:
        ranking = grpc_request.of_query(leaf, 0)
    except UnsupportedError as verdict:
        is_order = verdict.reason is Reason.ORDERING_CHOSEN
        raise UndividedError(Undivided.UNRANKED if is_order else Undivided.MEMBER) from None
    if ranking.kind is Kind.REFERENCE and not any(len(getattr(leaf.query.nearest, name)) for name in INFERRED):
        raise UndividedError(Undivided.POINTS)
    count = leaf.limit if leaf.HasField("limit") else QUERY_LIMIT
    is_dense = ranking.kind is Kind.DENSE and ranking.name == root.name
    query = usable(row(b"".join(leaf.query.nearest.dense.data))) if is_dense else None
    search = Search(top_k=count, offset=0, pages=False, query=query, partition=partition)
    plan = Plan(
        index=index, layout=_QUERY, top_k=count, offset=0, selection=True, payload=Payload(is_cut=root.payload.is_cut),
        name=root.name, prefers=root.prefers, fetches=root.fetches,
    )  # fmt: skip
    return search, plan


def _finite(value: float) -> float:
    if not math.isfinite(value):
        raise ValueError("wanted a finite number")
    return value


def cut(plan: Plan, body: bytes, kept: Iterable[int]) -> bytes:
    """A list's message with the kept points, each without what was added."""
    reply = parsed(proto.Reply, body)
    hits = reply.result
    points = [hits[index] for index in kept]
    if plan.payload.added or (plan.fetches and plan.selection is not True):
        points = [_restored(plan, hit) for hit in points]
    hits[:] = points
    return serialized(reply)


def _restored(plan: Plan, point: bytes) -> bytes:
    hit = parsed(proto.Hit, point)
    if plan.payload.is_forced:
        hit.ClearField("payload")
    elif plan.payload.added:
        _remove(hit.payload, lambda key: key in plan.payload.added)
    if plan.selection is False:
        hit.ClearField("vectors")
    elif plan.selection is not True and hit.HasField("vectors"):
        _select(hit.vectors, plan.selection)
    return serialized(hit)


def _remove(entries: Any, is_added: Callable[[str], bool]) -> None:
    """Take entries out of a map."""
    for index in reversed(range(len(entries))):
        if is_added(entries[index].key.decode(errors="replace")):
            del entries[index]


def _select(vectors: Any, names: tuple[str, ...]) -> None:
    """Reduce a point's vectors to ``names``: the unnamed vector alone is shown bare."""
    if not vectors.HasField("vectors"):
        if vectors.vector and "" not in names:
            vectors.ClearField("vector")
            vectors.vectors.SetInParent()
        return
    entries = vectors.vectors.vectors
    before = len(entries)
    _remove(entries, lambda name: name not in names)
    if len(entries) == 1 < before and not entries[0].key:
        vectors.vector[:] = entries[0].value
        vectors.ClearField("vectors")


def _scored(point: bytes, score: float) -> bytes:
    hit = parsed(proto.Hit, point)
    if score:
        hit.score = score
    else:
        hit.ClearField("score")
    return serialized(hit)


def _noted(body: bytes, notes: Sequence[bytes | None]) -> bytes:
    """A list whose points have the notes."""
    reply = parsed(proto.Reply, body)
    for place, note in enumerate(notes):
        if note is not None:
            reply.result[place] = _noted_point(reply.result[place], note)
    return serialized(reply)


def _noted_point(point: bytes, note: bytes) -> bytes:
    """A point without a payload has no note."""
    entries = parsed(proto.Payload, point).payload
    added = noted_entry(entries, note, VALUES) if entries else None
    return point if added is None else point + serialized(proto.Payload(payload=[added]))


class QdrantGrpc(GrpcAdapter[Document, bytes]):
    request_type, reply_type, messages = Document, bytes, COUNTED
    classify = staticmethod(calls.classify_grpc)
    parse_request = staticmethod(grpc_request.parse_request)
    widen_request = staticmethod(grpc_request.widen)
    read_reply = staticmethod(grpc_reply.read_reply)

    def noted(self, call: SearchCall, answer: bytes, notes: Sequence[Sequence[bytes | None]]) -> bytes:
        request = typed(call.document, Document)
        if request.items is None:
            return _noted(answer, notes[0])
        whole = parsed(proto.Reply, answer)
        for plan, listed in zip(request.plans, notes, strict=True):
            whole.result[plan.index] = _noted(whole.result[plan.index], listed)
        return serialized(whole)

    def divided(self, call: SearchCall, body: bytes) -> Divided | None:
        request = typed(call.document, Document)
        if request.items is not None or request.plans[0].layout is not _QUERY:
            return None
        try:
            root = parsed(proto.Query, body)
            fusion = _fusion(root)
            return None if fusion is None else _batch(call, request.plans[0], root, fusion)
        except (ValueError, UnsupportedError):
            raise UndividedError(Undivided.MEMBER) from None

    def fused(self, _: Divided, replies: Sequence[Reply], ranked: Fused) -> bytes:
        """As in the contract. Servers omit a score of 0."""
        (reply,) = replies
        answer = parsed(proto.Reply, typed(reply.document, bytes))
        hits = [parsed(proto.Reply, item).result for item in answer.result]
        answer.result[:] = [_scored(hits[index][row], float(score)) for index, row, score in ranked]
        return serialized(answer)

    def cut_reply(self, request: Document, reply: bytes, keep: Keep) -> bytes:
        """The client's answer: of list i the points ``keep[i]`` in that order."""
        if request.items is None:
            return cut(request.plans[0], reply, keep[0].tolist())
        answer = parsed(proto.Reply, reply)
        for plan, kept in zip(request.plans, keep, strict=True):
            answer.result[plan.index] = cut(plan, answer.result[plan.index], kept.tolist())
        return serialized(answer)
