"""The demo's database: Qdrant's embedded engine behind the REST routes that the demo, a reader's first trials, `check` and `analyze` use.

A process of its own, ``python -m vecsieve.proxy.demo.engine``, on a free port of this machine, with its data in a temporary folder. The engine holds the
GIL during a whole call (measured on 0.9.0), so calls run on the thread that serves requests. What is not served is refused by name.
"""

from __future__ import annotations

import asyncio
import signal
import tempfile
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import orjson
from aiohttp import web

ANNOUNCEMENT = "vecsieve engine listening on"
MOST_BYTES = 32 * 1024 * 1024  # Qdrant's default of `max_request_size_mb`
DEFAULT_LIMIT = 10  # Qdrant's
VECTOR = ""  # the name of the one vector
ABOUT = {"title": "qdrant - vector search engine", "version": "1.19.0"}  # clients compare the version with their own
Body = Mapping[str, Any]
# The members of a body that are read; any other is refused, unless it is null.
QUERY = frozenset({"query", "limit", "offset", "with_payload", "with_vector", "score_threshold"})
SCROLL = frozenset({"limit", "offset", "with_payload", "with_vector"})
RETRIEVE = frozenset({"ids", "with_payload", "with_vector"})


class RefusalError(Exception):
    """An error answer in Qdrant's shape."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


@dataclass(slots=True)
class Collection:
    """``parameters``: of its one vector, as the client gave them; ``shard``: the engine's."""

    name: str
    parameters: Body
    shard: Any
    writes: int = 0


@dataclass(frozen=True, slots=True)
class Engine:
    """``edge``: the engine's module, untyped."""

    root: Path
    edge: Any
    collections: dict[str, Collection] = field(default_factory=dict)

    def create(self, name: str, body: Body) -> bool:
        parameters = _only(body, {"vectors"}).get("vectors")
        if not isinstance(parameters, dict) or not {"size", "distance"} <= parameters.keys():
            raise RefusalError(501, "Not implemented by the demo's engine: a collection without one unnamed vector")
        if name in self.collections:
            raise RefusalError(409, f"Wrong input: Collection `{name}` already exists!")
        distance = getattr(self.edge.Distance, str(parameters["distance"]).capitalize(), None)
        if distance is None:
            raise RefusalError(400, f"Format error in JSON body: unknown variant `{parameters['distance']}`")
        vectors = {VECTOR: self.edge.EdgeVectorParams(int(parameters["size"]), distance)}
        config = self.edge.EdgeConfig(vectors=vectors, sparse_vectors={})
        folder = self.root / f"{len(self.collections):06}"  # no client's name becomes a path
        folder.mkdir()
        shard = self.edge.EdgeShard.create(str(folder), config)
        self.collections[name] = Collection(name, parameters, shard)
        return True

    def info(self, name: str) -> object:
        collection = self._of(name)
        return {
            "status": "green",
            "optimizer_status": "ok",
            "points_count": collection.shard.info().points_count,
            "segments_count": 1,
            "config": {
                "params": {"vectors": collection.parameters},
                "hnsw_config": {"m": 16, "ef_construct": 100, "full_scan_threshold": 10_000},
                "optimizer_config": {
                    "deleted_threshold": 0.2,
                    "vacuum_min_vector_number": 1000,
                    "default_segment_number": 0,
                    "flush_interval_sec": 5,
                },
            },
            "payload_schema": {},
        }

    def upsert(self, name: str, body: Body) -> object:
        collection = self._of(name)
        points = [
            self.edge.Point(_id(point.get("id")), point.get("vector"), point.get("payload") or {})
            for point in _objects(_only(body, {"points"}).get("points"))
        ]
        collection.shard.update(self.edge.UpdateOperation.upsert_points(points, None, None))
        collection.writes += 1
        return {"operation_id": collection.writes - 1, "status": "completed"}

    def retrieve(self, name: str, body: Body) -> object:
        ids = [_id(point_id) for point_id in _only(body, RETRIEVE).get("ids") or []]
        stored = self._of(name).shard.retrieve(ids, self._payload(body, default=True), _vector(body))
        records = {str(record.id): record for record in stored}  # the engine has an order of its own
        return [_as_record(records[key]) for key in dict.fromkeys(map(str, ids)) if key in records]

    def scroll(self, name: str, body: Body) -> object:
        offset = _only(body, SCROLL).get("offset")
        request = self.edge.ScrollRequest(
            offset=None if offset is None else _id(offset),
            limit=_count(body, "limit", DEFAULT_LIMIT),
            with_payload=self._payload(body, default=True),
            with_vector=_vector(body),
        )
        records, following = self._of(name).shard.scroll(request)
        return {"points": list(map(_as_record, records)), "next_page_offset": following}

    def query(self, name: str, body: Body) -> object:
        collection, query = self._of(name), _only(body, QUERY).get("query")
        if isinstance(query, dict) and query.keys() == {"nearest"}:
            query = query["nearest"]
        excluded = None
        if isinstance(query, int | str):  # a point's neighbours, without itself
            excluded = self.edge.Filter(must_not=[self.edge.HasIdCondition({_id(query)})])
            records = collection.shard.retrieve([_id(query)], False, True)
            if not records:
                raise RefusalError(404, f"Not found: No point with id {query} found")
            query = records[0].vector
        if not isinstance(query, list):
            raise RefusalError(501, "Not implemented by the demo's engine: a query that is no vector and no point")
        request = self.edge.QueryRequest(
            limit=_count(body, "limit", DEFAULT_LIMIT),
            offset=_count(body, "offset", 0),
            query=self.edge.Query.Nearest(query, VECTOR),
            with_vector=_vector(body),
            with_payload=self._payload(body, default=False),
            filter=excluded,
            score_threshold=body.get("score_threshold"),
        )
        scored = collection.shard.query(request)
        return {"points": [_as_record(point, version=point.version, score=np.float32(point.score)) for point in scored]}

    def batch(self, name: str, body: Body) -> object:
        return [self.query(name, search) for search in _objects(_only(body, {"searches"}).get("searches"))]

    def close(self) -> None:
        for collection in self.collections.values():
            collection.shard.close()

    def _of(self, name: str) -> Collection:
        if name not in self.collections:
            raise RefusalError(404, f"Not found: Collection `{name}` doesn't exist!")
        return self.collections[name]

    def _payload(self, body: Body, *, default: bool) -> object:
        """A boolean, a list of keys, `{"include": [..]}` or `{"exclude": [..]}`."""
        match body.get("with_payload"):
            case None:
                return default
            case {"exclude": list(keys)}:
                return self.edge.PayloadSelector.Exclude(keys)
            case {"include": list(keys)}:
                return self.edge.PayloadSelector.Include(keys)
            case other:
                return other


