"""How Milvus words its errors: a code and a message, over REST as JSON, over gRPC as the details of a status."""

from __future__ import annotations

import json

from vecsieve.adapters.contract import NativeAnswer

_UNEXPECTED = 65535  # what the server gives errors that have no code of their own


class MilvusDialect:
    """Milvus's own words over REST."""

    def error(self, status: int, message: str, *, path: str = "") -> NativeAnswer:
        """Code and message. The server says errors with status 200; what it did not say shall not look like success."""
        words = json.dumps(message, ensure_ascii=False).encode(errors="replace")
        body = b'{"code":%d,"message":%s}' % (_UNEXPECTED, words)
        return NativeAnswer(status=status, content_type="application/json; charset=utf-8", body=body)

    def refused_limit(self, status: int, body: bytes) -> int | None:
        """None: a limit that is too large is refused by a success; it is never asked for."""
        return None

    def names_unknown_vector(self, status: int, body: bytes) -> bool:
        """False: such a refusal is a success as well."""
        return False


class MilvusGrpcDialect(MilvusDialect):
    """The same over gRPC."""

    def error(self, status: int, message: str, *, path: str = "") -> NativeAnswer:
        """The code, and the sentence as its details."""
        return NativeAnswer(status=status, content_type="", body=message.encode(errors="replace"))
