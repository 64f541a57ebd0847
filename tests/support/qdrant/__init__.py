"""Qdrant in tests.

bodies              REST conversations, drawn: collections, requests, answers
model               what Qdrant writes for a search over REST
grpc_bodies         REST requests and stored points as gRPC messages
grpc_model          what Qdrant writes for a search over gRPC
grpc_conversations  gRPC conversations, drawn, each beside the REST one that says the same
grpc_searches       REST searches as gRPC messages, by the official client's conversions
scripted            a Qdrant over REST with one planned misbehaviour
scripted_grpc       the same over gRPC
limited             a Qdrant with a rate limit, or a slow one
gated_writes        a Qdrant that answers the reads of the write gate
embedded            the embedded server, in a process or in the running loop
planted             collections with and without planted copies
"""
