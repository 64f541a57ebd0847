"""Calls of Qdrant's Go, JavaScript and Java clients over gRPC with the engine's answers, as tests/foreign_clients recorded them."""

from __future__ import annotations

import base64
import json
from dataclasses import dataclass
from pathlib import Path

FOLDER = Path(__file__).resolve().parents[2] / "golden" / "qdrant_grpc"


@dataclass(frozen=True, slots=True, kw_only=True)
class ForeignCall:
    """One call as the server saw it."""

    client: str
    name: str
    path: str
    metadata: tuple[tuple[str, str], ...]
    message: bytes
    reply: bytes

    def __str__(self) -> str:
        return f"{self.client}/{self.name}"


def foreign_calls() -> list[ForeignCall]:
    """Every recorded call, by client and in the order of its program."""
    return [
        ForeignCall(
            client=file.stem,
            name=made["name"],
            path=made["path"],
            metadata=tuple((key, value) for key, value in made["metadata"]),
            message=base64.b64decode(made["message"]),
            reply=base64.b64decode(made["reply"]),
        )
        for file in sorted(FOLDER.glob("*.json"))
        for made in json.loads(file.read_bytes())["calls"]
    ]
