"""Parses and widens a search over REST.

The client's bytes are spliced, never encoded again. Servers ignore unknown members, but a newer server may know a member that this
adapter does not, as MMR once was: a member outside the tables below makes its search unsupported. Members that all servers ignore
are in the tables.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ..base import check_page
from ..contract import Needs, Operation, Reason, Search, SearchCall, UnsupportedError
from ..wire.json import (
    Members,
    RepeatedKeyError,
    Span,
    check_dimensions,
    elements,
    members_of,
    splice,
    string,
    whole,
)
from ..wire.json_requests import present
from ..wire.json_vectors import REMEMBERED, decode_matrix, query_aside
from ..wire.vectors import usable
from . import ranking
from .ranking import Payload, Ranking, compared, plan_payload, without_known


@dataclass(frozen=True, slots=True)
class Vectors:
    """The client's vector selector: nothing, everything, or these names. ``span``: None if the member is absent."""

    selection: bool | tuple[str, ...]
    span: Span | None


def read_vectors(text: bytes, span: Span | None) -> Vectors:
    """Parse ``with_vector``. Raises UnsupportedError."""
    value = b"null" if span is None else text[span[0] : span[1]]
    if value in {b"null", b"false"}:
        return Vectors(selection=False, span=span)
    if value == b"true":
        return Vectors(selection=True, span=span)
    names = _strings(text, span)
    if names is None:
        raise UnsupportedError(Reason.UNSUPPORTED_FIELD)
    return Vectors(selection=names, span=span)


def widen_vectors(text: bytes, vectors: Vectors, name: str | None) -> bytes | None:
    """The selector with ``name`` (None: with every vector); None if the client's includes it already."""
    if vectors.selection is True:
        return None
    if name is None:
        return b"true"
    if vectors.selection is False or vectors.span is None:
        return _array([name])
    return None if name in vectors.selection else _appended(text, vectors.span, [name])


def read_payload(text: bytes, span: Span | None, needs: Needs, *, may_force: bool = True) -> Payload:
    """The additions to ``with_payload``, as `plan_payload`."""
    value = b"null" if span is None else text[span[0] : span[1]]

    def chosen() -> tuple[bool, Sequence[str]]:
        is_included, listed = _chosen(text, span)
        return is_included, _paths(text, listed)

    return plan_payload({b"true": True, b"false": False, b"null": False}.get(value), chosen, needs, may_force=may_force)


def widen_payload(text: bytes, span: Span | None, payload: Payload) -> tuple[Span | None, bytes | None]:
    """The span that is replaced, None for an absent member, and its new value; None if the client's is unchanged."""
    if not payload.added:
        return span, None
    if payload.is_forced:
        return span, b"true" if payload.is_whole else _array(payload.added)
    _, listed = _chosen(text, span)
    return listed, _appended(text, listed, payload.added)


def _chosen(text: bytes, span: Span | None) -> tuple[bool, Span]:
    """Whether paths are included, or excluded, and their list. Raises UnsupportedError, or ValueError."""
    if span is not None and text[span[0]] == ord("["):
        return True, span
    selector = members_of(text, span) if span is not None and text[span[0]] == ord("{") else {}
    if selector.keys() not in ({"include"}, {"exclude"}):
        raise UnsupportedError(Reason.PAYLOAD_SELECTOR)
    ((name, member),) = selector.items()
    return name == "include", member.span


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
    """The client's list with ``names`` appended."""
    body = text[span[0] : span[1] - 1]
    return body + (b"," if elements(text, span) else b"") + _array(names)[1:]


# The server's default for ``query``; the older endpoints require a limit.
QUERY_LIMIT = 10

_Edit = tuple[int, int, bytes]
_Supported = tuple[Search, "Plan", Span | None]

_COMMON = frozenset({"filter", "params", "offset", "with_payload", "with_vector", "shard_key", "score_threshold"})
_INTEGER = re.compile(rb"0|[1-9][0-9]{0,18}")


@dataclass(frozen=True, slots=True)
class Endpoint:
    """One search endpoint: its members, the spellings of two of them, and the parser of its ranking.

    ``is_old``: its servers may write an absent payload as null (up to 1.9), which is not visible in a reply with a forced payload.
    """

    members: frozenset[str]
    limits: tuple[str, ...]
    selectors: tuple[str, ...]
    default_limit: int | None
    ranking: Callable[[bytes, Members, int], Ranking]
    is_old: bool = True


