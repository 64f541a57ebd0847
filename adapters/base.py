"""Base classes of adapters, write adapters and dialects, by transport.

An adapter names its functions; the base class passes each verb to one of them, refuses documents of other adapters, and converts exceptions
of the functions into the contract's errors. A dialect overrides the defaults in which its backend differs.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Generic, TypeVar

import msgspec
import numpy as np
import numpy.typing as npt
import orjson

from .contract import (
    Bounds,
    MalformedReplyError,
    NativeAnswer,
    Needs,
    Operation,
    Pool,
    Reason,
    Reply,
    RequestHead,
    Search,
    SearchCall,
    UnsupportedError,
)
from .wire import json as wire_json
from .wire.json import RepeatedKeyError, Span, last_values
from .wire.json_requests import member_edit
from .wire.json_vectors import Shortened, edited, guess_numbers, kept_inside, set_aside
from .writes import PLAIN, Deletion, Form, Inquiry, Neighbours, NewPoints, Receipt, Tenant, WriteNeeds

NOTE = "_vecsieve"  # the payload member that lists the copies of a result
_OBJECT = ord("{")
# Where LangChain, Haystack, Dify and Open WebUI keep the metadata that they return, and where LlamaIndex does.
METADATA = ("metadata", "meta")
NODE = "_node_content"

Edit = tuple[int, int, bytes]
Keep = Sequence[npt.NDArray[np.intp]]
T = TypeVar("T")
RequestT = TypeVar("RequestT")
ReplyT = TypeVar("ReplyT")


def typed(document: object, kind: type[T]) -> T:
    """The document of a call or a reply. Raises TypeError for one that another adapter made."""
    if not isinstance(document, kind):
        raise TypeError("the document was made by another adapter")
    return document


def check_page(top_k: int, offset: int) -> None:
    """Raises UnsupportedError for a page of one result, which offers no choice, or of none."""
    if not top_k:
        raise UnsupportedError(Reason.AMBIGUOUS_FIELD)
    if top_k + offset == 1:
        raise UnsupportedError(Reason.SINGLE_RESULT)


class Verbs(Generic[RequestT, ReplyT]):
    """Stateless: one instance can be used concurrently. ``read_request`` and ``read_reply`` return one search and one pool, or several; a
    request may raise UnsupportedError, a reply ValueError.
    """

    request_type: type[RequestT]
    reply_type: type[ReplyT]
    classify: Callable[[RequestHead], Operation | None]
    read_request: Callable[[Operation, bytes, Needs], tuple[Search | tuple[Search, ...], RequestT]]
    widen_request: Callable[[RequestT, Sequence[int]], bytes]
    read_reply: Callable[[RequestT, Needs, bytes], tuple[Pool | tuple[Pool, ...], ReplyT]]
    cut_reply: Callable[[RequestT, ReplyT, Keep], bytes]

    def parse_request(self, operation: Operation, body: bytes, needs: Needs) -> SearchCall:
        searches, document = self.read_request(operation, body, needs)
        searches = searches if isinstance(searches, tuple) else (searches,)
        return SearchCall(operation=operation, searches=searches, needs=needs, document=document)

    def widen(self, call: SearchCall, fetch_k: Sequence[int]) -> bytes:
        return self.widen_request(typed(call.document, self.request_type), fetch_k)

    def parse_reply(self, call: SearchCall, body: bytes) -> Reply:
        try:
            pools, document = self.read_reply(typed(call.document, self.request_type), call.needs, body)
        except ValueError as error:
            raise MalformedReplyError(str(error)) from None
        return Reply(pools=pools if isinstance(pools, tuple) else (pools,), document=document)

    def trim(self, call: SearchCall, reply: Reply, keep: Keep) -> bytes:
        try:
            return self.cut_reply(typed(call.document, self.request_type), typed(reply.document, self.reply_type), keep)
        except ValueError as error:  # in parts that were not read for the selection
            raise MalformedReplyError(str(error)) from None


class RestAdapter(Verbs[RequestT, ReplyT]):
    """The verbs over JSON bodies."""

    def check_size(self, operation: Operation, body: bytes, bounds: Bounds) -> None:
        wire_json.check_size(body, bounds)


class NotingAdapter(RestAdapter[RequestT, ReplyT]):
    """The verbs over JSON bodies whose results have payloads. ``payloads``: per search the span of each result's payload in an answer
    without surrogate escapes; None without one. ``is_flat``: payloads cannot contain objects: a note is stored as a JSON string.
    """

    payloads: Callable[[RequestT, bytes], Sequence[Sequence[Span | None]]]
    is_flat = False

    def noted(self, call: SearchCall, answer: bytes, notes: Sequence[Sequence[bytes | None]]) -> bytes:
        text = wire_json.without_surrogates(answer)
        pools = self.payloads(typed(call.document, self.request_type), text)
        edits: list[tuple[int, int, bytes]] = []
        for spans, labels in zip(pools, notes, strict=True):
            for span, note in zip(spans, labels, strict=True):
                if span is not None and note is not None and text[span[0]] == _OBJECT:
                    edits += self._note(answer, text, span, note)
        return wire_json.splice(answer, edits)

    def _note(self, answer: bytes, text: bytes, span: Span, note: bytes) -> list[Edit]:
        """In the object that has the payload's metadata, if there is one: frameworks show only this object."""
        present = wire_json.members_of(text, span)
        if NODE in present:
            node = present[NODE].span
            noted = noted_node(answer[slice(*node)], note)
            if noted is not None:
                return [(*node, noted)]
        inner = next((present[key].span for key in METADATA if key in present), span)
        value = json_text(note.decode(errors="replace")) if self.is_flat else note
        return _added(text, inner if text[inner[0]] == _OBJECT else span, value)


