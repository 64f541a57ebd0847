"""Vector databases of the write gate's model: what each answers to the requests of its adapter, and those of clients."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from prove.model_search_engines import Elasticsearch, OpenSearch
from prove.model_wire import (
    COLLECTION,
    SIZE,
    Answer,
    Point,
    Points,
    Request,
    Wire,
    axis_of,
    changed,
    changing,
    dropping,
    fields_of,
    near,
    plain,
    spread,
    storing,
)


class Qdrant(Wire):
    name = "qdrant"
    is_comparing = True
    waits = True
    path = "/collections/c"
    done = plain({"result": {"operation_id": 7, "status": "completed"}, "status": "ok", "time": 0})

    def upsert(self, points: Sequence[Point], *, waits: bool) -> Request:
        body = plain({"points": [json.loads(self.single(point)) for point in points]})
        return Request("PUT", f"{self.path}/points" + ("?wait=true" if waits else ""), body, waits)

    def delete(self, ids: Sequence[int]) -> Request:
        return Request("POST", f"{self.path}/points/delete?wait=true", plain({"points": list(ids)}))

    def delete_where(self, number: int) -> Request:
        where = {"must": [{"key": "n", "match": {"value": number}}]}
        return Request("POST", f"{self.path}/points/delete?wait=true", plain({"filter": where}))

    def recreate(self) -> Request:
        return Request("DELETE", self.path, b"")

    def unwaited(self, request: Request) -> Request:
        """A collection goes at once."""
        target = request.target.removesuffix("?wait=true")
        return request if request.method == "DELETE" else request._replace(target=target, is_waited=False)

    def change(self, id_: int, member: str, value: Any) -> Request:
        if member == "axis":
            vectors = {"points": [{"id": id_, "vector": spread(value)}]}
            return Request("PUT", f"{self.path}/points/vectors?wait=true", plain(vectors))
        payload = {"payload": fields_of(member, value), "points": [id_]}
        return Request("POST", f"{self.path}/points/payload?wait=true", plain(payload))

    def answer(self, request: Request, points: Points) -> Answer:  # noqa: PLR0911 - one for each request
        if request.method == "GET":
            return plain(
                {"result": {"config": {"params": {"vectors": {"size": SIZE, "distance": "Cosine"}}}}, "status": "ok"}
            )
        if request.method == "DELETE":
            return self.done, dropping(lambda _: True)
        body = json.loads(request.body)
        match request.method, request.path.removeprefix(f"{self.path}/points"):
            case "POST", "/query/batch":
                lists = [
                    near(
                        points,
                        search["query"]["nearest"] if isinstance(search["query"], dict) else search["query"],
                        search["limit"],
                    )
                    for search in body["searches"]
                ]
                hits = [
                    {
                        "points": [
                            {"id": one.id, "version": 1, "score": 1.0, "payload": {"text": one.text}} for one in hits
                        ]
                    }
                    for hits in lists
                ]
                return plain({"result": hits, "status": "ok", "time": 0})
            case "POST", "":
                return plain(
                    {
                        "result": [json.loads(self.single(points[id_])) for id_ in body["ids"] if id_ in points],
                        "status": "ok",
                        "time": 0,
                    }
                )
            case "PUT", "":
                return self.done, storing([self.read(point) for point in body["points"]])
            case "PUT", "/vectors":
                (one,) = body["points"]
                return self.done, changing(one["id"], axis=axis_of(one["vector"]))
            case "POST", "/payload":
                return self.done, changing(body["points"][0], **changed(body["payload"]))
            case "POST", "/delete":
                return self.done, dropping(self._chosen(body))
        raise AssertionError(request)

    def _chosen(self, body: Any) -> Callable[[Point], bool]:
        if "points" in body:
            return lambda point: point.id in body["points"]

        def holds(condition: Any, point: Point) -> bool:
            if "has_id" in condition:
                return point.id in condition["has_id"]
            return bool({"n": point.number, "text": point.text}[condition["key"]] == condition["match"]["value"])

        def matches(clause: Any, point: Point) -> bool:
            if "should" in clause:
                return any(matches(one, point) for one in clause["should"])
            return all(holds(one, point) for one in clause["must"])

        return lambda point: matches(body["filter"], point)

    def single(self, point: Point) -> bytes:
        return plain({"id": point.id, "vector": point.vector, "payload": {"text": point.text, "n": point.number}})

    def read(self, single: Any) -> Point:
        return Point(single["id"], single["payload"]["text"], single["payload"]["n"], axis_of(single["vector"]))


class Pinecone(Wire):
    name = "pinecone"
    lags = True
    host = "docs-1.svc.pinecone.io"

    def upsert(self, points: Sequence[Point], *, waits: bool) -> Request:
        return Request(
            "POST",
            "/vectors/upsert",
            plain({"vectors": [json.loads(self.single(point)) for point in points], "namespace": "n"}),
        )

    def delete(self, ids: Sequence[int]) -> Request:
        return Request(
            "POST", "/vectors/delete", plain({"ids": [f"v{identifier}" for identifier in ids], "namespace": "n"})
        )

    def delete_where(self, number: int) -> Request:
        return Request("POST", "/vectors/delete", plain({"filter": {"n": {"$eq": number}}, "namespace": "n"}))

    def recreate(self) -> Request:
        return Request("POST", "/vectors/delete", plain({"deleteAll": True, "namespace": "n"}))

    def change(self, id_: int, member: str, value: Any) -> Request:
        what = {"values": spread(value)} if member == "axis" else {"setMetadata": fields_of(member, value)}
        return Request("POST", "/vectors/update", plain({"id": f"v{id_}", "namespace": "n", **what}))

    def answer(self, request: Request, points: Points) -> Answer:  # noqa: PLR0911 - one for each request
        if request.path == "/vectors/fetch":
            ids = [int(value[1:]) for name, value in parse_qsl(urlsplit(request.target).query) if name == "ids"]
            return plain(
                {
                    "vectors": {
                        f"v{identifier}": json.loads(self.single(points[identifier]))
                        for identifier in ids
                        if identifier in points
                    },
                    "namespace": "n",
                }
            )
        body = json.loads(request.body)
        match request.path:
            case "/describe_index_stats":
                return plain({"metric": "cosine"})
            case "/query":
                hits = near(points, body["vector"], body["topK"])
                return plain(
                    {"matches": [{"id": f"v{one.id}", "score": 1.0, "metadata": {"text": one.text}} for one in hits]}
                )
            case "/vectors/upsert":
                written = [self.read(one) for one in body["vectors"]]
                return plain({"upsertedCount": len(written)}), storing(written)
            case "/vectors/update":
                members = {"axis": axis_of(body["values"])} if "values" in body else changed(body["setMetadata"])
                return b"{}", changing(int(body["id"][1:]), **members)
            case "/vectors/delete":
                if body.get("deleteAll"):
                    return b"{}", dropping(lambda _: True)
                if "filter" in body:
                    return b"{}", dropping(lambda point: point.number == body["filter"]["n"]["$eq"])
                return b"{}", dropping(lambda point: f"v{point.id}" in body["ids"])
        raise AssertionError(request)

    def single(self, point: Point) -> bytes:
        return plain(
            {"id": f"v{point.id}", "values": point.vector, "metadata": {"text": point.text, "n": point.number}}
        )

    def read(self, single: Any) -> Point:
        return Point(
            int(single["id"][1:]), single["metadata"]["text"], single["metadata"]["n"], axis_of(single["values"])
        )


class Chroma(Wire):
    name = "chroma"
    is_comparing = True
    path = f"/api/v2/tenants/t/databases/d/collections/{COLLECTION}"

    def upsert(self, points: Sequence[Point], *, waits: bool) -> Request:
        rows = [json.loads(self.single(one)) for one in points]
        return Request("POST", f"{self.path}/upsert", plain({name: [one[name] for one in rows] for name in rows[0]}))

    def delete(self, ids: Sequence[int]) -> Request:
        return Request("POST", f"{self.path}/delete", plain({"ids": [f"v{identifier}" for identifier in ids]}))

    def delete_where(self, number: int) -> Request:
        return Request("POST", f"{self.path}/delete", plain({"where": {"n": {"$eq": number}}}))

    def recreate(self) -> Request:
        return self.delete(range(100))  # a collection that is made anew has another id

    def change(self, id_: int, member: str, value: Any) -> Request:
        column = {"axis": "embeddings", "text": "documents"}.get(member, "metadatas")
        stored = spread(value) if member == "axis" else value if member == "text" else {"n": value}
        return Request("POST", f"{self.path}/update", plain({"ids": [f"v{id_}"], column: [stored]}))

    def answer(self, request: Request, points: Points) -> Answer:
        if request.method == "GET":
            return plain({"id": COLLECTION, "configuration_json": {"hnsw": {"space": "cosine"}}})
        body = json.loads(request.body)
        match request.path.removeprefix(self.path):
            case "/query":
                lists = [near(points, vector, body["n_results"]) for vector in body["query_embeddings"]]
                return plain({
                    "ids": [[f"v{one.id}" for one in hits] for hits in lists],
                    "distances": [[0.0 for _ in hits] for hits in lists],
                    "metadatas": [[{"n": one.number} for one in hits] for hits in lists],
                    "documents": [[one.text for one in hits] for hits in lists],
                })  # fmt: skip
            case "/get":
                kept = [json.loads(self.single(points[int(one[1:])])) for one in body["ids"] if int(one[1:]) in points]
                return plain(
                    {name: [one[name] for one in kept] for name in ("ids", "embeddings", "metadatas", "documents")}
                )
            case "/upsert":
                rows = zip(body["ids"], body["embeddings"], body["metadatas"], body["documents"], strict=True)
                return b"{}", storing(
                    [Point(int(i[1:]), text, data["n"], axis_of(vector)) for i, vector, data, text in rows]
                )
            case "/update":
                (column,) = body.keys() - {"ids"}
                (value,) = body[column]
                members = (
                    {"text": value}
                    if column == "documents"
                    else changed(value)
                    if column == "metadatas"
                    else {"axis": axis_of(value)}
                )
                return b"{}", changing(int(body["ids"][0][1:]), **members)
            case "/delete":
                return b"{}", dropping(self._chosen(body))
        raise AssertionError(request)

    def _chosen(self, body: Any) -> Callable[[Point], bool]:
        conditions = body.get("where") or {}
        clauses = conditions.get("$and", [conditions] if conditions else [])
        text = (body.get("where_document") or {}).get("$contains", "")

        def is_chosen(point: Point) -> bool:
            is_named = "ids" not in body or f"v{point.id}" in body["ids"]
            return is_named and text in point.text and all(point.number == one["n"]["$eq"] for one in clauses)

        return is_chosen

    def single(self, point: Point) -> bytes:
        return plain(
            {
                "ids": f"v{point.id}",
                "embeddings": point.vector,
                "metadatas": {"n": point.number},
                "documents": point.text,
            }
        )

    def read(self, single: Any) -> Point:
        return Point(
            int(single["ids"][1:]), single["documents"], single["metadatas"]["n"], axis_of(single["embeddings"])
        )


_FIELDS = [
    {"name": "id", "type": "Int64", "primaryKey": True, "autoId": False},
    {"name": "vec", "type": "FloatVector", "primaryKey": False, "autoId": False},
    {"name": "text", "type": "VarChar", "primaryKey": False, "autoId": False},
    {"name": "n", "type": "Int64", "primaryKey": False, "autoId": False},
]


class Milvus(Wire):
    name = "milvus"
    is_partial = False

    def _requested(self, path: str, **body: Any) -> Request:
        return Request("POST", f"/v2/vectordb/{path}", plain({"collectionName": "c", **body}))

    def upsert(self, points: Sequence[Point], *, waits: bool) -> Request:
        return self._requested("entities/upsert", data=[json.loads(self.single(point)) for point in points])

    def delete(self, ids: Sequence[int]) -> Request:
        return self._requested("entities/delete", filter=f"id in {list(ids)}")

    def delete_where(self, number: int) -> Request:
        return self._requested("entities/delete", filter=f"n in [{number}]")

    def recreate(self) -> Request:
        return self._requested("collections/drop")

    def answer(self, request: Request, points: Points) -> Answer:  # noqa: PLR0911 - one for each request
        body = json.loads(request.body)
        match request.path.removeprefix("/v2/vectordb/") if not self.failing else "failing":
            case "failing":
                return plain({"code": 1100, "message": "no"})
            case "collections/describe":
                index = [{"fieldName": "vec", "indexName": "vec", "metricType": "COSINE"}]
                return plain(
                    {
                        "code": 0,
                        "data": {
                            "collectionName": "c",
                            "collectionID": 7,
                            "enableDynamicField": False,
                            "fields": _FIELDS,
                            "indexes": index,
                        },
                    }
                )
            case "entities/search":
                lists = [near(points, vector, body["limit"]) for vector in body["data"]]
                rows = [{"id": one.id, "distance": 1.0, "text": one.text} for hits in lists for one in hits]
                return plain({"code": 0, "data": rows, "topks": [len(hits) for hits in lists]})
            case "entities/query":
                return plain(
                    {
                        "code": 0,
                        "data": [
                            json.loads(self.single(point))
                            for point in points.values()
                            if self._chosen(body["filter"])(point)
                        ],
                    }
                )
            case "entities/upsert":
                records = [self.read(one) for one in body["data"]]
                return plain(
                    {"code": 0, "data": {"upsertCount": len(records), "upsertIds": [one.id for one in records]}}
                ), storing(records)
            case "entities/delete":
                return plain({"code": 0, "data": {}}), dropping(self._chosen(body["filter"]))
            case "collections/drop":
                return plain({"code": 0, "data": {}}), dropping(lambda _: True)
        raise AssertionError(request)

    def is_refusal(self, body: bytes) -> bool:
        return bool(json.loads(body)["code"])

    def _chosen(self, expression: str) -> Callable[[Point], bool]:
        name, numbers = re.fullmatch(r"(\w+) in (\[.*\])", expression).groups()  # type: ignore[union-attr]  # - it is one of ours
        values = json.loads(numbers)
        return lambda point: (point.id if name == "id" else point.number) in values

    def single(self, point: Point) -> bytes:
        return plain({"id": point.id, "vec": point.vector, "text": point.text, "n": point.number})

    def read(self, single: Any) -> Point:
        return Point(int(single["id"]), single["text"], single["n"], axis_of(single["vec"]))


_NEAR = re.compile(r"(a\d+):Docs\(limit:(\d+).*?(?:nearVector:\{vector:(\[[^]]*\])|valueText:\"([^\"]*)\")")


class Weaviate(Wire):
    name = "weaviate"
    replicas = 1

    def _uuid(self, number: int) -> str:
        return f"00000000-0000-0000-0000-{number:012}"

    def id_of(self, identifier: bytes) -> int:
        return int(identifier.strip(b'"').rpartition(b"-")[2])

    def upsert(self, points: Sequence[Point], *, waits: bool) -> Request:
        return Request(
            "POST", "/v1/batch/objects", plain({"objects": [json.loads(self.single(point)) for point in points]})
        )

    def delete(self, ids: Sequence[int]) -> Request:
        return Request("DELETE", f"/v1/objects/Docs/{self._uuid(ids[0])}", b"")

    def delete_where(self, number: int) -> Request:
        where = {"path": ["n"], "operator": "Equal", "valueInt": number}
        return Request("DELETE", "/v1/batch/objects", plain({"match": {"class": "Docs", "where": where}}))

    def recreate(self) -> Request:
        return Request("DELETE", "/v1/schema/Docs", b"")

    def change(self, id_: int, member: str, value: Any) -> Request:
        what = {"vector": spread(value)} if member == "axis" else {"properties": fields_of(member, value)}
        return Request("PATCH", f"/v1/objects/Docs/{self._uuid(id_)}", plain({"class": "Docs", **what}))

    def answer(self, request: Request, points: Points) -> Answer:  # noqa: PLR0911 - one for each request
        if request.path == "/v1/schema/Docs":
            if request.method == "DELETE":
                return b"", dropping(lambda _: True)
            properties = [{"name": "text", "dataType": ["text"]}, {"name": "n", "dataType": ["int"]}]
            return plain(
                {
                    "class": "Docs",
                    "properties": properties,
                    "vectorIndexConfig": {"distance": "cosine"},
                    "replicationConfig": {"factor": self.replicas},
                }
            )
        if request.path == "/v1/graphql":
            return self._graphql(json.loads(request.body)["query"], points)
        if request.path == "/v1/batch/objects":
            body = json.loads(request.body)
            if request.method == "DELETE":
                return b"{}", dropping(lambda point: point.number == body["match"]["where"]["valueInt"])
            written = [self.read(one) for one in body["objects"]]
            failed = {"status": "FAILED", "errors": {"error": [{"message": "no"}]}}
            results = [failed if point.id in self.failing else {"status": "SUCCESS"} for point in written]
            reply = [{**one, "result": result} for one, result in zip(body["objects"], results, strict=True)]
            return plain(reply), storing([point for point in written if point.id not in self.failing])
        number = self.id_of(request.path.rpartition("/")[2].encode())
        if request.method == "PATCH":
            what = json.loads(request.body)
            members = {"axis": axis_of(what["vector"])} if "vector" in what else changed(what["properties"])
            return b"", changing(number, **members)
        if number not in points:
            raise LookupError
        if request.method == "DELETE":
            return b"", dropping(lambda point: point.id == number)
        return self.single(points[number])

    def acknowledged(self, points: Mapping[int, Point], body: bytes) -> Mapping[int, Point]:
        stored = {self.id_of(one["id"].encode()) for one in json.loads(body) if one["result"]["status"] == "SUCCESS"}
        return {identifier: point for identifier, point in points.items() if identifier in stored}

    def _graphql(self, query: str, points: Points) -> bytes:
        data: dict[str, Any] = {}
        for alias, limit, vector, identifier in _NEAR.findall(query):
            if vector:
                data[alias] = [
                    {"text": one.text, "_additional": {"id": self._uuid(one.id), "distance": 0.0}}
                    for one in near(points, json.loads(vector), int(limit))
                ]
            else:
                number = self.id_of(identifier.encode())
                data[alias] = [{"_additional": {"id": self._uuid(number)}}] if number in points else []
        return plain({"data": {"Get": data}})

    def single(self, point: Point) -> bytes:
        properties = {"text": point.text, "n": point.number}
        return plain({"class": "Docs", "id": self._uuid(point.id), "properties": properties, "vector": point.vector})

    def read(self, single: Any) -> Point:
        properties = single["properties"]
        return Point(self.id_of(single["id"].encode()), properties["text"], properties["n"], axis_of(single["vector"]))


class Replicated(Weaviate):
    """Reads ask a replica that is behind."""

    replicas = 3
    lags = True

    def answer(self, request: Request, points: Points) -> Answer:
        """Deletions reach all replicas, whatever the one says that is read."""
        if request.method == "DELETE" and request.path.startswith("/v1/objects/"):
            number = self.id_of(request.path.rpartition("/")[2].encode())
            return b"", dropping(lambda point: point.id == number)
        return super().answer(request, points)


WIRES: Mapping[str, Callable[[], Wire]] = {
    "qdrant": Qdrant,
    "pinecone": Pinecone,
    "chroma": Chroma,
    "milvus": Milvus,
    "weaviate": Weaviate,
    "replicated": Replicated,
    "opensearch": OpenSearch,
    "elasticsearch": Elasticsearch,
}
