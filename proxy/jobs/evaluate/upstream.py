"""An in-memory Qdrant for one query: answers POST /collections/{name}/points/query from an exact ranking.

It knows the members that the adapter sends and refuses every other, so that nothing it would do wrongly goes unseen.
"""

from __future__ import annotations

import msgspec

from vecsieve.proxy.jobs.evaluate.knn import Neighbours
from vecsieve.proxy.jobs.evaluate.points import Points, Wanted, json_floats
from vecsieve.proxy.selection.values import Indices

UNNAMED = ""


class _Selector(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    include: frozenset[str] | None = None
    exclude: frozenset[str] | None = None


class _Request(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    query: msgspec.Raw  # its ranking is known
    limit: int = 10
    offset: int = 0
    with_payload: bool | frozenset[str] | _Selector | None = None
    with_vector: bool | frozenset[str] | None = None


class Upstream:
    """Ranks one query's neighbours, as often as it is asked."""

    __slots__ = ("_neighbours", "_points")

    def __init__(self, points: Points, neighbours: Neighbours) -> None:
        self._points = points
        self._neighbours = neighbours

    async def answer(self, body: bytes) -> bytes:
        """A 200's body. Raises ValueError for a request that this server does not understand."""
        request = msgspec.json.decode(body, type=_Request)
        rows = self._neighbours.first(request.offset + request.limit)[request.offset :]
        wanted, with_vector = _payload(request), _vector(request)
        points = b",".join(
            self._points.point(row, score, wanted=wanted, with_vector=with_vector)
            for row, score in zip(rows.tolist(), self._scores(rows), strict=True)
        )
        return b'{"result":{"points":[%s]},"status":"ok","time":0.001}' % points

    def _scores(self, rows: Indices) -> list[bytes]:
        written = json_floats(self._neighbours.similarities[rows])[1:-1]
        return written.split(b",") if written else []


def _payload(request: _Request) -> Wanted | None:
    """Top-level keys only: the adapter asks for no other."""
    chosen = request.with_payload
    if chosen is None or isinstance(chosen, bool):
        return (lambda _key: True) if chosen else None
    if isinstance(chosen, frozenset):
        return chosen.__contains__
    if (chosen.include is None) == (chosen.exclude is None):
        raise ValueError("with_payload: saw neither or both of include and exclude, wanted one")
    if chosen.include is not None:
        return chosen.include.__contains__
    hidden = chosen.exclude or frozenset()
    return lambda key: key not in hidden


def _vector(request: _Request) -> bool:
    chosen = request.with_vector
    if isinstance(chosen, frozenset) and chosen != {UNNAMED}:
        raise ValueError(f"with_vector: saw {sorted(chosen)}, wanted the one vector there is, which has no name")
    return bool(chosen)
