"""What Weaviate's own client asks a real server beyond support/weaviate/scenario.py: a program for the interpreter that has it.

Distances, indexes, quantisers, all kinds of properties, references, several vectors, text,
filters, groups, thresholds, reranking, generated text, REST and GraphQL. Arguments: REST port, gRPC port, "fill", "ask" or "write".
A call named ``<name>.all`` is the whole ranking that ``<name>`` is a page of.
"""

from __future__ import annotations

import json
import sys
import uuid
from collections.abc import Callable
from functools import partial
from http.client import HTTPConnection
from typing import Any

import weaviate  # type: ignore[import-not-found]  # - it is in an environment of its own
from weaviate.classes.aggregate import GroupByAggregate  # type: ignore[import-not-found]  # - as above
from weaviate.classes.config import (  # type: ignore[import-not-found]  # - as above
    Configure,
    DataType,
    Property,
    ReferenceProperty,
    VectorDistances,
)
from weaviate.classes.data import DataObject, GeoCoordinate  # type: ignore[import-not-found]  # - as above
from weaviate.classes.query import (  # type: ignore[import-not-found]  # - as above
    BM25Operator,
    Boost,
    Diversity,
    Filter,
    GroupBy,
    HybridFusion,
    HybridVector,
    MetadataQuery,
    Move,
    NearVector,
    QueryNested,
    QueryReference,
    Rerank,
    Sort,
    TargetVectors,
)
from weaviate.classes.tenants import Tenant  # type: ignore[import-not-found]  # - as above

from real_servers.weaviate_objects import (
    COPIES,
    counted,
    counted_query,
    kinds,
    properties,
    query,
    vector,
    words,
)
from support.weaviate import scenario as base
from support.weaviate.scenario import EVERYTHING, FAMILIES, TOP_K, identifier

WHOLE = 200
SPACES = {
    "Cosine": VectorDistances.COSINE,
    "Dot": VectorDistances.DOT,
    "Euclid": VectorDistances.L2_SQUARED,
    "Manhattan": VectorDistances.MANHATTAN,
    "Hamming": VectorDistances.HAMMING,
}
KINDS = [
    Property(name="text", data_type=DataType.TEXT),
    Property(name="number", data_type=DataType.INT),
    Property(name="share", data_type=DataType.NUMBER),
    Property(name="flag", data_type=DataType.BOOL),
    Property(name="day", data_type=DataType.DATE),
    Property(name="key", data_type=DataType.UUID),
    Property(name="place", data_type=DataType.GEO_COORDINATES),
    Property(name="phone", data_type=DataType.PHONE_NUMBER),
    Property(name="picture", data_type=DataType.BLOB),
    Property(name="flags", data_type=DataType.BOOL_ARRAY),
    Property(name="days", data_type=DataType.DATE_ARRAY),
    Property(name="keys", data_type=DataType.UUID_ARRAY),
    Property(name="shares", data_type=DataType.NUMBER_ARRAY),
    Property(name="numbers", data_type=DataType.INT_ARRAY),
    Property(name="absent", data_type=DataType.TEXT),
    Property(
        name="nested",
        data_type=DataType.OBJECT,
        nested_properties=[
            Property(name="inner", data_type=DataType.TEXT),
            Property(name="count", data_type=DataType.INT),
        ],
    ),
    Property(
        name="list",
        data_type=DataType.OBJECT_ARRAY,
        nested_properties=[Property(name="inner", data_type=DataType.TEXT)],
    ),
]
Call = Callable[[], Any]


