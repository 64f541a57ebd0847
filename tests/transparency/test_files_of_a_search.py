"""How many files a reader has to open who follows one search from its first byte to its last, how many functions run, and how often the file changes:
counted, not timed; over REST, over gRPC, and for a write that the gate examines.
"""

from __future__ import annotations

import gc
import json
import sys
from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from types import CodeType, FrameType
from typing import Self

import grpc
import pytest
from qdrant_client import grpc as pb

from support.grpc.calls import ask_on
from support.grpc.upstream import Arrived, Context, grpc_upstream
from support.network.faulty_upstream import FaultyUpstream, Received, answering, raw_exchange, reply
from support.process.running import Running, running
from support.qdrant.gated_writes import database, finding, put, upsert, written
from support.qdrant.scripted import JSON, honest, request, search
from support.qdrant.scripted_grpc import QUERY, before, ids, parsed
from support.qdrant.scripted_grpc import search as grpc_search
from vecsieve.adapters import contract

ROOT = Path(contract.__file__).parent.parent
ROOMS = tuple(str(ROOT / package) + "/" for package in ("adapters", "config", "proxy"))
# Of a collection without texts, whose first pools are read for them; memory has a file of its own since it is one class, and so has what a search may cost.
MOST_FILES = 60


def sample_nothing(proxy: Running) -> None:
    """What is sampled beside a search, and at most fifty times a second, is not on its way: after a pause of the process it would be counted."""
    proxy.process.pools.resize(keep=False)
    proxy.process.recent.resize(20, texts=False)


@pytest.mark.parametrize("searches_before", [0, 1, 2], ids=["never seen", "points known", "pool known"])
async def test_a_search_goes_through_at_most_60_of_our_files(searches_before: int) -> None:
    called: Counter[str] = Counter()

    def seen(frame: FrameType, event: str, _argument: object) -> None:
        file = frame.f_code.co_filename
        if event == "call" and str(Path(file)).startswith(ROOMS):
            called[file] += 1

    async with FaultyUpstream(answering(honest)) as upstream, running(upstream.url) as proxy:
        sample_nothing(proxy)
        for _ in range(3):  # so many pools without a text show that there is none
            await raw_exchange(proxy.port, request(search(4)))
        for _ in range(searches_before):
            await raw_exchange(proxy.port, request(search(3)))
        sys.setprofile(seen)
        try:
            answer = await raw_exchange(proxy.port, request(search(3)))
        finally:
            sys.setprofile(None)
        recalls = proxy.count("memory_recalls_total", backend="qdrant", result="whole")
    assert b"pool=8;clusters=4;returned=3" in answer, "it was not improved: the count says nothing"
    assert recalls == searches_before
    files = sorted({str(Path(file).relative_to(ROOT)) for file in called})
    assert "proxy/search/service.py" in files
    assert "adapters/qdrant/rest.py" in files
    assert len(files) <= MOST_FILES, "\n".join(files)


# A search whose page has copies, of texts that were seen before, in a pool that was not; and a write that the gate annotates, of a collection
# that it knows. These figures fall; whoever raises one says why. The shortest of three searches counts: a message may come in several pieces, and
# what is due after a pause of the process is not on the way.
MOST_FUNCTIONS, MOST_CHANGES = 288, 209
MOST_GRPC_FUNCTIONS, MOST_GRPC_CHANGES = 291, 250
MOST_GATED_FUNCTIONS, MOST_GATED_CHANGES = 300, 232


# Since Python 3.12 a comprehension is no call (PEP 709), so none is counted on 3.11.
COMPREHENSIONS = frozenset({"<listcomp>", "<setcomp>", "<dictcomp>"})


class Way:
    """Counts our functions and changes of file within its block. ``steps``: every call, in order. The collector waits: its walk over what many tests
    have left is a pause.
    """

    def __init__(self) -> None:
        self.steps: list[CodeType] = []

    def __enter__(self) -> Self:
        gc.disable()
        sys.setprofile(self._seen)
        return self

    def __exit__(self, *_failure: object) -> None:
        sys.setprofile(None)
        gc.enable()

    def _seen(self, frame: FrameType, event: str, _argument: object) -> None:
        if (
            event == "call"
            and frame.f_code.co_filename.startswith(ROOMS)
            and frame.f_code.co_name not in COMPREHENSIONS
        ):
            self.steps.append(frame.f_code)

    @property
    def functions(self) -> int:
        return len(set(self.steps))

    @property
    def changes(self) -> int:
        files = [code.co_filename for code in self.steps]
        return sum(one != other for one, other in pairwise(["", *files]))


