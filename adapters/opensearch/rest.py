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
from ..contract import FIELD_BYTES, Allowance, MalformedReplyError, Needs, Operation, Pool, Question, RequestHead
from ..wire.json import (
    Span,
    check_members,
    cuts,
    elements,
    last_values_of,
    members_of,
    value_spans,
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
from .hits import ID, INDEX, SCORE, Hit, Hits, LeanHits, answers, at_path, read_hits
from .request import Document, Plan
from .selection import FIELDS, SOURCE, Product

_MOST_GUESSES = 32_768
AGGREGATIONS, COUNT = "aggregations", "doc_count"
_GRAMMAR = msgspec.json.Decoder(msgspec.Raw)


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
    pattern = re.compile(rb'"(?:%s)"\s*:\s*(?:\[\s*)?\[(?=[-\d\s])' % b"|".join(map(re.escape, sorted(names))))
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
    # The text is the reply: what is read of it needs no place, as long as nothing is read beside texts.
    is_lean = not (needs.payload_fields or source.spans) and text is source.text
    places = None if request.batch is None else [plan.index for plan in request.plans]
    lists = [
        read_hits(text, answer, is_lean=is_lean and not plan.vector.is_read)
        for answer, plan in zip(answers(text, places, request.batch), request.plans, strict=True)
    ]
    if needs.payload_fields:
        check_members(text)
    document = ReplyDocument(source=source, text=text, lists=tuple(lists))
    return tuple(
        [_pool(document, plan, hits, needs) for plan, hits in zip(request.plans, lists, strict=True)]
    ), document


def _pool(document: ReplyDocument, plan: Plan, listed: Hits, needs: Needs) -> Pool:
    hits = listed.hits
    if isinstance(hits, LeanHits):
        return _lean_pool(document, plan, hits, needs)
    vectors = _vectors(document, plan, hits)
    unusable = without_vector(vectors)
    cut = document.source.cut
    indices = [hit.value(INDEX) for hit in hits]
    return Pool(
        scores=np.array([_score(document.text, hit) for hit in hits], dtype=np.float64),
        vectors=vectors,
        fields=_fields(document, hits, needs),
        payloads=partial(_payloads, document, hits),
        ids=_unique(
            [cut(*hit.members[ID].span) for hit in hits], [b"" if span is None else cut(*span) for span in indices]
        ),
        is_cut=plan.source.is_cut,
        compared_by=plan.vector.field if unusable < len(vectors) else None,
        unusable=unusable,
    )


def _lean_pool(document: ReplyDocument, plan: Plan, hits: LeanHits, needs: Needs) -> Pool:
    read, allowance = hits.read, Allowance(FIELD_BYTES)
    fields = needs.optional_fields
    rows: tuple[tuple[bytes | None, ...], ...] = ((),) * len(read)
    if fields:
        rows = last_values_of([bytes(hit.source) or b"{}" for hit in read], fields, allowance)
    return Pool(
        scores=np.array([np.nan if hit.score is None else hit.score for hit in read], dtype=np.float64),
        vectors=np.empty((len(read), 0), np.float32),
        fields=rows,
        payloads=partial(_payloads, document, hits),
        ids=_unique([bytes(hit.id) for hit in read], [bytes(hit.index) for hit in read]),
        is_cut=plan.source.is_cut,
        unusable=len(read),
    )


def _score(text: bytes, hit: Hit) -> float:
    value = text[slice(*hit.members[SCORE].span)]
    return float("nan") if value == b"null" else float(value)


def _unique(ids: Sequence[bytes], indices: Sequence[bytes]) -> tuple[bytes, ...]:
    """Unique among the searched indices: with the index before it, if there are several."""
    if len(set(indices)) < 2:
        return tuple(ids)
    return tuple([b'"' + index[1:-1] + b"/" + name[1:] for index, name in zip(indices, ids, strict=True)])


def _vectors(document: ReplyDocument, plan: Plan, hits: Sequence[Hit]) -> npt.NDArray[np.float32]:
    """(n, d), NaN rows for hits without a usable vector."""
    if not plan.vector.is_read:
        return np.empty((len(hits), 0), np.float32)
    member = SOURCE if plan.vector.is_in_source else FIELDS  # in the latter a path is one name
    spans = [hit.value(member) for hit in hits]
    arrays = [None if span is None else at_path(document.text, span, plan.vector.field) for span in spans]
    return decode_matrix([_first(document, span) for span in arrays])[0]


def _first(document: ReplyDocument, span: Span | None) -> bytes:
    """The only vector of a field; b"" without one, or with several."""
    if span is None:
        return b""
    # Values of documents are a list of vectors.
    text = document.text[slice(*span)]
    is_listed = text[:1] == b"[" and text[1:].lstrip()[:1] == b"["
    items = elements(document.text, span) if is_listed else [span]
    return document.source.cut_value(items[0]) if len(items) == 1 else b""


def _fields(document: ReplyDocument, hits: Sequence[Hit], needs: Needs) -> tuple[tuple[bytes | None, ...], ...]:
    """Per hit the raw JSON of each wanted member of ``_source``, None if absent; optional ones within the allowance. Raises ValueError."""
    must, may, allowance = needs.payload_fields, needs.optional_fields, Allowance(FIELD_BYTES)
    empty: tuple[bytes | None, ...] = (None,) * (len(must) + len(may))
    spans = [hit.value(SOURCE) for hit in hits]
    return tuple(
        [
            empty
            if span is None
            else field_values(document.source, members_of(document.text, span), must, may, allowance)
            for span in spans
        ]
    )


def _payloads(document: ReplyDocument, hits: Sequence[Hit], rows: Sequence[int]) -> tuple[bytes | None, ...]:
    sources = [hits[row].value(SOURCE) for row in rows]
    return tuple([None if source is None else document.source.cut(*source) for source in sources])


# The answer.


def trim(request: Document, reply: ReplyDocument, keep: Keep) -> bytes:
    """The client's answer: of list i the hits ``keep[i]`` in that order."""
    edits: list[Edit] = []
    for plan, hits, kept in zip(request.plans, reply.lists, keep, strict=True):
        spans = hits.hits.spans if isinstance(hits.hits, LeanHits) else [hit.span for hit in hits.hits]
        inside = kept_inside(reply.source, hits.array, spans, kept.tolist(), partial(_edits, reply, plan, hits.hits))
        start, end = hits.array[0] + 1, hits.array[1] - 1
        is_pretty = spans and not len(kept) and reply.text[start : start + 1].isspace()  # then the server writes `[ ]`
        edits.append((start, end, b" " if is_pretty else b"".join(inside)))
        edits += _counted(reply.text, plan, hits)
    return b"".join(edited(reply.source, (0, len(reply.text)), edits))


def _counted(text: bytes, plan: Plan, hits: Hits) -> list[Edit]:
    """The number of neighbours that the client's search finds: as many in each shard, or in all. It is too high only where a shard of a single
    index has fewer. Raises ValueError.
    """
    if plan.neighbours is None:
        return []
    most, edits = plan.neighbours * (1 if plan.is_global else hits.shards), list[Edit]()
    if plan.is_sampled and AGGREGATIONS in hits.answer:
        (sample,) = members_of(text, hits.answer[AGGREGATIONS].span).values()
        most = int(text[slice(*value_spans(members_of(text, sample.span)).get(COUNT, (0, 0)))])
        edits = [(*span, b"") for span in cuts(hits.answer, {AGGREGATIONS})]
    if hits.total is None or int(text[slice(*hits.total)]) < most:
        return edits
    exact = [] if hits.relation is None else [(*hits.relation, b'"eq"')]
    return [*edits, (*hits.total, b"%d" % most), *exact]


def _edits(reply: ReplyDocument, plan: Plan, hits: Sequence[Hit], index: int) -> list[Edit]:
    """The edits of a hit, disjoint, in any order: additions of ``widen`` are removed."""
    if not (plan.source.is_forced or plan.source.added or plan.vector.edit is not None):
        return []
    hit = hits[index]
    dropped = {SOURCE} if plan.source.is_forced else set()
    inside: list[Span] = []
    source, fields = hit.value(SOURCE), hit.value(FIELDS)
    if plan.source.added and source is not None:
        inside += cuts(members_of(reply.text, source), plan.source.added)
    if plan.vector.edit is not None and fields is not None:
        values = members_of(reply.text, fields)
        if values.keys() <= {plan.vector.field}:  # no server writes an empty object
            dropped.add(FIELDS)
        else:
            inside += cuts(values, {plan.vector.field})
    return [(*span, b"") for span in (*cuts(hit.members, dropped), *inside)]


def payloads_of(request: Document, text: bytes) -> tuple[tuple[Span | None, ...], ...]:
    """For each search the spans of ``_source`` in an answer. Raises ValueError."""
    places = None if request.batch is None else [plan.index for plan in request.plans]
    lists = [read_hits(text, answer) for answer in answers(text, places, request.batch)]
    return tuple([tuple([hit.value(SOURCE) for hit in listed.hits]) for listed in lists])


class _Version(msgspec.Struct):
    number: str
    build_flavor: str = ""


class _Description(msgspec.Struct):
    version: _Version


_DESCRIPTION = msgspec.json.Decoder(_Description)
_SERVERLESS = "serverless"  # whose number stays 8.11
WITH_DOC_VALUES = (9, 2)


class OpenSearchRest(NotingAdapter[Document, ReplyDocument]):
    """Both products refuse the other's clauses, so only what ``fields`` has of them depends on the product."""

    backend = calls.OPENSEARCH
    request_type, reply_type = Document, ReplyDocument
    parse_request = staticmethod(request.parse)
    widen_request = staticmethod(request.widen)
    read_reply = staticmethod(parse_reply)
    cut_reply = staticmethod(trim)
    payloads = staticmethod(payloads_of)
    collections_in = staticmethod(request.collections_in)

    def classify(self, head: RequestHead) -> Operation | None:
        """The ranked search of a request; None for any other. Never raises."""
        return calls.classify(self.backend, head)


class ElasticsearchRest(OpenSearchRest):
    backend = calls.ELASTICSEARCH

    def describe(self, _: Operation, _body: bytes) -> Question:
        """The version of the server."""
        return Question(method="GET", target="/")

    def parse_description(self, body: bytes) -> Product:
        """Raises MalformedReplyError, nothing else."""
        try:
            version = _DESCRIPTION.decode(body).version
            major, minor = (int(part) for part in version.number.split(".")[:2])
        except (msgspec.DecodeError, UnicodeDecodeError, ValueError):
            raise MalformedReplyError("no version of Elasticsearch") from None
        return Product(has_doc_values=version.build_flavor == _SERVERLESS or (major, minor) >= WITH_DOC_VALUES)


ADAPTERS = {adapter.backend: adapter for adapter in (OpenSearchRest, ElasticsearchRest)}
