"""Whole conversations written by hand from the wire format: what official clients send, what servers answer.

A folder of tests/golden/<backend> holds one: the client's request, what goes upstream, upstream's answer, what the client
gets; ``case.json`` has the path, the counts asked for, the results kept and what selection needs.
"""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from support.backends.transports import REST, operation_of
from vecsieve.adapters.contract import Needs, RequestHead

GOLDEN = Path(__file__).parents[1] / "golden"
BACKENDS = ("chroma", "pinecone", "qdrant")
CASES = [case for backend in BACKENDS for case in sorted((GOLDEN / backend).iterdir())]


def test_there_are_conversations() -> None:
    assert Counter(case.parent.name for case in CASES) == {"chroma": 9, "pinecone": 12, "qdrant": 16}


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.parent.name}-{case.name}")
def test_the_conversation_goes_as_written(case: Path) -> None:
    adapter, talk = REST[case.parent.name].adapter(), json.loads((case / "case.json").read_bytes())
    needs: dict[str, Any] = {name: tuple(fields) for name, fields in talk.get("needs", {}).items()}
    operation = operation_of(adapter, RequestHead(method="POST", path=talk["path"], content_type="application/json"))
    call = adapter.parse_request(operation, (case / "request.json").read_bytes(), Needs(**needs))
    assert adapter.widen(call, talk["fetch_k"]) == (case / "widened.json").read_bytes()
    reply = adapter.parse_reply(call, (case / "upstream.json").read_bytes())
    keep = [np.array(kept, dtype=np.intp) for kept in talk["keep"]]
    assert adapter.trim(call, reply, keep) == (case / "trimmed.json").read_bytes()
