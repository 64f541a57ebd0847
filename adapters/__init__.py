"""What differs between vector databases: bytes and arrays in, bytes and arrays out. Nothing here awaits, logs or knows a setting.

contract   the verbs of an adapter, the values they exchange, the exceptions they may raise
backends   BACKENDS: one row for each database; every table, label and default derives from it
wire       JSON, protobuf and vectors, read where they stand and cut byte for byte
qdrant, pinecone, chroma, milvus, weaviate     one package for each database

A request is classified by `calls`, read by a `…request` module, widened there, its reply read by a `…reply` module and cut by `rest`
or `grpc`, which are the adapters. `dialect` words the errors.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from vecsieve.adapters.chroma import calls
from vecsieve.adapters.chroma.calls import ChromaNames
from vecsieve.adapters.chroma.dialect import ChromaDialect
from vecsieve.adapters.chroma.rest import ChromaRest
from vecsieve.adapters.contract import Adapter, Dialect, Naming, RequestHead, Touched
from vecsieve.adapters.milvus import calls as milvus_calls
from vecsieve.adapters.milvus.calls import UNARY as MILVUS_UNARY
from vecsieve.adapters.milvus.dialect import MilvusDialect, MilvusGrpcDialect
from vecsieve.adapters.milvus.grpc import MilvusGrpc
from vecsieve.adapters.milvus.rest import MilvusRest
from vecsieve.adapters.pinecone import calls as pinecone_calls
from vecsieve.adapters.pinecone.calls import index_named, touched_over_grpc
from vecsieve.adapters.pinecone.dialect import PineconeDialect, PineconeGrpcDialect
from vecsieve.adapters.pinecone.grpc import UNARY as PINECONE_UNARY
from vecsieve.adapters.pinecone.grpc import PineconeGrpc
from vecsieve.adapters.pinecone.rest import PineconeRest
from vecsieve.adapters.qdrant import calls as qdrant_calls
from vecsieve.adapters.qdrant.calls import UNARY as QDRANT_UNARY
from vecsieve.adapters.qdrant.calls import collection_named, collection_of
from vecsieve.adapters.qdrant.dialect import QdrantDialect, QdrantGrpcDialect
from vecsieve.adapters.qdrant.grpc import QdrantGrpc
from vecsieve.adapters.qdrant.rest import QdrantRest
from vecsieve.adapters.weaviate import rest
from vecsieve.adapters.weaviate.calls import UNARY as WEAVIATE_UNARY
from vecsieve.adapters.weaviate.dialect import WeaviateDialect, WeaviateGrpcDialect
from vecsieve.adapters.weaviate.grpc import WeaviateGrpc

ADAPTERS: Mapping[str, Callable[[], Adapter]] = MappingProxyType(
    {
        "chroma": ChromaRest,
        "milvus": MilvusRest,
        "pinecone": PineconeRest,
        "qdrant": QdrantRest,
        "weaviate": rest.WeaviateRest,
    }
)
DIALECTS: Mapping[str, Callable[[], Dialect]] = MappingProxyType(
    {
        "chroma": ChromaDialect,
        "milvus": MilvusDialect,
        "pinecone": PineconeDialect,
        "qdrant": QdrantDialect,
        "weaviate": WeaviateDialect,
    }
)
# Over gRPC a body is one message, a status the number of a code.
GRPC_ADAPTERS: Mapping[str, Callable[[], Adapter]] = MappingProxyType(
    {"milvus": MilvusGrpc, "pinecone": PineconeGrpc, "qdrant": QdrantGrpc, "weaviate": WeaviateGrpc}
)
GRPC_DIALECTS: Mapping[str, Callable[[], Dialect]] = MappingProxyType(
    {
        "milvus": MilvusGrpcDialect,
        "pinecone": PineconeGrpcDialect,
        "qdrant": QdrantGrpcDialect,
        "weaviate": WeaviateGrpcDialect,
    }
)
# Methods known to take one message and to give one, searches among them.
GRPC_UNARY: Mapping[str, frozenset[str]] = MappingProxyType(
    {"milvus": MILVUS_UNARY, "pinecone": PINECONE_UNARY, "qdrant": QDRANT_UNARY, "weaviate": WEAVIATE_UNARY}
)
# Where vectors are worth remembering, what makes them forgotten.
WRITES: Mapping[str, Callable[[RequestHead], Touched | None]] = MappingProxyType({"pinecone": pinecone_calls.touched})
GRPC_WRITES: Mapping[str, Callable[[RequestHead], Touched | None]] = MappingProxyType({"pinecone": touched_over_grpc})
# Which content codings of a request's body a database undoes itself, of those that are read here (gzip and deflate). Qdrant: those
# that actix-web knows, by their exact names. Chroma's and Milvus's servers look at none, Pinecone documents none.
REQUEST_CODINGS: Mapping[str, frozenset[bytes]] = MappingProxyType({"qdrant": frozenset({b"gzip", b"deflate"})})
# What tells which requests may make, change, delete or rename a collection: after them its vectors and fields may be others.
RESHAPES: Mapping[str, Callable[[RequestHead], Touched | None]] = MappingProxyType(
    {
        "chroma": calls.reshaped,
        "milvus": milvus_calls.reshaped,
        "pinecone": pinecone_calls.reshaped,
        "qdrant": qdrant_calls.reshaped,
        "weaviate": rest.reshaped,
    }
)
GRPC_RESHAPES: Mapping[str, Callable[[RequestHead], Touched | None]] = MappingProxyType(
    {"milvus": milvus_calls.reshaped_over_grpc, "qdrant": qdrant_calls.reshaped_over_grpc}
)
# Where paths carry ids, what tells the names.
NAMINGS: Mapping[str, Callable[[], Naming]] = MappingProxyType({"chroma": ChromaNames})

# Where other requests than searches name their collection, how it is told: "" where one names none.
COLLECTIONS: Mapping[str, Callable[[RequestHead], str]] = MappingProxyType(
    {"pinecone": index_named, "qdrant": collection_of}
)
GRPC_COLLECTIONS: Mapping[str, Callable[[RequestHead], str]] = MappingProxyType(
    {"pinecone": index_named, "qdrant": collection_named}
)
# Where a refusal may come with status 200.
REFUSING_IN_SUCCESS = frozenset({"milvus"})
# Where clients name the interface they speak, the field in which.
VERSION_FIELDS: Mapping[str, str] = MappingProxyType({"pinecone": "X-Pinecone-Api-Version"})
# Where clients may name a database beside their message over gRPC, the metadata in which.
DATABASE_KEYS: Mapping[str, str] = MappingProxyType({"milvus": "dbname"})


def unnamed(_: RequestHead) -> str:
    """Where requests that are no searches do not tell which collection they are for."""
    return ""