def fill(client: Any) -> None:
    """Collections of every distance, index, quantiser and kind, with copies and without."""
    bare = Configure.Vectors.self_provided
    index, quantizer = Configure.VectorIndex, Configure.VectorIndex.Quantizer
    made = client.collections
    for name, space in SPACES.items():
        for prefix, copies in (("Clean", 1), ("Copied", COPIES)):
            made.create(
                f"{prefix}{name}",
                properties=base.PROPERTIES,
                vector_config=bare(vector_index_config=index.hnsw(distance_metric=space)),
            )
            insert(made.get(f"{prefix}{name}"), copies, counted if name == "Hamming" else vector)
    for name, copies in (("Clean", 1), ("Copied", COPIES), ("Legacy", COPIES)):
        config = {"vectorizer_config": Configure.Vectorizer.none()} if name == "Legacy" else {"vector_config": bare()}
        made.create(name, properties=base.PROPERTIES, **config)
        insert(made.get(name), copies)
    tenancy = Configure.multi_tenancy(enabled=True)
    made.create("Shared", properties=base.PROPERTIES, vector_config=bare(), multi_tenancy_config=tenancy)
    made.get("Shared").tenants.create([Tenant(name="left"), Tenant(name="right")])
    for tenant in ("left", "right"):
        insert(made.get("Shared").with_tenant(tenant), COPIES)
    for name, config in {
        "Flat": bare(vector_index_config=index.flat()),
        "Bits": bare(vector_index_config=index.flat(quantizer=quantizer.bq())),
        "Rotated": bare(quantizer=quantizer.rq()),
        "Plain": bare(quantizer=quantizer.none()),
    }.items():
        made.create(f"Copied{name}", properties=base.PROPERTIES, vector_config=config)
        insert(made.get(f"Copied{name}"), COPIES)
    made.create("Target", properties=[Property(name="name", data_type=DataType.TEXT)], vector_config=bare())
    made.get("Target").data.insert_many(
        [
            DataObject(uuid=identifier(family, 0), properties={"name": f"n{family}"}, vector=vector(family, 0))
            for family in range(FAMILIES)
        ]
    )
    made.create(
        "CopiedKinds",
        properties=KINDS,
        references=[ReferenceProperty(name="to", target_collection="Target")],
        vector_config=bare(),
    )
    made.get("CopiedKinds").data.insert_many(
        [
            DataObject(
                uuid=identifier(family, copy),
                properties=kinds(family, copy),
                references={"to": identifier(family, 0)},
                vector=vector(family, copy),
            )
            for family in range(FAMILIES)
            for copy in range(COPIES)
        ]
    )
    made.create(
        "CopiedSeveral",
        properties=base.PROPERTIES,
        vector_config=[
            bare(name="a"),
            bare(name="b"),
            bare(name="text"),
            Configure.MultiVectors.self_provided(name="late"),
        ],
    )
    made.get("CopiedSeveral").data.insert_many(
        [
            DataObject(
                uuid=identifier(family, copy), properties=properties(family, copy),
                vector={"a": vector(family, copy), "b": vector(family, copy)[::-1], "text": vector(family, copy), "late": [vector(family, copy), vector(family + 50, copy)]},
            )
            for family in range(FAMILIES) for copy in range(COPIES)
        ]
    )  # fmt: skip
    for name, copies in (("CleanWords", 1), ("CopiedWords", COPIES)):
        made.create(
            name,
            properties=[
                Property(name="text", data_type=DataType.TEXT),
                Property(name="number", data_type=DataType.INT),
            ],
            vector_config=Configure.Vectors.text2vec_transformers(source_properties=["text"]),
            reranker_config=Configure.Reranker.custom("reranker-dummy"),
            generative_config=Configure.Generative.custom("generative-dummy"),
        )
        made.get(name).data.insert_many(
            [
                DataObject(uuid=identifier(family, copy), properties={"text": words(family, copy), "number": family})
                for family in range(FAMILIES)
                for copy in range(copies)
            ]
        )
    made.create("CopiedEmpty", properties=base.PROPERTIES, vector_config=bare())


def insert(collection: Any, copies: int, at: Callable[[int, int], list[float]] = vector) -> None:
    """Every family so many times."""
    collection.data.insert_many(
        [
            DataObject(uuid=identifier(family, copy), properties=properties(family, copy), vector=at(family, copy))
            for family in range(FAMILIES) for copy in range(copies)
        ]
    )  # fmt: skip


