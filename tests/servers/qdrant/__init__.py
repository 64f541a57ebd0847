"""A Qdrant server for the tests: the engine Qdrant ships behind the product's small shell, and all that this leaves out.

server         start and stop
rest           every route, the API key, compression, strict bodies
grpc_server    the gRPC listener, its methods and statuses
grpc_messages  messages of replies, values and vectors
grpc_requests  messages of requests

Verbs, collections and searches come from `vecsieve.proxy.demo.embedded`; what only tests ask for is added to its tables here.
"""
