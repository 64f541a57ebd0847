"""Requests of jobs to a database over REST: for those databases whose points are needed in their own bytes, which an official client would parse, or whose
official client needs other versions of libraries than VecSieve has.
"""

from __future__ import annotations

import json
import socket
from collections.abc import Callable, Mapping
from http import HTTPStatus
from http.client import HTTPException
from time import sleep
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.request import Request, urlopen

import orjson

from vecsieve.config.problems import masked, one_line

from ..runtime.files import reason
from .source import Access, Pace, SourceError

_LATER = {HTTPStatus.TOO_MANY_REQUESTS, HTTPStatus.SERVICE_UNAVAILABLE}  # the same request may pass later
FIRST_WAITS = (1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 60.0)  # seconds after each attempt but the last: two minutes in all
LONGEST_WAIT_SECONDS = 60.0  # of one that the database names
LARGEST_WORDS = 4096  # bytes of an error's answer


class RefusedError(Exception):
    """An answer without success. ``retry_after``: the header field, "" without it."""

    def __init__(self, status: int, content: bytes, retry_after: str) -> None:
        super().__init__(status)
        self.status, self.content, self.retry_after = status, content, retry_after


class Rest:
    """Requests to one database, one at a time. ``url``: before the targets. ``names``: lists the collections, for the error of a missing one.
    Raises SourceError.
    """

    def __init__(
        self, access: Access, url: str, key: Mapping[str, str], names: Callable[[], list[str]] | None = None
    ) -> None:
        if not access.url.startswith(("http://", "https://")):
            raise SourceError(f"--url: wanted http(s)://host[:port], saw {masked(access.url)}")
        self._url = url
        self._printed_url = str(masked(access.url))
        self._collection, self._names = access.collection, names
        self._pace, self._timeout_seconds = Pace(access.requests_per_second), access.timeout_seconds
        self._headers = {"Content-Type": "application/json", **key}

    def sent(self, method: str, target: str, body: bytes = b"", *, missing: bytes | None = None) -> bytes:
        """The answer. ``missing``: returned for status 404."""
        request = Request(self._url + target, data=body or None, headers=self._headers, method=method)  # noqa: S310 - http(s), checked above
        try:
            return self._repeated(request)
        except RefusedError as error:
            if missing is not None and error.status == HTTPStatus.NOT_FOUND:
                return missing
            raise SourceError(self._refusal(error)) from None
        except OSError as error:
            why = _why_unreachable(error)
            raise SourceError(
                f"Cannot reach {self._printed_url} ({why}). Is the URL right? (--backend says which database it is.)"
            ) from None
        except HTTPException as error:
            raise self.strange(type(error).__name__) from None

    def _repeated(self, request: Request) -> bytes:
        """Send a request at its turn, and again if the database reports too many requests. Raises the last attempt's exception."""
        for seconds in FIRST_WAITS:
            self._pace.wait()
            try:
                return _exchanged(request, self._timeout_seconds)
            except RefusedError as error:
                if error.status not in _LATER:
                    raise
                named = float(error.retry_after) if error.retry_after.isdecimal() else 0.0
                sleep(min(max(named, seconds), LONGEST_WAIT_SECONDS))
        self._pace.wait()
        return _exchanged(request, self._timeout_seconds)

    def json(self, method: str, target: str, body: object = None, *, missing: bytes | None = None) -> Any:
        """The value of the answer. ``body``: may hold arrays."""
        content = b"" if body is None else orjson.dumps(body, option=orjson.OPT_SERIALIZE_NUMPY)
        try:
            return orjson.loads(self.sent(method, target, content, missing=missing))
        except ValueError as error:
            raise self.strange(one_line(str(error))) from None

    def strange(self, seen: str) -> SourceError:
        """The error of an answer that such a database does not give."""
        return SourceError(
            f"{self._printed_url} does not answer as expected: {seen}. (--backend says which database it is.)"
        )

    def _refusal(self, error: RefusedError) -> str:
        """In one line for an operator. It may quote the error's body, but no key."""
        url, name, status = self._printed_url, self._collection, error.status
        if status == HTTPStatus.TOO_MANY_REQUESTS:
            return f"{url}: too many requests for the database's own limit; a lower --rate may pass"
        if status in {HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN}:
            return (
                f"{url} refused a request for collection {name!r} (status {status}: {_message(error.content)}); wanted a key "
                "that may read it, and write to it for --apply, in the environment variable that --api-key-env names"
            )
        if status == HTTPStatus.NOT_FOUND and self._names is not None and name not in (names := self._names()):
            there = ", ".join(names) or "none that this key may see"
            return f"{url} has no collection {name!r}; it has: {there}"
        return f"{url} answered with status {status}: {_message(error.content)}"


def _exchanged(request: Request, timeout_seconds: float) -> bytes:
    try:
        with urlopen(request, timeout=timeout_seconds) as answer:  # noqa: S310 - the same
            content: bytes = answer.read()
            return content
    except HTTPError as error:
        with error:
            raise RefusedError(error.code, error.read(LARGEST_WORDS), error.headers.get("retry-after", "")) from None


def _why_unreachable(error: OSError) -> str:
    cause = error.reason if isinstance(error, URLError) else error
    if isinstance(cause, TimeoutError):
        return "no answer in time"
    if isinstance(cause, socket.gaierror):
        return "the name is unknown"
    return reason(cause) if isinstance(cause, OSError) and cause.strerror else one_line(type(cause).__name__)


def _message(content: bytes) -> str:
    """In the database's own words."""
    try:
        message = json.loads(content)["status"]["error"]
    except (ValueError, KeyError, TypeError):
        message = content.decode("utf-8", "replace")
    return one_line(str(message))