# Ignored by the server: `top` on query; `with_vectors` and `score_threshold` on discover.
ENDPOINTS: Mapping[str, Endpoint] = {
    "query": Endpoint(
        _COMMON | {"query", "prefetch", "using", "limit", "top", "with_vectors", "lookup_from"},
        ("limit",),
        ("with_vector", "with_vectors"),
        QUERY_LIMIT,
        ranking.of_query,
        is_old=False,  # since 1.10, which leaves absent members out
    ),
    "search": Endpoint(
        _COMMON | {"vector", "limit", "top", "with_vectors"},
        ("limit", "top"),
        ("with_vector", "with_vectors"),
        None,
        ranking.of_search,
    ),
    "recommend": Endpoint(
        _COMMON | {"positive", "negative", "strategy", "using", "lookup_from", "limit", "top", "with_vectors"},
        ("limit", "top"),
        ("with_vector", "with_vectors"),
        None,
        ranking.of_reference,
    ),
    "discover": Endpoint(
        _COMMON | {"target", "context", "using", "lookup_from", "limit", "top", "with_vectors"},
        ("limit", "top"),
        ("with_vector",),
        None,
        ranking.of_reference,
    ),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """One supported search: the spans of its fields, and its additions.

    ``index``: in the batch, else 0. ``start``: of its opening brace. ``offset``: None for null as well. ``selector``: of the payload.
    ``name``: the vector to compare by; None fetches all, and ``prefers`` is the query's. ``fetches``: whether vectors are added.
    """

    index: int
    start: int
    top_k: int
    limit: Span | None
    offset: Span | None
    vectors: Vectors
    selector: Span | None
    payload: Payload
    name: str | None
    prefers: str
    fetches: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """A parsed request. ``batch``: its number of items, None if it is no batch. ``in_object``: each list of points of the reply is wrapped
    in ``{"points": ..}``. ``aside``: where ``body`` has a placeholder for the array ``numbers``; None: nowhere.
    """

    body: bytes
    plans: tuple[Plan, ...]
    batch: int | None
    in_object: bool
    aside: Span | None = None
    numbers: bytes = b""


def parse_request(operation: Operation, body: bytes, needs: Needs) -> SearchCall:
    read = _read_aside(operation.name, body, needs) or _read_request(operation.name, body, needs)
    return SearchCall(operation=operation, searches=read.searches, needs=read.needs, document=read.document)


class _Read(NamedTuple):
    """A request. ``dense``: the span of the deciding vector of the only search; None in a batch, and if vectors of another name are
    compared. ``needs``: of the call.
    """

    searches: tuple[Search, ...]
    document: Document
    dense: Span | None
    needs: Needs


def _read_aside(name: str, body: bytes, needs: Needs) -> _Read | None:
    """A request with one array of numbers; None for any other. Raises UnsupportedError."""
    aside = query_aside(body, body.find(b"["))
    if aside is None:
        return None
    try:
        read = _read_once(name, aside.text, needs)
    except UnsupportedError:
        return None  # the whole text may fail for another reason
    if read.dense != aside.span:
        return None
    is_array, query = aside.read(is_compared=needs.query)
    if not is_array:
        return None
    (single,), shortened = read.searches, read.document
    document = replace(shortened, aside=aside.span, numbers=aside.numbers)
    return _Read((replace(single, query=query),), document, read.dense, read.needs)


def _read_request(name: str, body: bytes, needs: Needs) -> _Read:
    try:
        span = whole(body)
        root = members_of(body, span)
    except RepeatedKeyError:
        raise UnsupportedError(Reason.AMBIGUOUS_FIELD) from None
    except ValueError:
        raise UnsupportedError(Reason.NOT_JSON) from None
    name, _, is_batch = name.partition("_")
    endpoint, in_object = ENDPOINTS[name], name == "query"
    batch = _batch_items(body, root, needs.bounds.searches) if is_batch else None
    if batch is None:
        supported = [_read(body, root, endpoint, needs, (0, span[0]))]
    else:
        read = [_read_item(body, item, endpoint, needs, index) for index, item in enumerate(batch)]
        supported = [item for item in read if item is not None]
    if not supported:
        raise UnsupportedError(Reason.NOTHING_TO_DO)
    searches, plans, dense = zip(*supported, strict=True)
    document = Document(body=body, plans=plans, batch=None if batch is None else len(batch), in_object=in_object)
    return _Read(searches, document, dense[0] if batch is None else None, without_known(needs))


_read_once = lru_cache(maxsize=REMEMBERED)(_read_request)


def _batch_items(body: bytes, root: Members, most: int) -> list[Span]:
    items = present(body, root, "searches")
    if items is None or body[items[0] : items[0] + 1] != b"[":
        raise UnsupportedError(Reason.NOT_JSON)
    if root.keys() != {"searches"}:
        raise UnsupportedError(Reason.UNSUPPORTED_FIELD)
    spans = elements(body, items)
    if len(spans) > most:
        raise UnsupportedError(Reason.TOO_MANY_SEARCHES)
    return spans


def widen(document: Document, fetch_k: Sequence[int]) -> bytes:
    """The request for ``fetch_k[i]`` candidates of plan i, with vectors and payload keys added; 0 leaves that search unchanged."""
    edits = [] if document.aside is None else [(*document.aside, document.numbers)]
    for plan, count in zip(document.plans, fetch_k, strict=True):
        if count:
            edits += _edits(document.body, plan, count)
    return splice(document.body, edits)


def _edits(body: bytes, plan: Plan, count: int) -> list[_Edit]:
    members = [
        ("limit", plan.limit, None if count == plan.top_k else str(count).encode()),
        ("offset", plan.offset, None if plan.offset is None else b"0"),
        ("with_vector", plan.vectors.span, widen_vectors(body, plan.vectors, plan.name) if plan.fetches else None),
        ("with_payload", *widen_payload(body, plan.selector, plan.payload)),
    ]
    changed = [(name, span, value) for name, span, value in members if value is not None]
    # Placed after the brace, each with a comma: the object has at least one member, its query.
    added = b"".join(b'"%s":%s,' % (name.encode(), value) for name, span, value in changed if span is None)
    edits = [(*span, value) for _, span, value in changed if span is not None]
    return [*edits, (plan.start + 1, plan.start + 1, added)] if added else edits


def _read_item(body: bytes, item: Span, endpoint: Endpoint, needs: Needs, index: int) -> _Supported | None:
    """One item of a batch; None for an unsupported one, which stays unchanged."""
    try:
        return _read(body, members_of(body, item), endpoint, needs, (index, item[0]))
    except (UnsupportedError, ValueError):  # ValueError: no object, or a repeated key; the server answers
        return None


def _read(body: bytes, members: Members, endpoint: Endpoint, needs: Needs, place: tuple[int, int]) -> _Supported:
    if not members.keys() <= endpoint.members:
        raise UnsupportedError(Reason.UNSUPPORTED_FIELD)
    try:
        ranking = endpoint.ranking(body, members, needs.bounds.nesting)
        limit = _one_of(members, endpoint.limits)
        top_k = _integer(body, limit, default=endpoint.default_limit)
        offset = present(body, members, "offset")
        skipped = _integer(body, offset, default=0)
        vectors = read_vectors(body, _one_of(members, endpoint.selectors))
        selector = _one_of(members, ("with_payload",))
        payload = read_payload(body, selector, needs, may_force=not endpoint.is_old)
    except RepeatedKeyError:
        raise UnsupportedError(Reason.AMBIGUOUS_FIELD) from None
    except ValueError:  # a key that is no Unicode text
        raise UnsupportedError(Reason.UNSUPPORTED_FIELD) from None
    if not needs.values:
        payload = Payload(is_cut=payload.is_cut)
    check_page(top_k, skipped)
    name = compared(ranking, needs, vectors.selection)
    plan = Plan(
        index=place[0], start=place[1], top_k=top_k, limit=limit, offset=offset,
        vectors=vectors, selector=selector, payload=payload, name=name, prefers=ranking.name, fetches=needs.vectors,
    )  # fmt: skip
    dense = ranking.dense if name == ranking.name else None  # vectors of another name are not comparable
    shard_key = present(body, members, "shard_key")
    partition = b"" if shard_key is None else body[shard_key[0] : shard_key[1]]
    search = Search(
        top_k=top_k,
        offset=skipped,
        pages=offset is not None,
        query=dense_at(body, dense),
        partition=partition,
        is_cut=payload.is_cut,
    )
    return search, plan, dense


def dense_at(body: bytes, span: Span | None) -> npt.NDArray[np.float32] | None:
    """The usable dense vector in a span; None if there is none. Raises UnsupportedError."""
    if span is None:
        return None
    check_dimensions(body, *span)
    return usable(decode_matrix([body[span[0] : span[1]]])[0][0])


def _one_of(members: Members, names: Sequence[str]) -> Span | None:
    """The span of the value under the only spelling used; the server refuses two."""
    used = [members[name] for name in names if name in members]
    if len(used) > 1:
        raise UnsupportedError(Reason.AMBIGUOUS_FIELD)
    return (used[0].value, used[0].end) if used else None


def _integer(body: bytes, span: Span | None, *, default: int | None) -> int:
    """A non-negative integer; null counts as absent if there is a default. Raises UnsupportedError."""
    value = b"null" if span is None else body[span[0] : span[1]]
    if value == b"null" and default is not None:
        return default
    if not _INTEGER.fullmatch(value):
        raise UnsupportedError(Reason.AMBIGUOUS_FIELD)
    return int(value)
