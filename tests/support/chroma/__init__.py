"""Chroma in tests.

bodies    conversations, drawn
model     what Chroma writes for a query
server    the real server with planted collections; the official client
captures  recorded exchanges of Chroma's own clients
"""
