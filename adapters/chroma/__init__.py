"""Chroma over REST.

request    which requests are ranked searches, alter a collection or have names of collections; parses and widens a query
rest       parses a reply, cuts the client's answer; the adapter and its dialect
write      upserts and additions, for the write gate
deletions  which requests delete records, and which ones
"""
