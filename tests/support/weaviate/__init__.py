"""Weaviate in tests.

conversations    gRPC conversations, drawn
messages         the messages, in a descriptor pool of their own
model            searches, small and exact, after Weaviate's source
graphql_queries  the part of GraphQL that the proxy writes
server           an emulator over REST and gRPC
planted          an emulator with planted copies
front            the proxy in front of a Weaviate
client           Weaviate's own client, in an environment of its own
scenario         searches by that client, a program for its interpreter
gated            writes by that client, a program for its interpreter
replies          replies without what differs between two equal calls
"""
