"""Weaviate over HTTP: nothing there is ours. Its clients since version 4 search over gRPC; schema, objects and GraphQL, by
which older ones search, are passed through.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from vecsieve.adapters.contract import (
    Bounds,
    Needs,
    Operation,
    Reason,
    Reply,
    RequestHead,
    SearchCall,
    Touched,
    UnsupportedError,
)

_NOT_OURS = "Weaviate has no search over HTTP that is read here"


# A class is changed by its name in a path or in a body, and a search may write its first letter small: it may be any of them.
_SHAPING = re.compile(r"/v1/(?:schema|aliases)(?:/.*)?|/v1/backups/.+/restore")
_KEEPING = re.compile(r"/v1/schema/[^/]+/(?:tenants|shards)(?:/.*)?")


def reshaped(head: RequestHead) -> Touched | None:
    """What the request may give other vectors or properties; None for one that gives none. Total."""
    if head.method in {"GET", "HEAD", "OPTIONS"} or _KEEPING.fullmatch(head.path) is not None:
        return None
    return None if _SHAPING.fullmatch(head.path) is None else Touched(collection=None)


class WeaviateRest:
    """The six verbs, of which only the first is ever called."""

    def classify(self, head: RequestHead) -> Operation | None:
        """None, whatever it is."""
        return None

    def check_size(self, operation: Operation, body: bytes, bounds: Bounds) -> None:
        """Raises UnsupportedError: no request is a search of ours."""
        raise UnsupportedError(Reason.NOTHING_TO_DO)

    def parse_request(self, operation: Operation, body: bytes, needs: Needs) -> SearchCall:
        """Raises UnsupportedError: no request is a search of ours."""
        raise UnsupportedError(Reason.NOTHING_TO_DO)

    def widen(self, call: SearchCall, fetch_k: Sequence[int]) -> bytes:
        """Raises TypeError: the call is another adapter's."""
        raise TypeError(_NOT_OURS)

    def parse_reply(self, call: SearchCall, body: bytes) -> Reply:
        """Raises TypeError: the call is another adapter's."""
        raise TypeError(_NOT_OURS)

    def trim(self, call: SearchCall, reply: Reply, keep: Sequence[npt.NDArray[np.intp]]) -> bytes:
        """Raises TypeError: the call is another adapter's."""
        raise TypeError(_NOT_OURS)
