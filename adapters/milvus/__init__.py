"""Milvus over gRPC and REST.

calls             which requests are ranked searches, which alter a collection; errors over REST
search            what a description tells, parameters, output fields, vectors and rank parameters, alike for both transports
fields            the types of a collection's fields, what each holds, and rows as payloads
grpc_schema       the messages over gRPC, as far as they are read
grpc_description  the status inside a reply, and the description of a collection
grpc_request      parses and widens a search
grpc_columns      the columns of a message, their values, and columns with other rows
grpc              rows and pools of a reply, the client's answer; a hybrid search divided and fused again; the gRPC adapter
grpc_merge        the columns of a write, with other values in some rows
grpc_write        insertions and upserts, for the write gate
rest_search       a search over REST, its reply and the client's answer
rest              hybrid searches over REST, divided and fused again; the REST adapter
rest_write        insertions and upserts over REST, and what writes of both transports have in common
deletions         which requests delete rows, and which ones
"""
