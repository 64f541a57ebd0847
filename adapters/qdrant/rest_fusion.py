"""A fusion over REST: its prefetches as one batch of searches, and the batch's reply as one list.

From Qdrant's sources (1.10 to 1.19): the root's filter applies to each prefetch; prefetches are cut to their limits before the fusion; the
root's threshold and limit apply to the fused scores. A member of the root without an effect, such as ``params``, can still be refused, so a
request with one is left to the database.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

import orjson

from ..base import typed
from ..contract import Reply, Search, SearchCall, UnsupportedError
from ..fusions import Divided, Ending, Fused, Fusion, Method, Part, Undivided, UndividedError
from ..wire.json import Members, Span, elements, members_of, splice, whole
from ..wire.json_requests import present
from ..wire.json_vectors import edited
from .ranking import Kind, Payload, is_inferred, listed, of_query
from .rest_reply import ReplyDocument
from .rest_request import QUERY_LIMIT, Document, Plan, Vectors, dense_at

DEFAULT_K = 2  # of rrf without k
# Members of the root: those that each search gets, and those that are read here.
_SHARED = ("with_payload", "with_vector", "with_vectors", "shard_key")
_ROOT = frozenset({*_SHARED, "query", "prefetch", "filter", "limit", "offset", "score_threshold"})
_LEAF = frozenset({"query", "using", "filter", "params", "score_threshold", "limit", "lookup_from"})
_CONJUNCTIONS = frozenset({"must", "must_not"})
_INTEGER = re.compile(rb"0|[1-9][0-9]{0,8}")
_NUMBER = re.compile(rb"-?(0|[1-9][0-9]{0,17})(\.[0-9]{1,32})?([eE][-+]?[0-9]{1,2})?")


def divided(call: SearchCall, body: bytes) -> Divided | None:
    request = typed(call.document, Document)
    if request.batch is not None or not request.in_object:
        return None
    try:
        root = members_of(body, whole(body))
        fusion = _fusion(body, root)
        return None if fusion is None else _batch(call, request.plans[0], body, root, fusion)
    except ValueError:  # a repeated key, or one that is no text
        raise UndividedError(Undivided.MEMBER) from None


def _fusion(body: bytes, root: Members) -> Fusion | None:
    """The fusion of the root; None if there is none. Raises UndividedError or ValueError."""
    query = present(body, root, "query")
    if query is None or body[query[0] : query[0] + 1] != b"{":
        return None
    query_members = members_of(body, query)
    if "formula" in query_members:
        raise UndividedError(Undivided.FORMULA)
    limit, threshold = present(body, root, "limit"), present(body, root, "score_threshold")
    count = QUERY_LIMIT if limit is None else _integer(body, limit)
    least = None if threshold is None else _number(body, threshold)
    if query_members.keys() == {"fusion"}:
        method = Method(orjson.loads(body[query_members["fusion"].value : query_members["fusion"].end]))
        return Fusion(method=method, limit=count, k=DEFAULT_K, threshold=least)
    if query_members.keys() != {"rrf"}:
        if query_members.keys() & {"fusion", "rrf"}:
            raise UndividedError(Undivided.MEMBER)
        return None
    rrf = members_of(body, query_members["rrf"].span)
    if not rrf.keys() <= {"k", "weights"}:
        raise UndividedError(Undivided.MEMBER)
    given, listed = present(body, rrf, "k"), present(body, rrf, "weights")
    k = DEFAULT_K if given is None else _integer(body, given)
    weights = None if listed is None else tuple(_number(body, weight) for weight in elements(body, listed))
    if not k or any(weight < 0 for weight in weights or ()):
        raise UndividedError(Undivided.MEMBER)
    return Fusion(method=Method.RRF, limit=count, k=k, weights=weights, threshold=least)


def _batch(call: SearchCall, plan: Plan, body: bytes, root: Members, fusion: Fusion) -> Divided:
    prefetches = listed(body, root)
    offset = present(body, root, "offset")
    if not root.keys() <= _ROOT or not prefetches or (offset is not None and body[offset[0] : offset[1]] != b"0"):
        raise UndividedError(Undivided.MEMBER)
    if len(prefetches) > call.needs.bounds.searches:
        raise UndividedError(Undivided.MANY)
    if fusion.weights is not None and len(fusion.weights) != len(prefetches):
        raise UndividedError(Undivided.MEMBER)  # the server refuses it
    shared = [b'"%s":%s' % (name.encode(), body[root[name].value : root[name].end]) for name in _SHARED if name in root]
    condition = present(body, root, "filter")
    searches, plans, items = [], [], []
    for index, span in enumerate(prefetches):
        prefetch = members_of(body, span)
        search, leaf = _leaf(body, prefetch, plan, index, call.searches[0].partition)
        searches.append(search)
        plans.append(leaf)
        items.append(_item(body, span, prefetch, shared, condition))
    text = b'{"searches":[%s]}' % b",".join(items)
    document = Document(body=text, plans=tuple(plans), batch=len(plans), in_object=True)
    read = SearchCall(operation=call.operation, searches=tuple(searches), needs=call.needs, document=document)
    return Divided(ending=Ending(new="/batch"), parts=(Part(text, read),), fusion=fusion)


def _leaf(body: bytes, prefetch: Members, root: Plan, index: int, partition: bytes) -> tuple[Search, Plan]:
    """One prefetch as a search, and how its list is read. Raises UndividedError or ValueError."""
    if listed(body, prefetch):
        raise UndividedError(Undivided.NESTED)
    query = present(body, prefetch, "query")
    if query is None:
        raise UndividedError(Undivided.UNRANKED)
    if not prefetch.keys() <= _LEAF | {"prefetch"}:
        raise UndividedError(Undivided.MEMBER)
    try:
        ranking = of_query(body, prefetch, 0)
    except UnsupportedError:
        raise UndividedError(Undivided.UNRANKED) from None
    if ranking.kind is Kind.REFERENCE and not is_inferred(body, query):
        raise UndividedError(Undivided.POINTS)
    limit = present(body, prefetch, "limit")
    count = QUERY_LIMIT if limit is None else _integer(body, limit)
    is_compared = ranking.name == root.name
    search = Search(
        top_k=count,
        offset=0,
        pages=False,
        query=dense_at(body, ranking.dense) if is_compared else None,
        partition=partition,
    )
    plan = Plan(
        index=index, start=0, top_k=count, limit=None, offset=None, vectors=Vectors(selection=True, span=None),
        selector=None, payload=Payload(is_cut=root.payload.is_cut), name=root.name, prefers=root.prefers, fetches=root.fetches,
    )  # fmt: skip
    return search, plan


def _item(body: bytes, span: Span, prefetch: Members, shared: list[bytes], condition: Span | None) -> bytes:
    """The search of a prefetch: its own bytes, with the root's filter, and the members that all searches get. Raises UndividedError or
    ValueError.
    """
    start, end = span
    added, edits = list(shared), []
    if condition is not None:
        root, leaf = body[condition[0] : condition[1]], prefetch.get("filter")
        if leaf is None:
            added.append(b'"filter":' + root)
        else:
            leaf_filter = present(body, prefetch, "filter")
            both = root if leaf_filter is None else _both(body, condition, leaf_filter)
            edits.append((leaf.value - start, leaf.end - start, both))
    edits += [(end - start - 1, end - start - 1, b"," + member) for member in added]
    return splice(body[start:end], edits)


def _both(body: bytes, one: Span, other: Span) -> bytes:
    """Two filters, both of which must hold. The server concatenates their lists of conditions, which is equivalent only for lists of
    conditions that must all hold. Raises UndividedError or ValueError.
    """
    if not (members_of(body, one).keys() | members_of(body, other).keys()) <= _CONJUNCTIONS:
        raise UndividedError(Undivided.MEMBER)
    return b'{"must":[%s,%s]}' % (body[one[0] : one[1]], body[other[0] : other[1]])


def _integer(body: bytes, span: Span) -> int:
    if not _INTEGER.fullmatch(body, *span):
        raise ValueError(f"no whole number at byte {span[0]}")
    return int(body[span[0] : span[1]])


def _number(body: bytes, span: Span) -> float:
    value = float(body[span[0] : span[1]]) if _NUMBER.fullmatch(body, *span) else math.nan
    if not math.isfinite(value):
        raise ValueError(f"no number at byte {span[0]}")
    return value


def fused(_: Divided, replies: Sequence[Reply], ranked: Fused) -> bytes:
    """As in the contract. A score is written as servers write a float32: with the fewest digits that identify it."""
    (reply,) = replies
    document = typed(reply.document, ReplyDocument)
    source, text = document.source, document.text
    result = members_of(text, whole(text))["result"]
    pieces = [source.cut(0, result.value), b'{"points":[']
    for place, (index, row, score) in enumerate(ranked):
        point = document.lists[index].point(row)
        if place:
            pieces.append(b",")
        pieces += edited(source, point.span, [(*point.score, orjson.dumps(score, option=orjson.OPT_SERIALIZE_NUMPY))])
    pieces += (b"]}", source.cut(result.end, len(text)))
    return b"".join(pieces)
