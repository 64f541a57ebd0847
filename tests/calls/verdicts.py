"""What the adapters make of a request."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum
from types import MappingProxyType

from calls.servers import Sent
from vecsieve.adapters.backends import Backend
from vecsieve.adapters.contract import Reason, RequestHead, UnsupportedError
from vecsieve.config.policy import PolicySettings
from vecsieve.proxy.search.fetch import needs_of, plan
from vecsieve.proxy.search.policy import resolved

GRPC = "application/grpc"
POLICY = resolved(PolicySettings(), mode="on")


class Fate(StrEnum):
    """In the order of the page."""

    WIDENED = "widened"
    BYPASSED = "bypassed"
    WRITE = "write"
    DELETION = "deletion"
    PASSED = "passed"


# Each reason in a sentence: what a reader can do about it, or why there is nothing to do.
WHY: Mapping[Reason, str] = MappingProxyType(
    {
        Reason.NOT_JSON: "the body is no JSON object",
        Reason.ORDERING_CHOSEN: "the client chooses the order or the diversity itself",
        Reason.SINGLE_RESULT: "one result leaves no choice",
        Reason.AMBIGUOUS_FIELD: "a member can be read in two ways",
        Reason.UNSUPPORTED_FIELD: "a member may change what the results mean",
        Reason.PAYLOAD_SELECTOR: "the payload cannot be completed and restored exactly",
        Reason.TOO_MANY_SEARCHES: "too many searches in one request",
        Reason.TOO_MANY_PARTS: "too many names and values",
        Reason.TOO_DEEP: "searches in searches in searches",
        Reason.NOTHING_TO_DO: "nothing to compare, or no further candidates",
    }
)


def verdict(backend: Backend, requests: Sequence[Sent], *, known: object = None) -> tuple[Fate, Reason | None]:
    """Of a call that sends several requests, the one that matters most. ``known``: the description of the collection."""
    results = [_verdict(backend, sent, known) for sent in requests]
    return min(results, key=lambda result: list(Fate).index(result[0]))


def _verdict(backend: Backend, sent: Sent, known: object) -> tuple[Fate, Reason | None]:
    is_grpc = sent.content_type == GRPC
    transport = backend.grpc if is_grpc else backend.rest
    assert transport is not None
    head = RequestHead(
        method=sent.method,
        path=sent.path,
        content_type=sent.content_type,
        message=sent.body if is_grpc else b"",
    )
    adapter = transport.adapter()
    operation = adapter.classify(head)
    if operation is not None:
        try:
            call = adapter.parse_request(operation, sent.body, needs_of(POLICY, None, known=known))
        except UnsupportedError as error:
            return Fate.BYPASSED, error.reason
        return (Fate.WIDENED, None) if plan(call, POLICY, None) else (Fate.BYPASSED, Reason.NOTHING_TO_DO)
    if transport.writes is not None and transport.writes().classify(head) is not None:
        return Fate.WRITE, None
    if transport.deletes is not None and transport.deletes.classify(head) is not None:
        return Fate.DELETION, None
    return Fate.PASSED, None
