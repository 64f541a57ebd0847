"""Weaviate: searches over gRPC; HTTP only passes through.

calls         which methods are ranked searches, and how many results one without a limit gets
dialect       errors over HTTP and gRPC
rest          HTTP, where nothing is intercepted
grpc          the gRPC adapter; the client's answer cut from the reply
grpc_request  a search, and its bytes asking for more
grpc_query    what it ranks by, and what it wants to see of each result
grpc_reply    results, vectors and properties of a reply
"""
