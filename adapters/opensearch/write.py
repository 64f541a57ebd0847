"""Upserts: ``_bulk``, ``_doc`` and ``_create``; their neighbours, stored documents, and the client's bytes with notes or without some documents.

Neighbours come from one ``_msearch``, which lags behind writes by the refresh interval; stored documents from ``_mget``, which does not. A stored
document has its sequence number: any write gives it another, and a removal names the one that was seen.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from http import HTTPStatus
from urllib.parse import parse_qsl, quote

import msgspec
import numpy as np
import orjson

from ..base import NOTE, RestWrites, numbers_of, typed
from ..contract import (
    DeclinedError,
    MalformedReplyError,
    NativeAnswer,
    Operation,
    Question,
    Reason,
    RequestHead,
    UnsupportedError,
    may_be_json,
)
from ..wire.json import Members, Span, last_values, members_of, value_spans, whole
from ..wire.json_requests import member_edit
from ..wire.json_vectors import Shortened, decode_matrix, edited, guess_numbers
from ..writes import Form, Inquiry, Neighbours, NewPoints, Receipt, Tenant, WriteNeeds, name_of, numbered
from . import bulk, calls, receipts
from .bulk import BULK, CREATE, INDEX, STORING, Action, Document
from .hits import LeanHits, Read, answers, at_path, read_hits
from .request import trimmed
from .schema import SOURCE, Schema, SourceForm, read_schema

_PATH = re.compile(r"/(?:([^/]+)/)?_(?:(bulk)|(doc|create)/([^/]+)|(doc))")
# Parameters of a target that change nothing but when the answer comes.
_PARAMETERS = frozenset({"refresh", "timeout", "wait_for_active_shards", "error_trace"})
_CANDIDATES = 100  # that an approximate search of Elasticsearch examines at least


class _Doc(msgspec.Struct):
    index: str = msgspec.field(name="_index")
    id: str = msgspec.field(name="_id")
    is_stored: bool = msgspec.field(name="found")
    number: int = msgspec.field(name="_seq_no", default=-1)
    term: int = msgspec.field(name="_primary_term", default=0)
    routing: str | None = msgspec.field(name="_routing", default=None)
    source: msgspec.Raw = msgspec.field(name=SOURCE, default=msgspec.Raw(b""))


class _Docs(msgspec.Struct):
    docs: list[_Doc]


_DOCS = msgspec.json.Decoder(_Docs)


def classify(backend: str, head: RequestHead) -> Operation | None:
    """The write of a request. ``partition``: the id of its document, decoded; ``query``: the query string."""
    match = _PATH.fullmatch(head.path)
    if match is None or head.method not in ({"POST"} if match[5] else {"POST", "PUT"}):
        return None
    index, identifier = calls.index_named(match[1]), calls.decoded(match[4] or "")
    is_json = may_be_json(head.content_type) or (match[2] is not None and calls.is_lines(head.content_type))
    if not is_json or index is None or identifier is None or (not index and match[2] is None):
        return None
    name = match[2] or match[3] or match[5]
    return Operation(backend=backend, name=name, collection=index, partition=identifier, query=head.query)


def _actions(write: Operation, text: bytes) -> tuple[Action, ...]:
    """Raises ValueError, UnsupportedError."""
    if write.name == BULK:
        return tuple(bulk.actions(text))
    identifier = orjson.dumps(write.partition) if write.partition else None
    return (Action(CREATE if write.name == CREATE else INDEX, "", identifier, whole(text), whole(text)),)


def _ids(actions: Sequence[Action], places: Sequence[int], needs: WriteNeeds) -> tuple[bytes, ...]:
    """Raises UnsupportedError, also where the client needs the ids that the server makes, or another action has the id of a document."""
    ids = [identifier for place in places if (identifier := actions[place].id) is not None]
    if ids and len(ids) < len(places):
        raise UnsupportedError(Reason.AMBIGUOUS_FIELD)
    if not ids:
        if not needs.notes:
            raise UnsupportedError(Reason.UNSUPPORTED_FIELD)
        return numbered(len(places), needs)
    if not {action.id for action in actions if action.verb not in STORING}.isdisjoint(ids):
        raise UnsupportedError(Reason.AMBIGUOUS_FIELD)
    return tuple(ids)


def _check(write: Operation, actions: Sequence[Action], places: Sequence[int], needs: WriteNeeds) -> Schema:
    """Raises UnsupportedError for what is not read."""
    schema, storing = needs.known, [actions[place] for place in places]
    parameters = {name for name, _ in parse_qsl(write.query or "", keep_blank_values=True)}
    is_plain = parameters <= _PARAMETERS and all(action.is_plain for action in storing)
    if not is_plain or not isinstance(schema, Schema):
        raise UnsupportedError(Reason.UNSUPPORTED_FIELD)
    if not 0 < len(storing) <= needs.most:
        raise UnsupportedError(Reason.TOO_MANY_PARTS if storing else Reason.NOTHING_TO_DO)
    if len({action.index or write.collection for action in storing} | ({write.collection} - {""})) > 1:
        raise UnsupportedError(Reason.AMBIGUOUS_FIELD)
    if needs.notes and not schema.has_notes:
        raise UnsupportedError(Reason.PAYLOAD_SELECTOR)
    return schema


def _index_of(points: NewPoints, write: Operation) -> str:
    """The name that the client uses."""
    document = typed(points.document, Document)
    name = write.collection or document.actions[document.places[0]].index
    return quote(name, safe="")


class OpenSearchWrites(RestWrites):
    backend = calls.OPENSEARCH
    has_receipts = True
    first = b'"took":0,"errors":false'  # of an answer to a batch
    parse_description = staticmethod(read_schema)
    collections_in = staticmethod(bulk.collections_in)

    def classify(self, head: RequestHead) -> Operation | None:
        return classify(self.backend, head)

    def describe(self, write: Operation, body: bytes) -> Question | None:
        """The request for the description of its index; None for several. Never raises."""
        names = {write.collection} if write.collection else bulk.collections_in(body)
        targets = [f"/{quote(name, safe='')}" for name in names if name and not calls.may_be_several(name)]
        return Question(method="GET", target=targets[0]) if len(names) == len(targets) == 1 else None

    def ask_metric(self, write: Operation, body: bytes) -> Question:
        question = self.describe(write, body)
        if question is None:
            raise UnsupportedError(Reason.UNSUPPORTED_FIELD)
        return question

    def is_cosine(self, body: bytes, vector_name: str) -> bool:
        """From the description. Never raises."""
        try:
            return read_schema(body).vectors.get(vector_name, False)
        except MalformedReplyError:
            return False

    def guess(self, body: bytes) -> list[Span]:
        """No array with a line feed: the servers would cut it."""
        return [span for span in guess_numbers(body) if body.find(b"\n", *span) < 0]

    def read_points(self, write: Operation, source: Shortened, needs: WriteNeeds) -> NewPoints:
        text, actions = source.text, _actions(write, source.text)
        places = [place for place, action in enumerate(actions) if action.verb in STORING]
        schema = _check(write, actions, places, needs)
        lines = [span for place in places if (span := actions[place].source) is not None]
        spans = [trimmed(text, span) for span in lines]
        documents = [value_spans(members_of(text, span)) for span in spans]
        vectors = [
            {path: member for path in schema.vectors if (member := at_path(text, span, path)) is not None}
            for span in spans
        ]
        name = name_of(vectors, needs.vector_name)
        arrays = [vector.get(name) for vector in vectors]
        matrix = decode_matrix([b"" if array is None else source.cut_value(array) for array in arrays])[0]
        if not matrix.shape[1]:
            raise UnsupportedError(Reason.NOTHING_TO_DO)
        read = [[document.get(key) for key in needs.keys] for document in documents]
        return NewPoints(
            ids=_ids(actions, places, needs),
            vectors=matrix,
            vector_name=name,
            keys=needs.keys,
            fields=tuple([tuple([None if span is None else source.cut(*span) for span in row]) for row in read]),
            document=Document(source, schema, actions, tuple(places), tuple(spans), tuple(arrays)),
            has_ids=actions[places[0]].id is not None,
        )

    def ask(self, write: Operation, points: NewPoints, inquiry: Inquiry) -> Sequence[Question]:
        """One batch. Raises UnsupportedError for a tenant's key that is a text."""
        document = typed(points.document, Document)
        fields = [*points.keys, *([points.vector_name] if inquiry.vectors else [])]
        shared = b'"size":%d,"_source":%s' % (inquiry.count, orjson.dumps(fields) if fields else b"false")
        if inquiry.least is not None:
            shared += b',"min_score":%r' % ((1.0 + inquiry.least) / 2)
        lines: list[bytes] = []
        for row, tenant in zip(inquiry.which, inquiry.tenants, strict=True):
            numbers = numbers_of(document.source, document.vectors[row]).translate(None, b"\r\n")
            near = self.near(points.vector_name, numbers, inquiry.count, _filter(document.schema, tenant))
            lines.append(b"{}\n{%s,%s}\n" % (shared, near))
        target = f"/{_index_of(points, write)}/_msearch"
        return [Question(method="POST", target=target, body=b"".join(lines))]

    def near(self, field: str, numbers: bytes, count: int, narrowed: bytes) -> bytes:
        """The member of a search that finds the nearest."""
        return b'"query":{"knn":{%s:{"vector":%s,"k":%d%s}}}' % (orjson.dumps(field), numbers, count, narrowed)

    def read_neighbours(self, points: NewPoints, inquiry: Inquiry, bodies: Sequence[bytes]) -> Neighbours:
        """Raises ValueError and the like, and DeclinedError."""
        (body,) = bodies
        count = len(inquiry.which)
        lists = [_hits(body, answer) for answer in answers(body, range(count), count)]
        hits = [hit for neighbours in lists for hit in neighbours]
        sources = [bytes(hit.source) or b"{}" for hit in hits]
        arrays = [_array(source, points.vector_name) if inquiry.vectors else b"" for source in sources]
        scores = [np.nan if hit.score is None else hit.score for hit in hits]
        return Neighbours(
            of=np.repeat(np.array(inquiry.which, np.intp), [len(neighbours) for neighbours in lists]),
            ids=tuple([orjson.dumps(orjson.loads(bytes(hit.id))) for hit in hits]),
            scores=2.0 * np.array(scores, np.float64) - 1.0,
            vectors=decode_matrix(arrays)[0],
            fields=tuple([last_values(source, points.keys) for source in sources]),
        )

    def annotated(self, points: NewPoints, notes: Mapping[int, bytes]) -> bytes:
        document = typed(points.document, Document)
        text = document.source.text
        edits = [member_edit(text, document.sources[row], NOTE, note) for row, note in notes.items()]
        return b"".join(edited(document.source, (0, len(text)), edits))

    def collection(self, _: Operation, points: NewPoints) -> str:
        """The name of the index itself."""
        return typed(points.document, Document).schema.index

    def form_of(self, points: NewPoints) -> Form:
        return SourceForm(paths=tuple(typed(points.document, Document).schema.vectors))

    def restores(self, points: NewPoints) -> bool:
        return typed(points.document, Document).schema.is_restorable

    def holds(self, points: NewPoints, row: int, point: bytes) -> bool:
        """By the types of the index."""
        form, schema = self.form_of(points), typed(points.document, Document).schema
        before, after = [form.payload_of(orjson.loads(value)) for value in (self.point(points, row), point)]
        return all(schema.holds(key, value) for key, value in after.items() if before.get(key, ...) != value)

    def point(self, points: NewPoints, row: int) -> bytes:
        """Its id, and the document in the client's own bytes."""
        document = typed(points.document, Document)
        named = b'"_id":%s,' % points.ids[row] if points.has_ids else b""
        return b'{%s"_source":%s}' % (named, document.source.cut(*document.sources[row]))

    def without(self, points: NewPoints, rows: Collection[int]) -> bytes:
        return self.rewritten(points, dict.fromkeys(rows))

    def merged(self, _: Operation, points: NewPoints, rows: Collection[int], merged: Mapping[int, bytes]) -> bytes:
        return self.rewritten(points, {**dict.fromkeys(rows), **merged})

    def rewritten(self, points: NewPoints, other: Mapping[int, bytes | None]) -> bytes:
        """The client's lines with replaced documents, None to omit them with their actions."""
        document = typed(points.document, Document)
        edits: list[tuple[int, int, bytes]] = []
        for row, point in other.items():
            if point is None:
                edits.append((*document.actions[document.places[row]].span, b""))
            else:
                made = (last_values(point, (SOURCE,))[0] or b"{}").replace(b"\n", b"")
                edits.append((*document.sources[row], made))
        return b"".join(edited(document.source, (0, len(document.source.text)), edits))

    def ask_stored(
        self, write: Operation, points: NewPoints, ids: Sequence[bytes], *, whole: bool
    ) -> Sequence[Question]:
        """A read by ids that shows what was written just before. Vectors are named, because newer servers leave them out otherwise."""
        vectors = [quote(path, safe="") for path in typed(points.document, Document).schema.vectors]
        selection = f"_source_includes=*,{','.join(vectors)}" if whole else "_source=false"
        target = f"/{_index_of(points, write)}/_mget?{selection}"
        return [Question(method="POST", target=target, body=b'{"ids":[%s]}' % b",".join(ids))]

    def read_stored(self, points: NewPoints, body: bytes) -> Mapping[bytes, bytes]:
        """Raises ValueError and the like, also if an alias is one of another index by now."""
        return stored_in(body, typed(points.document, Document).schema.index)

    def ask_removed(self, write: Operation, points: NewPoints, victims: Mapping[bytes, bytes]) -> Sequence[Question]:
        """Only those that nobody has written since."""
        lines = [
            b'{"delete":{"_id":%s,"if_seq_no":%s,"if_primary_term":%s}}\n'
            % (identifier, *[value or b"null" for value in last_values(point, ("_seq_no", "_primary_term"))])
            for identifier, point in victims.items()
        ]
        return [Question(method="POST", target=f"/{_index_of(points, write)}/_bulk", body=b"".join(lines))]

    def removed(self, body: bytes) -> None:
        """Of a batch, or of one request. Raises MalformedReplyError, also where some deletions were refused; DeclinedError if all were."""
        receipts.check_removed(body)

    def does_more(self, points: NewPoints) -> bool:
        document = typed(points.document, Document)
        return len(document.actions) > len(document.places)

    def only(self, points: NewPoints, rows: Collection[int]) -> bytes:
        """Without the actions that store nothing, which were sent."""
        document = typed(points.document, Document)
        kept = [document.actions[document.places[row]] for row in sorted(rows)]
        return b"".join([document.source.cut(*action.span) for action in kept])

    def acknowledged(self, write: Operation, points: NewPoints, query: str) -> NativeAnswer:
        """As the server would have answered: none of these ids was stored."""
        count = len(points.ids)
        if write.name != BULK:
            return self.native(HTTPStatus.CREATED, b"{%s}" % receipts.created(points, 0, query[1:]))
        items = b",".join([receipts.made_item(points, row, query[1:]) for row in range(count)])
        return self.native(HTTPStatus.OK, b'{%s,"items":[%s]}' % (self.first, items))

    def native(self, status: int, body: bytes) -> NativeAnswer:
        return NativeAnswer(status=status, content_type="application/json; charset=UTF-8", body=body)

    def receipt(self, write: Operation, points: NewPoints, copies: Mapping[int, int | None], body: bytes) -> Receipt:
        """The server's items, and an item for each document that was left out. It is reported as stored, unless the server did not store its
        original in the same batch. Raises MalformedReplyError.
        """
        if write.name != BULK:
            return Receipt(body=body)
        return receipts.read(points, copies, write.query or "", body)


