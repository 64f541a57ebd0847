"""Calls of the official client to Milvus 2.3.5 and to Milvus Lite with their answers, where they are; see support.exchanges.captures."""

from __future__ import annotations

import base64
import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from support.exchanges.captures import SHARED_FOLDER


@dataclass(frozen=True, slots=True, kw_only=True)
class Captured:
    """One call. ``label``: server and what was called for."""

    label: str
    path: str
    message: bytes
    reply: bytes


def calls(server: str) -> list[Captured]:
    """The calls to ``milvus_2_3_5`` or ``milvus_lite`` in the order of the recording; none where there are none."""
    folder = Path(os.environ.get("VECSIEVE_CAPTURES", SHARED_FOLDER)) / server
    documents = [json.loads(file.read_bytes()) for file in sorted(folder.glob("[0-9]*.json"))]
    return [
        Captured(
            label=f"{server}/{made['label']}",
            path=made["method"],
            message=base64.b64decode(made["request_b64"][0]),
            reply=base64.b64decode(made["response_b64"][0]),
        )
        for made in documents
        if made["request_b64"] and made["response_b64"]
    ]


def rest_calls() -> list[dict[str, Any]]:
    """Requests over REST to ``milvus_2_3_5`` with their answers."""
    folder = Path(os.environ.get("VECSIEVE_CAPTURES", SHARED_FOLDER)) / "milvus_2_3_5"
    return [json.loads(file.read_bytes()) for file in sorted(folder.glob("rest_*.json"))]


NEEDS_CALLS = pytest.mark.skipif(
    not calls("milvus_lite") and not {"REQUIRE_CAPTURES", "REQUIRE_EVAL_DATA"} & os.environ.keys(),
    reason="no recorded calls here: name their folder in VECSIEVE_CAPTURES",
)
