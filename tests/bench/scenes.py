"""The two collections and the single point that the canned upstream serves, and the requests for them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from bench.bodies import point_reply, query_reply, query_request
from bench.contenders import TOP_K
from bench.load import Request
from bench.pools import sample

POOL = 50
DIMENSIONS = (384, 1536)
SMALL_CALL = "/collections/bench384/points/1"


@dataclass(frozen=True, slots=True)
class Scene:
    """``replies``: canned bytes by path. ``searches``: the search request per dimension."""

    replies: dict[str, bytes]
    searches: dict[int, Request]
    queries: dict[int, list[float]]
    small_call: Request
    directory: Path


def scene(directory: Path) -> Scene:
    """Build every body. The generators' files go to ``directory``."""
    replies, searches, queries = {SMALL_CALL: point_reply()}, {}, {}
    for dimensions in DIMENSIONS:
        pool = sample(POOL, dimensions, seed=dimensions)
        path = f"/collections/{collection(dimensions)}/points/query"
        replies[path] = query_reply(pool, seed=dimensions)
        body = query_request(pool, limit=TOP_K)
        searches[dimensions] = Request(method="POST", path=path, body=body, directory=directory)
        queries[dimensions] = pool.query.tolist()
    small_call = Request(method="GET", path=SMALL_CALL, body=b"", directory=directory)
    return Scene(replies=replies, searches=searches, queries=queries, small_call=small_call, directory=directory)


def collection(dimensions: int) -> str:
    """The collection that holds vectors of this size."""
    return f"bench{dimensions}"
