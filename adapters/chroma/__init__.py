"""Chroma over REST.

calls    which requests are ranked searches, which alter a collection, which have names of collections
request  parses and widens a query
rest     parses a reply, cuts the client's answer; the adapter and its dialect
write    upserts and additions, for the write gate
"""