def check(ways: Sequence[Way], *, functions: int, changes: int) -> None:
    """By the shortest of them."""
    way = min(ways, key=lambda way: way.changes)
    print(f"{way.functions} functions, {way.changes} changes of file")
    assert way.functions <= functions
    assert way.changes <= changes


PARTS = ("valve", "pump", "seal", "motor", "shaft", "gauge", "hose", "tank", "filter", "lamp", "cable", "fuse")
SENTENCES = [
    f"The {part} of model {number} is checked by the {other} team before each start of the {last} line in hall {number + 7}."
    for number, (part, other, last) in enumerate(zip(PARTS, PARTS[3:] + PARTS[:3], PARTS[5:] + PARTS[:5], strict=True))
]
TURNS = 9  # then three that count


def sentence(turn: int, rank: int) -> str:
    """A ranking of texts, each twice, that turns by one with every number of the query."""
    return SENTENCES[(turn + rank // 2) % len(SENTENCES)]


def telling(received: Received) -> bytes:
    body = json.loads(received.content)
    turn = int(body["query"]["nearest"][0])
    points = [
        {
            "id": rank,
            "version": 1,
            "score": round(0.9 - rank / 100, 2),
            "payload": {"text": sentence(turn, rank)},
            **({"vector": [float(axis == rank // 2) for axis in range(32)]} if body.get("with_vector") else {}),
        }
        for rank in range(min(body["limit"], 24))
    ]
    return reply(
        json.dumps({"result": {"points": points}, "status": "ok", "time": 0.001}, separators=(",", ":")).encode(),
        headers=[JSON],
    )


async def test_the_way_of_a_search_that_texts_decide() -> None:
    def message(turn: int) -> bytes:
        return request(search(4, extra={"query": {"nearest": [float(turn)] + [0.5] * 31}, "with_payload": True}))

    async with FaultyUpstream(answering(telling)) as upstream, running(upstream.url) as proxy:
        sample_nothing(proxy)
        for turn in range(TURNS):
            await raw_exchange(proxy.port, message(turn))
        ways = [Way() for _ in range(3)]
        for turn, way in enumerate(ways, TURNS):
            with way:
                answer = await raw_exchange(proxy.port, message(turn))
            points = json.loads(answer.split(b"\r\n\r\n", 1)[1])["result"]["points"]
            assert [point["id"] for point in points] == [0, 2, 4, 6]
    check(ways, functions=MOST_FUNCTIONS, changes=MOST_CHANGES)


async def telling_in_grpc(call: Arrived, context: Context) -> None:
    message = await call.read(context)
    assert message is not None
    query = parsed(message)
    turn = int(query.query.nearest.dense.data[0])
    points = []
    for rank in range(min(query.limit, 24)):
        payload = {"text": pb.Value(string_value=sentence(turn, rank))}
        point = pb.ScoredPoint(id=pb.PointId(num=rank), version=1, score=round(0.9 - rank / 100, 2), payload=payload)
        if query.HasField("with_vectors"):
            point.vectors.vector.dense.data.extend([float(axis == rank // 2) for axis in range(32)])
        points.append(point)
    await context.write(pb.QueryResponse(result=points, time=0.001).SerializeToString())


async def test_the_way_of_a_grpc_search_that_texts_decide() -> None:
    def message(turn: int) -> bytes:
        nearest = pb.VectorInput(dense=pb.DenseVector(data=[float(turn)] + [0.5] * 31))
        return grpc_search(4, query=pb.Query(nearest=nearest), with_payload=pb.WithPayloadSelector(enable=True))

    async with (
        grpc_upstream(Query=telling_in_grpc) as database,
        before(database.address, mode="on") as proxy,
        grpc.aio.insecure_channel(f"127.0.0.1:{proxy.port}") as channel,
    ):
        sample_nothing(proxy)
        for turn in range(TURNS):
            await ask_on(channel, "unary_unary", (message(turn),), method=QUERY)
        ways = [Way() for _ in range(3)]
        for turn, way in enumerate(ways, TURNS):
            with way:
                seen = await ask_on(channel, "unary_unary", (message(turn),), method=QUERY)
            assert ids(seen) == [0, 2, 4, 6]
    check(ways, functions=MOST_GRPC_FUNCTIONS, changes=MOST_GRPC_CHANGES)


async def test_the_way_of_a_gated_write() -> None:
    async with (
        database(finding((9, 0.99))) as upstream,
        running(upstream.url, policy={"write": {"mode": "annotate"}}) as proxy,
    ):
        await raw_exchange(proxy.port, put(upsert(1)))
        with Way() as way:
            await raw_exchange(proxy.port, put(upsert(2)))
        assert [b"_vecsieve" in body for body in written(upstream)] == [True, True]
    check([way], functions=MOST_GATED_FUNCTIONS, changes=MOST_GATED_CHANGES)
