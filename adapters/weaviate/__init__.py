"""Weaviate: searches over gRPC; over HTTP searches pass through, and objects are read for the write gate.

calls         which methods are ranked searches, which requests change a collection; what a collection has; HTTP and its errors
grpc_schema   the messages over gRPC, as far as they are read
grpc_request  parses and widens a search
grpc          results, vectors and properties of a reply; the client's answer; the gRPC adapter and its dialect
rest_write    objects over HTTP, for the write gate; what writes of both transports have in common: the reads beside them
objects       objects that are merged: their form, what their properties can hold
grpc_write    batches of objects over gRPC, for the same; the message of a single object
deletions     which requests delete objects, and which ones
"""
