"""The two collections and the single point that the canned upstreams serve, over HTTP and gRPC, and the requests for them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from bench import bodies, grpc_bodies
from bench.contenders import TOP_K
from bench.load import Request
from bench.pools import sample

POOL = 50
DIMENSIONS = (384, 1536)
SMALL_CALL = "/collections/bench384/points/1"
QUERY_METHOD = "/qdrant.Points/Query"


@dataclass(frozen=True, slots=True)
class Scene:
    """``replies``: canned bytes by path. ``searches``: the search request per dimension.

    ``grpc_replies``, ``grpc_searches``: the same searches as calls; the path of a reply is its collection and its method.
    """

    replies: dict[str, bytes]
    searches: dict[int, Request]
    grpc_replies: dict[str, bytes]
    grpc_searches: dict[int, Request]
    queries: dict[int, list[float]]
    small_call: Request
    directory: Path


def scene(directory: Path) -> Scene:
    """Build every body. The generators' files go to ``directory``."""
    made = Scene(
        replies={SMALL_CALL: bodies.point_reply()},
        searches={},
        grpc_replies={},
        grpc_searches={},
        queries={},
        small_call=Request(method="GET", path=SMALL_CALL, body=b"", directory=directory),
        directory=directory,
    )
    for dimensions in DIMENSIONS:
        _add(made, dimensions)
    return made


def _add(made: Scene, dimensions: int) -> None:
    pool, name = sample(POOL, dimensions, seed=dimensions), collection(dimensions)
    path = f"/collections/{name}/points/query"
    reply = made.replies[path] = bodies.query_reply(pool, seed=dimensions)
    body = bodies.query_request(pool, limit=TOP_K)
    made.searches[dimensions] = Request(method="POST", path=path, body=body, directory=made.directory)
    made.grpc_replies[name + QUERY_METHOD] = grpc_bodies.query_reply(pool, reply)
    message = grpc_bodies.query_request(name, pool, limit=TOP_K)
    made.grpc_searches[dimensions] = Request(
        method="POST", path=QUERY_METHOD, body=message, directory=made.directory, is_grpc=True
    )
    made.queries[dimensions] = pool.query.tolist()


def collection(dimensions: int) -> str:
    """The collection that holds vectors of this size."""
    return f"bench{dimensions}"
