"""Weaviate: searches over gRPC; HTTP only passes through.

calls         which methods are ranked searches; the default limit of a search
rest          HTTP, where everything is passed through; its dialect
grpc          the gRPC adapter and its dialect; the client's answer
grpc_request  parses and widens a search
grpc_reply    results, vectors and properties of a reply
"""
