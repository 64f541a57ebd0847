"""Milvus over gRPC and REST.

calls         which requests are ranked searches, which alter a collection
dialect       errors, also those inside successful replies
schema        the description of a collection
search        parameters, output fields and vectors, alike for both transports
ranker        how a hybrid search fuses its lists, alike for both transports
grpc          pools of a reply; the gRPC adapter
grpc_request  parses and widens a search
grpc_reply    rows of a reply, the client's answer
grpc_columns  the columns of a reply, their values, and their bytes for some of the rows
grpc_fusion   a hybrid search divided into its searches, and their replies as one
grpc_write    insertions and upserts, for the write gate
rest_write    the same over REST
written       what writes of both transports have in common
rest_search   a search over REST, its reply and the client's answer
rest          hybrid searches over REST, divided and fused again; the REST adapter
"""