def call_outcomes(client: Any) -> dict[str, Any]:
    """Every call by name, and what the client made of its answer, or the name of its error."""
    pages: dict[str, tuple[Callable[..., Any], dict[str, Any]]] = {}
    others: dict[str, Call] = {}
    every(client, pages)
    several(client, pages, others)
    by_words(client, pages, others)
    by_kinds(client, pages, others)
    elsewhere(client, others)
    seen = {name: base.outcome(partial(call, **{"limit": TOP_K, **fields})) for name, (call, fields) in pages.items()}
    seen |= {
        f"{name}.all": base.outcome(partial(call, **{**fields, "limit": WHOLE, "offset": 0}))
        for name, (call, fields) in pages.items()
    }
    return seen | {name: base.outcome(call) for name, call in others.items()}


def every(client: Any, pages: dict[str, Any]) -> None:
    """The same of every collection of one vector."""
    names = [f"{prefix}{name}" for name in SPACES for prefix in ("Clean", "Copied")]
    for name in (
        *names,
        "CopiedFlat",
        "CopiedBits",
        "CopiedRotated",
        "CopiedPlain",
        "Copied",
        "Clean",
        "Legacy",
        "CopiedEmpty",
    ):
        at = client.collections.get(name).query
        near = partial(at.near_vector, counted_query() if name.endswith("Hamming") else query(0))
        other = counted(2, 1) if name.endswith("Hamming") else query(1)
        pages |= {
            f"{name}.near": (near, {}),
            f"{name}.near.full": (near, {"include_vector": True, "return_metadata": MetadataQuery.full()}),
            f"{name}.near.offset": (near, {"offset": 5, "limit": 3}),
            f"{name}.near.two": (near, {"limit": 2, "return_properties": []}),
            f"{name}.near.distance": (near, {"distance": 0.8, "return_metadata": MetadataQuery(distance=True)}),
            f"{name}.near.where": (near, {"filters": Filter.by_property("number").less_than(9)}),
            f"{name}.near.where any": (near, {"filters": Filter.by_property("tags").contains_any(["t1", "t2"]) & Filter.by_property("owner").not_equal("o9")}),
            f"{name}.near.where id": (near, {"filters": Filter.by_id().contains_any([identifier(1, 0), identifier(2, 0), identifier(3, 0)])}),
            f"{name}.object": (partial(at.near_object, identifier(3, 0)), {"return_metadata": EVERYTHING}),
            f"{name}.hybrid": (partial(at.hybrid, "common cordba"), {"vector": other, "return_metadata": EVERYTHING}),
            f"{name}.hybrid.ranked": (partial(at.hybrid, "common cordba"), {"vector": other, "fusion_type": HybridFusion.RANKED, "return_metadata": EVERYTHING}),
            f"{name}.hybrid.words": (partial(at.hybrid, "common"), {"vector": other, "alpha": 0}),
            f"{name}.hybrid.vector": (partial(at.hybrid, "common"), {"vector": other, "alpha": 1, "return_metadata": MetadataQuery(score=True)}),
            f"{name}.hybrid.offset": (partial(at.hybrid, "common"), {"vector": other, "offset": 2, "limit": 4}),
            f"{name}.hybrid.bounded": (partial(at.hybrid, "common"), {"vector": other, "max_vector_distance": 0.9}),
            f"{name}.keyword": (partial(at.bm25, "common dordaa eordca"), {"return_metadata": MetadataQuery(score=True)}),
            f"{name}.keyword.and": (partial(at.bm25, "common eordca"), {"operator": BM25Operator.and_()}),
            f"{name}.keyword.or": (partial(at.bm25, "common eordca fordba"), {"operator": BM25Operator.or_(minimum_match=1), "query_properties": ["text^2", "owner"]}),
        }  # fmt: skip


