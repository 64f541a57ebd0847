"""Weaviate: searches over gRPC; over HTTP searches pass through, and objects are read for the write gate.

calls         which methods are ranked searches, which requests change a collection; the default limit of a search; HTTP and its errors
grpc_request  parses and widens a search
grpc          results, vectors and properties of a reply; the client's answer; the gRPC adapter and its dialect
written       what writes of both transports have in common: the description of a collection, and the reads beside writes
rest_write    objects over HTTP, for the write gate
grpc_write    batches of objects over gRPC, for the same
"""
