"""Weaviate's replies without what differs between two equal calls: the time they took, a query's profile, and the order of what
the server keeps in maps (properties, named vectors, the names that an error lists).
"""

from __future__ import annotations

import re
from typing import Any

from support.grpc.calls import Seen
from support.weaviate.messages import message_type

_LIST = re.compile(r"\[([\w ]+)\]")


def settled(seen: Seen) -> Seen:
    """An answer that compares equal to that of an equal call."""
    messages = tuple(settled_reply(message) for message in seen.messages)
    return Seen(messages, seen.code, settled_words(seen.details), seen.initial, seen.trailing)


def settled_reply(reply: bytes, *, results: bool = True) -> bytes:
    """A SearchReply's bytes. ``results``: with them, or what stands around them."""
    message = message_type("SearchReply").FromString(reply)
    message.took = 0
    message.ClearField("query_profile")
    for result in message.results:
        _settle(result)
    if not results:
        message.ClearField("results")
    return bytes(message.SerializeToString(deterministic=True))


def settled_results(reply: bytes) -> list[bytes]:
    """The bytes of each result of a SearchReply."""
    message = message_type("SearchReply").FromString(reply)
    for result in message.results:
        _settle(result)
    return [bytes(result.SerializeToString(deterministic=True)) for result in message.results]


def _settle(result: Any) -> None:
    """Bring a result's named vectors into the order of their names."""
    ordered = [type(vector).FromString(vector.SerializeToString()) for vector in result.metadata.vectors]
    result.metadata.ClearField("vectors")
    result.metadata.vectors.extend(sorted(ordered, key=lambda vector: str(vector.name)))


def settled_words(details: str) -> str:
    """An error's words, the names that it lists in one order."""
    return _LIST.sub(lambda match: "[" + " ".join(sorted(match[1].split())) + "]", details)
