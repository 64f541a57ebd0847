"""A Qdrant search request: what it asks for, and the same bytes asking for more.

Rule of this file: the client's bytes are spliced, never written anew. The server ignores members it does not know, but a
newer server may know what this adapter does not (MMR came that way); a member outside the tables below therefore
leaves its search alone. Members the server is known to ignore are in the tables.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from vecsieve.adapters.contract import Needs, Operation, Reason, Search, SearchCall, UnsupportedError
from vecsieve.adapters.qdrant import rest_query
from vecsieve.adapters.qdrant.ranking import Ranking, askable, check_shown, compared, forced, missing
from vecsieve.adapters.qdrant.rest_query import present
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
from vecsieve.adapters.wire.json_vectors import decode_matrix

# Which vectors and payload a Qdrant client asked for, and how each selection is widened by what selection needs.
#
# Only what is missing is added, and what was added is remembered, so that the reply can be restored point by point.


@dataclass(frozen=True, slots=True)
class Vectors:
    """The client's vector selector: nothing, everything, or these names."""

    wanted: bool | tuple[str, ...]
    span: Span | None  # where the value stands; None where the member is absent


@dataclass(frozen=True, slots=True)
class Payload:
    """How the payload selection changes.

    ``value``: what the selector must say, None to leave it. ``is_forced``: the whole payload is ours.
    ``added``: these keys of it are ours.
    """

    span: Span | None
    value: bytes | None = None
    is_forced: bool = False
    added: tuple[str, ...] = ()


def read_vectors(text: bytes, span: Span | None) -> Vectors:
    """Read ``with_vector``. Raises UnsupportedError."""
    value = b"null" if span is None else text[span[0] : span[1]]
    if value in {b"null", b"false"}:
        return Vectors(wanted=False, span=span)
    if value == b"true":
        return Vectors(wanted=True, span=span)
    names = _strings(text, span)
    if names is None:
        raise UnsupportedError(Reason.UNSUPPORTED_FIELD)
    return Vectors(wanted=names, span=span)


def widen_vectors(text: bytes, vectors: Vectors, name: str | None) -> bytes | None:
    """The selector that also asks for ``name`` (None: for every vector); None where the client's already does."""
    if vectors.wanted is True:
        return None
    if name is None:
        return b"true"
    if vectors.wanted is False or vectors.span is None:
        return _array([name])
    return None if name in vectors.wanted else _appended(text, vectors.span, [name])


def plan_payload(
    text: bytes, span: Span | None, fields: Sequence[str], optional: Sequence[str] = (), *, may_force: bool = True
) -> Payload:
    """How ``with_payload`` must change so that the top-level keys ``fields`` come along.

    Raises UnsupportedError where one of ``fields`` could not be had and taken out again exactly. ``optional`` keys come along
    where they can; a selection that names a part of one, hides one or is not understood costs those keys and nothing else.
    ``may_force``: whether they are worth asking for where the client wants no payload at all.
    """
    value = b"null" if span is None else text[span[0] : span[1]]
    if value == b"true":
        return Payload(span)
    plain = askable(optional, fields)
    if value in {b"null", b"false"}:
        wanted = forced(fields, plain if may_force else ())
        return Payload(span, value=_array(wanted), is_forced=True) if wanted else Payload(span)
    if not (fields or plain):
        return Payload(span)
    try:
        return _plan_chosen(text, span, fields, plain)
    except (UnsupportedError, ValueError):  # ValueError: an object that names a member twice, a key that is no text
        if fields:
            raise
        return Payload(span)


def _plan_chosen(text: bytes, span: Span | None, fields: Sequence[str], optional: Sequence[str]) -> Payload:
    """For a selector that is a list or an object. Raises UnsupportedError, or ValueError."""
    if span is None or text[span[0]] not in b"[{":
        raise UnsupportedError(Reason.PAYLOAD_SELECTOR)
    if text[span[0]] == ord("["):
        return _plan_include(text, span, fields, optional)
    found = members(text, span)
    if found.keys() == {"include"}:
        return _plan_include(text, (found["include"].value, found["include"].end), fields, optional)
    if found.keys() == {"exclude"}:
        check_shown(_paths(text, (found["exclude"].value, found["exclude"].end)), fields)
        return Payload(span)  # whatever of the optional keys it spares comes by itself
    raise UnsupportedError(Reason.PAYLOAD_SELECTOR)


def _plan_include(text: bytes, span: Span, fields: Sequence[str], optional: Sequence[str]) -> Payload:
    added = missing(_paths(text, span), fields, optional)
    return Payload(span, value=_appended(text, span, added), added=added) if added else Payload(span)


def _paths(text: bytes, span: Span) -> tuple[str, ...]:
    paths = _strings(text, span)
    if paths is None:
        raise UnsupportedError(Reason.PAYLOAD_SELECTOR)
    return paths


