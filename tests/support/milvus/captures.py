"""Calls of the official client to Milvus 2.3.5 and to Milvus Lite with their answers, where they are; see support.exchanges.captures."""

from __future__ import annotations

import base64
from dataclasses import dataclass
from typing import Any

from support.exchanges.captures import documents, needs


@dataclass(frozen=True, slots=True, kw_only=True)
class Captured:
    """One call. ``label``: server and what was called for."""

    label: str
    path: str
    message: bytes
    reply: bytes


def calls(server: str) -> list[Captured]:
    """The calls to ``milvus_2_3_5`` or ``milvus_lite`` in the order of the recording; none where there are none."""
    return [
        Captured(
            label=f"{server}/{made['label']}",
            path=made["method"],
            message=base64.b64decode(made["request_b64"][0]),
            reply=base64.b64decode(made["response_b64"][0]),
        )
        for made in documents(server, "[0-9]*.json").values()
        if made["request_b64"] and made["response_b64"]
    ]


def rest_calls() -> list[dict[str, Any]]:
    """Requests over REST to ``milvus_2_3_5`` with their answers."""
    return list(documents("milvus_2_3_5", "rest_*.json").values())


NEEDS_CALLS = needs(calls("milvus_lite"))
