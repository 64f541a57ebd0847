"""BACKENDS: one row for each database, from which everything that depends on the backend derives.

docs/architecture.md, "Add a backend". Its other row, with the defaults of settings, is in config/backends.py.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache, partial

from .base import Deletes, GrpcDialect
from .contract import (
    Adapter,
    Dialect,
    IndexRules,
    Naming,
    RequestHead,
    Touched,
)
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
class Parts:
    """What of a backend is made of its package. ``grpc``: imports that part, which most processes do not serve: protobuf alone takes 10 MiB.
    ``naming``: for paths with ids, the names of collections. ``indexes``: routing for a backend whose indexes are hosts.
    """

    rest: Transport
    grpc: Callable[[], Transport] | None = None
    naming: Callable[[], Naming] | None = None
    indexes: IndexRules | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Backend:
    """One database. ``parts``: imports its package, because a process serves one backend, and the packages of the others would take a
    tenth of the time of its start. ``operations``: the names of its searches over all transports, each a metric label.

    ``has_first_step``: whether some of its searches need a description of their collection; ``has_second_step``: a second request for their
    candidates' vectors; ``has_fusions``: whether some fuse lists that can be requested one by one. They are stated, because the metrics need them before
    any adapter is imported.

    ``request_codings``: content codings of request bodies that the database decodes, out of gzip and deflate. ``version_field``: the header
    with the API version. ``database_key``: the gRPC metadata with the database's name. ``refuses_in_success``: whether an error may have
    status 200.
    """

    name: str
    parts: Callable[[], Parts]
    operations: tuple[str, ...]
    has_first_step: bool = False
    has_second_step: bool = False
    has_fusions: bool = False
    request_codings: frozenset[bytes] = frozenset()
    version_field: str | None = None
    database_key: str | None = None
    refuses_in_success: bool = False

    @property
    def rest(self) -> Transport:
        return self.parts().rest

    @property
    def grpc(self) -> Transport | None:
        made = self.parts().grpc
        return None if made is None else made()

    @property
    def naming(self) -> Callable[[], Naming] | None:
        return self.parts().naming

    @property
    def indexes(self) -> IndexRules | None:
        return self.parts().indexes

    @property
    def gates_writes(self) -> bool:
        """Whether some of its upserts can be compared with stored points."""
        return self.rest.writes is not None


@cache
def _qdrant_grpc() -> Transport:
    from .qdrant import calls, grpc_deletions
    from .qdrant.grpc import QdrantGrpc
    from .qdrant.grpc_write import QdrantGrpcWrites

    return Transport(
        adapter=QdrantGrpc,
        dialect=calls.QdrantGrpcDialect,
        collection_of=calls.collection_named,
        reshaped=calls.reshaped_over_grpc,
        unary=calls.UNARY,
        writes=QdrantGrpcWrites,
        deletes=Deletes(grpc_deletions.over_grpc, grpc_deletions.of_message, changes=grpc_deletions.CHANGES),
    )


@cache
def _qdrant() -> Parts:
    from .qdrant import calls, deletions
    from .qdrant.rest import QdrantRest
    from .qdrant.rest_write import QdrantRestWrites

    return Parts(
        rest=Transport(
            adapter=QdrantRest,
            dialect=calls.QdrantDialect,
            collection_of=calls.collection_of,
            reshaped=calls.reshaped,
            writes=QdrantRestWrites,
            deletes=Deletes(deletions.over_rest, deletions.of_body, changes=deletions.CHANGES),
        ),
        grpc=_qdrant_grpc,
    )


_QDRANT = Backend(
    name="qdrant",
    parts=_qdrant,
    has_fusions=True,
    operations=tuple(
        f"{kind}{batch}" for kind in ("query", "search", "recommend", "discover") for batch in ("", "_batch")
    ),
    request_codings=frozenset({b"gzip", b"deflate"}),  # those of actix-web, by their exact names
)


@cache
def _pinecone_grpc() -> Transport:
    from .pinecone import calls, deletions, grpc_write
    from .pinecone.grpc import UNARY, PineconeGrpc

    return Transport(
        adapter=PineconeGrpc,
        dialect=GrpcDialect,
        collection_of=calls.index_named,
        reshaped=calls.reshaped_over_grpc,
        unary=UNARY,
        writes=grpc_write.PineconeGrpcWrites,
        deletes=Deletes(grpc_write.classify_deletion, grpc_write.deletions_of, changes=deletions.CHANGES),
    )


@cache
def _pinecone() -> Parts:
    from .pinecone import calls, deletions
    from .pinecone.rest import PineconeRest
    from .pinecone.rest_write import PineconeRestWrites

    return Parts(
        rest=Transport(
            adapter=PineconeRest,
            dialect=calls.PineconeDialect,
            collection_of=calls.index_named,
            reshaped=calls.reshaped,
            writes=PineconeRestWrites,
            deletes=Deletes(deletions.over_rest, deletions.of_body, changes=deletions.CHANGES),
        ),
        grpc=_pinecone_grpc,
        indexes=calls.RULES,
    )


_PINECONE = Backend(
    name="pinecone",
    parts=_pinecone,
    has_second_step=True,
    operations=("query", "records_search", "documents_search"),
    version_field="X-Pinecone-Api-Version",  # it documents no content coding of a request's body
)


@cache
def _chroma() -> Parts:
    from .chroma import deletions, request
    from .chroma.rest import ChromaDialect, ChromaRest
    from .chroma.write import ChromaWrites

    return Parts(
        rest=Transport(
            adapter=ChromaRest,
            dialect=ChromaDialect,
            reshaped=request.reshaped,
            writes=ChromaWrites,
            deletes=Deletes(deletions.over_rest, deletions.of_body),
        ),
        naming=request.ChromaNames,
    )


_CHROMA = Backend(name="chroma", parts=_chroma, operations=("query",))


@cache
def _milvus_grpc() -> Transport:
    from .milvus import calls, grpc_write
    from .milvus.grpc import MilvusGrpc
    from .milvus.grpc_description import MilvusGrpcDialect

    return Transport(
        adapter=MilvusGrpc,
        dialect=MilvusGrpcDialect,
        reshaped=calls.reshaped_over_grpc,
        unary=calls.UNARY,
        writes=grpc_write.MilvusGrpcWrites,
        deletes=Deletes(grpc_write.classify_deletion, grpc_write.deletions_of, is_described=True),
    )


@cache
def _milvus() -> Parts:
    from .milvus import calls, deletions
    from .milvus.rest import MilvusRest
    from .milvus.rest_write import MilvusRestWrites

    return Parts(
        rest=Transport(
            adapter=MilvusRest,
            dialect=calls.MilvusDialect,
            reshaped=calls.reshaped,
            writes=MilvusRestWrites,
            deletes=Deletes(deletions.over_rest, deletions.of_body, is_described=True),
        ),
        grpc=_milvus_grpc,
    )


_MILVUS = Backend(
    name="milvus",
    parts=_milvus,
    has_first_step=True,
    has_fusions=True,
    operations=("search", "hybrid_search"),
    database_key="dbname",
    refuses_in_success=True,
)


@cache
def _weaviate_grpc() -> Transport:
    from .weaviate import calls, deletions, grpc_write
    from .weaviate.grpc import WeaviateGrpc, WeaviateGrpcDialect

    return Transport(
        adapter=WeaviateGrpc,
        dialect=WeaviateGrpcDialect,
        reshaped=calls.reshaped_over_grpc,
        unary=calls.UNARY,
        writes=grpc_write.WeaviateGrpcWrites,
        deletes=Deletes(
            grpc_write.classify_deletion, grpc_write.deletions_of, is_described=True, changes=deletions.CHANGES
        ),
        asks_over_rest=True,
    )


@cache
def _weaviate() -> Parts:
    from .weaviate import calls, deletions
    from .weaviate.rest_write import WeaviateRestWrites

    return Parts(
        rest=Transport(
            adapter=calls.WeaviateRest,
            dialect=calls.WeaviateDialect,
            reshaped=calls.reshaped,
            writes=WeaviateRestWrites,
            deletes=Deletes(deletions.over_rest, deletions.of_body, is_described=True, changes=deletions.CHANGES),
        ),
        grpc=_weaviate_grpc,
    )


_WEAVIATE = Backend(name="weaviate", parts=_weaviate, has_first_step=True, operations=("search",))


def _opensearch(name: str) -> Parts:
    from .opensearch import calls, deletions
    from .opensearch.rest import ADAPTERS
    from .opensearch.write import WRITES

    return Parts(
        rest=Transport(
            adapter=ADAPTERS[name],
            dialect=calls.OpenSearchDialect,
            collection_of=calls.collection_of,
            reshaped=calls.reshaped,
            writes=WRITES[name],
            deletes=Deletes(deletions.over_rest, deletions.of_body, is_described=True, is_named=False),
        ),
    )


# One dialect, two products with a name each: users write the one that they have, and metrics show it.
_SEARCH_ENGINES = tuple(
    Backend(
        name=name,
        parts=cache(partial(_opensearch, name)),
        operations=("search", "multi_search"),
        has_first_step=name == "elasticsearch",
        request_codings=frozenset({b"gzip", b"deflate"}),  # those that Netty's decompressor is given
        refuses_in_success=True,  # the items of a batch
    )
    for name in ("opensearch", "elasticsearch")
)

_ROWS = (_QDRANT, _PINECONE, _CHROMA, _MILVUS, _WEAVIATE, *_SEARCH_ENGINES)
BACKENDS: Mapping[str, Backend] = {row.name: row for row in _ROWS}
