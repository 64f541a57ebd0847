"""BACKENDS: one row for each database, from which everything that depends on the backend derives.

docs/architecture.md, "Add a backend". Its other row, with the defaults of settings, is in config/backends.py.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from .base import Deletes, GrpcDialect
from .chroma import deletions as chroma_deletions
from .chroma import request as chroma
from .chroma.rest import ChromaDialect, ChromaRest
from .chroma.write import ChromaWrites
from .contract import (
    Adapter,
    DescribesCollections,
    Dialect,
    FetchesVectors,
    IndexRules,
    Naming,
    RequestHead,
    Touched,
)
from .fusions import DividesFusions
from .milvus import calls as milvus
from .milvus import deletions as milvus_deletions
from .milvus.calls import MilvusDialect, MilvusGrpcDialect
from .milvus.grpc import MilvusGrpc
from .milvus.grpc_write import MilvusGrpcWrites
from .milvus.rest import MilvusRest
from .milvus.rest_write import MilvusRestWrites
from .pinecone import calls as pinecone
from .pinecone import deletions as pinecone_deletions
from .pinecone.calls import RULES as PINECONE_INDEXES
from .pinecone.calls import PineconeDialect
from .pinecone.grpc import UNARY as PINECONE_UNARY
from .pinecone.grpc import PineconeGrpc
from .pinecone.grpc_write import PineconeGrpcWrites
from .pinecone.rest import PineconeRest
from .pinecone.rest_write import PineconeRestWrites
from .qdrant import calls as qdrant
from .qdrant import deletions as qdrant_deletions
from .qdrant.calls import QdrantDialect, QdrantGrpcDialect
from .qdrant.grpc import QdrantGrpc
from .qdrant.grpc_write import QdrantGrpcWrites
from .qdrant.rest import QdrantRest
from .qdrant.rest_write import QdrantRestWrites
from .weaviate import calls as weaviate
from .weaviate import deletions as weaviate_deletions
from .weaviate.calls import WeaviateDialect, WeaviateRest
from .weaviate.grpc import WeaviateGrpc, WeaviateGrpcDialect
from .weaviate.grpc_write import WeaviateGrpcWrites
from .weaviate.rest_write import WeaviateRestWrites
from .writes import WriteAdapter

Changes = Callable[[RequestHead], Touched | None]
"""The collection that a request may change; None: none."""


def unnamed(_: RequestHead) -> str:
    """For requests that name no collection."""
    return ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Transport:
    """One protocol of a backend. Over gRPC a body is one message, and a status is the number of a code.

    ``collection_of``: the collection named by a request that is no search; "" for none. ``reshaped``: the collections of which a
    request may change the points or the vectors, unless it is known to be a read, or a write that a later reply shows: by the versions of
    points, or by scores that other vectors do not give. ``unary``: the gRPC methods of one message each way. ``writes``: adapter of upserts that can be
    compared with stored points; None: all pass through. ``deletes``: requests that delete points. ``asks_over_rest``: the additional reads of those upserts use the database's REST.
    """

    adapter: Callable[[], Adapter]
    dialect: Callable[[], Dialect]
    collection_of: Callable[[RequestHead], str] = unnamed
    reshaped: Changes | None = None
    unary: frozenset[str] = frozenset()
    writes: Callable[[], WriteAdapter] | None = None
    deletes: Deletes | None = None
    asks_over_rest: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Backend:
    """One database. ``operations``: the names of its searches over all transports, each a metric label.

    ``request_codings``: content codings of request bodies that the database decodes, out of gzip and deflate. ``version_field``: the header
    with the API version. ``database_key``: the gRPC metadata with the database's name. ``naming``: for paths with ids, the names of
    collections. ``refuses_in_success``: whether an error may have status 200. ``indexes``: routing for a backend whose indexes are hosts.
    """

    name: str
    rest: Transport
    grpc: Transport | None = None
    operations: tuple[str, ...]
    request_codings: frozenset[bytes] = frozenset()
    version_field: str | None = None
    database_key: str | None = None
    naming: Callable[[], Naming] | None = None
    refuses_in_success: bool = False
    indexes: IndexRules | None = None

    @property
    def has_first_step(self) -> bool:
        """Whether some of its searches need a description of their collection."""
        return any(
            isinstance(each.adapter(), DescribesCollections) for each in (self.rest, self.grpc) if each is not None
        )

    @property
    def has_second_step(self) -> bool:
        """Whether some of its searches need a second request for their candidates' vectors."""
        return any(isinstance(each.adapter(), FetchesVectors) for each in (self.rest, self.grpc) if each is not None)

    @property
    def has_fusions(self) -> bool:
        """Whether some of its searches fuse lists that can be requested one by one."""
        return any(isinstance(each.adapter(), DividesFusions) for each in (self.rest, self.grpc) if each is not None)

    @property
    def gates_writes(self) -> bool:
        """Whether some of its upserts can be compared with stored points."""
        return any(each.writes is not None for each in (self.rest, self.grpc) if each is not None)