def _added(text: bytes, span: Span, value: bytes) -> list[Edit]:
    """The note at the end of an object, so that the other members keep their places. An object that has one is unchanged."""
    present = wire_json.members_of(text, span)
    if NOTE in present:
        return []
    return [(span[1] - 1, span[1] - 1, b'%s"%s":%s' % (b"," if present else b"", NOTE.encode(), value))]


def noted_node(raw: bytes, note: bytes) -> bytes | None:
    """LlamaIndex' node, a JSON string that spells an object, with the note in its metadata; None if it has none."""
    if not raw.startswith(b'"'):
        return None
    try:
        node = json.loads(raw).encode()
        text = wire_json.without_surrogates(node)
        span = wire_json.members_of(text, wire_json.whole(text))["metadata"].span
        edits = _added(text, span, note)
    except (ValueError, KeyError):  # no object, no metadata, or a lone surrogate
        return None
    return json.dumps(wire_json.splice(node, edits).decode()).encode()


TOO_MANY_REQUESTS = 429
RESOURCE_EXHAUSTED = 8

# grpc-go, the C core and grpc-java also report oversized messages with RESOURCE_EXHAUSTED.
_OVERSIZED = (b"larger than max", b"exceeds maximum size")


def is_oversized(code: int, details: bytes) -> bool:
    """Whether a gRPC status says that a message is too long."""
    return code == RESOURCE_EXHAUSTED and any(words in details for words in _OVERSIZED)


def json_text(message: str) -> bytes:
    """A message as a JSON string, for the body of an error."""
    return json.dumps(message, ensure_ascii=False).encode(errors="replace")


class RestDialect:
    """Status 429 is a quota. No error has a status of success. ``limit``: finds the largest limit in the words of a refusal;
    ``unknown_vector``: the words for a vector that does not exist; None if the backend has no such refusal. ``quotas``: words of a quota
    in an error that has a status of success.
    """

    limit: re.Pattern[str] | None = None
    unknown_vector: str | None = None
    quotas: tuple[bytes, ...] = ()

    def words(self, status: int, body: bytes) -> str:
        """The words of a refusal of the request; "" for every other answer."""
        return body.decode(errors="replace")

    def refused_limit(self, status: int, body: bytes) -> int | None:
        match = None if self.limit is None else self.limit.search(self.words(status, body))
        return None if match is None else int(match[1])

    def names_unknown_vector(self, status: int, body: bytes) -> bool:
        return self.unknown_vector is not None and self.unknown_vector in self.words(status, body)

    def is_quota(self, status: int, body: bytes) -> bool:
        return status == TOO_MANY_REQUESTS

    def refusal_in_success(self, body: bytes) -> bytes | None:
        return None

    def is_quota_in_success(self, body: bytes) -> bool:
        words = (self.refusal_in_success(body) or b"").lower()
        return any(quota in words for quota in self.quotas)


