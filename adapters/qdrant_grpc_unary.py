"""Qdrant's methods of one message each way, up to 1.20: what is known of their shape lets them be passed on at less cost.

A method that is not here, because it streams or is newer, is passed on as a stream in both directions.
"""

from __future__ import annotations

from itertools import chain

_METHODS = {
    "qdrant.Points": (
        "Upsert Delete Get UpdateVectors DeleteVectors SetPayload OverwritePayload DeletePayload ClearPayload "
        "CreateFieldIndex DeleteFieldIndex CreateVectorName DeleteVectorName Search SearchBatch SearchGroups Scroll "
        "Recommend RecommendBatch RecommendGroups Discover DiscoverBatch Count UpdateBatch Query QueryBatch QueryGroups "
        "Facet SearchMatrixPairs SearchMatrixOffsets"
    ),
    "qdrant.Collections": (
        "Get List Create Update Delete UpdateAliases ListCollectionAliases ListAliases CollectionClusterInfo "
        "CollectionExists UpdateCollectionClusterSetup CreateShardKey DeleteShardKey ListShardKeys"
    ),
    "qdrant.Snapshots": "Create List Delete CreateFull ListFull DeleteFull",
    "qdrant.Qdrant": "HealthCheck",
    "grpc.health.v1.Health": "Check",
}

UNARY = frozenset(
    chain.from_iterable((f"/{service}/{name}" for name in names.split()) for service, names in _METHODS.items())
)
