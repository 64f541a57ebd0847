"""BACKENDS: one row for each database. Whatever depends on the backend is read off its row; nothing else names one.

To add a backend: a package beside the others, a row here, and a row in config/backends.py, which says what settings must know of it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from vecsieve.adapters.chroma import calls as chroma
from vecsieve.adapters.chroma.dialect import ChromaDialect
from vecsieve.adapters.chroma.rest import ChromaRest
from vecsieve.adapters.contract import (
    Adapter,
    DescribesCollections,
    Dialect,
    FetchesVectors,
    Naming,
    RequestHead,
    Touched,
)
from vecsieve.adapters.milvus import calls as milvus
from vecsieve.adapters.milvus.dialect import MilvusDialect, MilvusGrpcDialect
from vecsieve.adapters.milvus.grpc import MilvusGrpc
from vecsieve.adapters.milvus.rest import MilvusRest
from vecsieve.adapters.pinecone import calls as pinecone
from vecsieve.adapters.pinecone.dialect import PineconeDialect, PineconeGrpcDialect
from vecsieve.adapters.pinecone.grpc import UNARY as PINECONE_UNARY
from vecsieve.adapters.pinecone.grpc import PineconeGrpc
from vecsieve.adapters.pinecone.rest import PineconeRest
from vecsieve.adapters.qdrant import calls as qdrant
from vecsieve.adapters.qdrant.dialect import QdrantDialect, QdrantGrpcDialect
from vecsieve.adapters.qdrant.grpc import QdrantGrpc
from vecsieve.adapters.qdrant.rest import QdrantRest
from vecsieve.adapters.weaviate import calls as weaviate
from vecsieve.adapters.weaviate.dialect import WeaviateDialect, WeaviateGrpcDialect
from vecsieve.adapters.weaviate.grpc import WeaviateGrpc
from vecsieve.adapters.weaviate.rest import WeaviateRest
from vecsieve.adapters.weaviate.rest import reshaped as weaviate_reshaped

Changes = Callable[[RequestHead], Touched | None]
"""What a request that is passed through may change; None: nothing."""


def unnamed(_: RequestHead) -> str:
    """The collection of a request, where it does not say one."""
    return ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Transport:
    """One protocol of a backend. Over gRPC a body is one message, and a status is the number of a code.

    ``collection_of``: the collection that a request names which is no search; "" for none. ``written``: which records a request may
    change; None where vectors are not remembered. ``reshaped``: which collections it may make, change, delete or rename: their
    vectors and fields may be others afterwards. ``unary``: the gRPC methods that take one message and give one.
    """

    adapter: Callable[[], Adapter]
    dialect: Callable[[], Dialect]
    collection_of: Callable[[RequestHead], str] = unnamed
    written: Changes | None = None
    reshaped: Changes | None = None
    unary: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class Backend:
    """One database. ``operations``: the names of its searches over all transports, each a metric label.

    ``request_codings``: the content codings of a request's body that the database decodes itself, of those that are read here (gzip
    and deflate). ``version_field``: the header in which clients name the interface they speak. ``database_key``: the gRPC metadata in
    which they name a database. ``naming``: where paths have ids, what tells the names of collections. ``refuses_in_success``:
    whether a refusal may have status 200.
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

    @property
    def has_first_step(self) -> bool:
        """Whether some of its searches are preceded by a question about their collection."""
        return any(
            isinstance(each.adapter(), DescribesCollections) for each in (self.rest, self.grpc) if each is not None
        )

    @property
    def has_second_step(self) -> bool:
        """Whether some of its searches are followed by a request for the vectors of their candidates."""
        return any(isinstance(each.adapter(), FetchesVectors) for each in (self.rest, self.grpc) if each is not None)


_QDRANT = Backend(
    name=qdrant.BACKEND,
    rest=Transport(
        adapter=QdrantRest, dialect=QdrantDialect, collection_of=qdrant.collection_of, reshaped=qdrant.reshaped
    ),
    grpc=Transport(
        adapter=QdrantGrpc,
        dialect=QdrantGrpcDialect,
        collection_of=qdrant.collection_named,
        reshaped=qdrant.reshaped_over_grpc,
        unary=qdrant.UNARY,
    ),
    operations=tuple(qdrant.ROUTES.values()),
    request_codings=frozenset({b"gzip", b"deflate"}),  # those that actix-web knows, by their exact names
)
_PINECONE = Backend(
    name=pinecone.BACKEND,
    rest=Transport(
        adapter=PineconeRest,
        dialect=PineconeDialect,
        collection_of=pinecone.index_named,
        written=pinecone.touched,
        reshaped=pinecone.reshaped,
    ),
    grpc=Transport(
        adapter=PineconeGrpc,
        dialect=PineconeGrpcDialect,
        collection_of=pinecone.index_named,
        written=pinecone.touched_over_grpc,
        unary=PINECONE_UNARY,
    ),
    operations=(pinecone.QUERY, pinecone.RECORDS_SEARCH, pinecone.DOCUMENTS_SEARCH),
    version_field="X-Pinecone-Api-Version",  # it documents no content coding of a request's body
)
_CHROMA = Backend(
    name=chroma.BACKEND,
    rest=Transport(adapter=ChromaRest, dialect=ChromaDialect, reshaped=chroma.reshaped),
    operations=(chroma.QUERY,),
    naming=chroma.ChromaNames,
)
_MILVUS = Backend(
    name=milvus.BACKEND,
    rest=Transport(adapter=MilvusRest, dialect=MilvusDialect, reshaped=milvus.reshaped),
    grpc=Transport(
        adapter=MilvusGrpc, dialect=MilvusGrpcDialect, reshaped=milvus.reshaped_over_grpc, unary=milvus.UNARY
    ),
    operations=(milvus.SEARCH, milvus.HYBRID_SEARCH),
    database_key="dbname",
    refuses_in_success=True,
)
_WEAVIATE = Backend(
    name=weaviate.BACKEND,
    rest=Transport(adapter=WeaviateRest, dialect=WeaviateDialect, reshaped=weaviate_reshaped),
    grpc=Transport(adapter=WeaviateGrpc, dialect=WeaviateGrpcDialect, unary=weaviate.UNARY),
    operations=(weaviate.SEARCH,),
)

BACKENDS: Mapping[str, Backend] = {row.name: row for row in (_QDRANT, _PINECONE, _CHROMA, _MILVUS, _WEAVIATE)}