class GrpcDialect(RestDialect):
    """A status is the number of a gRPC code, a body its details. RESOURCE_EXHAUSTED is a quota, unless a message is too long."""

    def error(self, status: int, message: str, *, path: str = "") -> NativeAnswer:
        """The message as the details of this code."""
        return NativeAnswer(status=status, content_type="", body=message.encode(errors="replace"))

    def is_quota(self, status: int, body: bytes) -> bool:
        """By the code and the details."""
        return status == RESOURCE_EXHAUSTED and not is_oversized(status, body)


_UNREADABLE = (msgspec.DecodeError, RecursionError, ValueError, LookupError, AttributeError, UnsupportedError)

Array = tuple[Span, Sequence[Span]]
"""The span of an array with one element for each point, and those elements."""


class Writes:
    """``read_neighbours``, ``read_stored``: may raise ValueError and similar errors."""

    conflict: int
    has_receipts = False
    reads_lag = False  # whether a read may miss recent writes
    form: Form = PLAIN
    without: Callable[[NewPoints, Collection[int]], bytes]
    read_neighbours: Callable[[NewPoints, Inquiry, Sequence[bytes]], Neighbours]
    read_stored: Callable[[NewPoints, bytes], Mapping[bytes, bytes]]

    def neighbours(self, points: NewPoints, inquiry: Inquiry, bodies: Sequence[bytes]) -> Neighbours:
        try:
            return self.read_neighbours(points, inquiry, bodies)
        except _UNREADABLE as error:
            raise MalformedReplyError(f"neighbours: {type(error).__name__}") from None

    def stored(self, points: NewPoints, body: bytes) -> Mapping[bytes, bytes]:
        try:
            return self.read_stored(points, body)
        except _UNREADABLE as error:
            raise MalformedReplyError(f"stored points: {type(error).__name__}") from None

    def collection(self, write: Operation, _points: NewPoints, /) -> str:
        return write.collection

    def partition(self, _points: NewPoints, /) -> bytes:
        """Most collections are not partitioned."""
        return b""

    def form_of(self, _points: NewPoints, /) -> Form:
        """Most backends have one form for all collections."""
        return self.form

    def holds(self, _points: NewPoints, _row: int, _point: bytes, /) -> bool:
        """Most databases have no types."""
        return True

    def restores(self, _points: NewPoints, /) -> bool:
        """Most databases show points as they were written."""
        return True

    def waits(self, _points: NewPoints, _query: str, /) -> bool:
        """Most databases answer when a write is in their log."""
        return True

    def shows(self, points: NewPoints, query: str, /) -> bool:
        return self.waits(points, query) and not self.reads_lag

    def shows_unread(self, _query: str, _body: bytes, known: object | None, /) -> bool:
        """Most databases answer when a write is in their log."""
        return not self.lags(known)

    def lags(self, _known: object | None, /) -> bool:
        """Most databases treat all collections alike."""
        return self.reads_lag

    def only(self, points: NewPoints, rows: Collection[int], /) -> bytes:
        """Most writes have nothing but points."""
        return self.without(points, [row for row in range(len(points.ids)) if row not in rows])

    def does_more(self, _points: NewPoints, /) -> bool:
        """Most writes have nothing but points."""
        return False

    def removed(self, _body: bytes, /) -> None:
        """Most databases refuse by status."""

    def receipt(
        self, _write: Operation, _points: NewPoints, _rows: Mapping[int, int | None], body: bytes, /
    ) -> Receipt:
        """The answer as it is."""
        return Receipt(body=body)


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenRows:
    """The points of a write: spans in ``source.text``. ``arrays``: all arrays with one element per point. ``payloads``: None where absent."""

    source: Shortened
    arrays: Sequence[Array]
    rows: Sequence[Span]
    payloads: Sequence[Span | None]


