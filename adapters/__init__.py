"""What differs between vector databases: bytes and arrays in, bytes and arrays out. Nothing here awaits, logs or knows a setting.

contract   the verbs of an adapter, the values they exchange, the exceptions they may raise
backends   BACKENDS: one row for each database; every table, label and default derives from it
wire       JSON, protobuf and vectors, read where they stand and cut byte for byte
qdrant, pinecone, chroma, milvus, weaviate     one package for each database

A request is classified by `calls`, read by a `…request` module, widened there, its reply read by a `…reply` module and cut by `rest`
or `grpc`, which are the adapters. `dialect` words the errors.
"""