def _only(body: Body, known: frozenset[str] | set[str]) -> Body:
    """A body with no other members. Raises RefusalError."""
    others = [name for name, value in body.items() if name not in known and value is not None]
    if others:
        raise RefusalError(501, f"Not implemented by the demo's engine: {', '.join(others)}")
    return body


def _objects(value: object) -> list[Body]:
    if not isinstance(value, list) or not all(isinstance(member, dict) for member in value):
        raise RefusalError(400, "Format error in JSON body: expected an object")
    return value


def _id(value: object) -> int | str:
    """An unsigned number, or a UUID in its canonical form. Raises RefusalError."""
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**64:
        return value
    try:
        return str(uuid.UUID(str(value)))
    except ValueError:
        raise RefusalError(400, f"Format error in JSON body: value {value} is not a valid point ID") from None


def _count(body: Body, name: str, default: int) -> int:
    value = body.get(name)
    value = default if value is None else value
    if not isinstance(value, int) or isinstance(value, bool) or not (name == "limit") <= value < 2**32:
        raise RefusalError(422, f"Validation error in JSON body: [{name}: value {value} invalid]")
    return value


def _vector(body: Body) -> object:
    value = body.get("with_vector")
    return False if value is None else value


def _as_record(record: Any, **members: object) -> dict[str, object]:
    point = {"id": record.id if isinstance(record.id, int) else str(record.id), **members}
    if record.payload is not None:
        point["payload"] = record.payload
    if record.vector is not None:
        point["vector"] = np.asarray(record.vector, np.float32)
    return point


def _answer(value: object, status: int = 200) -> web.Response:
    body = orjson.dumps(value, option=orjson.OPT_SERIALIZE_NUMPY)
    return web.Response(body=body, status=status, content_type="application/json")


Verb = Callable[[str, Body], object]


async def _served(verb: Verb, request: web.Request) -> web.Response:
    try:
        (body,) = _objects([orjson.loads(await request.read() or b"{}")])
        return _answer({"result": verb(request.match_info.get("name", ""), body), "status": "ok", "time": 0.0})
    except orjson.JSONDecodeError as error:
        return _answer({"status": {"error": f"Format error in JSON body: {error}"}, "time": 0.0}, 400)
    except RefusalError as refusal:
        return _answer({"status": {"error": str(refusal)}, "time": 0.0}, refusal.status)


async def _open(_: web.Request) -> web.Response:
    return _answer(ABOUT)


async def _not_served(request: web.Request) -> web.Response:
    error = f"Not found: the demo's engine does not serve {request.method} {request.path}"
    return _answer({"status": {"error": error}, "time": 0.0}, 404)


def app(engine: Engine) -> web.Application:
    """Its routes."""
    served = web.Application(client_max_size=MOST_BYTES)
    one = "/collections/{name}"

    def route(method: str, path: str, verb: Verb) -> None:
        served.router.add_route(method, path, partial(_served, verb))

    served.router.add_get("/", _open)
    route("GET", "/collections", lambda *_: {"collections": [{"name": name} for name in engine.collections]})
    route("PUT", one, engine.create)
    route("GET", one, lambda name, _: engine.info(name))
    route("GET", f"{one}/exists", lambda name, _: {"exists": name in engine.collections})
    route("PUT", f"{one}/points", engine.upsert)
    route("POST", f"{one}/points", engine.retrieve)
    route("POST", f"{one}/points/scroll", engine.scroll)
    route("POST", f"{one}/points/query", engine.query)
    route("POST", f"{one}/points/query/batch", engine.batch)
    served.router.add_route("*", "/{path:.*}", _not_served)
    return served


async def main() -> None:
    """Serve until SIGTERM or SIGINT. The address is printed when it can be used. Raises ModuleNotFoundError without the engine."""
    ended = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, ended.set)
    with tempfile.TemporaryDirectory(prefix="vecsieve-engine-") as folder:
        engine = Engine(Path(folder), import_module("qdrant_edge"))
        runner = web.AppRunner(app(engine), access_log=None, shutdown_timeout=2.0)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        _, port = runner.addresses[0][:2]
        print(f"{ANNOUNCEMENT} http://127.0.0.1:{port}", flush=True)
        await ended.wait()
        await runner.cleanup()
        engine.close()


if __name__ == "__main__":
    asyncio.run(main())
