"""What the edge does to every request, whatever transport it came by: it looks at the key and adds headers of its own."""

from __future__ import annotations

import hmac
import itertools


class Edge:
    """Takes any key but none, unless it is given one of its own."""

    def __init__(self, api_key: str | None) -> None:
        self._api_key = api_key
        self._numbers = itertools.count(1)

    def rejected(self, given: str | None) -> str | None:
        """Why a key is not taken; None when it is."""
        if not given:
            return "Missing API key"
        if self._api_key is not None and not hmac.compare_digest(given.encode(), self._api_key.encode()):
            return "Wrong API key"
        return None

    def headers(self, *, has_id: bool = True) -> dict[str, str]:
        """What Envoy adds. The times are made up, the id is a number: an emulator that is asked twice says the same."""
        identity = {"x-pinecone-request-id": f"{next(self._numbers):016d}"} if has_id else {}
        return {
            **identity,
            "x-pinecone-request-latency-ms": "1",
            "x-pinecone-response-duration-ms": "2",
            "x-envoy-upstream-service-time": "2",
        }