def several(client: Any, pages: dict[str, Any], others: dict[str, Call]) -> None:
    """Named vectors, several targets, tenants."""
    at = client.collections.get("CopiedSeveral").query
    for target in ("a", "b", "text"):
        pages |= {
            f"CopiedSeveral.{target}": (partial(at.near_vector, query(0), target_vector=target), {}),
            f"CopiedSeveral.{target}.all vectors": (partial(at.near_vector, query(0), target_vector=target), {"include_vector": True}),
            f"CopiedSeveral.{target}.one vector": (partial(at.near_vector, query(0), target_vector=target), {"include_vector": ["a"]}),
            f"CopiedSeveral.{target}.object": (partial(at.near_object, identifier(2, 1), target_vector=target), {}),
            f"CopiedSeveral.{target}.hybrid": (partial(at.hybrid, "common", vector=query(2), target_vector=target), {}),
            f"CopiedSeveral.{target}.hybrid near": (partial(at.hybrid, "common", vector=HybridVector.near_vector(query(2), distance=0.9), target_vector=target), {}),
            f"CopiedSeveral.{target}.hybrid by name": (partial(at.hybrid, "common", vector={target: query(2)}, target_vector=target), {}),
            f"CopiedSeveral.{target}.by name": (partial(at.near_vector, {target: query(0)}, target_vector=target), {}),
        }  # fmt: skip
    pages |= {
        "CopiedSeveral.keyword": (partial(at.bm25, "common"), {"include_vector": ["b"]}),
        "CopiedSeveral.late.object": (partial(at.near_object, identifier(2, 1), target_vector="late"), {}),
        "CopiedSeveral.a.unknown vector": (
            partial(at.near_vector, query(0), target_vector="a"),
            {"include_vector": ["zz"]},
        ),
    }
    joined = {
        "sum": TargetVectors.sum(["a", "b"]),
        "average": TargetVectors.average(["a", "b"]),
        "minimum": TargetVectors.minimum(["a", "b"]),
        "manual": TargetVectors.manual_weights({"a": 0.3, "b": 0.7}),
        "relative": TargetVectors.relative_score({"a": 0.3, "b": 0.7}),
        "list": ["a", "text"],
    }
    for name, target in joined.items():
        others[f"CopiedSeveral.joined {name}"] = partial(at.near_vector, query(0), target_vector=target, limit=TOP_K)
        others[f"CopiedSeveral.joined {name} object"] = partial(
            at.near_object, identifier(2, 1), target_vector=target, limit=TOP_K
        )
    others |= {
        "CopiedSeveral.joined hybrid": partial(at.hybrid, "common", vector=query(0), target_vector=["a", "b"], limit=TOP_K),
        "CopiedSeveral.joined two vectors": partial(at.near_vector, {"a": NearVector.list_of_vectors(query(0), query(1))}, target_vector="a", limit=TOP_K),
        "CopiedSeveral.joined each": partial(at.near_vector, {"a": query(0), "b": query(3)}, target_vector=["a", "b"], limit=TOP_K),
        "CopiedSeveral.late": partial(at.near_vector, [query(0), query(1)], target_vector="late", limit=TOP_K),
        "CopiedSeveral.late one": partial(at.near_vector, query(0), target_vector="late", limit=TOP_K),
        "CopiedSeveral.no target": partial(at.near_vector, query(0), limit=TOP_K),
        "CopiedSeveral.wrong target": partial(at.near_vector, query(0), target_vector="zz", limit=TOP_K),
    }  # fmt: skip
    shared = client.collections.get("Shared")
    for tenant in ("left", "right"):
        inside = shared.with_tenant(tenant).query
        pages |= {
            f"Shared.{tenant}": (partial(inside.near_vector, query(0)), {}),
            f"Shared.{tenant}.keyword": (partial(inside.bm25, "common"), {}),
        }
    others |= {
        "Shared.none": partial(shared.query.near_vector, query(0), limit=TOP_K),
        "Shared.unknown": partial(shared.with_tenant("nobody").query.near_vector, query(0), limit=TOP_K),
        "Copied.tenant": partial(client.collections.get("Copied").with_tenant("left").query.near_vector, query(0), limit=TOP_K),
        "tenants": lambda: str(sorted(shared.tenants.get().items())),
    }  # fmt: skip


