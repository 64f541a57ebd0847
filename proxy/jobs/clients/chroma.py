"""A collection of Chroma, through its official client."""

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

from vecsieve.adapters.chroma.write import FORM as CHROMA_FORM
from vecsieve.adapters.writes import Form

from ..source import Access, DatabaseSource, Point, PointId, Points, Shape, SourceError, Vectors, Whole

_CHROMA_DISTANCES = {"l2": "Euclid", "cosine": "Cosine", "ip": "Dot"}
_IDS = 5000  # ids per page, which are small
_PARTS = ["embeddings", "documents", "metadatas"]
_MEMBERS = ("ids", "embeddings", "documents", "metadatas", "uris")  # as the client's `add` names them
_HEX = "[0-9a-f]"
_WRITTEN_DOWN = re.compile(rf"(?:([^/]+)/([^/]+)/)?({_HEX}{{8}}(?:-{_HEX}{{4}}){{3}}-{_HEX}{{12}})")
DOCUMENT = "document"  # the payload member that holds the document; one of the usual text fields


class ChromaSource(DatabaseSource, Points):
    """The collection by its name in the default tenant and database, or in the write gate's spelling, `tenant/database/ID`. It is opened at
    the first request.
    """

    form: Form = CHROMA_FORM

    def __init__(self, access: Access, _fields: tuple[str, ...] | None = None) -> None:
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
        settings = Settings(
            anonymized_telemetry=False,
            chroma_api_impl="chromadb.api.fastapi.FastAPI",
            chroma_server_host=parts.hostname,
            chroma_server_http_port=port,
            chroma_server_ssl_enabled=is_tls,
            chroma_server_headers=headers,
        )
        written = _WRITTEN_DOWN.fullmatch(access.collection)
        where = {"tenant": written[1], "database": written[2]} if written is not None and written[1] else {}
        self._client: Any = self.ask(lambda: _bounded_client(access.timeout_seconds)(settings=settings, **where))
        name = access.collection if written is None else self._name_of(written[3])
        self._collection: Any = self.ask(lambda: self._client.get_collection(name))

    def _name_of(self, identifier: str) -> str:
        """The name of the collection with this id; a name may look like an id."""
        collections = self.ask(self._client.list_collections)
        return next((str(one.name) for one in collections if str(one.id) == identifier), identifier)

    def described(self) -> Shape:
        configuration: Mapping[str, Any] = self._collection.configuration or {}
        index = configuration.get("hnsw") or configuration.get("spann") or {}
        first = self.ask(lambda: self._collection.get(limit=1, include=["embeddings"]))["embeddings"]
        if first is None or not len(first):
            raise SourceError(f"collection {self.access.collection!r} has no points")
        return Shape(
            points=self.ask(self._collection.count),
            dimension=len(first[0]),
            distance=_CHROMA_DISTANCES.get(str(index.get("space")), "Euclid"),  # l2 is Chroma's own default
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
        reply = self.ask(lambda: self._collection.get(ids=list(map(str, ids)), include=_PARTS))
        return self._points(reply["ids"], reply["embeddings"], reply["documents"], reply["metadatas"])

    def nearest(self, vectors: Vectors, count: int) -> Iterable[list[Point]]:
        reply = self.ask(
            lambda: self._collection.query(query_embeddings=list(vectors), n_results=count, include=_PARTS)
        )
        columns = (reply[name] for name in ("ids", "embeddings", "documents", "metadatas"))
        return [list(self._points(*pool)) for pool in zip(*columns, strict=True)]

    def whole(self, ids: Sequence[PointId]) -> list[Whole]:
        reply = self.ask(lambda: self._collection.get(ids=list(map(str, ids)), include=[*_PARTS, "uris"]))
        columns = reply["ids"], reply["embeddings"], reply["documents"], reply["metadatas"]
        points = self._points(*columns)
        uris = reply["uris"] or [None] * len(reply["ids"])
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
            members = _record(body)
            groups[tuple(members)].append(members)
        for names, points in groups.items():  # the client takes a column for all points of a call or for none
            columns = {name: [point[name] for point in points] for name in names}
            self.ask(partial(self._collection.add, **columns))  # points that are already stored stay

    def stored(self, _partition: bytes, id_: PointId) -> bytes | None:
        return next((point.body for point in self.whole([id_])), None)

    def restore(self, _partition: bytes, body: bytes) -> None:
        """If a record is stored again, Chroma keeps its keys, except those that are null."""
        members = _record(body)
        (stored,) = self.ask(lambda: self._collection.get(ids=[members["ids"]], include=["metadatas"]))["metadatas"]
        metadata = members.get("metadatas") or {}
        removed = {key: None for key in stored or {} if key not in metadata}
        if removed or metadata:
            members["metadatas"] = {**metadata, **removed}
        columns = {name: [value] for name, value in members.items()}
        self.ask(lambda: self._collection.upsert(**columns))

    def delay(self, error: Exception) -> float | None:
        from chromadb.errors import RateLimitError

        return 0.0 if isinstance(error, RateLimitError) else None

    def close(self) -> None:
        self._client.close()

    def _points(self, ids: Any, vectors: Any, documents: Any, metadatas: Any) -> Iterator[Point]:
        for id_, vector, document, metadata in zip(ids, vectors, documents, metadatas, strict=True):
            payload = {**(metadata or {}), **({} if document is None else {DOCUMENT: document})}
            yield Point(id=id_, vector=self.vector_of(vector), payload=payload)


def _bounded_client(seconds: int) -> type[Any]:
    """Chroma's client over HTTP, whose requests have no timeout, with one for each request. The first request names the user."""
    from chromadb.api.client import Client

    class Bounded(Client):
        def get_user_identity(self) -> Any:
            server: Any = self._server
            server._session.timeout = seconds  # noqa: SLF001 - the client has no option for it
            return super().get_user_identity()

    return Bounded


def _record(body: bytes) -> dict[str, Any]:
    """The members of a record in the client's form."""
    members = {name: value for name, value in orjson.loads(body).items() if value is not None}
    if isinstance(packed := members.get("embeddings"), str):  # as clients send them
        members["embeddings"] = np.frombuffer(b64decode(packed), "<f4")
    return members
