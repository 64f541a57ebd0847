"""What differs between vector databases, and nothing else: bytes and arrays in, bytes and arrays out.

contract          the six verbs, their values and their two exceptions
content_types     which of them may hold JSON
json_spans        where members and elements stand in a JSON text, exactly
json_vectors      dense vectors set aside before the structure is read, with proof
json_floats       arrays of numbers to numpy
json_sparse       sparse vectors to numpy
json_size         how much of a request there is to read
json_members      a request's members, one by one
json_kept         some of an array's elements, cut from their text
proto_wire        where fields stand in a protobuf message
proto_size        how many fields of a request there are to read
proto_request     a request's fields by number
proto_alone       a message of one field
proto_maps        the entries of a map
proto_values      its JSON-like values as JSON
proto_floats      its repeated numbers to numpy
sparse_rows       sparse vectors as rows of one matrix
usable            which vectors of a reply can be used
qdrant_rest       Qdrant over REST: the adapter, composed of
  qdrant_paths      which requests are ranked searches
  qdrant_request    what a search asks for, and its bytes asking for more
  qdrant_query      what it ranks by, and the vector it names
  qdrant_selectors  which vectors and payload it wants
  qdrant_reply      the lists of a reply, and the pools in them
  qdrant_points     where its points stand
  qdrant_vectors    the vectors of a reply as one matrix
  qdrant_restore    the client's answer, cut from the reply
qdrant_dialect    Qdrant's errors
qdrant_grpc       Qdrant over gRPC: the adapter, composed of
  qdrant_grpc_methods    which methods are ranked searches
  qdrant_grpc_request    what a search asks for, and its bytes asking for more
  qdrant_grpc_query      what it ranks by, and the vector it names
  qdrant_grpc_selectors  which vectors and payload it wants
  qdrant_grpc_reply      the lists of a reply, and the pools in them
  qdrant_grpc_points     where its points stand
  qdrant_grpc_vectors    the vectors of a reply as one matrix
  qdrant_grpc_restore    the client's answer, cut from the reply
qdrant_grpc_dialect  Qdrant's errors over gRPC
  of both:
  qdrant_reshapes        which requests change what a collection is like
  qdrant_ranking         what is decided from what a request ranks by
  qdrant_payload_keys    what can be added to a payload selection
  qdrant_refusals        what the words of a refusal say
pinecone_rest     Pinecone over REST: the adapter, composed of
  pinecone_paths      which requests are ranked searches
  pinecone_query      what a query asks for
  pinecone_records    what a records search asks for
  pinecone_documents  what a documents search asks for
  pinecone_fields     the fields it wants
  pinecone_sizes      how many candidates a reply can hold
  pinecone_request    the parsed search, and its bytes asking for more
  pinecone_matches    where a reply's matches stand
  pinecone_reply      the pool in them
  pinecone_restore    the client's answer, cut from the reply
pinecone_dialect  Pinecone's errors
pinecone_writes   which of its requests may change records
pinecone_grpc     Pinecone over gRPC: the adapter, composed of
  pinecone_grpc_request  what a query asks for, and its bytes asking for more
  pinecone_grpc_reply    where its matches stand, the pool in them, and the client's answer
pinecone_grpc_dialect    Pinecone's errors over gRPC
pinecone_grpc_writes     which of its methods may change records
chroma_rest       Chroma over REST: the adapter, composed of
  chroma_paths      which requests are ranked searches
  chroma_request    what a query asks for, and its bytes asking for more
  chroma_sizes      how many candidates a reply can hold
  chroma_columns    where a reply's columns and their cells stand
  chroma_reply      the pools in them
  chroma_restore    the client's answer, cut from the reply
chroma_dialect    Chroma's errors and refusals
chroma_names      what its collections are called
chroma_reshapes   which requests change what they are like
naming            the contract of names, where paths carry ids
milvus_grpc       Milvus over gRPC: the adapter, composed of
  milvus_grpc_methods  which methods are ranked searches
  milvus_grpc_request  what a search asks for, and its bytes asking for more
  milvus_grpc_pairs    its parameters, keys and values of text
  milvus_grpc_query    the vectors it is made by
  milvus_grpc_reply    where a reply's rows stand
  milvus_grpc_columns  column by column
  milvus_grpc_aligned  what stands once per row, and its bytes for some of them
  milvus_grpc_values   the values of a column as JSON
  milvus_grpc_pools    the pools in a reply
  milvus_grpc_restore  the client's answer, cut from it
  milvus_grpc_unary    its methods of one message each way
milvus_rest       Milvus over REST: the adapter, composed of
  milvus_rest_paths    which requests are ranked searches
  milvus_rest_request  what a search asks for, and its bytes asking for more
  milvus_rest_reply    the rows of a reply, the pool in them, and the client's answer
  milvus_rest_schema   the description of a collection
  of both:
  milvus_reshapes      which requests change what a collection is like
  milvus_schema        what a collection is like
  milvus_fields        which fields are added to those a client asked for
  milvus_params        the parameters of a search
  milvus_vectors       its vectors as rows of float32
  milvus_status        the status inside its replies
milvus_dialect    Milvus's errors
weaviate_grpc     Weaviate over gRPC: the adapter, composed of
  weaviate_grpc_methods  which methods are ranked searches
  weaviate_grpc_default  how many results a search without a limit is given
  weaviate_grpc_request  what a search asks for, and its bytes asking for more
  weaviate_grpc_query    what it ranks by, and the vector it names
  weaviate_grpc_shown    which metadata, vectors and properties it wants
  weaviate_grpc_reply    where a reply's results stand, and the pool in them
  weaviate_grpc_vectors  their vectors as one matrix
  weaviate_grpc_values   their properties as JSON
  weaviate_grpc_restore  the client's answer, cut from the reply
weaviate_rest     Weaviate over HTTP, where nothing is ours
weaviate_dialect  Weaviate's errors
first_step        the contract of what is asked of a collection before its searches
quota             refusals for want of quota
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