def by_words(client: Any, pages: dict[str, Any], others: dict[str, Call]) -> None:
    """By text; reranked and generated; what chooses its own order or length."""
    for name in ("CleanWords", "CopiedWords"):
        at, generator = client.collections.get(name).query, client.collections.get(name).generate
        near = partial(at.near_text, words(3) + " " + words(5))
        pages |= {
            f"{name}.text": (near, {}),
            f"{name}.text.full": (near, {"include_vector": True, "return_metadata": MetadataQuery.full()}),
            f"{name}.text.offset": (near, {"offset": 3, "limit": 4}),
            f"{name}.text.where": (near, {"filters": Filter.by_property("number").less_or_equal(7)}),
            f"{name}.hybrid": (partial(at.hybrid, words(3) + " " + words(4)), {"return_metadata": EVERYTHING}),
            f"{name}.text.moved": (near, {"move_to": Move(force=0.5, concepts=words(7))}),
            f"{name}.hybrid.text": (partial(at.hybrid, words(3), vector=HybridVector.near_text(words(5))), {}),
            f"{name}.keyword": (partial(at.bm25, "common"), {}),
            f"{name}.object": (partial(at.near_object, identifier(3, 0)), {}),
        }
        others |= {
            f"{name}.reranked": partial(near, rerank=Rerank(prop="text", query="common"), limit=TOP_K),
            f"{name}.generated": partial(generator.near_text, words(3), single_prompt="say {text}", limit=2),
            f"{name}.generated grouped": partial(generator.near_text, words(3), grouped_task="say", limit=3),
        }
    for name in ("Clean", "Copied"):
        at = client.collections.get(name).query
        near = partial(at.near_vector, query(0), limit=TOP_K)
        total = client.collections.get(name).aggregate
        others |= {
            f"{name}.autocut": partial(near, auto_limit=1),
            f"{name}.autocut.hybrid": partial(at.hybrid, "common", vector=query(0), auto_limit=2, limit=TOP_K),
            f"{name}.grouped": partial(near, group_by=GroupBy(prop="owner", objects_per_group=3, number_of_groups=2)),
            f"{name}.diverse": partial(near, diversity_selection=Diversity.mmr(limit=3, balance=0.5)),
            f"{name}.boosted": partial(near, boost=Boost.numeric_property("number")),
            f"{name}.single": partial(at.near_vector, query(0), limit=1),
            f"{name}.list": partial(at.fetch_objects, limit=5, include_vector=True),
            f"{name}.list.after": partial(at.fetch_objects, limit=5, after=identifier(2, 0)),
            f"{name}.list.sorted": partial(at.fetch_objects, limit=5, sort=Sort.by_property("number", ascending=False).by_id()),
            f"{name}.list.ids": partial(at.fetch_objects_by_ids, [identifier(1, 0), identifier(4, 0)]),
            f"{name}.list.where": partial(at.fetch_objects, limit=5, filters=Filter.by_property("owner").equal("o0")),
            f"{name}.by id": partial(by_id, at),
            f"{name}.refused.text": partial(at.near_text, "no vectorizer here", limit=TOP_K),
            f"{name}.refused.image": partial(at.near_image, "aGVsbG8=", limit=TOP_K),
            f"{name}.refused.length": partial(at.near_vector, [1.0, 2.0], limit=TOP_K),
            f"{name}.refused.object": partial(at.near_object, uuid.UUID(int=5), limit=TOP_K),
            f"{name}.refused.window": partial(at.near_vector, query(0), limit=10_000, offset=1),
            f"{name}.refused.where": partial(near, filters=Filter.by_property("nothing").equal("x")),
            f"{name}.refused.property": partial(near, return_properties=["nothing"]),
            f"{name}.refused.certainty": partial(near, certainty=0.5, distance=0.5),
            f"{name}.counted": partial(total.over_all, total_count=True),
            f"{name}.counted.near": partial(total.near_vector, query(0), object_limit=9, total_count=True),
            f"{name}.counted.groups": partial(groups, total),
        }  # fmt: skip


