"""A Qdrant server for the tests: the engine that Qdrant ships, over REST and gRPC.

server         start and stop
rest           every route, the API key, compression, strict bodies
grpc_server    the gRPC listener, its methods and statuses
grpc_messages  messages of replies, values and vectors
grpc_requests  messages of requests
collections    collections with strict mode, aliases, payload indexes, named vectors that come and go
points         facets, every write, the distance matrix
searches       recommend, discover, groups
queries        the variants of `query` that the product leaves out
limits         strict mode: caps and rates

The verbs that need no index come from `servers.embedded`.
"""
