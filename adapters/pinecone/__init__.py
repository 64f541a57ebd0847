"""Pinecone over REST and gRPC.

calls         which requests are ranked searches, which write, which are the control plane's
dialect       errors over REST and gRPC
request       a parsed search: its fields, how many candidates a reply can hold, its bytes asking for more
rest          the REST adapter; the client's answer cut from the reply
rest_request  queries, records searches and documents searches
rest_reply    the matches of a reply
lookups       vectors fetched by id where a search cannot bring them
hosts         the hosts in descriptions of indexes, replaced in place
grpc          the gRPC adapter: request, reply and answer
"""