def by_id(at: Any) -> str:
    """One object."""
    fetched = at.fetch_object_by_id(identifier(1, 0), include_vector=True)
    return f"{fetched.uuid} {sorted(fetched.properties.items())} {fetched.vector}"


def groups(total: Any) -> str:
    """How many objects each owner has; the server gives them in any order."""
    answer = total.over_all(group_by=GroupByAggregate(prop="owner"), total_count=True)
    return str(sorted((group.grouped_by.value, group.total_count) for group in answer.groups))


def by_kinds(client: Any, pages: dict[str, Any], others: dict[str, Call]) -> None:
    """Every kind of property, and references."""
    at = client.collections.get("CopiedKinds").query
    near = partial(at.near_vector, query(0))
    to = QueryReference(link_on="to", return_properties=["name"], return_metadata=MetadataQuery(creation_time=True))
    pages |= {
        "CopiedKinds.near": (near, {}),
        "CopiedKinds.every": (near, {"return_properties": True, "return_metadata": EVERYTHING}),
        "CopiedKinds.some": (near, {"return_properties": ["number", "place", "picture", "days"]}),
        "CopiedKinds.nested": (near, {"return_properties": ["text", QueryNested(name="nested", properties=["inner"])]}),
        "CopiedKinds.nested list": (near, {"return_properties": [QueryNested(name="list", properties=["inner"])]}),
        "CopiedKinds.references": (near, {"return_references": to}),
        "CopiedKinds.references and vectors": (near, {"return_references": to, "include_vector": True}),
        "CopiedKinds.near place": (near, {"filters": Filter.by_property("place").within_geo_range(GeoCoordinate(latitude=45.0, longitude=-3.5), 900_000)}),
        "CopiedKinds.days": (near, {"filters": Filter.by_property("day").greater_than("2024-01-05T00:00:00Z")}),
        "CopiedKinds.by reference": (near, {"filters": Filter.by_ref("to").by_property("name").like("n*")}),
        "CopiedKinds.hybrid": (partial(at.hybrid, "common", vector=query(0)), {"return_references": to}),
        "CopiedKinds.keyword": (partial(at.bm25, "common"), {"return_properties": ["key", "keys", "flag", "flags", "absent"]}),
    }  # fmt: skip
    others["CopiedKinds.list"] = partial(at.fetch_objects, limit=3, return_references=to, include_vector=True)


def elsewhere(client: Any, others: dict[str, Call]) -> None:
    """REST and GraphQL, as they come over the wire: status, type and bytes."""
    connection = client._connection
    host = connection.url.partition("://")[2]
    for method, target in (
        ("GET", "/v1/meta"), ("GET", "/v1/schema/Copied"), ("GET", "/v1/schema/Nowhere"), ("HEAD", "/v1/objects/Copied/none"),
        ("GET", f"/v1/objects/Copied/{identifier(1, 0)}?include=vector"), ("HEAD", f"/v1/objects/Copied/{identifier(1, 0)}"), ("GET", "/v1/objects?class=Copied&limit=3"),
        ("GET", "/v1/nothing"), ("GET", "/v1/nodes"), ("DELETE", "/v1/objects/Copied/none"), ("OPTIONS", "/v1/graphql"),
        ("GET", "/v1/.well-known/openid-configuration"), ("GET", "/v1/.well-known/live"), ("GET", "/"),
    ):  # fmt: skip
        others[f"rest {method} {target}"] = partial(exchanged, host, method, target)
    near = f"nearVector:{{vector:{json.dumps(query(0))}}}"
    for name, text in {
        "near": f"{{Get{{Copied({near},limit:6){{text _additional{{id distance vector}}}}}}}}",
        "keyword": '{Get{Copied(bm25:{query:"common"},limit:6){text _additional{id score}}}}',
        "hybrid": f'{{Get{{Copied(hybrid:{{query:"common",vector:{json.dumps(query(0))}}},limit:6){{_additional{{id score explainScore}}}}}}}}',
        "where": '{Get{Copied(where:{path:["owner"],operator:Equal,valueText:"o0"},limit:4){owner _additional{id}}}}',
        "after": f'{{Get{{Copied(after:"{identifier(2, 0)}",limit:4){{_additional{{id}}}}}}}}',
        "group": f"{{Get{{Copied({near},limit:9,groupBy:{{path:[\"owner\"],groups:2,objectsPerGroup:2}}){{_additional{{id group{{count}}}}}}}}}}",
        "autocut": f"{{Get{{Copied({near},autocut:1){{_additional{{id}}}}}}}}",
        "text": '{Get{CopiedWords(nearText:{concepts:["common"]},limit:4){_additional{id}}}}',
        "aggregate": "{Aggregate{Copied{meta{count}}}}",
        "wrong": "{Get{Nowhere{x}}}",
        "broken": "{Get{",
    }.items():  # fmt: skip
        others[f"graphql {name}"] = partial(exchanged, host, "POST", "/v1/graphql", json.dumps({"query": text}))


