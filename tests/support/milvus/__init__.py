"""Milvus in tests.

bodies           gRPC conversations, drawn
hybrid_requests  hybrid searches, drawn from numbers, and their collections
messages         the messages, in a descriptor pool of their own
model            what Milvus answers to a search
server           Milvus Lite in a thread, with planted collections; the official client
captures         recorded calls of the official client
"""
