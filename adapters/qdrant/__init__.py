"""Qdrant over REST and gRPC.

calls         which requests are ranked searches, which alter a collection, which collection they name; errors
ranking       the kind of a query and the vector to compare by; payload keys that may be added
rest_request  parses and widens a search
rest_reply    lists, points and vectors of a reply
rest_fusion   a fusion divided into a batch of searches, and fused again
rest          the REST adapter; a reply without vectors, in one pass; the client's answer; all points of a collection
rest_write    upserts, for the write gate
grpc_schema   the messages over gRPC, as far as they are read
grpc_request  parses and widens a search
grpc_reply    lists, points, vectors and pools of a reply
grpc          the gRPC adapter; the client's answer; a fusion divided and fused again
grpc_write    upserts, for the write gate
deletions     which requests delete points, and which ones; grpc_deletions over gRPC
"""
