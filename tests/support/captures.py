"""Where recorded requests of real clients are on this machine, if they are.

They are not part of the project. VECSIEVE_CAPTURES names their folder; without it, the folder ``shared/captures`` beside
the checkout is tried. A recording is a JSON file: its requests with method, path and body.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path

import pytest

BESIDE = Path(__file__).resolve().parents[3] / "shared" / "captures"


@dataclass(frozen=True, slots=True, kw_only=True)
class Captured:
    """One request as it came over the wire. ``path``: without its query string."""

    label: str
    method: str
    path: str
    content_type: str
    body: bytes


def captured(backend: str) -> list[Captured]:
    """The requests with a text for a body, or with none; in the order of the files and of the recording."""
    folder = Path(os.environ.get("VECSIEVE_CAPTURES", BESIDE)) / backend
    found: list[Captured] = []
    for file in sorted(folder.glob("*.json")):
        document = json.loads(file.read_bytes())
        for request in document.get("requests", ()):
            if "body_text" in request or "body_b64" not in request:
                headers = {name.lower(): value for name, value in request["headers"]}
                found.append(
                    Captured(
                        label=request["label"],
                        method=request["method"],
                        path=request["path"].partition("?")[0],
                        content_type=headers.get("content-type", ""),
                        body=request.get("body_text", "").encode(),
                    )
                )
    return found


# Where the captures are known to be, REQUIRE_CAPTURES turns the skip into a failure: a check that silently skips is none.
NEEDS_CAPTURES = pytest.mark.skipif(
    not captured("pinecone") and "REQUIRE_CAPTURES" not in os.environ,
    reason="no recorded requests here: name their folder in VECSIEVE_CAPTURES",
)
