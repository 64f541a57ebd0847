"""Where a client connection has to end because its parser may still hold a trailer of the last request.

aiohttp's C parser (3.14.5) clears its lists when a message begins, but not the field it is collecting: the last trailer of a
chunked body becomes the first field of whatever request comes next, such as an `api-key` of somebody else behind a shared
load balancer. It does not tell of trailers, so their absence is read off the bytes; Envoy and nginx drop trailers as well.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from aiohttp.http import RawRequestMessage
from aiohttp.streams import StreamReader

# The end of a chunk or of the head, the last chunk, no trailer. A trailer that ends so would be a line without a colon.
NO_TRAILERS = b"\r\n0\r\n\r\n"


class TrailerWatch:
    """Follows what one parser is fed and what it makes of it."""

    __slots__ = ("_open", "_tail")

    def __init__(self) -> None:
        self._open: list[tuple[Any, Any]] = []
        self._tail = b""

    @property
    def chunked(self) -> StreamReader | None:
        """The chunked body that is arriving, if one is."""
        return next((payload for message, payload in self._open if message.chunked), None)

    def behind(self, data: bytes, made: Sequence[tuple[Any, Any]]) -> int | None:
        """How many of the messages that ``data`` made stand behind a chunked body that may have had trailers; None when no
        body may, so that the connection can go on.
        """
        self._tail = (self._tail + data[-len(NO_TRAILERS) :])[-len(NO_TRAILERS) :]
        messages = [*self._open, *made]
        requests = [number for number, each in enumerate(messages) if isinstance(each[0], RawRequestMessage)]
        for number in requests:
            message, payload = messages[number]
            has_next = number != requests[-1]
            if message.chunked and (has_next or (payload.is_eof() and self._tail != NO_TRAILERS)):
                return len(messages) - number - 1 if has_next else 0
        self._open = [messages[number] for number in requests[-1:] if not messages[number][1].is_eof()]
        return None
