"""The RPCs of Qdrant that the core has a verb for: which messages come and go, and how each is read and filled."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from vecsieve.proxy.embedded import (
    catalog,
    groups,
    grpc_collections,
    grpc_replies,
    grpc_requests,
    grpc_writes,
    indexes,
    points,
    searches,
    updates,
    vector_names,
)
from vecsieve.proxy.embedded.core import Call, Verb
from vecsieve.proxy.embedded.grpc_replies import Writer
from vecsieve.proxy.embedded.matrix import matrix_offsets, matrix_pairs


@dataclass(frozen=True, slots=True)
class Method:
    """One unary RPC. `request` and `reply` name message classes; `write` fills the reply with the verb's value."""

    request: str
    read: Callable[[Any], Call]
    verb: Verb
    reply: str
    write: Writer


def _write(request: str, read: Callable[[Any], Call], verb: Verb) -> Method:
    return Method(request, read, verb, "PointsOperationResponse", grpc_replies.written)


def _collection(request: str, read: Callable[[Any], Call], verb: Verb) -> Method:
    return Method(request, read, verb, "CollectionOperationResponse", grpc_collections.done)


_POINTS = {
    "Upsert": _write("UpsertPoints", grpc_writes.upsert, updates.upsert),
    "Delete": _write("DeletePoints", grpc_writes.delete, updates.delete),
    "UpdateVectors": _write("UpdatePointVectors", grpc_writes.update_vectors, updates.update_vectors),
    "DeleteVectors": _write("DeletePointVectors", grpc_writes.delete_vectors, updates.delete_vectors),
    "SetPayload": _write("SetPayloadPoints", grpc_writes.payload, updates.set_payload),
    "OverwritePayload": _write("SetPayloadPoints", grpc_writes.payload, updates.overwrite_payload),
    "DeletePayload": _write("DeletePayloadPoints", grpc_writes.delete_payload, updates.delete_payload),
    "ClearPayload": _write("ClearPayloadPoints", grpc_writes.clear_payload, updates.clear_payload),
    "CreateFieldIndex": _write("CreateFieldIndexCollection", grpc_writes.create_index, indexes.create),
    "DeleteFieldIndex": _write("DeleteFieldIndexCollection", grpc_writes.delete_index, indexes.delete),
    "CreateVectorName": _write("CreateVectorNameRequest", grpc_writes.create_vector, vector_names.create),
    "DeleteVectorName": _write("DeleteVectorNameRequest", grpc_writes.delete_vector, vector_names.delete),
    "UpdateBatch": Method(
        "UpdateBatchPoints", grpc_writes.batch, updates.batch, "UpdateBatchResponse", grpc_replies.written_batch
    ),
    "Get": Method("GetPoints", grpc_requests.get, points.retrieve, "GetResponse", grpc_replies.records),
    "Scroll": Method("ScrollPoints", grpc_requests.plain, points.scroll, "ScrollResponse", grpc_replies.scroll),
    "Count": Method("CountPoints", grpc_requests.plain, points.count, "CountResponse", grpc_replies.count),
    "Facet": Method("FacetCounts", grpc_requests.plain, points.facet, "FacetResponse", grpc_replies.facet),
    "Query": Method("QueryPoints", grpc_requests.plain, searches.query, "QueryResponse", grpc_replies.ranked),
    "QueryBatch": Method(
        "QueryBatchPoints",
        grpc_requests.query_batch,
        searches.query_batch,
        "QueryBatchResponse",
        grpc_replies.ranked_batch,
    ),
    "QueryGroups": Method(
        "QueryPointGroups", grpc_requests.plain, groups.query_groups, "QueryGroupsResponse", grpc_replies.groups
    ),
    "Search": Method("SearchPoints", grpc_requests.search, searches.search, "SearchResponse", grpc_replies.ranked),
    "SearchBatch": Method(
        "SearchBatchPoints",
        grpc_requests.search_batch,
        searches.search_batch,
        "SearchBatchResponse",
        grpc_replies.ranked_batch,
    ),
    "SearchGroups": Method(
        "SearchPointGroups",
        grpc_requests.search_groups,
        groups.search_groups,
        "SearchGroupsResponse",
        grpc_replies.groups,
    ),
    "Recommend": Method(
        "RecommendPoints", grpc_requests.recommend, searches.recommend, "RecommendResponse", grpc_replies.ranked
    ),
    "RecommendBatch": Method(
        "RecommendBatchPoints",
        grpc_requests.recommend_batch,
        searches.recommend_batch,
        "RecommendBatchResponse",
        grpc_replies.ranked_batch,
    ),
    "RecommendGroups": Method(
        "RecommendPointGroups",
        grpc_requests.recommend_groups,
        groups.recommend_groups,
        "RecommendGroupsResponse",
        grpc_replies.groups,
    ),
    "Discover": Method(
        "DiscoverPoints", grpc_requests.discover, searches.discover, "DiscoverResponse", grpc_replies.ranked
    ),
    "DiscoverBatch": Method(
        "DiscoverBatchPoints",
        grpc_requests.discover_batch,
        searches.discover_batch,
        "DiscoverBatchResponse",
        grpc_replies.ranked_batch,
    ),
    "SearchMatrixPairs": Method(
        "SearchMatrixPoints", grpc_requests.plain, matrix_pairs, "SearchMatrixPairsResponse", grpc_replies.pairs
    ),
    "SearchMatrixOffsets": Method(
        "SearchMatrixPoints", grpc_requests.plain, matrix_offsets, "SearchMatrixOffsetsResponse", grpc_replies.offsets
    ),
}
_COLLECTIONS = {
    "Create": _collection("CreateCollection", grpc_collections.create, catalog.create),
    "Update": _collection("UpdateCollection", grpc_collections.change, catalog.change),
    "Delete": _collection("DeleteCollection", grpc_collections.named, catalog.delete),
    "UpdateAliases": _collection("ChangeAliases", grpc_collections.change_aliases, catalog.change_aliases),
    "Get": Method(
        "GetCollectionInfoRequest",
        grpc_collections.named,
        catalog.info,
        "GetCollectionInfoResponse",
        grpc_collections.info,
    ),
    "List": Method(
        "ListCollectionsRequest",
        grpc_collections.nothing,
        catalog.listing,
        "ListCollectionsResponse",
        grpc_collections.listing,
    ),
    "CollectionExists": Method(
        "CollectionExistsRequest",
        grpc_collections.named,
        catalog.exists,
        "CollectionExistsResponse",
        grpc_collections.exists,
    ),
    "ListAliases": Method(
        "ListAliasesRequest", grpc_collections.nothing, catalog.aliases, "ListAliasesResponse", grpc_collections.aliases
    ),
    "ListCollectionAliases": Method(
        "ListCollectionAliasesRequest",
        grpc_collections.named,
        catalog.aliases_of,
        "ListAliasesResponse",
        grpc_collections.aliases,
    ),
}

METHODS: dict[str, Method] = {
    **{f"/qdrant.Points/{name}": method for name, method in _POINTS.items()},
    **{f"/qdrant.Collections/{name}": method for name, method in _COLLECTIONS.items()},
}
"""By full name, as it stands in the request's path."""
