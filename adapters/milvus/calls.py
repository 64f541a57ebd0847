"""Which methods of Milvus's gRPC service are ranked searches: method path in, operation out."""

from __future__ import annotations

import re

from vecsieve.adapters.contract import Operation, Question, RequestHead, Touched, may_be_json
from vecsieve.adapters.wire.protobuf import LENGTH, Field, head_fields, only, text

BACKEND = "milvus"
SEARCH, HYBRID_SEARCH = "search", "hybrid_search"
SERVICE = "/milvus.proto.milvus.MilvusService/"
DESCRIBE = SERVICE + "DescribeCollection"
METHODS = {SERVICE + "Search": SEARCH, SERVICE + "HybridSearch": HYBRID_SEARCH}

# In both requests, and in those that make, change and drop a collection.
DATABASE, COLLECTION = 2, 3
DEFAULT_DATABASE = "default"


def classify_grpc(head: RequestHead) -> Operation | None:
    """Name the ranked search a head stands for; None for everything else. Total."""
    name = METHODS.get(head.path) if head.method == "POST" else None
    if name is None:
        return None
    return Operation(backend=BACKEND, name=name, collection=collection_of(head))


def question(message: bytes) -> Question | None:
    """What describes the collection that a search names; None where it names none. Total."""
    try:
        fields_named = [field for field in named(message) if field is not None]
    except ValueError:
        return None
    if not any(field.number == COLLECTION for field in fields_named):
        return None
    # Both messages have database and collection under the same numbers.
    return Question(method="POST", target=DESCRIBE, body=b"".join(message[f.start : f.end] for f in fields_named))


def named(data: bytes) -> tuple[Field | None, Field | None]:
    """Where a search names its database, and its collection. Raises ValueError."""
    found = head_fields(data)
    return only(found, DATABASE, LENGTH), only(found, COLLECTION, LENGTH)


def place(database: str, collection: str) -> str:
    """What rules know a collection by; "" where it is not named."""
    return f"{database or DEFAULT_DATABASE}/{collection}" if collection else ""


def collection_of(head: RequestHead) -> str:
    """The collection that a message names, as far as it can be told: what cannot be read is not searched by us either."""
    try:
        database, collection = named(head.message)
        said = "" if database is None else text(head.message, database)
        return place(said or head.database, "" if collection is None else text(head.message, collection))
    except ValueError:
        return ""


# Milvus's methods of one message each way, up to 3.0: what is known of their shape lets them be passed on at less cost.
#
# A method that is not here, because it streams or is newer, is passed on as a stream in both directions.

_METHODS = (
    "CreateCollection DropCollection HasCollection LoadCollection ReleaseCollection DescribeCollection "
    "BatchDescribeCollection GetCollectionStatistics ShowCollections AlterCollection AlterCollectionField "
    "AddCollectionFunction AlterCollectionFunction DropCollectionFunction TruncateCollection CreatePartition "
    "DropPartition HasPartition LoadPartitions Prewarm DescribePrewarmTask ReleasePartitions "
    "GetPartitionStatistics ShowPartitions CreateNamespace DescribeNamespace ListNamespaces DropNamespace "
    "HasNamespace GetNamespaceStats GetLoadingProgress GetLoadState CreateAlias DropAlias AlterAlias "
    "DescribeAlias ListAliases CreateIndex AlterIndex DescribeIndex GetIndexStatistics GetIndexState "
    "GetIndexBuildProgress DropIndex Insert Delete Upsert Search HybridSearch Flush Query CalcDistance FlushAll "
    "AddCollectionField AddCollectionStructField GetFlushState GetFlushAllState GetPersistentSegmentInfo "
    "GetQuerySegmentInfo GetReplicas Dummy RegisterLink GetMetrics GetComponentStates LoadBalance "
    "GetCompactionState ManualCompaction GetCompactionStateWithPlans Import GetImportState ListImportTasks "
    "CreateCredential UpdateCredential DeleteCredential ListCredUsers CreateRole AlterRole DropRole "
    "OperateUserRole SelectRole SelectUser OperatePrivilege OperatePrivilegeV2 SelectGrant GetVersion CheckHealth "
    "CreateResourceGroup DropResourceGroup UpdateResourceGroups TransferNode TransferReplica ListResourceGroups "
    "DescribeResourceGroup RenameCollection ListIndexedSegment DescribeSegmentIndexData Connect AllocTimestamp "
    "CreateDatabase DropDatabase ListDatabases AlterDatabase DescribeDatabase ReplicateMessage BackupRBAC "
    "RestoreRBAC CreatePrivilegeGroup DropPrivilegeGroup ListPrivilegeGroups OperatePrivilegeGroup RunAnalyzer "
    "AddFileResource RemoveFileResource ListFileResources AddUserTags DeleteUserTags GetUserTags ListUsersWithTag "
    "CreateRowPolicy DropRowPolicy ListRowPolicies UpdateReplicateConfiguration GetReplicateConfiguration "
    "GetReplicateInfo ComputePhraseMatchSlop CreateSnapshot DropSnapshot ListSnapshots DescribeSnapshot "
    "RestoreSnapshot RestoreExternalSnapshot ExportSnapshot GetExportSnapshotState GetRestoreSnapshotState "
    "ListRestoreSnapshotJobs PinSnapshotData UnpinSnapshotData AlterCollectionSchema BatchUpdateManifest "
    "RefreshExternalCollection GetRefreshExternalCollectionProgress ListRefreshExternalCollectionJobs"
)

