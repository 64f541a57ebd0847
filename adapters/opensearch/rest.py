"""Parses a reply of ``_search`` or ``_msearch``, and cuts the client's answer from it; the adapters of both products.

The answer has upstream's hits without the others and without the additions; everything around them is unchanged: ``max_score``,
``aggregations``. Of more neighbours than the client's the ``total`` is that of the client's. A reply that is incomplete, because a shard failed or
the time was over, is malformed: the client's own search decides what it gets then. Ambiguous replies are malformed, too.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import msgspec
import numpy as np
import numpy.typing as npt

from ..base import Keep, NotingAdapter
from ..contract import FIELD_BYTES, Allowance, Needs, Operation, Pool, RequestHead
from ..wire.json import (
    Members,
    Span,
    check_members,
    cuts,
    elements,
    last_values,
    members,
    part,
    whole,
    without_surrogates,
)
from ..wire.json_vectors import (
    Edit,
    Shortened,
    decode_matrix,
    edited,
    field_values,
    kept_inside,
    read_aside,
)
from ..wire.vectors import without_vector
from . import calls, request
from .request import Document, Plan
from .selection import FIELDS, SOURCE

_NUMBER_STARTS = b"-0123456789"
_MOST_GUESSES = 32_768
_REFUSED = b'"query_shard_exception"'
_GRAMMAR = msgspec.json.Decoder(msgspec.Raw)


@dataclass(frozen=True, slots=True)
class Hit:
    """One candidate: the span of its object, and its members."""

    span: Span
    members: Members

    def value(self, name: str) -> Span | None:
        member = self.members.get(name)
        return None if member is None else member.span


@dataclass(frozen=True, slots=True)
class Hits:
    """The list of one search: its array, and its hits in order. ``total``: the span of their number, None if absent; ``relation``: the same of
    whether there may be more. ``shards``: how many answered.
    """

    array: Span
    hits: tuple[Hit, ...]
    total: Span | None
    relation: Span | None
    shards: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplyDocument:
    """A parsed reply. Spans are offsets into ``text``: ``source.text`` without surrogate escapes; bytes are cut from ``source``."""

    source: Shortened
    text: bytes
    lists: tuple[Hits, ...]


def guess_vectors(body: bytes, fields: Sequence[str]) -> list[Span]:
    """Likely arrays of numbers under these names, or under the last part of one. Inside a string a quote is escaped, so no match is inside one."""
    names = {name.encode() for field in fields if field for name in (field, field.rpartition(".")[2])}
    spans: list[Span] = []
    if not names:
        return spans
    pattern = re.compile(rb'"(?:%s)"\s*:\s*\[(?=[-\d\s])' % b"|".join(map(re.escape, sorted(names))))
    match = pattern.search(body)
    while match is not None and len(spans) < _MOST_GUESSES:
        end = body.find(b"]", match.end()) + 1
        if not end:
            break
        spans.append((match.end() - 1, end))
        match = pattern.search(body, end)
    return spans


def parse_reply(request: Document, needs: Needs, body: bytes) -> tuple[tuple[Pool, ...], ReplyDocument]:
    """Raises MalformedReplyError, nothing else."""
    guessed = guess_vectors(body, [plan.vector.field for plan in request.plans])
    return read_aside(body, guessed, lambda source: _read(request, needs, source))


def _read(request: Document, needs: Needs, source: Shortened) -> tuple[tuple[Pool, ...], ReplyDocument]:
    for start, end in source.spans:
        try:
            _GRAMMAR.decode(memoryview(source.original)[start:end])
        except msgspec.DecodeError:
            raise ValueError("a span that was set aside is no array") from None
    text = without_surrogates(source.text)
    lists = tuple([_hits(text, answer) for answer in _answers(text, request)])
    if needs.payload_fields:
        check_members(text)
    document = ReplyDocument(source=source, text=text, lists=lists)
    pools = tuple([_pool(document, plan, hits.hits, needs) for plan, hits in zip(request.plans, lists, strict=True)])
    return pools, document


def _answers(text: bytes, request: Document) -> list[Members]:
    """The answer to each plan. Raises ValueError."""
    root = members(text, whole(text))
    if request.batch is None:
        return [root]
    if "responses" not in root:
        raise ValueError("no responses")
    spans = elements(text, root["responses"].span)
    if len(spans) != request.batch:
        raise ValueError(f"{len(spans)} responses, wanted {request.batch}")
    return [members(text, spans[plan.index]) for plan in request.plans]


def _hits(text: bytes, answer: Members) -> Hits:
    """Raises ValueError for an answer that is incomplete, or none."""
    if not {"hits", "timed_out", "_shards"} <= answer.keys():
        raise ValueError("no hits")
    shards = members(text, answer["_shards"].span)
    is_late = text[slice(*answer["timed_out"].span)] != b"false"
    if is_late or not _are_whole(text, shards):
        raise ValueError("an incomplete answer")
    inside = members(text, answer["hits"].span)
    if "hits" not in inside:
        raise ValueError("no list of hits")
    array = inside["hits"].span
    successful = int(text[slice(*shards["successful"].span)])
    return Hits(array, tuple([_hit(text, span) for span in elements(text, array)]), *_total(text, inside), successful)


def _are_whole(text: bytes, shards: Members) -> bool:
    """Whether no shard failed, but for those that refuse the query itself: they refuse the client's, too. Raises ValueError."""
    if not {"failed", "successful"} <= shards.keys():
        return False
    if text[slice(*shards["failed"].span)] == b"0":
        return True
    if "failures" not in shards:
        return False
    failures = [members(text, span) for span in elements(text, shards["failures"].span)]
    reasons = [members(text, failure["reason"].span) for failure in failures if "reason" in failure]
    types = [text[slice(*reason["type"].span)] for reason in reasons if "type" in reason]
    return len(types) == len(failures) and set(types) == {_REFUSED}


