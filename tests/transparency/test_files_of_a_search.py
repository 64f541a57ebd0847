"""How many files a reader has to open who follows one search from its first byte to its last: counted, not timed."""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path
from types import FrameType

from support.faultup import FaultyUpstream, raw_exchange
from support.running import running
from support.scripted_qdrant import answering, request, scripted, search
from support.widened_faults import points
from vecsieve.adapters import contract

ROOT = Path(contract.__file__).resolve().parent.parent
ROOMS = tuple(str(ROOT / package) + "/" for package in ("adapters", "config", "proxy"))
MOST_FILES = 55


async def test_a_warm_search_goes_through_at_most_55_of_our_files() -> None:
    called: Counter[str] = Counter()

    def seen(frame: FrameType, event: str, _argument: object) -> None:
        file = frame.f_code.co_filename
        if event == "call" and str(Path(file)).startswith(ROOMS):
            called[file] += 1

    pairs = points([[1.0, 0.0, 0.0, float(number // 2)] for number in range(12)])
    async with FaultyUpstream(scripted(answering(pairs))) as upstream, running(upstream.url) as proxy:
        proxy.process.pools.resize(keep=False)  # what is sampled beside a search is not on its way
        for _ in range(3):
            await raw_exchange(proxy.port, request(search(3)))
        sys.setprofile(seen)
        try:
            answer = await raw_exchange(proxy.port, request(search(3)))
        finally:
            sys.setprofile(None)
    assert b"pool=12;clusters=6;returned=3" in answer, "it was not improved: the count says nothing"
    files = sorted({str(Path(file).relative_to(ROOT)) for file in called})
    assert "proxy/search/service.py" in files
    assert "adapters/qdrant/rest_reply.py" in files
    assert len(files) <= MOST_FILES, files
