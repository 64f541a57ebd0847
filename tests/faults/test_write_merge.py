"""Mode merge where the database deletes by ids alone: what was changed meanwhile, or cannot be read again, stays."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from support.network.faulty_upstream import FaultyUpstream, Received, Talk, raw_exchange, reply
from support.process.running import running
from support.qdrant.gated_writes import JSON, put

STORED: dict[str, Any] = {"id": "old", "values": [1.0, 0.5], "metadata": {"text": "it has all the same words", "n": 1}}
# The same members in another order.
SAME = {**dict(reversed(STORED.items())), "metadata": {"n": 1, "text": "it has all the same words"}}


class Index(FaultyUpstream):
    """A Pinecone index in which a vector is near each other. ``reads``: what the reads by ids find of it, one after another; None: an
    error. ``status``: of the answer to the upsert.
    """

    def __init__(self, *reads: object, status: bytes = b"200 OK") -> None:
        self.reads = list(reads)
        self.status = status
        super().__init__(self._play)

    async def _play(self, talk: Talk) -> None:
        while (received := await talk.request()) is not None:
            content = self._reply_to(received)
            status = b"503 No" if content is None else self.status if b"upsert" in received.line else b"200 OK"
            await talk.send(reply(json.dumps(content or {}).encode(), status=status, headers=[JSON]))

    def _reply_to(self, received: Received) -> object:
        if b"stats" in received.line:
            return {"dimension": 2, "metric": "cosine"}
        if b"/query" in received.line:
            return {"matches": [{**STORED, "score": 1.0}]}
        if b"/fetch" in received.line:
            content = self.reads.pop(0)
            return None if content is None else {"vectors": {"old": content} if content else {}}
        return {"upsertedCount": 1} if b"upsert" in received.line else {}

    def sent(self, part: bytes) -> list[Any]:
        return [json.loads(request.content) for request in self.requests if part in request.line]


async def merged_by(upstream: Index, folder: Path) -> tuple[bytes, float]:
    """The answer to an upsert of a copy, and how many stored points were counted as removed."""
    settings = {
        "pinecone": {"index_host": upstream.url},
        "journal": {"path": str(folder / "j.db")},
        "policy": {"ignore": ("n",), "write": {"mode": "merge"}},
    }
    body = json.dumps(
        {"vectors": [{"id": "new", "values": [1.0, 0.5], "metadata": {"text": "it has all the same words"}}]}
    )
    async with running(upstream.url, backend="pinecone", **settings) as proxy:
        answer = await raw_exchange(proxy.port, put(body.encode(), target=b"/vectors/upsert", method=b"POST"))
        return answer, proxy.count("write_points_settled_total", backend="pinecone", result="removed")


async def test_a_point_that_is_as_it_was_is_removed_once_the_other_is_stored(tmp_path: Path) -> None:
    async with Index(STORED, SAME) as upstream:
        answer, removed = await merged_by(upstream, tmp_path)
        assert b'{"upsertedCount": 1}' in answer
        assert [body["vectors"][0]["id"] for body in upstream.sent(b"upsert")] == ["new"]
        assert upstream.sent(b"delete") == [{"ids": ["old"]}]
        assert removed == 1
        order = [request.line.split()[1].split(b"?")[0] for request in upstream.requests]
        assert order[-4:] == [b"/vectors/fetch", b"/vectors/upsert", b"/vectors/fetch", b"/vectors/delete"]


@pytest.mark.parametrize(
    "again",
    [
        {**STORED, "values": [1.0, 0.25]},
        {**STORED, "metadata": {"text": "it has all the same words", "n": 2}},
        {**STORED, "sparseValues": {"indices": [1], "values": [1.0]}},
        {},
        None,
    ],
    ids=["numbers", "metadata", "sparse", "gone", "refused"],
)
async def test_a_point_that_was_changed_meanwhile_or_cannot_be_read_again_stays(tmp_path: Path, again: object) -> None:
    async with Index(STORED, again) as upstream:
        answer, removed = await merged_by(upstream, tmp_path)
        assert b'{"upsertedCount": 1}' in answer
        assert len(upstream.sent(b"upsert")) == 1
        assert not upstream.sent(b"delete")
        assert removed == 0
