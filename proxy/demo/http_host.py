"""JSON over HTTP with one host, over one kept connection: as little as the demo needs where no client library is at hand."""

from __future__ import annotations

from collections.abc import Mapping
from http.client import HTTPConnection
from typing import Any
from urllib.parse import urlsplit

import orjson

_TIMEOUT_SECONDS = 20


class DatabaseRefused(Exception):  # noqa: N818 - names what happened
    """A request of the demo was not answered with success. The message says which, the status, and the answer's start."""


class Host:
    """``url``: plain http; a path in it stands before every request's own. ``fields``: headers that every request has."""

    def __init__(self, url: str, fields: Mapping[str, str] | None = None) -> None:
        parts = urlsplit(url)
        self._prefix = parts.path
        self._fields = {"Content-Type": "application/json", **(fields or {})}
        # No web proxy of the environment has a say between two ports of this machine: http.client knows of none.
        self._connection = HTTPConnection(parts.netloc, timeout=_TIMEOUT_SECONDS)

    def sent(self, method: str, path: str, body: Mapping[str, object] | None = None) -> tuple[Any, Mapping[str, str]]:
        """The JSON of the answer, and its header fields by their names in lower case. Arrays of numbers may stand in
        ``body``. Raises DatabaseRefused, and what http.client raises where nobody answers.
        """
        payload = None if body is None else orjson.dumps(body, option=orjson.OPT_SERIALIZE_NUMPY)
        self._connection.request(method, f"{self._prefix}{path}", body=payload, headers=self._fields)
        reply = self._connection.getresponse()
        answer = reply.read()
        if not 200 <= reply.status < 300:
            said = answer[:200].decode("utf-8", "replace")
            raise DatabaseRefused(f"{method} {self._prefix}{path} was answered with {reply.status}: {said}")
        return orjson.loads(answer), {name.lower(): value for name, value in reply.getheaders()}

    def close(self) -> None:
        """Let go of the connection."""
        self._connection.close()