def written(client: Any) -> dict[str, Any]:
    """What came of every way to write, and what is there afterwards. Leaves nothing."""
    client.collections.delete("Written")
    collection = client.collections.create(
        "Written", properties=base.PROPERTIES, vector_config=Configure.Vectors.self_provided()
    )
    batches = {
        "dynamic": collection.batch.dynamic(),
        "fixed": collection.batch.fixed_size(batch_size=3),
        "rate": collection.batch.rate_limit(requests_per_minute=6_000),
    }
    for turn, batch in enumerate((*batches.values(), collection.batch.stream())):
        with batch as adding:
            for family in range(FAMILIES):
                adding.add_object(
                    uuid=identifier(family, turn), properties=properties(family, turn), vector=vector(family, turn)
                )
    data = collection.data
    data.insert(uuid=identifier(50, 0), properties=properties(3, 0), vector=vector(3, 0))
    data.update(uuid=identifier(1, 0), properties={"number": 100})
    data.replace(uuid=identifier(2, 0), properties={"number": 200}, vector=vector(9, 1))
    seen = {
        "failed": len(collection.batch.failed_objects),
        "again": base.outcome(lambda: data.insert(uuid=identifier(50, 0), properties={}, vector=vector(3, 0))),
        "wrong": base.outcome(lambda: data.insert(properties={"number": "none"}, vector=vector(3, 0))),
        "deleted": data.delete_by_id(identifier(3, 0)),
        "deleted again": data.delete_by_id(identifier(3, 0)),
        "deleted many": str(data.delete_many(where=Filter.by_property("number").equal(7))),
        "there": base.outcome(lambda: collection.query.fetch_objects(limit=WHOLE, include_vector=True)),
    }
    client.collections.delete("Written")
    return seen


def exchanged(host: str, method: str, target: str, body: str | None = None) -> str:
    """One exchange over HTTP."""
    connection = HTTPConnection(host, timeout=30)
    try:
        connection.request(method, target, body, {"Content-Type": "application/json"} if body else {})
        answer = connection.getresponse()
        headers = sorted((key, value) for key, value in answer.getheaders() if key.lower() != "date")
        return f"{answer.status} {headers} {answer.read()!r}"
    finally:
        connection.close()


PARTS: dict[str, Callable[[Any], Any]] = {"fill": fill, "ask": call_outcomes, "write": written}


def main(rest: str, grpc: str, what: str) -> None:
    """Connect as documented, and do it."""
    client = weaviate.connect_to_custom(
        http_host="127.0.0.1", http_port=int(rest), http_secure=False,
        grpc_host="127.0.0.1", grpc_port=int(grpc), grpc_secure=False,
    )  # fmt: skip
    try:
        sys.stdout.write(json.dumps(PARTS[what](client), default=str))
    finally:
        client.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