def _total(text: bytes, inside: Members) -> tuple[Span | None, Span | None]:
    """The spans of the number and of its relation. Raises ValueError."""
    total, relation = inside.get("total"), None
    if total is not None and text[total.value : total.value + 1] == b"{":
        parts = members(text, total.span)
        total, relation = parts.get("value"), parts.get("relation")
    is_number = total is not None and text[slice(*total.span)].isdigit()
    return total.span if total is not None and is_number else None, None if relation is None else relation.span


def _hit(text: bytes, span: Span) -> Hit:
    """Raises ValueError."""
    hit = Hit(span, members(text, span))
    identity, score, source = hit.value("_id"), hit.value("_score"), hit.value(SOURCE)
    if identity is None or text[identity[0] : identity[0] + 1] != b'"':
        raise ValueError(f"no id at byte {span[0]}")
    if score is None or (text[score[0]] not in _NUMBER_STARTS and text[slice(*score)] != b"null"):
        raise ValueError(f"no score at byte {span[0]}")
    if source is not None and text[source[0] : source[0] + 1] != b"{":
        raise ValueError(f"no object at byte {source[0]}")
    return hit


def _pool(document: ReplyDocument, plan: Plan, hits: Sequence[Hit], needs: Needs) -> Pool:
    vectors = _vectors(document, plan, hits)
    unusable = without_vector(vectors)
    return Pool(
        scores=np.array([_score(document.text, hit) for hit in hits], dtype=np.float64),
        vectors=vectors,
        fields=_fields(document, hits, needs),
        payloads=partial(_payloads, document, hits),
        ids=_ids(document, hits),
        is_cut=plan.source.is_cut,
        compared_by=plan.vector.field if unusable < len(vectors) else None,
        unusable=unusable,
    )


def _score(text: bytes, hit: Hit) -> float:
    value = text[slice(*hit.members["_score"].span)]
    return float("nan") if value == b"null" else float(value)


def _ids(document: ReplyDocument, hits: Sequence[Hit]) -> tuple[bytes, ...]:
    """Unique among the searched indices: with the index before it, if there are several."""
    ids = [document.source.cut(*hit.members["_id"].span) for hit in hits]
    spans = [hit.value("_index") for hit in hits]
    indices = [b"" if span is None else document.source.cut(*span) for span in spans]
    if len(set(indices)) < 2:
        return tuple(ids)
    return tuple([b'"' + index[1:-1] + b"/" + name[1:] for index, name in zip(indices, ids, strict=True)])


def _vectors(document: ReplyDocument, plan: Plan, hits: Sequence[Hit]) -> npt.NDArray[np.float32]:
    """(n, d), NaN rows for hits without a usable vector."""
    if not plan.vector.is_read:
        return np.empty((len(hits), 0), np.float32)
    arrays = [_array(document, plan.vector.field, hit.value(FIELDS)) for hit in hits]
    return decode_matrix(arrays)[0]


def _array(document: ReplyDocument, field: str, fields: Span | None) -> bytes:
    member = None if fields is None else members(document.text, fields).get(field)
    return b"" if member is None else document.source.cut_value(member.span)


