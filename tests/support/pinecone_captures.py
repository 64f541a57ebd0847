"""Raw requests of the real Pinecone clients, recorded from their sockets, where they are on this machine.

They are not part of the project. VECSIEVE_PINECONE_CAPTURES names their folder; without it, the folder
``shared/captures/pinecone`` beside the checkout is tried. Only what HTTP/1.1 carried is read here: the calls over gRPC
have files of their own.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

BESIDE = Path(__file__).resolve().parents[3] / "shared" / "captures" / "pinecone"


@dataclass(frozen=True, slots=True)
class Captured:
    """One request. ``label``: client, transport and call, as in "py8/sync/query_min"; header case and order as sent."""

    label: str
    method: str
    target: str
    headers: tuple[tuple[str, str], ...]
    body: bytes

    @property
    def raw(self) -> bytes:
        """The request as it went over the wire."""
        lines = [f"{self.method} {self.target} HTTP/1.1", *(f"{name}: {value}" for name, value in self.headers), "", ""]
        return "\r\n".join(lines).encode("latin-1") + self.body


def folder() -> Path | None:
    """The folder, or None."""
    found = Path(os.environ.get("VECSIEVE_PINECONE_CAPTURES", BESIDE))
    return found if any(found.glob("py*_sync.json")) else None


def recordings() -> dict[str, list[Captured]]:
    """Recording -> its requests in the order they were sent; empty where there are none."""
    found = folder()
    files = (
        []
        if found is None
        else sorted(file for form in ("py*_sync", "py*_asyncio", "ts*_fetch") for file in found.glob(f"{form}.json"))
    )
    return {file.stem: [_captured(made) for made in json.loads(file.read_bytes())["requests"]] for file in files}


def _captured(made: dict[str, Any]) -> Captured:
    assert made["proto"] == "HTTP/1.1", f"{made['label']} is not HTTP/1.1 but {made['proto']}"
    headers = tuple((name, value) for name, value in made["headers"])
    return Captured(made["label"], made["method"], made["path"], headers, made["body_text"].encode())


# Where the captures are known to be, REQUIRE_EVAL_DATA turns the skip into a failure: a check that skips is none.
NEEDS_CAPTURES = pytest.mark.skipif(
    folder() is None and "REQUIRE_EVAL_DATA" not in os.environ,
    reason="no recorded requests here: name their folder in VECSIEVE_PINECONE_CAPTURES",
)
