"""Parses and widens one search, or the searches of ``_msearch``.

The client's bytes are spliced. Both servers refuse unknown members; one that a newer server may know makes a search unsupported. A batch has
two lines for each search: a header that names its index, and its body.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from ..base import check_page
from ..contract import Needs, Operation, Reason, Search, SearchCall, UnsupportedError
from ..wire.json import Members, Span, members_of, splice, whole
from ..wire.json_requests import integer, one_or_more, present, read_object, text_of, vector_of
from ..wire.json_vectors import REMEMBERED, Edit, query_aside
from ..wire.vectors import usable
from . import calls, parameters
from .ranking import DEFAULT_SIZE, Lift, Ranking, Reader, ranking_of
from .selection import FIELDS, Source, Vector, listed_fields, plan_source, plan_vector

# The servers' default of index.max_result_window, and their bound on neighbours. A smaller window is learned from the refusal.
LARGEST_WINDOW = 10_000

# Members that a wider search leaves as they are: they say what is found, or what is shown of each result.
_PLAIN = frozenset(
    {
        "query", "knn", "retriever", "rank", "sub_searches", "size", "from", "_source", "fields", "stored_fields", "docvalue_fields",
        "script_fields", "runtime_mappings", "derived", "min_score", "post_filter", "track_total_hits", "track_scores", "timeout",
        "stats", "version", "seq_no_primary_term", "indices_boost", "highlight", "suggest", "aggs", "aggregations", "sort",
        "search_pipeline", "include_named_queries_score",
    }
)  # fmt: skip
# The client's own order, or its own way through the results.
_ORDERING = frozenset({"collapse", "search_after", "slice", "rescore", "terminate_after"})
_OFF = frozenset({b"null", b"false", b"[]", b"{}"})
# Of what is counted among all neighbours, and of filters behind them, the number of neighbours decides.
_COUNTED = ("aggs", "aggregations", "post_filter")
_BY_SCORE = frozenset(
    {b'"_score"', b'["_score"]', b'[{"_score":"desc"}]', b'[{"_score":{"order":"desc"}}]', b'{"_score":"desc"}',
     b'{"_score":{"order":"desc"}}'}
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """One supported search. ``index``: in the batch, else 0. ``start``: of its opening brace. ``query``: the span of a dense query vector.
    ``size``, ``offset``: spans of these values; None if absent, and for an offset of 0. ``neighbours``, ``is_global``: as for Ranking. ``is_sampled``:
    whether a widened version counts the client's neighbours. ``edits``: those of any widened version.
    """

    index: int
    start: int
    query: Span | None
    top_k: int
    size: Span | None
    offset: Span | None
    neighbours: int | None
    is_global: bool
    is_sampled: bool
    lifts: tuple[Lift, ...]
    edits: tuple[Edit, ...]
    source: Source
    vector: Vector

    def widened(self, count: int) -> list[Edit]:
        fetched = [*self.source.edits, *([] if self.vector.edit is None else [self.vector.edit])]
        if self.offset is not None:
            fetched.append((*self.offset, b"0"))
        if count == self.top_k and self.offset is None:
            return fetched
        at = self.start + 1
        size = (at, at, b'"size":%d,' % count) if self.size is None else (*self.size, b"%d" % count)
        return [*fetched, size, *self.edits, *(edit for lift in self.lifts for edit in lift.edits(count))]


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """A parsed request. ``body``: with what the query string says of it. ``batch``: its number of searches, None if it is no batch. ``aside``: where
    ``body`` has a placeholder for the array ``numbers``; None: nowhere.
    """

    body: bytes
    plans: tuple[Plan, ...]
    batch: int | None = None
    aside: Span | None = None
    numbers: bytes = b""


# Of the best ``k`` documents of each shard the number, which the wider search does not show where a shard has fewer. A sampler needs an
# aggregation inside. OpenSearch examines the segments of a shard one by one beside it, so it is for several indices alone.
_SAMPLE = b'"aggs":{"_vecsieve":{"sampler":{"shard_size":%d},"aggs":{"n":{"filter":{"match_all":{}}}}}},'

# Before the query's vector.
_VECTOR = re.compile(rb'"(?:vector|query_vector|query_value)"[ \t\r\n]*:[ \t\r\n]*(?=\[)')


def parse(operation: Operation, body: bytes, needs: Needs) -> SearchCall:
    """Raises UnsupportedError, nothing else."""
    if operation.name == calls.MULTI_SEARCH:
        searches, document = _batch(operation, body, needs)
    else:
        is_moved = operation.query is not None
        search, document = (None if is_moved else _aside(operation, body, needs)) or _single(operation, body, needs)
        searches = (search,)
    return SearchCall(operation=operation, searches=searches, needs=needs, document=document)


def _aside(operation: Operation, body: bytes, needs: Needs) -> tuple[Search, Document] | None:
    """A search with one array of numbers; None for any other. Raises UnsupportedError."""
    match = _VECTOR.search(body)
    aside = None if match is None else query_aside(body, match.end())
    if aside is None:
        return None
    try:
        search, document = _single_once(operation, aside.text, needs)
    except UnsupportedError:
        return None  # the whole text may fail for another reason
    if document.plans[0].query != aside.span:
        return None
    is_array, vector = aside.read(is_compared=search.query is not None)
    if not is_array:
        return None
    return replace(search, query=vector), replace(document, aside=aside.span, numbers=aside.numbers)


def _single(operation: Operation, body: bytes, needs: Needs) -> tuple[Search, Document]:
    """Raises UnsupportedError, nothing else."""
    named = parameters.read(operation.partition, may_move=True)
    body = parameters.moved(named, body, whole(body))
    span = whole(body)
    root = read_object(body, span, reason=Reason.NOT_JSON)
    search, plan = _search(operation, body, root, span[0], needs, 0, has_pipeline=parameters.PIPELINE in named)
    return search, Document(body=body, plans=(plan,))


_single_once = lru_cache(maxsize=REMEMBERED)(_single)


def widen(document: Document, fetch_k: Sequence[int]) -> bytes:
    """The request for ``fetch_k[i]`` candidates of plan i; 0 leaves that search unchanged."""
    edits: list[Edit] = [] if document.aside is None else [(*document.aside, document.numbers)]
    for plan, count in zip(document.plans, fetch_k, strict=True):
        if count:
            edits += plan.widened(count)
    return splice(document.body, edits)


def _search(
    operation: Operation, body: bytes, root: Members, start: int, needs: Needs, index: int, *, has_pipeline: bool
) -> tuple[Search, Plan]:
    """Raises UnsupportedError."""
    _check_root(body, root)
    size, offset = present(body, root, "size"), present(body, root, "from")
    top_k = DEFAULT_SIZE if size is None else integer(body, size)
    skipped = 0 if offset is None else integer(body, offset)
    if not top_k:  # aggregations alone
        raise UnsupportedError(Reason.NOTHING_TO_DO)
    check_page(top_k, skipped)
    reader = Reader(body, skipped, skipped + top_k, needs.bounds.nesting, operation.query is not None)
    ranking = ranking_of(reader, root)
    _check_pipeline(body, root, ranking, has_pipeline=has_pipeline)
    if any(present(body, root, name) is not None for name in _COUNTED):
        ranking = ranking.among_others()
    field = ranking.field if needs.vector_name is None else needs.vector_name
    vector = plan_vector(body, root, start, field, needs)
    # OpenSearch returns in ``fields`` only what ``_source`` selects.
    is_opensearch = operation.backend == calls.OPENSEARCH
    is_of_source = vector.is_in_source or (is_opensearch and vector.edit is not None)
    listed = listed_fields(body, root, FIELDS)[1] if is_opensearch else ()
    source = plan_source(body, root, start, needs, field if is_of_source else "", listed)
    is_sampled = ranking.neighbours is not None and not ranking.is_global and calls.may_be_several(operation.collection)
    sample = ((start + 1, start + 1, _SAMPLE % ranking.neighbours),) if is_sampled else ()
    plan = Plan(
        index=index, start=start, query=ranking.query, top_k=top_k, size=size, offset=offset if skipped else None,
        neighbours=ranking.neighbours, is_global=ranking.is_global, is_sampled=is_sampled, lifts=ranking.lifts, edits=(*ranking.edits, *sample), source=source, vector=vector,
    )  # fmt: skip
    is_comparable = needs.query and field == ranking.field and ranking.query is not None
    search = Search(
        top_k=top_k,
        offset=skipped,
        pages=offset is not None,
        query=usable(vector_of(body, ranking.query)) if is_comparable else None,
        most=LARGEST_WINDOW if ranking.most is None else min(ranking.most, LARGEST_WINDOW),
        is_cut=plan.source.is_cut,
    )
    return search, plan


def _check_root(body: bytes, root: Members) -> None:
    """Raises UnsupportedError for members that choose an order, and for unknown ones."""
    active = {name for name, member in root.items() if body[member.value : member.end] not in _OFF}
    if not _ORDERING.isdisjoint(active) or ("ext" in active and b'"mmr"' in body[slice(*root["ext"].span)]):
        raise UnsupportedError(Reason.ORDERING_CHOSEN)
    if not active <= _PLAIN:
        raise UnsupportedError(Reason.UNSUPPORTED_FIELD)
    if "sort" in active and b"".join(body[slice(*root["sort"].span)].split()) not in _BY_SCORE:
        raise UnsupportedError(Reason.ORDERING_CHOSEN)
    # An unset size or start is not what a server reads from null.
    if any(name in root and present(body, root, name) is None for name in ("size", "from")):
        raise UnsupportedError(Reason.AMBIGUOUS_FIELD)


def _check_pipeline(body: bytes, root: Members, ranking: Ranking, *, has_pipeline: bool) -> None:
    """Raises UnsupportedError for a pipeline that may reorder what is found. A hybrid search needs one, for its scores."""
    span = present(body, root, "search_pipeline")
    if (has_pipeline or span is not None) and not ranking.is_hybrid:
        raise UnsupportedError(Reason.UNSUPPORTED_FIELD)
    if span is not None and b"response_processors" in body[slice(*span)]:
        raise UnsupportedError(Reason.UNSUPPORTED_FIELD)


# Batches.

_HEADER = (
    "index", "search_type", "preference", "routing", "request_cache", "allow_partial_search_results", "ccs_minimize_roundtrips",
    "expand_wildcards", "ignore_unavailable", "ignore_throttled", "allow_no_indices",
)  # fmt: skip


def _batch(operation: Operation, body: bytes, needs: Needs) -> tuple[tuple[Search, ...], Document]:
    """Raises UnsupportedError, nothing else."""
    has_pipeline = parameters.PIPELINE in parameters.read(operation.partition, may_move=False)
    items = _items(body, needs.bounds.searches)
    read = [_item(body, item, operation, needs, index, has_pipeline=has_pipeline) for index, item in enumerate(items)]
    supported = [search for search in read if search is not None]
    if not supported:
        raise UnsupportedError(Reason.NOTHING_TO_DO)
    searches, plans = zip(*supported, strict=True)
    return searches, Document(body=body, plans=plans, batch=len(items))


def _items(body: bytes, most: int) -> list[tuple[Span, Span]]:
    """The lines of each search: its header, and its body. Raises UnsupportedError."""
    lines: list[Span] = []
    start = 0
    while start < len(body):
        end = body.find(b"\n", start)
        if end < 0 or len(lines) > 2 * most:
            break
        lines.append((start, end))
        start = end + 1
    if len(lines) > 2 * most:
        raise UnsupportedError(Reason.TOO_MANY_SEARCHES)
    if start < len(body) or len(lines) % 2 or not lines:
        raise UnsupportedError(Reason.NOT_JSON)
    return list(zip(lines[::2], lines[1::2], strict=True))


def _item(
    body: bytes, lines: tuple[Span, Span], operation: Operation, needs: Needs, index: int, *, has_pipeline: bool
) -> tuple[Search, Plan] | None:
    """One search of a batch; None for an unsupported one, which stays unchanged."""
    try:
        named = _named(body, lines[0])
        if operation.collection and named not in {"", operation.collection}:
            return None  # what is learned of one index says nothing of another one
        span = trimmed(body, lines[1])
        search = replace(operation, collection=named or operation.collection or calls.EVERY_INDEX)
        return _search(search, body, members_of(body, span), span[0], needs, index, has_pipeline=has_pipeline)
    except (UnsupportedError, ValueError):  # ValueError: no object, or a repeated key; the server answers
        return None


def trimmed(body: bytes, line: Span) -> Span:
    """The line without the white space around its value."""
    start, end = whole(body[slice(*line)])
    return line[0] + start, line[0] + end


def _named(body: bytes, line: Span) -> str:
    """The index that a header names; "" for none. Raises UnsupportedError."""
    span = trimmed(body, line)
    if span[0] >= span[1]:
        return ""
    indices = one_or_more(body, read_object(body, span, _HEADER), "index")
    return ",".join([text_of(body, index) for index in indices])


def collections_in(body: bytes) -> frozenset[str]:
    """The indices that the headers of a batch without one in its path name, as they are written. Never raises."""
    try:
        return frozenset([_named(body, header) or calls.EVERY_INDEX for header, _ in _items(body, len(body))])
    except UnsupportedError:
        return frozenset()
