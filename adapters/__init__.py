"""What differs between vector databases, and nothing else: bytes and arrays in, bytes and arrays out.

contract   the five verbs, their values and their two exceptions
qdrant_*   the Qdrant dialect over REST
"""
