"""How Milvus words its errors: a code and a message, over REST as JSON, over gRPC as the details of a status."""

from __future__ import annotations

import json
import re

from vecsieve.adapters.contract import NativeAnswer

# As 2.3.5 words it for a topk of 16,385: "top k should be in range [1, 16384], but got 16385".
_RANGE = re.compile(rb"top ?k[^,]*, top ?k should be in range \[1, (\d{1,9})\]")
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


class MilvusGrpcDialect(MilvusDialect):
    """The same over gRPC."""

    def error(self, status: int, message: str, *, path: str = "") -> NativeAnswer:
        """The code, and the sentence as its details."""
        return NativeAnswer(status=status, content_type="", body=message.encode(errors="replace"))
