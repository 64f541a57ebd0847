"""Raw gRPC calls of real clients, recorded from their sockets, where they are on this machine; see support.exchanges.captures."""

from __future__ import annotations

import base64
import json
import os
from dataclasses import dataclass
from pathlib import Path

import pytest

from support.exchanges.captures import SHARED_FOLDER

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
    folder = Path(os.environ.get("VECSIEVE_CAPTURES", SHARED_FOLDER)) / backend
    documents = [json.loads(file.read_bytes()) for file in sorted(folder.glob("*.json"))]
    return [
        CapturedCall(
            label=made["label"],
            path=made["path"],
            metadata=tuple((name, value) for name, value in made["headers"] if not name.startswith(":")),
            message=base64.b64decode(made["body_b64"])[_FRAME:],
        )
        for document in documents
        for made in document.get("requests", ())
        if "body_b64" in made and any(name == "content-type" and "grpc" in value for name, value in made["headers"])
    ]


# As support.exchanges.captures: where they are known to be, a variable turns the skip into a failure.
NEEDS_CALLS = pytest.mark.skipif(
    not captured_calls("pinecone") and not {"REQUIRE_CAPTURES", "REQUIRE_EVAL_DATA"} & os.environ.keys(),
    reason="no recorded calls here: name their folder in VECSIEVE_CAPTURES",
)
