"""A Qdrant server for the tests: the engine Qdrant ships behind the product's small shell, and all that this leaves out.

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

Verbs, collections and searches come from `servers.embedded`; what only tests ask for is added to its tables here.
"""
