"""Pinecone in tests.

bodies    REST conversations, drawn
messages  gRPC conversations, drawn
model     what Pinecone writes for a search
emulator  the emulator: single calls, or a server in a thread
planted   indexes with and without planted copies
loading   their records, over plain HTTP
verdict   what a client may see of the proxy
"""
