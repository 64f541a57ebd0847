"""Weaviate over HTTP, where everything is passed through. Clients search over gRPC since version 4; older ones use GraphQL."""

from __future__ import annotations

import re
from typing import NoReturn

from vecsieve.adapters.base import RestAdapter, RestDialect, json_text
from vecsieve.adapters.contract import (
    NativeAnswer,
    Needs,
    Operation,
    Reason,
    RequestHead,
    SearchCall,
    Touched,
    UnsupportedError,
)


class WeaviateDialect(RestDialect):
    """Over REST, where no search is widened."""

    def error(self, status: int, message: str, *, path: str = "") -> NativeAnswer:
        """A list of one message."""
        body = b'{"error":[{"message":%s}]}' % json_text(message)
        return NativeAnswer(status=status, content_type="application/json", body=body)


# The class stands in the path or in the body, and a search may write its first letter in lower case: it may be any collection.
_SHAPING = re.compile(r"/v1/(?:schema|aliases)(?:/.*)?|/v1/backups/.+/restore")
_KEEPING = re.compile(r"/v1/schema/[^/]+/(?:tenants|shards)(?:/.*)?")


def reshaped(head: RequestHead) -> Touched | None:
    """The collections whose vectors or properties the request may change; None for none. Total."""
    if head.method in {"GET", "HEAD", "OPTIONS"} or _KEEPING.fullmatch(head.path) is not None:
        return None
    return None if _SHAPING.fullmatch(head.path) is None else Touched(collection=None)


def _not_read(*_: object) -> NoReturn:
    raise TypeError("Weaviate has no search over HTTP that is read")


def _classify(_: RequestHead) -> None:
    return None


def _parse_request(operation: Operation, body: bytes, needs: Needs) -> SearchCall:
    raise UnsupportedError(Reason.NOTHING_TO_DO)


class WeaviateRest(RestAdapter[object, object]):
    """Classifies nothing, so that no other verb is called."""

    request_type = reply_type = object
    classify = staticmethod(_classify)
    parse_request = staticmethod(_parse_request)
    widen_request = staticmethod(_not_read)
    read_reply = staticmethod(_not_read)
    cut_reply = staticmethod(_not_read)
