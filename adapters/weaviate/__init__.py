"""Weaviate: searches over gRPC; over HTTP searches pass through, and objects are read for the write gate.

calls         which methods are ranked searches; the default limit of a search
rest          HTTP, where every search is passed through; its dialect
rest_write    objects over HTTP, for the write gate
grpc_write    batches of objects over gRPC, for the same
written       what both have in common: the reads beside them
schema        the description of a collection
grpc          the gRPC adapter and its dialect; the client's answer
grpc_request  parses and widens a search
grpc_reply    results, vectors and properties of a reply
"""