def _strings(text: bytes, span: Span | None) -> tuple[str, ...] | None:
    if span is None or text[span[0] : span[0] + 1] != b"[":
        return None
    try:
        return tuple(string(text[start:end]) for start, end in elements(text, span))
    except ValueError:
        return None


def _array(names: Sequence[str]) -> bytes:
    return json.dumps(list(names), ensure_ascii=False, separators=(",", ":")).encode()


def _appended(text: bytes, span: Span, names: Sequence[str]) -> bytes:
    """The client's list, its bytes kept, with ``names`` behind."""
    body = text[span[0] : span[1] - 1]
    return body + (b"," if elements(text, span) else b"") + _array(names)[1:]


# The server's default for ``query``; the older endpoints require a limit.
QUERY_LIMIT = 10

_Edit = tuple[int, int, bytes]

_COMMON = frozenset({"filter", "params", "offset", "with_payload", "with_vector", "shard_key", "score_threshold"})
_INTEGER = re.compile(rb"0|[1-9][0-9]{0,18}")


@dataclass(frozen=True, slots=True)
class Endpoint:
    """One search endpoint: its members, the spellings of two of them, and how its ranking is read.

    ``is_old``: servers answer it that write an absent payload as null (up to 1.9). Once all payload is ours, their reply
    no longer shows it.
    """

    members: frozenset[str]
    limits: tuple[str, ...]
    selectors: tuple[str, ...]
    default_limit: int | None
    ranking: Callable[[bytes, Members, int], Ranking]
    is_old: bool = True


