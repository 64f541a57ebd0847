"""What adapters and dialects have in common, by transport.

An adapter names its functions; the base class passes each verb to one of them and refuses documents of other adapters.
A dialect overrides the answers in which its backend differs.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

import numpy as np
import numpy.typing as npt

from vecsieve.adapters.contract import (
    Bounds,
    NativeAnswer,
    Needs,
    Operation,
    Pool,
    Reason,
    Reply,
    RequestHead,
    SearchCall,
    UnsupportedError,
)
from vecsieve.adapters.wire import json as wire_json
from vecsieve.adapters.wire import protobuf_requests
from vecsieve.adapters.wire.json import Span

NOTE = "_vecsieve"  # the member of a payload that tells which results it stands for
_OBJECT = ord("{")

Keep = Sequence[npt.NDArray[np.intp]]
T = TypeVar("T")
RequestT = TypeVar("RequestT")
ReplyT = TypeVar("ReplyT")


def own(document: object, kind: type[T]) -> T:
    """The document of a call or a reply. Raises TypeError for one that another adapter made."""
    if not isinstance(document, kind):
        raise TypeError("the document was made by another adapter")
    return document


def check_page(top_k: int, offset: int) -> None:
    """Raises UnsupportedError for a page of one result, which has nothing to choose among, and for one of none."""
    if not top_k:
        raise UnsupportedError(Reason.AMBIGUOUS_FIELD)
    if top_k + offset == 1:
        raise UnsupportedError(Reason.SINGLE_RESULT)


class _Verbs(Generic[RequestT, ReplyT]):
    """Stateless: one instance serves any number of callers. ``read_reply`` gives one pool, or one for each search."""

    request_type: type[RequestT]
    reply_type: type[ReplyT]
    classify: Callable[[RequestHead], Operation | None]
    parse_request: Callable[[Operation, bytes, Needs], SearchCall]
    widen_request: Callable[[RequestT, Sequence[int]], bytes]
    read_reply: Callable[[RequestT, Needs, bytes], tuple[Pool | tuple[Pool, ...], ReplyT]]
    cut_reply: Callable[[RequestT, ReplyT, Keep], bytes]

    def widen(self, call: SearchCall, fetch_k: Sequence[int]) -> bytes:
        """As in the contract."""
        return self.widen_request(own(call.document, self.request_type), fetch_k)

    def parse_reply(self, call: SearchCall, body: bytes) -> Reply:
        """As in the contract."""
        pools, document = self.read_reply(own(call.document, self.request_type), call.needs, body)
        return Reply(pools=pools if isinstance(pools, tuple) else (pools,), document=document)

    def trim(self, call: SearchCall, reply: Reply, keep: Keep) -> bytes:
        """As in the contract."""
        return self.cut_reply(own(call.document, self.request_type), own(reply.document, self.reply_type), keep)


class RestAdapter(_Verbs[RequestT, ReplyT]):
    """The verbs over JSON bodies."""

    def check_size(self, operation: Operation, body: bytes, bounds: Bounds) -> None:
        """As in the contract."""
        wire_json.check_size(body, bounds)


class NotingAdapter(RestAdapter[RequestT, ReplyT]):
    """The verbs over JSON bodies whose results have payloads. ``payloads``: for each search the span of each result's payload in an
    answer without surrogate escapes; None for none. ``is_flat``: a payload has no objects inside: a note is their JSON as a string.
    """

    payloads: Callable[[RequestT, bytes], Sequence[Sequence[Span | None]]]
    is_flat = False

    def noted(self, call: SearchCall, answer: bytes, notes: Sequence[Sequence[bytes | None]]) -> bytes:
        """As in the contract."""
        text = wire_json.without_surrogates(answer)
        found = self.payloads(own(call.document, self.request_type), text)
        edits: list[tuple[int, int, bytes]] = []
        for spans, told in zip(found, notes, strict=True):
            for span, note in zip(spans, told, strict=True):
                if span is not None and note is not None and text[span[0]] == _OBJECT:
                    edits += self._note(text, span, note)
        return wire_json.splice(answer, edits)

    def _note(self, text: bytes, span: Span, note: bytes) -> list[tuple[int, int, bytes]]:
        """At the end of the object, so that the first members stay where they are."""
        present = wire_json.members(text, span)
        if NOTE in present:
            return []
        value = json_text(note.decode(errors="replace")) if self.is_flat else note
        return [(span[1] - 1, span[1] - 1, b'%s"%s":%s' % (b"," if present else b"", NOTE.encode(), value))]


class GrpcAdapter(_Verbs[RequestT, ReplyT]):
    """The verbs over single messages. ``messages``: those that a reader of requests enters, from each operation's name on."""

    messages: protobuf_requests.Messages

    def check_size(self, operation: Operation, body: bytes, bounds: Bounds) -> None:
        """As in the contract."""
        protobuf_requests.check_size(body, operation.name, self.messages, bounds)


TOO_MANY_REQUESTS = 429
RESOURCE_EXHAUSTED = 8

# With RESOURCE_EXHAUSTED, gRPC's libraries (grpc-go, the C core, grpc-java) also report a message that is too long for one end.
_OVERSIZED = (b"larger than max", b"exceeds maximum size")


def is_oversized(code: int, details: bytes) -> bool:
    """Whether a gRPC status says that a message is too long."""
    return code == RESOURCE_EXHAUSTED and any(words in details for words in _OVERSIZED)


def json_text(message: str) -> bytes:
    """A message as a JSON string, for the body of an error."""
    return json.dumps(message, ensure_ascii=False).encode(errors="replace")


class RestDialect:
    """Status 429 is a quota. No refusal names a limit or a vector, and none has a status of success."""

    def refused_limit(self, status: int, body: bytes) -> int | None:
        """None."""
        return None

    def names_unknown_vector(self, status: int, body: bytes) -> bool:
        """False."""
        return False

    def is_quota(self, status: int, body: bytes) -> bool:
        """By the status alone."""
        return status == TOO_MANY_REQUESTS

    def is_quota_in_success(self, body: bytes) -> bool:
        """False."""
        return False


class GrpcDialect(RestDialect):
    """A status is the number of a gRPC code, a body its details. RESOURCE_EXHAUSTED is a quota, unless a message is too long."""

    def error(self, status: int, message: str, *, path: str = "") -> NativeAnswer:
        """The message as the details of this code."""
        return NativeAnswer(status=status, content_type="", body=message.encode(errors="replace"))

    def is_quota(self, status: int, body: bytes) -> bool:
        """By the code and the details."""
        return status == RESOURCE_EXHAUSTED and not is_oversized(status, body)