class RestWrites(Writes):
    """Over JSON bodies. ``guess``: the arrays that are set aside before the rest is parsed. ``payload``: the member of a point that gets a
    note, which ``is_flat`` makes a JSON string. A document that is no WrittenRows has its own ``arrays`` and ``annotated``.
    """

    conflict = 409
    payload: ClassVar[str]
    is_flat = True
    guess: Callable[[bytes], list[Span]] = staticmethod(guess_numbers)
    read_points: Callable[[Operation, Shortened, WriteNeeds], NewPoints]

    def rows_of(self, points: NewPoints) -> WrittenRows:
        return typed(points.document, WrittenRows)

    def arrays(self, points: NewPoints) -> tuple[Shortened, Sequence[Array]]:
        written = self.rows_of(points)
        return written.source, written.arrays

    def annotated(self, points: NewPoints, notes: Mapping[int, bytes]) -> bytes:
        """The client's bytes with notes in payloads; a missing one becomes the last member of its point."""
        written, edits = self.rows_of(points), list[Edit]()
        for row, raw in notes.items():
            note, payload = json_text(raw.decode()) if self.is_flat else raw, written.payloads[row]
            if payload is None:
                end = written.rows[row][1] - 1
                edits.append((end, end, b',"%s":{"%s":%s}' % (self.payload.encode(), NOTE.encode(), note)))
            else:
                edits.append(member_edit(written.source.text, payload, NOTE, note))
        return b"".join(edited(written.source, (0, len(written.source.text)), edits))

    def parse(self, write: Operation, body: bytes, needs: WriteNeeds) -> NewPoints:
        try:
            return self.read_points(write, set_aside(body, self.guess(body)), needs)
        except RepeatedKeyError:
            raise UnsupportedError(Reason.AMBIGUOUS_FIELD) from None
        except ValueError:
            raise UnsupportedError(Reason.NOT_JSON) from None

    def point(self, points: NewPoints, row: int) -> bytes:
        """The element of the only array, in the client's own bytes."""
        source, (((_, spans)),) = self.arrays(points)
        return source.cut(*spans[row])

    def without(self, points: NewPoints, rows: Collection[int]) -> bytes:
        return self._rewritten(points, rows, {})

    def merged(self, _: Operation, points: NewPoints, rows: Collection[int], merged: Mapping[int, bytes], /) -> bytes:
        """As in the contract, for points that are elements of the only array."""
        return self._rewritten(points, rows, merged)

    def _rewritten(self, points: NewPoints, rows: Collection[int], merged: Mapping[int, bytes]) -> bytes:
        source, arrays = self.arrays(points)
        kept = [row for row in range(len(points.ids)) if row not in rows]

        def inside(array: Span, spans: Sequence[Span]) -> bytes:
            replaced = {row: [(*spans[row], point)] for row, point in merged.items()}
            return b"".join(kept_inside(source, array, spans, kept, lambda row: replaced.get(row, [])))

        edits = [(at + 1, end - 1, inside((at, end), array)) for (at, end), array in arrays]
        return b"".join(edited(source, (0, len(source.text)), edits))


@dataclass(frozen=True, slots=True)
class Deletes:
    """The requests of one transport that delete points, or change them in part. ``classify``: the request; None for any other; never raises.
    ``read``: the deletions or changes, from its body and the description of its collection, None if unknown; may raise ValueError
    and similar errors. ``is_described``: whether the description helps. ``is_named``: whether a request has the name of its collection that the journal has. ``changes``: the names of those that only change.
    """

    classify: Callable[[RequestHead], Operation | None]
    read: Callable[[Operation, bytes, object | None], Sequence[Deletion]]
    is_described: bool = False
    is_named: bool = True
    changes: frozenset[str] = frozenset()

    def of(self, request: Operation, body: bytes | None, known: object | None) -> Sequence[Deletion]:
        """Never raises: a body that is not read, or malformed, may affect all of its collection."""
        try:
            if body is not None:
                return self.read(request, body, known)
        except _UNREADABLE:
            pass
        is_change = request.name in self.changes
        named = request.collection if self.is_named else ""
        return [Deletion(collection=named or None, is_certain=False, is_change=is_change)]


def vectors_json(points: NewPoints, rows: int | list[int]) -> bytes:
    """The vectors by which neighbours are searched: that of a point, or a list of several."""
    return orjson.dumps(points.vectors[rows], option=orjson.OPT_SERIALIZE_NUMPY)


def numbers_of(source: Shortened, span: Span | None) -> bytes:
    """The array by which neighbours are searched. Raises ValueError."""
    if span is None:
        raise ValueError("a point without numbers has no neighbours")
    return source.cut_value(span)


def payload_fields(
    source: Shortened, payloads: Sequence[Span | None], keys: tuple[str, ...]
) -> tuple[tuple[bytes | None, ...], ...]:
    """Per point the raw JSON of each key of its payload, None if absent."""
    return tuple([last_values(b"null" if span is None else source.cut(*span), keys) for span in payloads])


def equal_to(tenant: Tenant) -> bytes:
    """A filter in the words that Pinecone and Chroma share; b"" for none."""
    terms = [b'{%s:{"$eq":%s}}' % (json.dumps(key).encode(), value) for key, value in tenant]
    return terms[0] if len(terms) == 1 else b'{"$and":[%s]}' % b",".join(terms) if terms else b""
