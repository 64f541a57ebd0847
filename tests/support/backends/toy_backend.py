"""A backend small enough to see through: requests, replies and answers are JSON lists of numbers.

A reply is `[[score, x, y], ...]`; the answer keeps rows. For tests of what is free of transport and of any dialect.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from vecsieve.adapters.contract import (
    Bounds,
    MalformedReplyError,
    NativeAnswer,
    Needs,
    Operation,
    Pool,
    Reason,
    Reply,
    RequestHead,
    Search,
    SearchCall,
    UnsupportedError,
)

OPERATION = Operation(backend="toy", name="nearest", collection="c")
COPIES = [0, 0, 0, 1, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12]
TOO_MANY = 429
OUT_OF_QUOTA = b"out of quota"  # a success by name alone


class ToyAdapter:
    """The six verbs over lists of numbers; `document` is the parsed body."""

    def classify(self, head: RequestHead) -> Operation | None:
        return OPERATION if head.path == "/nearest" else None

    def check_size(self, operation: Operation, body: bytes, bounds: Bounds) -> None:
        if body.count(b"{") > bounds.parts:
            raise UnsupportedError(Reason.TOO_MANY_PARTS)

    def parse_request(self, operation: Operation, body: bytes, needs: Needs) -> SearchCall:
        items = json.loads(body)
        return call(*[(item["k"], item.get("offset")) for item in items], needs=needs)

    def widen(self, call: SearchCall, fetch_k: Sequence[int]) -> bytes:
        pages = [[search.offset, search.offset + search.top_k] for search in call.searches]
        return json.dumps([size or page for size, page in zip(fetch_k, pages, strict=True)]).encode()

    def parse_reply(self, call: SearchCall, body: bytes) -> Reply:
        try:
            lists = json.loads(body)
        except ValueError as error:
            raise MalformedReplyError("not JSON") from error
        return Reply(pools=tuple(_pool(rows) for rows in lists), document=lists)

    def trim(self, call: SearchCall, reply: Reply, keep: Sequence[npt.NDArray[np.intp]]) -> bytes:
        assert isinstance(reply.document, list)
        kept = [[rows[index] for index in indices] for rows, indices in zip(reply.document, keep, strict=True)]
        return json.dumps(kept).encode()


class ToyDialect:
    """Refuses with `limit <number>` and `no vector`."""

    def error(self, status: int, message: str, *, path: str = "") -> NativeAnswer:
        return NativeAnswer(status=status, content_type="", body=message.encode())

    def is_quota(self, status: int, body: bytes) -> bool:
        return status == TOO_MANY

    def refusal_in_success(self, body: bytes) -> bytes | None:
        return body if self.is_quota_in_success(body) else None

    def is_quota_in_success(self, body: bytes) -> bool:
        return body == OUT_OF_QUOTA

    def refused_limit(self, status: int, body: bytes) -> int | None:
        return int(body.removeprefix(b"limit ")) if body.startswith(b"limit ") else None

    def names_unknown_vector(self, status: int, body: bytes) -> bool:
        return body == b"no vector"


def call(*pages: tuple[int, int | None], needs: Needs | None = None) -> SearchCall:
    """A call for searches given as (top_k, offset or None)."""
    searches = tuple(
        Search(top_k=top_k, offset=offset or 0, pages=offset is not None, query=None) for top_k, offset in pages
    )
    return SearchCall(operation=OPERATION, searches=searches, needs=needs or Needs(), document=None)


def _pool(rows: list[list[float]]) -> Pool:
    matrix = np.array(rows, dtype=np.float64).reshape(len(rows), 1 + FAMILIES)
    return Pool(
        scores=matrix[:, 0],
        vectors=matrix[:, 1:].astype(np.float32),
    )


FAMILIES = 130


def ranking(families: Sequence[int]) -> list[list[float]]:
    """Rows in rank order: members of one family point the same way, two families are orthogonal."""
    return [
        [1.0 - rank / 1000, *[float(axis == family) for axis in range(FAMILIES)]]
        for rank, family in enumerate(families)
    ]


def families_of(answer: bytes) -> list[list[int]]:
    """Which family each kept row belongs to, per search."""
    return [[row.index(1.0, 1) - 1 for row in rows] for rows in json.loads(answer)]


class ToyUpstream:
    """Answers widened requests from one ranking per search.

    Records the sizes it was asked for: a number, or the two ends of the page of a search that was left alone.
    """

    def __init__(self, *rankings: list[list[float]]) -> None:
        self.rankings = rankings
        self.requested: list[list[Any]] = []

    async def fetch(self, body: bytes) -> bytes:
        sizes = json.loads(body)
        self.requested.append(sizes)
        pages = [[0, size] if isinstance(size, int) else size for size in sizes]
        return json.dumps([rows[slice(*page)] for rows, page in zip(self.rankings, pages, strict=True)]).encode()
