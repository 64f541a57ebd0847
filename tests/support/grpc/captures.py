"""Raw gRPC calls of real clients, recorded from their sockets, where they are on this machine; see support.exchanges.captures."""

from __future__ import annotations

import base64
from dataclasses import dataclass

from support.exchanges.captures import documents, needs

_FRAME = 5  # bytes before a message: whether it is compressed, and its length


@dataclass(frozen=True, slots=True, kw_only=True)
class CapturedCall:
    """One call as it came over the wire. ``label``: client, transport and call, as in "py8/grpc/query_min"."""

    label: str
    path: str
    metadata: tuple[tuple[str, str], ...]
    message: bytes


def captured_calls(backend: str) -> list[CapturedCall]:
    """The calls of every recording, in the order of the files and of the recording; none where there are none."""
    return [
        CapturedCall(
            label=made["label"],
            path=made["path"],
            metadata=tuple((name, value) for name, value in made["headers"] if not name.startswith(":")),
            message=base64.b64decode(made["body_b64"])[_FRAME:],
        )
        for document in documents(backend).values()
        for made in document.get("requests", ())
        if "body_b64" in made and any(name == "content-type" and "grpc" in value for name, value in made["headers"])
    ]


NEEDS_CALLS = needs(captured_calls("pinecone"))