# Ignored by the server and therefore left alone: `top` on query; `with_vectors` and `score_threshold` on discover,
# where the alias does not exist.
ENDPOINTS: Mapping[str, Endpoint] = {
    "query": Endpoint(
        _COMMON | {"query", "prefetch", "using", "limit", "top", "with_vectors", "lookup_from"},
        ("limit",),
        ("with_vector", "with_vectors"),
        QUERY_LIMIT,
        rest_query.of_query,
        is_old=False,  # of 1.10, the first that leaves absent members out
    ),
    "search": Endpoint(
        _COMMON | {"vector", "limit", "top", "with_vectors"},
        ("limit", "top"),
        ("with_vector", "with_vectors"),
        None,
        rest_query.of_search,
    ),
    "recommend": Endpoint(
        _COMMON | {"positive", "negative", "strategy", "using", "lookup_from", "limit", "top", "with_vectors"},
        ("limit", "top"),
        ("with_vector", "with_vectors"),
        None,
        rest_query.of_reference,
    ),
    "discover": Endpoint(
        _COMMON | {"target", "context", "using", "lookup_from", "limit", "top", "with_vectors"},
        ("limit", "top"),
        ("with_vector",),
        None,
        rest_query.of_reference,
    ),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """One search that is ours: where its fields stand, and what will be added.

    ``index``: which item of the batch it is (0 without a batch). ``start``: its opening brace. ``offset``: None also
    where the client wrote null.
    ``name``: the vector to compare; None asks for all, then ``prefers`` is the one the query searches.
    """

    index: int
    start: int
    top_k: int
    limit: Span | None
    offset: Span | None
    vectors: Vectors
    payload: Payload
    name: str | None
    prefers: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """A parsed request. ``batch``: how many items it has, None when it is no batch."""

    body: bytes
    plans: tuple[Plan, ...]
    batch: int | None


def parse_request(operation: Operation, body: bytes, needs: Needs) -> SearchCall:
    """Read what the client wants. Raises UnsupportedError, nothing else."""
    try:
        span = whole(body)
        found = members(body, span)
    except RepeatedKeyError:
        raise UnsupportedError(Reason.AMBIGUOUS_FIELD) from None
    except ValueError:
        raise UnsupportedError(Reason.NOT_JSON) from None
    name, _, is_batch = operation.name.partition("_")
    endpoint = ENDPOINTS[name]
    if not is_batch:
        search, plan = _read(body, found, endpoint, needs, (0, span[0]))
        return _call(operation, needs, [(search, plan)], Document(body=body, plans=(plan,), batch=None))
    items = present(body, found, "searches")
    if items is None or body[items[0] : items[0] + 1] != b"[":
        raise UnsupportedError(Reason.NOT_JSON)
    if found.keys() != {"searches"}:
        raise UnsupportedError(Reason.UNSUPPORTED_FIELD)
    spans = elements(body, items)
    if len(spans) > needs.bounds.searches:
        raise UnsupportedError(Reason.TOO_MANY_SEARCHES)
    ours = [read for index, item in enumerate(spans) if (read := _read_item(body, item, endpoint, needs, index))]
    if not ours:
        raise UnsupportedError(Reason.NOTHING_TO_DO)
    plans = tuple(plan for _, plan in ours)
    return _call(operation, needs, ours, Document(body=body, plans=plans, batch=len(spans)))


def widen(document: Document, fetch_k: Sequence[int]) -> bytes:
    """The request that asks for ``fetch_k[i]`` candidates from rank 0 for plan i, with vectors and payload keys added.

    A count of 0 leaves that search as the client sent it.
    """
    edits: list[_Edit] = []
    for plan, count in zip(document.plans, fetch_k, strict=True):
        if count:
            edits += _edits(document.body, plan, count)
    return splice(document.body, edits)


def _edits(body: bytes, plan: Plan, count: int) -> list[_Edit]:
    wanted = [
        ("limit", plan.limit, None if count == plan.top_k else str(count).encode()),
        ("offset", plan.offset, None if plan.offset is None else b"0"),
        ("with_vector", plan.vectors.span, widen_vectors(body, plan.vectors, plan.name)),
        ("with_payload", plan.payload.span, plan.payload.value),
    ]
    changed = [(name, span, value) for name, span, value in wanted if value is not None]
    # Right after the brace, each with a comma: an object that is ours has a member, its query.
    added = b"".join(b'"%s":%s,' % (name.encode(), value) for name, span, value in changed if span is None)
    edits = [(*span, value) for _, span, value in changed if span is not None]
    return [*edits, (plan.start + 1, plan.start + 1, added)] if added else edits


def _call(operation: Operation, needs: Needs, ours: Sequence[tuple[Search, Plan]], document: Document) -> SearchCall:
    return SearchCall(operation=operation, searches=tuple(search for search, _ in ours), needs=needs, document=document)


def _read_item(body: bytes, item: Span, endpoint: Endpoint, needs: Needs, index: int) -> tuple[Search, Plan] | None:
    """One item of a batch; None when it is not ours and stays as it is."""
    try:
        return _read(body, members(body, item), endpoint, needs, (index, item[0]))
    except (UnsupportedError, ValueError):  # ValueError: no object, or a repeated key: the server's to answer
        return None


def _read(body: bytes, found: Members, endpoint: Endpoint, needs: Needs, place: tuple[int, int]) -> tuple[Search, Plan]:
    if not found.keys() <= endpoint.members:
        raise UnsupportedError(Reason.UNSUPPORTED_FIELD)
    try:
        ranking = endpoint.ranking(body, found, needs.bounds.nesting)
        limit = _one_of(found, endpoint.limits)
        top_k = _integer(body, limit, default=endpoint.default_limit)
        offset = present(body, found, "offset")
        skipped = _integer(body, offset, default=0)
        vectors = read_vectors(body, _one_of(found, endpoint.selectors))
        payload = plan_payload(
            body,
            _one_of(found, ("with_payload",)),
            needs.payload_fields,
            needs.optional_fields,
            may_force=not endpoint.is_old,
        )
    except RepeatedKeyError:
        raise UnsupportedError(Reason.AMBIGUOUS_FIELD) from None
    except ValueError:  # a key that is no Unicode text
        raise UnsupportedError(Reason.UNSUPPORTED_FIELD) from None
    if top_k == 0:
        raise UnsupportedError(Reason.AMBIGUOUS_FIELD)
    if top_k + skipped == 1:
        raise UnsupportedError(Reason.SINGLE_RESULT)
    name = compared(ranking, needs, vectors.wanted)
    plan = Plan(
        index=place[0], start=place[1], top_k=top_k, limit=limit, offset=offset,
        vectors=vectors, payload=payload, name=name, prefers=ranking.name,
    )  # fmt: skip
    query = _dense(body, ranking) if name == ranking.name else None  # another vector lives in another space
    return Search(top_k=top_k, offset=skipped, pages=offset is not None, query=query), plan


def _dense(body: bytes, ranking: Ranking) -> npt.NDArray[np.float32] | None:
    if ranking.dense is None:
        return None
    check_dimensions(body, *ranking.dense)
    row = decode_matrix([body[ranking.dense[0] : ranking.dense[1]]])[0][0]
    return row if len(row) and bool(np.isfinite(row).all()) else None


def _one_of(found: Members, names: Sequence[str]) -> Span | None:
    """The span of the one spelling that is used; the server refuses a field that is named twice."""
    used = [found[name] for name in names if name in found]
    if len(used) > 1:
        raise UnsupportedError(Reason.AMBIGUOUS_FIELD)
    return (used[0].value, used[0].end) if used else None


def _integer(body: bytes, span: Span | None, *, default: int | None) -> int:
    """A plain non-negative integer; null counts as absent where there is a default. Raises UnsupportedError."""
    value = b"null" if span is None else body[span[0] : span[1]]
    if value == b"null" and default is not None:
        return default
    if not _INTEGER.fullmatch(value):
        raise UnsupportedError(Reason.AMBIGUOUS_FIELD)
    return int(value)
