"""Which Milvus requests are ranked searches, and which change what is stored; errors over REST, which are inside successful replies."""

from __future__ import annotations

import re

from ..base import RestDialect, json_text
from ..contract import (
    GRPC_SERVICES,
    SAFE_METHODS,
    NativeAnswer,
    Operation,
    Question,
    RequestHead,
    Touched,
    may_be_json,
)
from ..wire.protobuf import length_field, methods, text_at

BACKEND = "milvus"
SEARCH, HYBRID_SEARCH = "search", "hybrid_search"
_SERVICE = "milvus.proto.milvus.MilvusService"
DESCRIBE = f"/{_SERVICE}/DescribeCollection"
DESCRIBE_INDEX = f"/{_SERVICE}/DescribeIndex"
SEARCHES = f"/{_SERVICE}/Search"
QUERIES = f"/{_SERVICE}/Query"
DELETES = f"/{_SERVICE}/Delete"
WRITES = {f"/{_SERVICE}/Insert": "insert", f"/{_SERVICE}/Upsert": "upsert"}
METHODS = {SEARCHES: SEARCH, f"/{_SERVICE}/HybridSearch": HYBRID_SEARCH}

# In all requests about a collection.
DATABASE, COLLECTION = 2, 3
DEFAULT_DATABASE = "default"


def classify_grpc(head: RequestHead) -> Operation | None:
    """The ranked search of a request; None for any other. Never raises."""
    name = METHODS.get(head.path) if head.method == "POST" else None
    if name is None:
        return None
    return Operation(backend=BACKEND, name=name, collection=collection_of(head))


def describe(_: Operation, message: bytes) -> Question | None:
    """The request for the description of the collection; None if the search names none. Never raises."""
    names = {number: text_at(message, number) for number in (DATABASE, COLLECTION)}
    if not names[COLLECTION]:
        return None
    # Database and collection have the same numbers in both messages.
    body = b"".join([length_field(number, name.encode()) for number, name in names.items() if name])
    return Question(method="POST", target=DESCRIBE, body=body)


def place(database: str, collection: str) -> str:
    """The name of a collection in rules; "" for none."""
    return f"{database or DEFAULT_DATABASE}/{collection}" if collection else ""


def collection_of(head: RequestHead) -> str:
    """The collection named by a message; "" if it cannot be parsed, in which case the search is unsupported as well."""
    return place(text_at(head.message, DATABASE) or head.database, text_at(head.message, COLLECTION))


# Unary methods, up to Milvus 3.0. Any other method is forwarded as a stream in both directions, which costs more.
UNARY = methods(
    _SERVICE,
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
    "RefreshExternalCollection GetRefreshExternalCollectionProgress ListRefreshExternalCollectionJobs",
)

# REST. Version 1 is that of servers 2.3; version 2, since 2.4, follows its source and was not tested against a server. The collection is
# named in the body, which is parsed later, so rules cannot select it.

VERSION_1 = "1"
VERSION_2 = "2"
_VERSIONS = {"/v1/vector/search": VERSION_1, "/v2/vectordb/entities/search": VERSION_2}
# The last segments of the paths of hybrid searches, by which they are distinguished.
_HYBRIDS = {f"/v2/vectordb/entities/{action}": action for action in ("hybrid_search", "advanced_search")}


def classify_rest(head: RequestHead) -> Operation | None:
    """The ranked search of a request; None for any other. Never raises."""
    if head.method != "POST" or not may_be_json(head.content_type):
        return None
    if version := _VERSIONS.get(head.path):
        return Operation(backend=BACKEND, name=SEARCH, collection="", partition=version)
    if action := _HYBRIDS.get(head.path):
        return Operation(backend=BACKEND, name=HYBRID_SEARCH, collection="", partition=action)
    return None


# Requests after which stored points, or a collection's fields, indexes and metric, may be others than before: every one that is not known to be
# harmless, because it may be one of a newer server. Harmless are reads, and writes that a later reply shows: values come with each
# reply, and its scores prove the vectors. Loading and flushing change no value, and a new partition is empty; applications repeat them.

_ANY = Touched(collection=None)
# Over REST names are in bodies, which are not parsed. Requests that only read also use POST.
_HARMLESS = re.compile(
    r"/v1/vector/(?:search|query|get|insert|upsert|delete)"
    r"|/v2/vectordb/entities/(?:search|hybrid_search|advanced_search|query|get|insert|upsert|delete)"
    r"|/v2/vectordb/(?:\w+/){1,2}(?:list|describe|has|get|get_\w+|load|flush)|/v2/vectordb/partitions/create"
)
_HARMLESS_METHOD = re.compile(
    rf"/{re.escape(_SERVICE)}/(?:(?:Get|Has|Describe|BatchDescribe|Show|List|Select|Check)\w*|Search|HybridSearch|Query|CalcDistance"
    r"|Connect|Dummy|AllocTimestamp|RunAnalyzer|ComputePhraseMatchSlop"
    r"|Insert|Upsert|Delete|Flush|FlushAll|LoadCollection|LoadPartitions|CreatePartition)"
)
# These name database and collection by the numbers of a search.
_NAMING = methods(
    _SERVICE,
    "CreateCollection DropCollection AlterCollection AlterCollectionField AlterCollectionSchema AddCollectionField "
    "AddCollectionStructField AddCollectionFunction AlterCollectionFunction DropCollectionFunction TruncateCollection "
    "CreateIndex AlterIndex DropIndex ReleaseCollection DropPartition ReleasePartitions",
)


def reshaped(head: RequestHead) -> Touched | None:
    """The collection that the request may change; None for none. Never raises."""
    return None if head.method in SAFE_METHODS or _HARMLESS.fullmatch(head.path) else _ANY


def reshaped_over_grpc(head: RequestHead) -> Touched | None:
    """The same for a call: any collection if the message names none. Never raises."""
    if head.path.startswith(GRPC_SERVICES) or _HARMLESS_METHOD.fullmatch(head.path):
        return None
    return Touched(collection=collection_of(head) or None) if head.path in _NAMING else _ANY


# The text of 2.3.5 for a topk of 16,385: "top k should be in range [1, 16384], but got 16385". The largest is 16,384 by default, less on some
# plans of the managed service.
RANGE = re.compile(r"top ?k[^,]*, top ?k should be in range \[1, ([0-9]{1,9})\]")
# An error over REST begins with code and message.
_REFUSAL = re.compile(rb'\s*\{\s*"code"\s*:\s*[1-9]\d{0,8}\s*,\s*"message"\s*:\s*"((?:[^"\\]|\\.){0,1000})')
# Texts of quotaAndLimits: "rate limit exceeded[rate=0.1]", "quota exceeded[reason=...]", "request is rejected by grpc
# RateLimiter middleware". The codes 8 and 9 have other meanings before 2.3.
QUOTAS = (b"rate limit exceeded", b"quota exceeded", b"ratelimiter")
_UNEXPECTED = 65535  # the server's code for errors without one of their own


class MilvusDialect(RestDialect):
    """Over REST. Errors have status 200."""

    limit, quotas = RANGE, QUOTAS

    def error(self, status: int, message: str, *, path: str = "") -> NativeAnswer:
        """Code and message, with the given status: an error of the proxy must not look like a success."""
        body = b'{"code":%d,"message":%s}' % (_UNEXPECTED, json_text(message))
        return NativeAnswer(status=status, content_type="application/json; charset=utf-8", body=body)

    def refusal_in_success(self, body: bytes) -> bytes | None:
        """By the code."""
        refusal = _REFUSAL.match(body)
        return None if refusal is None else refusal[1]
