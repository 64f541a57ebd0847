"""Bodies are read alike whether their embeddings are set aside or not."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from vecsieve.proxy.api import problems as reading
from vecsieve.proxy.api.fuse import FuseRequest
from vecsieve.proxy.api.messages import OptimizeRequest
from vecsieve.proxy.api.problems import ProblemError, decoded

OPTIMIZE, FUSE = msgspec.json.Decoder(OptimizeRequest), msgspec.json.Decoder(FuseRequest)
NUMBERS = [round(number / 7, 6) for number in range(40)]
LONG = json.dumps(NUMBERS)


def both(monkeypatch: pytest.MonkeyPatch, body: Any) -> list[object]:
    """The message, or the problem, read whole and with arrays set aside."""
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    results: list[object] = []
    for size in (len(raw), len(raw) - 1):
        monkeypatch.setattr(reading, "ASIDE_BYTES", size)
        try:
            results.append(decoded(OPTIMIZE, raw))
        except ProblemError as problem:
            results.append(problem.body)
    return results


def chunk(**members: object) -> dict[str, object]:
    return {"id": 1, "text": "t", "embedding": NUMBERS, **members}


@pytest.mark.parametrize(
    "body",
    [
        {"chunks": [chunk(), chunk(embedding=[1, 2]), chunk(embedding=None)], "query_embedding": NUMBERS},
        {"chunks": [chunk(text=f"as a text: {LONG}")]},
        {"chunks": [chunk(metadata={"numbers": NUMBERS})]},
        {"chunks": [chunk(embedding=[NUMBERS])]},
        {"chunks": [chunk(text="[-0.0e-0]")]},
        {"chunks": [chunk(novel=NUMBERS)]},
        {"chunks": [chunk(score=NUMBERS)]},
        {"chunks": [chunk(id=NUMBERS)]},
        {"chunks": NUMBERS},
        json.dumps({"chunks": [chunk()]}).encode()[:-3],
        json.dumps({"chunks": [chunk(text="x")]}).replace('"x"', LONG).encode(),
    ],
    ids=["arrays", "text", "metadata", "nested", "marked", "unknown", "score", "id", "chunks", "cut", "text is array"],
)
def test_a_large_body_says_what_a_small_one_says(monkeypatch: pytest.MonkeyPatch, body: Any) -> None:
    whole, aside = both(monkeypatch, body)
    assert aside == whole


PARTS = st.sampled_from(
    [LONG, "[1,2]", "null", '"text"', "{", "}", "[", "]", ",", '"', '{"a":' + LONG + "}", LONG[:-1], "[-0.0e-0]"]
)


@given(embedding=PARTS, metadata=PARTS, text=PARTS)
def test_any_body_is_read_alike(embedding: str, metadata: str, text: str) -> None:
    """Invariant: the same message, or the same problem."""
    body = (
        f'{{"chunks":[{{"id":1,"text":"a","embedding":{embedding},"metadata":{metadata}}},{{"id":2,"text":{text}}}]}}'
    )
    with pytest.MonkeyPatch.context() as patched:
        whole, aside = both(patched, body.encode())
    assert aside == whole


def test_embeddings_of_lists_come_back_too(monkeypatch: pytest.MonkeyPatch) -> None:
    result = {"id": 1, "text": "t", "embedding": NUMBERS}
    raw = json.dumps({"lists": [{"results": [result, {**result, "id": 2}]}]}).encode()
    monkeypatch.setattr(reading, "ASIDE_BYTES", len(raw) - 1)
    (listed,) = decoded(FUSE, raw).lists
    assert [bytes(result.embedding) for result in listed.results] == [LONG.encode()] * 2
