"""What differs between vector databases. Pure: bytes and arrays in, bytes and arrays out; no await, no log, no setting.

contract  the verbs of an adapter, the values they exchange, the exceptions they may raise
writes    the contract of upserts that are compared with what is stored
base      base classes of adapters, write adapters and dialects, over REST and for both transports; base_grpc over gRPC
fusions   requests that merge several ranked lists, divided into these and merged again
fused_scores  the sums by which databases merge them
backends  BACKENDS: one row for each database; every table, label and default derives from it
wire      JSON, protobuf and vectors: located and cut without re-encoding
qdrant, pinecone, chroma, milvus, weaviate, opensearch     one package for each database; Elasticsearch shares the last

`calls` classifies a request, and has the dialect, which makes and reads errors; `…request` parses and widens it; `…reply` parses its reply;
`rest` and `grpc` are the adapters, which cut the answer from the reply; `…write` are those of upserts.

Errors: what reads a request raises UnsupportedError, what reads a reply or a stored point ValueError, what reads a write either, what divides
a fusion UndividedError as well. The base classes turn them into the contract's errors. Whatever classifies a request raises nothing. A docstring
names only other errors, and functions of `wire` all of them.
"""
