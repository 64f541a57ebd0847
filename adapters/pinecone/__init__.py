"""Pinecone over REST and gRPC.

calls         which requests are ranked searches, which write, which belong to the control plane
rest          the REST adapter and its dialect; the client's answer; hosts of indexes
rest_request  queries, records searches and documents searches; how many candidates a reply can hold
rest_reply    the matches of a reply
rest_write    upserts, for the write gate
lookups       vectors fetched by id for searches that return none
grpc          the gRPC adapter: request, reply and answer
grpc_write    upserts over gRPC, for the write gate
"""