_QDRANT = Backend(
    name=qdrant.BACKEND,
    rest=Transport(
        adapter=QdrantRest,
        dialect=QdrantDialect,
        collection_of=qdrant.collection_of,
        reshaped=qdrant.reshaped,
        writes=QdrantRestWrites,
        deletes=Deletes(qdrant_deletions.over_rest, qdrant_deletions.of_body),
    ),
    grpc=Transport(
        adapter=QdrantGrpc,
        dialect=QdrantGrpcDialect,
        collection_of=qdrant.collection_named,
        reshaped=qdrant.reshaped_over_grpc,
        unary=qdrant.UNARY,
        writes=QdrantGrpcWrites,
        deletes=Deletes(qdrant_deletions.over_grpc, qdrant_deletions.of_message),
    ),
    operations=tuple(qdrant.ROUTES.values()),
    request_codings=frozenset({b"gzip", b"deflate"}),  # those of actix-web, by their exact names
)
_PINECONE = Backend(
    name=pinecone.BACKEND,
    rest=Transport(
        adapter=PineconeRest,
        dialect=PineconeDialect,
        collection_of=pinecone.index_named,
        reshaped=pinecone.reshaped,
        writes=PineconeRestWrites,
        deletes=Deletes(pinecone_deletions.over_rest, pinecone_deletions.of_body),
    ),
    grpc=Transport(
        adapter=PineconeGrpc,
        dialect=GrpcDialect,
        collection_of=pinecone.index_named,
        reshaped=pinecone.reshaped_over_grpc,
        unary=PINECONE_UNARY,
        writes=PineconeGrpcWrites,
        deletes=Deletes(pinecone_deletions.over_grpc, pinecone_deletions.of_message),
    ),
    operations=(pinecone.QUERY, pinecone.RECORDS_SEARCH, pinecone.DOCUMENTS_SEARCH),
    indexes=PINECONE_INDEXES,
    version_field="X-Pinecone-Api-Version",  # it documents no content coding of a request's body
)
_CHROMA = Backend(
    name=chroma.BACKEND,
    rest=Transport(
        adapter=ChromaRest,
        dialect=ChromaDialect,
        reshaped=chroma.reshaped,
        writes=ChromaWrites,
        deletes=Deletes(chroma_deletions.over_rest, chroma_deletions.of_body),
    ),
    operations=(chroma.QUERY,),
    naming=chroma.ChromaNames,
)
_MILVUS = Backend(
    name=milvus.BACKEND,
    rest=Transport(
        adapter=MilvusRest,
        dialect=MilvusDialect,
        reshaped=milvus.reshaped,
        writes=MilvusRestWrites,
        deletes=Deletes(milvus_deletions.over_rest, milvus_deletions.of_body, is_described=True),
    ),
    grpc=Transport(
        adapter=MilvusGrpc,
        dialect=MilvusGrpcDialect,
        reshaped=milvus.reshaped_over_grpc,
        unary=milvus.UNARY,
        writes=MilvusGrpcWrites,
        deletes=Deletes(milvus_deletions.over_grpc, milvus_deletions.of_message, is_described=True),
    ),
    operations=(milvus.SEARCH, milvus.HYBRID_SEARCH),
    database_key="dbname",
    refuses_in_success=True,
)
_WEAVIATE = Backend(
    name=weaviate.BACKEND,
    rest=Transport(
        adapter=WeaviateRest,
        dialect=WeaviateDialect,
        reshaped=weaviate.reshaped,
        writes=WeaviateRestWrites,
        deletes=Deletes(weaviate_deletions.over_rest, weaviate_deletions.of_body, is_described=True),
    ),
    grpc=Transport(
        adapter=WeaviateGrpc,
        dialect=WeaviateGrpcDialect,
        reshaped=weaviate.reshaped_over_grpc,
        unary=weaviate.UNARY,
        writes=WeaviateGrpcWrites,
        deletes=Deletes(weaviate_deletions.over_grpc, weaviate_deletions.of_message, is_described=True),
        asks_over_rest=True,
    ),
    operations=(weaviate.SEARCH,),
)

BACKENDS: Mapping[str, Backend] = {row.name: row for row in (_QDRANT, _PINECONE, _CHROMA, _MILVUS, _WEAVIATE)}
