"""Qdrant over REST and gRPC.

calls         which requests are ranked searches, which alter a collection, which collection they name
dialect       errors
ranking       the kind of a query and the vector to compare by; payload keys that may be added; for both transports
points        all points of a collection, page by page, over REST
rest          the REST adapter; a reply without vectors, in one pass; the client's answer
rest_request  parses and widens a search
rest_query    the kind of its query
rest_fusion   a fusion divided into a batch of searches, and fused again
rest_reply    lists, points and vectors of a reply
grpc          the gRPC adapter; the client's answer
grpc_request  parses and widens a search
grpc_fusion   a fusion divided and fused again
grpc_points   the points of a list, in one pass or field by field
grpc_reply    lists, vectors and pools of a reply
writes        upserts, over both transports
"""
