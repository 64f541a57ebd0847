"""Points of a collection of Weaviate, for `undo` only, over REST: its official client needs older versions of its libraries than VecSieve has."""

from __future__ import annotations

import json
from collections.abc import Sequence
from urllib.parse import quote

import msgspec
import orjson

from vecsieve.adapters.contract import UpstreamReplyError
from vecsieve.adapters.weaviate.objects import FORM
from vecsieve.adapters.weaviate.rest_write import GRAPHQL, by_ids, ids_in

from ..rest import Rest
from ..source import Access, PointId, Points, SourceError, Whole, mark_of


class _Failures(msgspec.Struct):
    error: list[dict[str, object]] = []


class _Result(msgspec.Struct):
    errors: _Failures | None = None


class _Row(msgspec.Struct):
    result: _Result = msgspec.field(default_factory=_Result)


class WeaviatePoints(Points):
    """The points of one collection. A partition is a tenant."""

    form = FORM

    def __init__(self, access: Access) -> None:
        self._collection = access.collection
        key = {} if access.api_key is None else {"Authorization": f"Bearer {access.api_key}"}
        self._rest = Rest(access, access.url.rstrip("/"), key)

    def whole(self, ids: Sequence[PointId]) -> list[Whole]:
        """For collections without tenants."""
        bodies = [self._rest.sent("GET", f"{self._path(id_)}?include=vector", missing=b"") for id_ in ids]
        objects = [(id_, body) for id_, body in zip(ids, bodies, strict=True) if body]
        return [
            Whole(
                id=id_,
                key=json.dumps(id_).encode(),
                partition=b"",
                body=body,
                mark=mark_of(None, json.loads(body).get("properties") or {}),
            )
            for id_, body in objects
        ]

    def delete(self, points: Sequence[Whole]) -> None:
        for point in points:
            suffix = f"?tenant={quote(json.loads(point.partition), safe='')}" if point.partition else ""
            self._rest.sent("DELETE", self._path(point.id) + suffix, missing=b"")

    def present(self, partition: bytes, keys: Sequence[bytes]) -> frozenset[bytes]:
        tenant = str(orjson.loads(partition)) if partition else ""
        answers = [self._rest.sent("POST", GRAPHQL, body) for body in by_ids(self._collection, tenant, keys)]
        try:
            return frozenset(key for answer in answers for key in ids_in(answer))
        except (UpstreamReplyError, ValueError, msgspec.DecodeError) as error:
            raise SourceError(f"the database's answer cannot be read: {error}") from None

    def put(self, _partition: bytes, bodies: Sequence[bytes]) -> None:
        answer = self._rest.sent("POST", "/v1/batch/objects", b'{"objects":[%s]}' % b",".join(bodies))
        rows = msgspec.json.decode(answer, type=list[_Row])
        failed = [row.result.errors.error for row in rows if row.result.errors is not None and row.result.errors.error]
        if failed:
            raise SourceError(f"the database refused {len(failed)} of {len(bodies)}: {failed[0][0].get('message')}")

    def stored(self, partition: bytes, id_: PointId) -> bytes | None:
        suffix = f"&tenant={quote(json.loads(partition), safe='')}" if partition else ""
        return self._rest.sent("GET", f"{self._path(id_)}?include=vector{suffix}", missing=b"") or None

    def _path(self, identifier: PointId) -> str:
        return f"/v1/objects/{quote(self._collection, safe='')}/{quote(str(identifier), safe='')}"
