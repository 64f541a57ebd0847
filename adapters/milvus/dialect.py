"""How Milvus words its errors: a code and a message, over REST as JSON, over gRPC as the details of a status."""

from __future__ import annotations

import json
import re

from vecsieve.adapters.contract import DeclinedError, NativeAnswer, is_exhausted, is_too_many
from vecsieve.adapters.wire.protobuf import LENGTH, VARINT, Field, fields, only, unsigned

# The status inside Milvus's replies: errors come as successful calls.

# Status: the code of old, and the one since 2.3.
_ERROR_CODE, _REASON, _CODE = 1, 2, 3


def check_status(data: bytes, status: Field | None) -> None:
    """Raises DeclinedError where a status says that the call failed; absent it says success, as for every reader of protobuf.
    ValueError for what is no status.
    """
    if status is None:
        return
    found = fields(data, status.span)
    for number in (_ERROR_CODE, _CODE):
        code = only(found, number, VARINT)
        if code is not None and unsigned(data, code):
            reason = only(found, _REASON, LENGTH)
            raise DeclinedError(unsigned(data, code), b"" if reason is None else data[reason.value : reason.end])


# As 2.3.5 words it for a topk of 16,385: "top k should be in range [1, 16384], but got 16385".
_RANGE = re.compile(rb"top ?k[^,]*, top ?k should be in range \[1, (\d{1,9})\]")
# A refusal over REST begins with its code and its message.
_REFUSAL = re.compile(rb'\s*\{\s*"code"\s*:\s*[1-9]\d{0,8}\s*,\s*"message"\s*:\s*"((?:[^"\\]|\\.){0,1000})')
# The words of quotaAndLimits: "rate limit exceeded[rate=0.1]", "quota exceeded[reason=...]", "request is rejected by grpc
# RateLimiter middleware". Numbers will not do: 8 and 9 mean other things in the status of old.
_LIMITED = (b"rate limit exceeded", b"quota exceeded", b"ratelimiter")
_STATUS = 1  # of SearchResults
_UNEXPECTED = 65535  # what the server gives errors that have no code of their own


class MilvusDialect:
    """Milvus's own words over REST."""

    def error(self, status: int, message: str, *, path: str = "") -> NativeAnswer:
        """Code and message. The server says errors with status 200; what it did not say shall not look like success."""
        words = json.dumps(message, ensure_ascii=False).encode(errors="replace")
        body = b'{"code":%d,"message":%s}' % (_UNEXPECTED, words)
        return NativeAnswer(status=status, content_type="application/json; charset=utf-8", body=body)

    def refused_limit(self, status: int, body: bytes) -> int | None:
        """The largest topk, where the words name it: 16,384 by default, less on some plans of the managed service."""
        found = _RANGE.search(body)
        return None if found is None else int(found[1])

    def names_unknown_vector(self, status: int, body: bytes) -> bool:
        """False: such a refusal is a success as well."""
        return False

    def is_quota(self, status: int, body: bytes) -> bool:
        """Whether this says that too much was asked for in a while."""
        return is_too_many(status)

    def is_quota_in_success(self, body: bytes) -> bool:
        """Whether the code is none of success and the message says so."""
        found = _REFUSAL.match(body)
        return found is not None and is_limited(found[1])


class MilvusGrpcDialect(MilvusDialect):
    """The same over gRPC."""

    def error(self, status: int, message: str, *, path: str = "") -> NativeAnswer:
        """The code, and the sentence as its details."""
        return NativeAnswer(status=status, content_type="", body=message.encode(errors="replace"))

    def is_quota(self, status: int, body: bytes) -> bool:
        """Whether this says that too much was asked for in a while."""
        return is_exhausted(status, body)

    def is_quota_in_success(self, body: bytes) -> bool:
        """Whether the status inside the message says so."""
        try:
            found = fields(body)
            check_status(body, only(found, _STATUS, LENGTH))
        except DeclinedError as declined:
            return is_limited(declined.words)
        except ValueError:
            return False
        return False


def is_limited(words: bytes) -> bool:
    """Whether a refusal's words are those of a limit on how much is asked for in a while."""
    lower = words.lower()
    return any(each in lower for each in _LIMITED)
