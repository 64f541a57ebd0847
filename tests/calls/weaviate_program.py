"""The calls of Weaviate's client, which has an environment of its own (support/weaviate_client.py): run there, it prints what each sent, as JSON."""

from __future__ import annotations

import json
import sys
import uuid
import warnings
from base64 import b64encode
from dataclasses import asdict

import weaviate  # type: ignore[import-not-found]  # - it is in an environment of its own
from weaviate.classes.data import DataReference  # type: ignore[import-not-found]  # - as above
from weaviate.classes.query import (  # type: ignore[import-not-found]  # - as above
    Filter,
    GroupBy,
    MetadataQuery,
    NearMediaType,
    Rerank,
)

from calls.exercise import Calls, requests
from calls.servers import Recorder, over_grpc, over_http

VECTOR = [1.0, 0.0]
ID = uuid.UUID(int=1)
PICTURE = b64encode(b"picture").decode()
_SEARCH = {"near_vector": VECTOR, "limit": 10}
_READS = Calls(
    arguments={
        "ids": [ID],
        "media": PICTURE,
        "media_type": NearMediaType.IMAGE,
        "near_image": PICTURE,
        "near_object": ID,
        "near_vector": VECTOR,
        "query": "words",
        "uuid": ID,
    },
    more={
        name: {"limit": 10}
        for name in ("bm25", "hybrid", "near_image", "near_media", "near_object", "near_text", "near_vector")
    },
)
_QUERY = Calls(
    arguments=_READS.arguments,
    more=_READS.more,
    cases={
        "no limit": ("near_vector", {}),
        "limit=1": ("near_vector", {"limit": 1}),
        "offset=10": ("near_vector", {**_SEARCH, "offset": 10}),
        "auto_limit": ("near_vector", {**_SEARCH, "auto_limit": 1}),
        "distance": ("near_vector", {**_SEARCH, "distance": 0.5}),
        "filters": ("near_vector", {**_SEARCH, "filters": Filter.by_property("f").equal("a")}),
        "group_by": (
            "near_vector",
            {**_SEARCH, "group_by": GroupBy(prop="f", number_of_groups=2, objects_per_group=2)},
        ),
        "rerank": ("near_vector", {**_SEARCH, "rerank": Rerank(prop="f")}),
        "return_metadata": ("near_vector", {**_SEARCH, "return_metadata": MetadataQuery(distance=True)}),
    },
)
_REFERENCE = {"from_uuid": ID, "from_property": "r", "to": ID}
_DATA = Calls(
    arguments={
        "uuid": ID,
        "where": Filter.by_property("f").equal("a"),
        "objects": [{"f": "a"}],
        "properties": {"f": "a"},
        "refs": [DataReference(from_property="r", from_uuid=ID, to_uuid=ID)],
        **_REFERENCE,
    },
    more={"update": {"properties": {"f": "a"}}},
    local=frozenset({"with_data_model"}),
    administration=frozenset({"ingest"}),  # a stream, which a server of these tests has not
)
_AGGREGATE = Calls(
    arguments=_READS.arguments,
    more={name: {"object_limit": 10} for name in ("near_object", "near_text", "near_vector")},
    administration=frozenset({"near_image"}),  # 4.23.1 raises TypeError before it sends anything
)


def main() -> None:
    with over_http(lambda *_: {"version": "1.36.0", "modules": {}}) as rest, over_grpc({}) as rpc:
        client = weaviate.connect_to_custom(
            http_host="127.0.0.1",
            http_port=rest.port,
            http_secure=False,
            grpc_host="127.0.0.1",
            grpc_port=rpc.port,
            grpc_secure=False,
            skip_init_checks=True,
        )
        both = Recorder(sent=rest.sent)
        rpc.sent = rest.sent  # one list, in the order of what was sent
        collection = client.collections.use("C")
        parts = {"query": _QUERY, "generate": _READS, "data": _DATA, "aggregate": _AGGREGATE}
        recorded = {
            f"{part}.{call}": [{**asdict(request), "body": b64encode(request.body).decode()} for request in sent]
            for part, calls in parts.items()
            for call, sent in requests(both, getattr(collection, part), calls).items()
        }
        client.close()
    json.dump(recorded, sys.stdout)


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    main()
