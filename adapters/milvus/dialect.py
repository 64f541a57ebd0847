"""Milvus's errors: a code and a message, over REST as JSON, over gRPC as the details of a status."""

from __future__ import annotations

import re

from vecsieve.adapters.base import GrpcDialect, RestDialect, json_text
from vecsieve.adapters.contract import DeclinedError, NativeAnswer
from vecsieve.adapters.wire.protobuf import LENGTH, VARINT, Field, fields, only, unsigned

# Status in replies: the code of servers before 2.3, and the one since.
_ERROR_CODE, _REASON, _CODE = 1, 2, 3


def check_status(data: bytes, status: Field | None) -> None:
    """Raises DeclinedError for a status other than success, ValueError for an invalid one. An absent status is success."""
    if status is None:
        return
    found = fields(data, status.span)
    for number in (_ERROR_CODE, _CODE):
        code = only(found, number, VARINT)
        if code is not None and unsigned(data, code):
            reason = only(found, _REASON, LENGTH)
            raise DeclinedError(unsigned(data, code), b"" if reason is None else data[reason.value : reason.end])


# The text of 2.3.5 for a topk of 16,385: "top k should be in range [1, 16384], but got 16385".
_RANGE = re.compile(rb"top ?k[^,]*, top ?k should be in range \[1, (\d{1,9})\]")
# An error over REST begins with code and message.
_REFUSAL = re.compile(rb'\s*\{\s*"code"\s*:\s*[1-9]\d{0,8}\s*,\s*"message"\s*:\s*"((?:[^"\\]|\\.){0,1000})')
# Texts of quotaAndLimits: "rate limit exceeded[rate=0.1]", "quota exceeded[reason=...]", "request is rejected by grpc
# RateLimiter middleware". The codes 8 and 9 have other meanings before 2.3.
_LIMITED = (b"rate limit exceeded", b"quota exceeded", b"ratelimiter")
_STATUS = 1  # of SearchResults
_UNEXPECTED = 65535  # the server's code for errors without one of their own


class MilvusDialect(RestDialect):
    """Over REST. Errors have status 200."""

    def error(self, status: int, message: str, *, path: str = "") -> NativeAnswer:
        """Code and message, with the status that was given: an error of the proxy must not look like a success."""
        body = b'{"code":%d,"message":%s}' % (_UNEXPECTED, json_text(message))
        return NativeAnswer(status=status, content_type="application/json; charset=utf-8", body=body)

    def refused_limit(self, status: int, body: bytes) -> int | None:
        """The largest topk: 16,384 by default, less on some plans of the managed service."""
        return refused_limit(body)

    def is_quota_in_success(self, body: bytes) -> bool:
        """By the code and the message."""
        found = _REFUSAL.match(body)
        return found is not None and is_limited(found[1])


class MilvusGrpcDialect(GrpcDialect):
    """Over gRPC. Errors have a status inside a successful message."""

    def refused_limit(self, status: int, body: bytes) -> int | None:
        """As over REST."""
        return refused_limit(body)

    def is_quota_in_success(self, body: bytes) -> bool:
        """By the status inside the message."""
        try:
            found = fields(body)
            check_status(body, only(found, _STATUS, LENGTH))
        except DeclinedError as declined:
            return is_limited(declined.words)
        except ValueError:
            return False
        return False


def refused_limit(words: bytes) -> int | None:
    """The largest topk that a refusal names; None where it names none."""
    found = _RANGE.search(words)
    return None if found is None else int(found[1])


def is_limited(words: bytes) -> bool:
    """Whether a refusal's message is about a rate limit or a quota."""
    lower = words.lower()
    return any(each in lower for each in _LIMITED)