UNARY = frozenset(f"/milvus.proto.milvus.MilvusService/{name}" for name in _METHODS.split())

# Which of Milvus's RESTful requests are ranked searches: raw path in, operation out.
#
# Version 1 as servers of 2.3 have it. Version 2, since 2.4, is spoken from its description: none that speaks it was at hand.
# Hybrid searches over REST are passed through. The collection stands in the body, which is not read by then: rules cannot
# name it, and the default policy holds.

VERSION_1 = "1"
VERSION_2 = "2"
_VERSIONS = {"/v1/vector/search": VERSION_1, "/v2/vectordb/entities/search": VERSION_2}


def classify_rest(head: RequestHead) -> Operation | None:
    """Name the ranked search a head stands for; None for everything else. Total."""
    version = _VERSIONS.get(head.path)
    if version is None or head.method != "POST" or not may_be_json(head.content_type):
        return None
    return Operation(backend=BACKEND, name=SEARCH, collection="", partition=version)


# Which Milvus requests may change what a collection is like: its fields, its indexes and their metric, or what an alias leads to.

_ANY = Touched(collection=None)
# Over REST names stand in bodies, which are not read. What only reads is posted too.
_PATH = re.compile(r"/v1/vector/collections/\w+|/v2/vectordb/(?:databases|collections|aliases|indexes)/(\w+)(?:/\w+)?")
_READING = frozenset({"list", "describe", "has", "get_stats", "get_load_state", "load", "release", "flush", "compact"})
# database and collection stand where they stand in a search.
_NAMING = frozenset(
    SERVICE + name
    for name in (
        "CreateCollection",
        "DropCollection",
        "AlterCollection",
        "AlterCollectionField",
        "AlterCollectionSchema",
        "AddCollectionField",
        "AddCollectionStructField",
        "AddCollectionFunction",
        "AlterCollectionFunction",
        "DropCollectionFunction",
        "TruncateCollection",
        "CreateIndex",
        "AlterIndex",
        "DropIndex",
    )
)
_OTHERWISE = frozenset(
    SERVICE + name
    for name in (
        "RenameCollection",
        "CreateAlias",
        "DropAlias",
        "AlterAlias",
        "CreateDatabase",
        "DropDatabase",
        "AlterDatabase",
        "RestoreSnapshot",
        "RestoreExternalSnapshot",
        "RefreshExternalCollection",
        "ReplicateMessage",
    )
)


def reshaped(head: RequestHead) -> Touched | None:
    """What the request may give another shape; None for one that gives none. Total."""
    match = _PATH.fullmatch(head.path)
    return None if match is None or head.method == "GET" or match[1] in _READING else _ANY


def reshaped_over_grpc(head: RequestHead) -> Touched | None:
    """The same of a call. Without its message, or without a name in it, it may be any collection. Total."""
    if head.path in _OTHERWISE:
        return _ANY
    return Touched(collection=collection_of(head) or None) if head.path in _NAMING else None