def _fields(document: ReplyDocument, hits: Sequence[Hit], needs: Needs) -> tuple[tuple[bytes | None, ...], ...]:
    """Per hit the raw JSON of each wanted member of ``_source``, None if absent; optional ones within the allowance. Raises ValueError for a
    repeated one where a required one is read.
    """
    must, may, allowance = needs.payload_fields, needs.optional_fields, Allowance(FIELD_BYTES)
    # The text is the reply: values can be taken from it without a look at their places.
    is_plain = not (must or document.source.spans) and document.text is document.source.text
    rows: list[tuple[bytes | None, ...]] = []
    for hit in hits:
        source = hit.value(SOURCE)
        if source is None:
            rows.append((None,) * (len(must) + len(may)))
        elif is_plain:
            rows.append(last_values(part(document.text, source), may, allowance))
        else:
            rows.append(field_values(document.source, members(document.text, source), must, may, allowance))
    return tuple(rows)


def _payloads(document: ReplyDocument, hits: Sequence[Hit], most: int) -> tuple[bytes | None, ...]:
    sources = [hit.value(SOURCE) for hit in hits[:most]]
    return tuple([None if source is None else document.source.cut(*source) for source in sources])


# The answer.


def trim(request: Document, reply: ReplyDocument, keep: Keep) -> bytes:
    """The client's answer: of list i the hits ``keep[i]`` in that order."""
    edits: list[Edit] = []
    for plan, hits, kept in zip(request.plans, reply.lists, keep, strict=True):
        spans = [hit.span for hit in hits.hits]
        inside = kept_inside(reply.source, hits.array, spans, kept.tolist(), partial(_edits, reply, plan, hits.hits))
        edits.append((hits.array[0] + 1, hits.array[1] - 1, b"".join(inside)))
        edits += _counted(reply.text, plan, hits)
    return b"".join(edited(reply.source, (0, len(reply.text)), edits))


def _counted(text: bytes, plan: Plan, hits: Hits) -> list[Edit]:
    """The number of neighbours that the client's search finds: as many in each shard, or in all. It is too high only where a shard has fewer."""
    if plan.neighbours is None or hits.total is None:
        return []
    most, total = plan.neighbours * (1 if plan.is_global else hits.shards), int(text[slice(*hits.total)])
    if total < most:
        return []
    exact = [] if hits.relation is None else [(*hits.relation, b'"eq"')]
    return [(*hits.total, b"%d" % most), *exact]


def _edits(reply: ReplyDocument, plan: Plan, hits: Sequence[Hit], index: int) -> list[Edit]:
    """The edits of a hit, disjoint, in any order: additions of ``widen`` are removed."""
    hit = hits[index]
    dropped = {SOURCE} if plan.source.is_forced else set()
    inside: list[Span] = []
    source, fields = hit.value(SOURCE), hit.value(FIELDS)
    if plan.source.added and source is not None:
        inside += cuts(members(reply.text, source), plan.source.added)
    if plan.vector.edit is not None and fields is not None:
        values = members(reply.text, fields)
        if values.keys() <= {plan.vector.field}:  # no server writes an empty object
            dropped.add(FIELDS)
        else:
            inside += cuts(values, {plan.vector.field})
    return [(*span, b"") for span in (*cuts(hit.members, dropped), *inside)]


def payloads_of(request: Document, text: bytes) -> tuple[tuple[Span | None, ...], ...]:
    """For each search the spans of ``_source`` in an answer. Raises ValueError."""
    return tuple([tuple([hit.value(SOURCE) for hit in _hits(text, answer).hits]) for answer in _answers(text, request)])


class OpenSearchRest(NotingAdapter[Document, ReplyDocument]):
    """Both products refuse the other's clauses, so nothing but the name depends on the product."""

    backend = "opensearch"
    request_type, reply_type = Document, ReplyDocument
    parse_request = staticmethod(request.parse)
    widen_request = staticmethod(request.widen)
    read_reply = staticmethod(parse_reply)
    cut_reply = staticmethod(trim)
    payloads = staticmethod(payloads_of)
    collection_in = staticmethod(request.collection_in)

    def classify(self, head: RequestHead) -> Operation | None:
        """The ranked search of a request; None for any other. Never raises."""
        return calls.classify(self.backend, head)


class ElasticsearchRest(OpenSearchRest):
    backend = "elasticsearch"


ADAPTERS = {adapter.backend: adapter for adapter in (OpenSearchRest, ElasticsearchRest)}
