"""Milvus's methods of one message each way, up to 3.0: what is known of their shape lets them be passed on at less cost.

A method that is not here, because it streams or is newer, is passed on as a stream in both directions.
"""

from __future__ import annotations

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
