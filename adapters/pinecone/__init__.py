"""Pinecone over REST and gRPC.

calls         which requests are ranked searches, which write, which belong to the control plane; hosts of indexes; errors
rest_request  queries, records searches and documents searches; how many candidates a reply can hold
rest          the matches of a reply, vectors fetched by id, the client's answer; the REST adapter
rest_write    upserts, for the write gate
grpc_schema   the messages over gRPC, as far as they are read
grpc          the gRPC adapter: request, reply and answer
grpc_write    upserts over gRPC, for the write gate
deletions     which requests delete vectors, and which ones
"""
