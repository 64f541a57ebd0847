"""A collection of Chroma, over REST."""

from __future__ import annotations

import re
from base64 import b64decode
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any
from urllib.parse import quote

import numpy as np
import orjson

from vecsieve.adapters.chroma.write import FORM
from vecsieve.adapters.writes import Form

from ..rest import Rest
from ..source import Access, Point, PointId, Points, Shape, Source, SourceError, Vectors, Whole

_DISTANCES = {"l2": "Euclid", "cosine": "Cosine", "ip": "Dot"}
_IDS = 5000  # ids per page, which are small
_PARTS = ["embeddings", "documents", "metadatas"]
_MEMBERS = ("ids", "embeddings", "documents", "metadatas", "uris")
_HEX = "[0-9a-f]"
_WRITTEN_DOWN = re.compile(rf"(?:([^/]+)/([^/]+)/)?({_HEX}{{8}}(?:-{_HEX}{{4}}){{3}}-{_HEX}{{12}})")
DOCUMENT = "document"  # the payload member that holds the document; one of the usual text fields


class ChromaSource(Source, Points):
    """The collection by its name in the default tenant and database, or in the write gate's spelling, `tenant/database/ID`."""

    form: Form = FORM

    def __init__(self, access: Access) -> None:
        super().__init__(access)
        self.refuse_vector_name("Chroma")
        written = _WRITTEN_DOWN.fullmatch(access.collection)
        tenant, database = (
            (written[1], written[2]) if written and written[1] else ("default_tenant", "default_database")
        )
        self._identifier = written[3] if written else None
        self._path = f"/api/v2/tenants/{quote(tenant, safe='')}/databases/{quote(database, safe='')}/collections"
        key = {} if access.api_key is None else {"x-chroma-token": access.api_key}
        self._rest = Rest(access, access.url.rstrip("/"), key, self._names)

    @cached_property
    def _collection(self) -> Mapping[str, Any]:
        """Its description, by its id or its name; a name may look like an id."""
        if self._identifier is not None:
            listed = self._rest.json("GET", self._path)
            if (collection := next((entry for entry in listed if entry["id"] == self._identifier), None)) is not None:
                return dict(collection)
        return dict(
            self._rest.json("GET", f"{self._path}/{quote(self._identifier or self.access.collection, safe='')}")
        )

    def _names(self) -> list[str]:
        try:
            return sorted(collection["name"] for collection in self._rest.json("GET", self._path, missing=b"[]"))
        except (SourceError, TypeError, KeyError):
            return []

    def described(self) -> Shape:
        configuration = self._collection.get("configuration_json") or {}
        index = configuration.get("hnsw") or configuration.get("spann") or {}
        if not self._collection.get("dimension"):
            raise SourceError(f"collection {self.access.collection!r} has no points")
        return Shape(
            points=self._requested("GET", "count"),
            dimension=self._collection["dimension"],
            distance=_DISTANCES.get(str(index.get("space")), "Euclid"),  # l2 is Chroma's own default
            vector_name="",
        )

    def listed(self) -> Iterator[list[PointId]]:
        start = 0
        while True:
            page = self._got(limit=_IDS, offset=start)["ids"]
            yield page
            start += len(page)
            if len(page) < _IDS:
                return

    def fetched(self, ids: Sequence[PointId]) -> Iterable[Point]:
        reply = self._got(_PARTS, ids=list(map(str, ids)))
        return self._points(*(reply[name] for name in _MEMBERS[:4]))

    def nearest(self, vectors: Vectors, count: int) -> Iterable[list[Point]]:
        search = {"query_embeddings": vectors, "n_results": count, "include": _PARTS}
        reply = self._requested("POST", "query", search)
        return [list(self._points(*pool)) for pool in zip(*(reply[name] for name in _MEMBERS[:4]), strict=True)]

    def whole(self, ids: Sequence[PointId]) -> list[Whole]:
        reply = self._got([*_PARTS, "uris"], ids=list(map(str, ids)))
        columns = [reply[name] or [None] * len(reply["ids"]) for name in _MEMBERS]
        return [
            self.complete(point, dict(zip(_MEMBERS, members, strict=True)))
            for point, *members in zip(self._points(*columns[:4]), *columns, strict=True)
        ]

    def delete(self, points: Sequence[Whole]) -> None:
        self._requested("POST", "delete", {"ids": [point.id for point in points]})

    def present(self, _partition: bytes, keys: Sequence[bytes]) -> frozenset[bytes]:
        return frozenset(map(orjson.dumps, self._got(ids=[orjson.loads(key) for key in keys])["ids"]))

    def put(self, _partition: bytes, bodies: Sequence[bytes]) -> None:
        groups: defaultdict[tuple[str, ...], list[dict[str, Any]]] = defaultdict(list)
        for body in bodies:
            members = _record(body)
            groups[tuple(members)].append(members)
        for names, points in groups.items():  # a column is for all points of a request or for none
            # Points that are already stored stay.
            self._requested("POST", "add", {name: [point[name] for point in points] for name in names})

    def stored(self, _partition: bytes, id_: PointId) -> bytes | None:
        return next((point.body for point in self.whole([id_])), None)

    def restore(self, _partition: bytes, body: bytes) -> None:
        """If a record is stored again, Chroma keeps its keys, except those that are null."""
        members = _record(body)
        (stored,) = self._got(["metadatas"], ids=[members["ids"]])["metadatas"]
        metadata = members.get("metadatas") or {}
        removed = {key: None for key in stored or {} if key not in metadata}
        if removed or metadata:
            members["metadatas"] = {**metadata, **removed}
        self._requested("POST", "upsert", {name: [value] for name, value in members.items()})

    def _got(self, include: Sequence[str] = (), **which: object) -> Any:
        return self._requested("POST", "get", {**which, "include": list(include)})

    def _requested(self, method: str, verb: str, body: Mapping[str, object] | None = None) -> Any:
        return self._rest.json(method, f"{self._path}/{self._collection['id']}/{verb}", body)

    def _points(self, ids: Any, vectors: Any, documents: Any, metadatas: Any) -> Iterator[Point]:
        for id_, vector, document, metadata in zip(ids, vectors, documents, metadatas, strict=True):
            payload = {**(metadata or {}), **({} if document is None else {DOCUMENT: document})}
            yield Point(id=id_, vector=self.vector_of(vector), payload=payload)


def _record(body: bytes) -> dict[str, Any]:
    """The members of a record, its vector as numbers."""
    members = {name: value for name, value in orjson.loads(body).items() if value is not None}
    if isinstance(packed := members.get("embeddings"), str):  # as clients send them
        members["embeddings"] = np.frombuffer(b64decode(packed), "<f4")
    return members
