"""Raw requests of real clients, recorded from their sockets, where they are on this machine.

They are not part of the project. VECSIEVE_CAPTURES names their folder; without it, the folder ``shared/captures`` beside
the checkout is tried. A recording is a JSON file: its requests in the order they were sent, with header order and case.
Only what HTTP/1.1 carried is read: calls over gRPC have no text for a body.
"""

from __future__ import annotations

import json
import os
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

SHARED_FOLDER = Path(__file__).resolve().parents[4] / "shared" / "captures"


@dataclass(frozen=True, slots=True, kw_only=True)
class Captured:
    """One request as it came over the wire. ``label``: client, transport and call, as in "py8/sync/query_min"."""

    label: str
    method: str
    target: str
    headers: tuple[tuple[str, str], ...]
    body: bytes

    @property
    def path(self) -> str:
        """The target without its query string."""
        return self.target.partition("?")[0]

    @property
    def content_type(self) -> str:
        return next((value for name, value in self.headers if name.lower() == "content-type"), "")

    @property
    def line(self) -> bytes:
        """The request line."""
        return f"{self.method} {self.target} HTTP/1.1".encode("latin-1")

    @property
    def raw(self) -> bytes:
        """The whole request."""
        fields = [f"{name}: {value}".encode("latin-1") for name, value in self.headers]
        return b"\r\n".join([self.line, *fields, b"", b""]) + self.body


def documents(folder: str, pattern: str = "*.json") -> dict[str, Any]:
    """Recording -> its JSON, in the order of the files; empty where there are none."""
    files = Path(os.environ.get("VECSIEVE_CAPTURES", SHARED_FOLDER)) / folder
    return {file.stem: json.loads(file.read_bytes()) for file in sorted(files.glob(pattern))}


def needs(recorded: Collection[object]) -> pytest.MarkDecorator:
    """Where the captures are known to be, either variable turns the skip into a failure: a check that silently skips is none."""
    return pytest.mark.skipif(
        not recorded and not {"REQUIRE_CAPTURES", "REQUIRE_EVAL_DATA"} & os.environ.keys(),
        reason="no recordings here: name their folder in VECSIEVE_CAPTURES",
    )


def recordings(backend: str) -> dict[str, list[Captured]]:
    """Recording -> its requests; empty where there are none."""
    requests_by_name = {name: _read(document) for name, document in documents(backend).items()}
    return {name: requests for name, requests in requests_by_name.items() if requests}


def captured(backend: str) -> list[Captured]:
    """The requests of every recording, in the order of the files and of the recording."""
    return [request for requests in recordings(backend).values() for request in requests]


def _read(document: dict[str, Any]) -> list[Captured]:
    return [
        Captured(
            label=made["label"],
            method=made["method"],
            target=made["path"],
            headers=tuple((name, value) for name, value in made["headers"]),
            body=made.get("body_text", "").encode(),
        )
        for made in document.get("requests", ())
        if made["proto"] == "HTTP/1.1" and "body_b64" not in made
    ]


NEEDS_CAPTURES = needs(captured("pinecone"))
