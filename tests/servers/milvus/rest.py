"""REST as the handlers of Milvus word it: requests become the official client's calls, hits become rows.

As in their source (2.6): numbers of 64 bits are texts unless a header allows numbers, keys are sorted, an error has status 200 and a code,
a reply without rows has no counts, a hybrid search reads no metric of its parts, and members that are not known are not read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any

import numpy as np
import orjson

from support.milvus.server import connected
from support.network.http_scripts import Script, in_a_thread

Json = dict[str, Any]
INT64 = "Accept-Type-Allow-Int64"
_NAMES = {5: "Int64", 21: "VarChar", 23: "JSON", 101: "FloatVector"}
_INVALID = 1100


class RefusedError(Exception):
    """What the handlers refuse themselves."""


class RestOfLite:
    """Answers over the engine at a URL."""

    def __init__(self, url: str) -> None:
        self._client = connected(url)

    def describe(self, request: Json) -> Json:
        name = request["collectionName"]
        description = self._client.describe_collection(name)
        indexes = [self._client.describe_index(name, index) for index in self._client.list_indexes(name)]
        return {
            "data": {
                "collectionName": name,
                "collectionID": 0,
                "enableDynamicField": description["enable_dynamic_field"],
                "fields": [
                    {
                        "name": field["name"],
                        "type": _NAMES[int(field["type"])],
                        "primaryKey": bool(field.get("is_primary")),
                    }
                    for field in description["fields"]
                ],
                "indexes": [
                    {
                        "fieldName": index["field_name"],
                        "indexName": index["index_name"],
                        "metricType": index["metric_type"],
                    }
                    for index in indexes
                ],
            }
        }

    def search(self, request: Json) -> Json:
        hits = self._client.search(
            request["collectionName"],
            data=request["data"],
            anns_field=request.get("annsField", ""),
            filter=request.get("filter", ""),
            limit=request["limit"],
            output_fields=request.get("outputFields") or [],
            search_params={**request.get("searchParams", {}), "offset": request.get("offset", 0)},
        )
        return self._rows(request["collectionName"], hits)

    def hybrid_search(self, request: Json) -> Json:
        pymilvus = import_module("pymilvus")
        parts = [
            pymilvus.AnnSearchRequest(
                part["data"], part["annsField"], part.get("params", {}), limit=part["limit"], expr=part.get("filter")
            )
            for part in request["search"]
        ]
        page = {"limit": request["limit"], "offset": request.get("offset", 0)}
        name, fields = request["collectionName"], request.get("outputFields") or []
        lists = self._client.hybrid_search(
            name, parts, _ranker(pymilvus, request["rerank"]), output_fields=fields, **page
        )
        return self._rows(name, lists)

    def _rows(self, name: str, lists: Any) -> Json:
        fields = {field["name"]: field for field in self._client.describe_collection(name)["fields"]}
        (primary,) = [field for field, schema in fields.items() if schema.get("is_primary")]
        longs = {field for field, schema in fields.items() if int(schema["type"]) == 5}
        vectors = {field for field, schema in fields.items() if int(schema["type"]) == 101}
        rows = []
        for hits in lists:
            for hit in hits:
                row = {**hit["entity"], primary: hit["id"] if "id" in hit else hit[primary]}
                members = {
                    field: np.array(value, np.float32) if field in vectors else Long(value) if field in longs else value
                    for field, value in row.items()
                }
                rows.append(dict(sorted({**members, "distance": np.float32(hit["distance"])}.items())))
        counts = {"topks": [len(hits) for hits in lists]} if rows else {}
        return {"cost": 0, "data": rows, **counts}


class Long:
    """A number of 64 bits, whose form the request decides."""

    def __init__(self, value: int) -> None:
        self.value = value


def _ranker(pymilvus: Any, rerank: Json) -> Any:
    params = rerank.get("params", {})
    match rerank.get("strategy", ""):
        case "rrf":
            return pymilvus.RRFRanker(params.get("k", 60))
        case "weighted":
            return pymilvus.WeightedRanker(*params["weights"], norm_score=params.get("norm_score", True))
        case other:
            raise RefusedError(f"unsupported rank type {other}")


def answered(rest: RestOfLite, path: str, body: bytes) -> Json | None:
    """The answer to a request; None for a path that is not served."""
    routes: dict[str, Callable[[Json], Json]] = {
        "/v2/vectordb/collections/describe": rest.describe,
        "/v2/vectordb/entities/search": rest.search,
        "/v2/vectordb/entities/hybrid_search": rest.hybrid_search,
        "/v2/vectordb/entities/advanced_search": rest.hybrid_search,
    }
    if path not in routes:
        return None
    try:
        return {"code": 0, **routes[path](orjson.loads(body))}
    except RefusedError as refused:
        return {"code": _INVALID, "message": str(refused)}
    except import_module("pymilvus").MilvusException as error:
        return {"code": error.code or _INVALID, "message": error.message}


def written(answer: Json, *, has_longs: bool) -> bytes:
    """As the handlers write it."""

    def default(value: object) -> object:
        assert isinstance(value, Long)
        return value.value if has_longs else str(value.value)

    return orjson.dumps(answer, default=default, option=orjson.OPT_SERIALIZE_NUMPY)


@contextmanager
def serving(url: str) -> Iterator[str]:
    """The URL of REST in front of the engine at ``url``."""
    rest = RestOfLite(url)

    class Rest(Script):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            answer = answered(rest, self.path, self.content())
            content = written(answer or {}, has_longs=self.headers.get(INT64, "").lower() == "true")
            self.answer(content, 404 if answer is None else 200, {"Content-Type": "application/json; charset=utf-8"})

    with in_a_thread(Rest) as settings:
        yield settings
