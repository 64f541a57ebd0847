"""A Chroma collection as a source, and its points whole: by its name in the default tenant and database, or as the write gate writes it
down, `tenant/database/ID`.
"""

from __future__ import annotations

import re
from base64 import b64decode
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any
from urllib.parse import urlsplit

import numpy as np
import orjson

from vecsieve.adapters.chroma.write import FORM
from vecsieve.adapters.writes import Form
from vecsieve.proxy.jobs.source import Access, ListedSource, Point, PointId, Shape, SourceError, Vectors, Whole

_DISTANCES = {"l2": "Euclid", "cosine": "Cosine", "ip": "Dot"}
_IDS = 5000  # of a page: ids alone are small
_PARTS = ["embeddings", "documents", "metadatas"]
_MEMBERS = ("ids", "embeddings", "documents", "metadatas", "uris")  # as the client's `add` names them
_HEX = "[0-9a-f]"
_WRITTEN_DOWN = re.compile(rf"(?:([^/]+)/([^/]+)/)?({_HEX}{{8}}(?:-{_HEX}{{4}}){{3}}-{_HEX}{{12}})")
DOCUMENT = "document"  # the payload's member that holds the document; it is a usual text field


class ChromaSource(ListedSource):
    """The collection is opened at the first request."""

    form: Form = FORM

    def __init__(self, access: Access, _fields: tuple[str, ...] | None = None) -> None:
        import chromadb
        from chromadb.config import Settings
        from chromadb.errors import ChromaError
        from httpx import HTTPError

        super().__init__(access)
        self.refuse_vector_name("Chroma")
        self.errors = (ChromaError, HTTPError, ValueError)  # ValueError: no server answers
        parts = urlsplit(access.url)
        if parts.scheme not in {"http", "https"} or parts.hostname is None or parts.username is not None:
            raise SourceError("--url: wanted http(s)://host[:port]")
        headers = {} if access.api_key is None else {"x-chroma-token": access.api_key}
        is_tls = parts.scheme == "https"
        port = parts.port or (443 if is_tls else 8000)
        quiet = Settings(anonymized_telemetry=False)
        written = _WRITTEN_DOWN.fullmatch(access.collection)
        where = {"tenant": written[1], "database": written[2]} if written is not None and written[1] else {}
        self._client: Any = self.ask(
            lambda: chromadb.HttpClient(
                host=parts.hostname or "", port=port, ssl=is_tls, headers=headers, settings=quiet, **where
            )
        )
        name = access.collection if written is None else self._name_of(written[3])
        self._collection: Any = self.ask(lambda: self._client.get_collection(name))

    def _name_of(self, identifier: str) -> str:
        """Of the collection with this id; a name may have the form of one."""
        each = self.ask(self._client.list_collections)
        return next((str(one.name) for one in each if str(one.id) == identifier), identifier)

    def described(self) -> Shape:
        configuration: Mapping[str, Any] = self._collection.configuration or {}
        index = configuration.get("hnsw") or configuration.get("spann") or {}
        first = self.ask(lambda: self._collection.get(limit=1, include=["embeddings"]))["embeddings"]
        if first is None or not len(first):
            raise SourceError(f"collection {self.access.collection!r} has no points")
        return Shape(
            points=self.ask(self._collection.count),
            dimension=len(first[0]),
            distance=_DISTANCES.get(str(index.get("space")), "Euclid"),  # l2 is Chroma's own default
            vector_name="",
        )

    def listed(self) -> Iterator[list[PointId]]:
        start = 0
        while True:
            page = self.ask(partial(self._collection.get, limit=_IDS, offset=start, include=[]))["ids"]
            yield list(page)
            start += len(page)
            if len(page) < _IDS:
                return

    def fetched(self, ids: Sequence[PointId]) -> Iterable[Point]:
        found = self.ask(lambda: self._collection.get(ids=list(map(str, ids)), include=_PARTS))
        return self._points(found["ids"], found["embeddings"], found["documents"], found["metadatas"])

    def found(self, vector: Vectors, count: int) -> list[Point]:
        asked = np.asarray(vector, np.float32)
        found = self.ask(lambda: self._collection.query(query_embeddings=[asked], n_results=count, include=_PARTS))
        columns = (found[name][0] for name in ("ids", "embeddings", "documents", "metadatas"))
        return list(self._points(*columns))

    def whole(self, ids: Sequence[PointId]) -> list[Whole]:
        found = self.ask(lambda: self._collection.get(ids=list(map(str, ids)), include=[*_PARTS, "uris"]))
        columns = found["ids"], found["embeddings"], found["documents"], found["metadatas"]
        points = self._points(*columns)
        uris = found["uris"] or [None] * len(found["ids"])
        return [
            self.complete(point, dict(zip(_MEMBERS, (*parts, uri), strict=True)))
            for point, *parts, uri in zip(points, *columns, uris, strict=True)
        ]

    def delete(self, points: Sequence[Whole]) -> None:
        self.ask(lambda: self._collection.delete(ids=[str(point.id) for point in points]))

    def present(self, _partition: bytes, keys: Sequence[bytes]) -> frozenset[bytes]:
        ids = [orjson.loads(key) for key in keys]
        return frozenset(map(orjson.dumps, self.ask(lambda: self._collection.get(ids=ids, include=[]))["ids"]))

    def put(self, _partition: bytes, bodies: Sequence[bytes]) -> None:
        groups: defaultdict[tuple[str, ...], list[dict[str, Any]]] = defaultdict(list)
        for body in bodies:
            members = _accepted(body)
            groups[tuple(members)].append(members)
        for names, points in groups.items():  # the client takes a column for all points of a call or for none
            columns = {name: [point[name] for point in points] for name in names}
            self.ask(partial(self._collection.add, **columns))  # what is stored by now stays

    def stored(self, _partition: bytes, each: PointId) -> bytes | None:
        return next((found.body for found in self.whole([each])), None)

    def restore(self, _partition: bytes, body: bytes) -> None:
        """Chroma keeps the keys of a record that is stored again, but for those that are null."""
        members = _accepted(body)
        (held,) = self.ask(lambda: self._collection.get(ids=[members["ids"]], include=["metadatas"]))["metadatas"]
        own = members.get("metadatas") or {}
        gone = {key: None for key in held or {} if key not in own}
        if gone or own:
            members["metadatas"] = {**own, **gone}
        columns = {name: [value] for name, value in members.items()}
        self.ask(lambda: self._collection.upsert(**columns))

    def delay(self, error: Exception) -> float | None:
        from chromadb.errors import RateLimitError

        return 0.0 if isinstance(error, RateLimitError) else None

    def close(self) -> None:
        self._client.close()

    def _points(self, ids: Any, vectors: Any, documents: Any, metadatas: Any) -> Iterator[Point]:
        for each, vector, document, metadata in zip(ids, vectors, documents, metadatas, strict=True):
            payload = {**(metadata or {}), **({} if document is None else {DOCUMENT: document})}
            yield Point(id=each, vector=self.vector_of(vector), payload=payload)


def _accepted(body: bytes) -> dict[str, Any]:
    """As the client takes the members of a record."""
    members = {name: value for name, value in orjson.loads(body).items() if value is not None}
    if isinstance(packed := members.get("embeddings"), str):  # as clients send them
        members["embeddings"] = np.frombuffer(b64decode(packed), "<f4")
    return members
