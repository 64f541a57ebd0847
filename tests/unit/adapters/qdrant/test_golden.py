"""Whole conversations written by hand from the wire format: what official clients send, what servers answer.

A folder of tests/golden/qdrant holds one: the client's request, what goes upstream, upstream's answer, what the client
gets; ``case.json`` has the path, the counts asked for, the points kept and what selection needs.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from vecsieve.adapters.contract import Needs, RequestHead
from vecsieve.adapters.qdrant.rest import QdrantRest

CASES = sorted((Path(__file__).parents[3] / "golden" / "qdrant").iterdir())


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_the_conversation_goes_as_written(case: Path) -> None:
    told = json.loads((case / "case.json").read_bytes())
    wanted: dict[str, list[str]] = told.get("needs", {})
    needs = Needs(
        payload_fields=tuple(wanted.get("payload_fields", ())), optional_fields=tuple(wanted.get("optional_fields", ()))
    )
    adapter = QdrantRest()
    operation = adapter.classify(RequestHead(method="POST", path=told["path"], content_type="application/json"))
    assert operation is not None
    call = adapter.parse_request(operation, (case / "request.json").read_bytes(), needs)
    assert adapter.widen(call, told["fetch_k"]) == (case / "widened.json").read_bytes()
    reply = adapter.parse_reply(call, (case / "upstream.json").read_bytes())
    keep = [np.array(kept, dtype=np.intp) for kept in told["keep"]]
    assert adapter.trim(call, reply, keep) == (case / "trimmed.json").read_bytes()


def test_there_are_conversations() -> None:
    assert len(CASES) >= 16
