"""Milvus over gRPC and REST.

calls         which calls are ranked searches, which change a collection
dialect       errors, and the status inside successful replies
schema        what a collection is like, asked once
search        parameters, output fields and vectors, alike for both transports
grpc          the gRPC adapter; pools, and the client's answer cut from the reply
grpc_request  a search, and its bytes asking for more
grpc_reply    where a reply's rows stand
grpc_columns  its columns, their values, and their bytes for some of the rows
rest          the REST adapter; its reply and answer
rest_request  a search, and its bytes asking for more
"""
