"""How many files a reader has to open who follows one search from its first byte to its last: counted, not timed."""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path
from types import FrameType

import pytest

from support.faultup import FaultyUpstream, answering, raw_exchange
from support.running import running
from support.scripted_qdrant import honest, request, search
from vecsieve.adapters import contract

ROOT = Path(contract.__file__).resolve().parent.parent
ROOMS = tuple(str(ROOT / package) + "/" for package in ("adapters", "config", "proxy"))
MOST_FILES = 57


@pytest.mark.parametrize("asked_before", [0, 1, 2], ids=["never seen", "points known", "pool known"])
async def test_a_search_goes_through_at_most_57_of_our_files(asked_before: int) -> None:
    called: Counter[str] = Counter()

    def seen(frame: FrameType, event: str, _argument: object) -> None:
        file = frame.f_code.co_filename
        if event == "call" and str(Path(file)).startswith(ROOMS):
            called[file] += 1

    async with FaultyUpstream(answering(honest)) as upstream, running(upstream.url) as proxy:
        proxy.process.pools.resize(keep=False)  # what is sampled beside a search is not on its way
        for _ in range(3):  # so many pools without a text show that there is none
            await raw_exchange(proxy.port, request(search(4)))
        for _ in range(asked_before):
            await raw_exchange(proxy.port, request(search(3)))
        sys.setprofile(seen)
        try:
            answer = await raw_exchange(proxy.port, request(search(3)))
        finally:
            sys.setprofile(None)
        recalls = proxy.count("memory_recalls_total", backend="qdrant", result="whole")
    assert b"pool=8;clusters=4;returned=3" in answer, "it was not improved: the count says nothing"
    assert recalls == asked_before
    files = sorted({str(Path(file).relative_to(ROOT)) for file in called})
    assert "proxy/search/service.py" in files
    assert "adapters/qdrant/rest.py" in files
    assert len(files) <= MOST_FILES, "\n".join(files)
