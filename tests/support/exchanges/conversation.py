"""One request and a server that answers any version of it: what the laws of the adapters are about."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Conversation:
    """``answer``: the server's reply to the request it is given."""

    path: str
    body: bytes
    answer: Callable[[bytes], bytes]
