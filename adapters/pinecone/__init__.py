"""Pinecone over REST and gRPC.

calls         which requests are ranked searches, which write, which belong to the control plane
rest          the REST adapter and its dialect; the client's answer
rest_request  queries, records searches and documents searches; how many candidates a reply can hold
rest_reply    the matches of a reply
lookups       vectors fetched by id for searches that return none
hosts         paths of an index and of the control plane; hosts in descriptions of indexes
grpc          the gRPC adapter: request, reply and answer
"""
