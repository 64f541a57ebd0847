"""Whole exchanges of Chroma's own clients with a real server, recorded between the two, where they are on this machine.

They are not part of the project; where they are looked for is said in captures.py. A recording is one JSON file with a
request and its answer, headers in their order and case.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from support.exchanges.captures import Captured, documents, needs

Fields = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Exchanged:
    """One exchange."""

    request: Captured
    status: int
    headers: Fields
    answer: bytes

    @property
    def is_query(self) -> bool:
        return self.request.path.endswith("/query")


def exchanges() -> list[Exchanged]:
    """In the order in which they were recorded; none where there are none."""
    return [_read(name, document) for name, document in documents("chroma").items()]


def _read(label: str, document: dict[str, Any]) -> Exchanged:
    sent, response = document["request"], document["response"]
    request = Captured(
        label=label, method=sent["method"], target=sent["raw_path"], headers=_fields(sent), body=_body(sent)
    )
    return Exchanged(request=request, status=response["status"], headers=_fields(response), answer=_body(response))


def _body(part: dict[str, Any]) -> bytes:
    """The bytes; of a long answer, whose text was recorded in part, its JSON as the server writes it."""
    raw: bytes = (part["body_raw"] or "").encode()
    if len(raw) == part["body_len"]:
        return raw
    return json.dumps(part["body"]["json"], separators=(",", ":"), ensure_ascii=False).encode()


def _fields(part: dict[str, Any]) -> Fields:
    return tuple((name, value) for name, value in part["headers"])


NEEDS_EXCHANGES = needs(exchanges())