class ElasticsearchWrites(OpenSearchWrites):
    backend = calls.ELASTICSEARCH
    first = b'"errors":false,"took":0'

    def near(self, field: str, numbers: bytes, count: int, narrowed: bytes) -> bytes:
        return b'"knn":{"field":%s,"query_vector":%s,"k":%d,"num_candidates":%d%s}' % (
            orjson.dumps(field), numbers, count, max(count, _CANDIDATES), narrowed,
        )  # fmt: skip

    def native(self, status: int, body: bytes) -> NativeAnswer:
        """Its clients refuse a success without the name of the product."""
        headers = (("X-elastic-product", "Elasticsearch"),)
        return NativeAnswer(status=status, content_type="application/json", body=body, headers=headers)


WRITES = {adapter.backend: adapter for adapter in (OpenSearchWrites, ElasticsearchWrites)}


def _filter(schema: Schema, tenant: Tenant) -> bytes:
    """Raises UnsupportedError."""
    terms = [b'{"term":{%s:%s}}' % (orjson.dumps(schema.exact_field(key)), value) for key, value in tenant]
    return b',"filter":{"bool":{"filter":[%s]}}' % b",".join(terms) if terms else b""


def _hits(body: bytes, answer: Members) -> Sequence[Read]:
    """Raises DeclinedError, ValueError."""
    if "error" in answer:
        raise DeclinedError(0, body[slice(*answer["error"].span)])
    hits = read_hits(body, answer, is_lean=True).hits
    return hits.read if isinstance(hits, LeanHits) else ()


def _array(source: bytes, path: str) -> bytes:
    span = at_path(source, whole(source), path)
    return b"" if span is None else source[slice(*span)]


def stored_in(body: bytes, index: str) -> Mapping[bytes, bytes]:
    """By id the single documents of an answer of ``_mget``. Raises ValueError, msgspec.DecodeError."""
    docs = _DOCS.decode(body).docs
    if any(doc.index != index or doc.routing is not None for doc in docs):
        raise ValueError("a document of another index, or with a routing")
    return {orjson.dumps(doc.id): _single(doc) for doc in docs if doc.is_stored}


def _single(doc: _Doc) -> bytes:
    members = b'"_seq_no":%d,"_primary_term":%d' % (doc.number, doc.term)
    source = b',"_source":%s' % doc.source if doc.source else b""
    return b'{"_id":%s,%s%s}' % (orjson.dumps(doc.id), members, source)
