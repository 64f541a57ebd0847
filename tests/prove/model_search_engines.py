"""Search engines of the write gate's model."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from prove.model_wire import (
    Answer,
    Apply,
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


class OpenSearch(Wire):
    """A point that is stored or changed is a new object, which has a sequence number of its own."""

    name = "opensearch"
    searches_lag = True
    vector: ClassVar[Mapping[str, object]] = {"type": "knn_vector", "space_type": "cosinesimil"}

    def __init__(self) -> None:
        self._numbers: dict[int, tuple[int, Point]] = {}  # keeps the points, so that no other has their address

    def _number(self, point: Point) -> int:
        return self._numbers.setdefault(id(point), (len(self._numbers), point))[0]

    def upsert(self, points: Sequence[Point], *, waits: bool) -> Request:
        if len(points) == 1:
            return Request("PUT", f"/docs/_doc/{points[0].id}", self._source(points[0]))
        lines = [b'{"index":{"_id":"%d"}}\n%s\n' % (point.id, self._source(point)) for point in points]
        return Request("POST", "/docs/_bulk", b"".join(lines))

    def delete(self, ids: Sequence[int]) -> Request:
        if ids[0] % 2:
            return Request("DELETE", f"/docs/_doc/{ids[0]}", b"")
        return Request(
            "POST", "/docs/_bulk", b"".join([b'{"delete":{"_id":"%d"}}\n' % identifier for identifier in ids])
        )

    def delete_where(self, number: int) -> Request:
        return Request("POST", "/docs/_delete_by_query", plain({"query": {"term": {"n": number}}}))

    def recreate(self) -> Request:
        return Request("DELETE", "/docs", b"")

    def change(self, id_: int, member: str, value: Any) -> Request:
        what = {"vec": spread(value)} if member == "axis" else fields_of(member, value)
        return Request("POST", f"/docs/_update/{id_}", plain({"doc": what}))

    def is_deletion(self, request: Request) -> bool:
        return super().is_deletion(request) or request.path.endswith("/_bulk")

    def compares(self, seen: Points, now: Points) -> bool:
        """A removal names the number that was seen."""
        return True

    def answer(self, request: Request, points: Points) -> Answer:  # noqa: PLR0911 - one for each request
        match request.method, *request.path.split("/")[2:]:
            case "GET", *_:
                properties: Any = {"text": {"type": "text"}, "n": {"type": "long"}, "vec": self.vector}
                return plain({"docs": {"mappings": {"properties": properties}}})
            case "DELETE", *rest:
                return plain({"acknowledged": True}), dropping(lambda point: not rest or str(point.id) == rest[-1])
            case _, "_msearch":
                searches = [json.loads(line) for line in request.body.split(b"\n")[1::2]]
                return plain({"responses": [self._matches(points, search) for search in searches]})
            case _, "_mget":
                return plain({"docs": [self._doc(points, int(point)) for point in json.loads(request.body)["ids"]]})
            case _, "_bulk":
                return self._bulk(request.body, points)
            case _, "_doc", identifier:
                return plain({"result": "created"}), storing([self._read(int(identifier), json.loads(request.body))])
            case _, "_update", identifier:
                if int(identifier) not in points:
                    raise LookupError
                what = json.loads(request.body)["doc"]
                members = {"axis": axis_of(what["vec"])} if "vec" in what else changed(what)
                return plain({"result": "updated"}), changing(int(identifier), **members)
            case _, "_delete_by_query":
                number = json.loads(request.body)["query"]["term"]["n"]
                return plain({"deleted": 1}), dropping(lambda point: point.number == number)
        raise AssertionError(request)

    def _matches(self, points: Points, search: Any) -> Any:
        clause = search.get("knn") or search["query"]["knn"]["vec"]
        hits = near(points, clause.get("query_vector") or clause["vector"], search["size"])
        listed = [{"_index": "docs", "_id": str(one.id), "_score": 1.0, "_source": {"text": one.text}} for one in hits]
        return {"timed_out": False, "_shards": {"successful": 1, "failed": 0}, "hits": {"hits": listed}}

    def _doc(self, points: Points, identifier: int) -> Any:
        named = {"_index": "docs", "_id": str(identifier)}
        if identifier not in points:
            return {**named, "found": False}
        point = points[identifier]
        numbers = {"_seq_no": self._number(point), "_primary_term": 1}
        return {**named, **numbers, "found": True, "_source": json.loads(self._source(point))}

    def _bulk(self, body: bytes, points: Points) -> Answer:
        lines, items, applies = iter(body.split(b"\n")[:-1]), list[Any](), list[Apply]()
        for line in lines:
            ((verb, about),) = json.loads(line).items()
            identifier, status = int(about["_id"]), 201
            source = None if verb == "delete" else next(lines)
            if identifier in self.failing:
                error: Any = {"type": "es_rejected_execution_exception", "reason": "no"}
                items.append({verb: {"_index": "docs", "_id": about["_id"], "status": 429, "error": error}})
                continue
            if source is None:
                there, number = points.get(identifier), about.get("if_seq_no")
                is_other = number is not None and there is not None and self._number(there) != number
                status = 404 if there is None else 409 if is_other else 200
                applies.append(self._dropping(identifier, number))
            else:
                applies.append(storing([self._read(identifier, json.loads(source))]))
            items.append({verb: {"_index": "docs", "_id": about["_id"], "status": status}})

        def apply(to: Points) -> None:
            for change in applies:
                change(to)

        is_failed = any("error" in item for entry in items for item in entry.values())
        return plain({"took": 0, "errors": is_failed, "items": items}), apply

    def _failed(self, body: bytes) -> set[int]:
        items = [item for entry in json.loads(body or b"{}").get("items", ()) for item in entry.values()]
        return {int(item["_id"]) for item in items if "error" in item}

    def is_refusal(self, body: bytes) -> bool:
        return bool(self._failed(body))

    def acknowledged(self, points: Mapping[int, Point], body: bytes) -> Mapping[int, Point]:
        failed = self._failed(body)
        return {identifier: point for identifier, point in points.items() if identifier not in failed}

    def _dropping(self, identifier: int, number: int | None) -> Apply:
        return dropping(lambda point: point.id == identifier and number in {None, self._number(point)})

    def _source(self, point: Point) -> bytes:
        return plain({"text": point.text, "n": point.number, "vec": point.vector})

    def _read(self, identifier: int, source: Any) -> Point:
        return Point(identifier, source["text"], source["n"], axis_of(source["vec"]))

    def single(self, point: Point) -> bytes:
        return b'{"_id":"%d","_source":%s}' % (point.id, self._source(point))

    def read(self, single: Any) -> Point:
        return self._read(int(single["_id"]), single["_source"])


class Elasticsearch(OpenSearch):
    name = "elasticsearch"
    vector: ClassVar = {"type": "dense_vector", "similarity": "cosine"}
