"""Qdrant over REST and gRPC.

calls         which requests are ranked searches, which change a collection, which collection they name
dialect       errors, and what refusals say
ranking       what a search ranks by, decided alike for both transports; payload keys that may be added
rest          the REST adapter; the client's answer cut from the reply
rest_request  a search, and its bytes asking for more
rest_query    the kind of its query, and the vector it names
rest_reply    lists, points and vectors of a reply
grpc          the gRPC adapter; the client's answer cut from the reply
grpc_request  a search, its query and selectors
grpc_reply    lists, points and vectors of a reply
"""
