"""S7: stored texts that are cheap to store and dear to read: the loop turns, the memory stays, in every mode and transport."""

from __future__ import annotations

import asyncio
import json
import tempfile
import threading
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import grpc
import numpy as np
from bench.processes import environment as importable
from qdrant_client import grpc as pb

from prove.finding import Finding, Scale
from prove.turns import longest
from prove.usage import MIB, forget_peak, usage
from support.grpc.upstream import Arrived, Context, grpc_upstream
from support.network.faulty_upstream import FaultyUpstream, Received, answering, reply
from support.process.stack import Command, exchange
from support.qdrant.scripted import JSON

POINTS, DIMENSIONS, TOP_K = 50, 64, 10
ROUNDS = 3
AFTER_SECONDS = {
    "on": 0.5,
    "shadow": 0.5 + ROUNDS * 0.6,
}  # shadow measures beside the answers, and rests behind large replies
LEAST_READ = {"on": ROUNDS, "shadow": 1}  # pools of hostile texts, or nothing was measured
TURN_SECONDS, RISE_BYTES = 0.05, 64 * MIB
QUERY = "/qdrant.Points/Query"


def template(number: int, *, words: int, letters: int) -> str:
    """A text that fills eight gaps of a template with words of its own."""
    made = [f"w{at}" for at in range(words)]
    for gap in range(8):
        made[3 + gap * (words // 8)] = f"{'abcdefghij'[number // 10]}{'klmnopqrst'[number % 10]}" * (letters // 2)
    return " ".join(made)


# One text of each of the fifty points. The first ones are those that froze the process before texts had bounds.
TEXTS: Mapping[str, Callable[[int], str]] = {
    "ordinary texts": lambda number: f"chunk {number}: " + "a sentence of usual words, as there are many. " * 20,
    "one text of 50,000 combining marks": lambda number: (
        "a" + "\u0301\u0323" * 25_000 if not number else f"short {number}"
    ),
    "one text of 99,000 combining marks": lambda number: (
        "a" + "\u0301\u0323" * 49_500 if not number else f"short {number}"
    ),
    "marks parted by invisible characters": lambda number: ("\u0301\u0323" * 14 + "\u200b") * 1_000 + str(number),
    "95,000 times U+FDFA": lambda _: "\ufdfa" * 95_000,
    "99,000 Chinese characters": lambda number: "".join(
        chr(0x4E00 + at * (number + 1) % 20_000) for at in range(99_000)
    ),
    "49,900 lines of a dash": lambda number: "-\n" * 49_900 + str(number),
    "2,000 lines, broken words": lambda number: "a-\nb c\n" * 2_000 + str(number),
    "99,000 letters in one word": lambda number: "w" * 99_000 + str(number),
    "one-letter words": lambda number: "a b " * 24_000 + str(number),
    "20,000 letters that fold apart": lambda number: "\u0390" * 20_000 + str(number),
    "emoji joined by the thousand": lambda number: "👩\u200d👩\u200d👧" * 8_000 + str(number),
    "9,000 characters of Arabic digits": lambda number: "١٢٣ " * 2_250 + str(number),
    "4,500 numbers": lambda number: "1," * 4_500 + str(number),
    "short texts of numbers": lambda number: "1," * 60 + str(number),
    "one-letter sentences": lambda number: f"{number} " + "Aa. " * 24_000,
    "one template, 400 words": lambda number: template(number, words=400, letters=5),
    "one template, words of 1,200 letters": lambda number: template(number, words=60, letters=1_200),
    "400 words of 50 letters": lambda number: " ".join(
        f"w{at}x{number if not at % 40 else ''}" * 9 for at in range(390)
    ),
    "words with 2,400 marks": lambda number: " ".join("!" * 1_200 + f"w{at}x{number}" + "?" * 1_200 for at in range(8)),
    "texts as large as a reply may be": lambda number: "x" * 320_000 + str(number),
}


@lru_cache(maxsize=1)
def vectors() -> np.ndarray[Any, np.dtype[np.float32]]:
    """Fifty in two neighbourhoods: the 600 pairs within one are nearer than the median, so that their texts are compared, and too far
    apart for the vectors to decide.
    """
    drawn = np.random.default_rng(7)
    centres, around = drawn.normal(size=(2, DIMENSIONS)), drawn.normal(size=(POINTS, DIMENSIONS))
    return (centres[np.arange(POINTS) % 2] + 0.6 * around).astype(np.float32)


@lru_cache(maxsize=len(TEXTS))
def texts(name: str) -> tuple[str, ...]:
    """The texts of a pool."""
    return tuple(TEXTS[name](number) for number in range(POINTS))


def http_reply(name: str, first: int) -> bytes:
    """What the database answers to a widened search: points of ids from ``first`` on."""
    points = [
        {
            "id": first + number,
            "version": 1,
            "score": round(0.99 - number / 200, 3),
            "payload": {"text": text},
            "vector": vectors()[number].round(6).tolist(),
        }
        for number, text in enumerate(texts(name))
    ]
    document = {"result": {"points": points}, "status": "ok", "time": 0.001}
    return reply(json.dumps(document, ensure_ascii=False, separators=(",", ":")).encode(), headers=[JSON])


def grpc_reply(name: str, first: int) -> bytes:
    """The same over gRPC."""
    made: Any = pb.QueryResponse(time=0.001)
    for number, text in enumerate(texts(name)):
        point = made.result.add(version=1, score=0.99 - number / 200)
        point.id.num = first + number
        point.payload["text"].string_value = text
        point.vectors.vector.dense.data.extend(vectors()[number].tolist())
    serialized: bytes = made.SerializeToString()
    return serialized


def plain_reply() -> bytes:
    """What the database answers to the client's own search."""
    points = [{"id": number, "version": 1, "score": 0.9} for number in range(TOP_K)]
    return reply(json.dumps({"result": {"points": points}, "status": "ok", "time": 0.001}).encode(), headers=[JSON])


@dataclass
class Hostile:
    """A database that answers each widened search with the next of these, whose points are new: what is known of a point is not read again.
    ``given``: how many it has answered so. The last one is repeated.
    """

    replies: list[bytes]
    given: int = 0

    def widened(self) -> bytes:
        """The next reply."""
        self.given += 1
        return self.replies.pop(0) if len(self.replies) > 1 else self.replies[0]

    def answer(self, received: Received) -> bytes:
        """Over HTTP."""
        query = json.loads(received.content) if received.content else {}
        return self.widened() if query.get("with_vector") else plain_reply()

    async def play(self, call: Arrived, context: Context) -> None:
        """Over gRPC."""
        message = await call.read(context)
        request: Any = pb.QueryPoints.FromString(message or b"")
        if request.HasField("with_vectors"):
            await context.write(self.widened())
        else:
            response: Any = pb.QueryResponse(time=0.001)
            for number in range(TOP_K):
                response.result.add(version=1, score=0.9).id.num = number
            await context.write(response.SerializeToString())


@dataclass
class Watch:
    """Asks the admin listener whether it lives, again and again, in a thread of its own."""

    admin: str
    slowest: float = 0.0
    _over: threading.Event = field(default_factory=threading.Event)

    def run(self) -> None:
        """Until it is told to end."""
        while not self._over.wait(0.003):
            begun = time.monotonic()
            exchange(self.admin, "GET", "/livez")
            self.slowest = max(self.slowest, time.monotonic() - begun)

    def end(self) -> None:
        """No more questions."""
        self._over.set()


@asynccontextmanager
async def target(mode: str, database: Hostile, turns: Path) -> AsyncIterator[tuple[Command, int, str]]:
    """The proxy's own command in front of the database, over both protocols: the port and the admin listener's URL."""
    async with FaultyUpstream(answering(database.answer)) as upstream, grpc_upstream(Query=database.play) as calls:
        where = ("--upstream", upstream.url, "--grpc-upstream", calls.address, "--mode", mode)
        settings = {**importable(), "VECSIEVE_SHADOW_SAMPLE": "1.0", "PROVE_TURNS": str(turns)}
        ports = ("--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0")
        command = Command(("serve", *where, *ports), settings, module="prove.turns")
        try:
            urls = await asyncio.to_thread(command.addresses, 2)
            yield command, urlsplit(urls["serve"]).port or 0, urls["admin"]
        finally:
            await asyncio.to_thread(command.close)


def question(number: int) -> list[float]:
    """The query of a search; a search that repeats an earlier one fetches less."""
    return np.random.default_rng(number).normal(size=DIMENSIONS).tolist()  # type: ignore[no-any-return]  # - of one dimension


async def searched_over_http(port: int, number: int) -> bool:
    """One search without payload, as clients send it; whether it was answered."""
    body = json.dumps({"query": question(number), "limit": TOP_K, "with_payload": False}).encode()
    answer = await asyncio.to_thread(exchange, f"http://127.0.0.1:{port}", "POST", "/collections/c/points/query", body)
    return answer.status == 200 and len(json.loads(answer.body)["result"]["points"]) == TOP_K


async def searched_over_grpc(port: int, number: int) -> bool:
    """The same over gRPC."""
    nearest = pb.VectorInput(dense=pb.DenseVector(data=question(number)))
    message: Any = pb.QueryPoints(collection_name="c", limit=TOP_K, query=pb.Query(nearest=nearest))
    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
        response: Any = pb.QueryResponse.FromString(
            await channel.unary_unary(QUERY)(message.SerializeToString(), timeout=30)
        )
    return len(response.result) == TOP_K


SEARCHES = {"REST": searched_over_http, "gRPC": searched_over_grpc}
REPLIES = {"REST": http_reply, "gRPC": grpc_reply}
POOLS = 2 * ROUNDS  # a search may need a larger pool: a second one


def replies(name: str, transport: str, first: int) -> list[bytes]:
    """Of pools of new points."""
    return [REPLIES[transport](name, first + POINTS * pool) for pool in range(POOLS)]


async def measured(name: str, mode: str, transport: str) -> list[Finding]:
    """A pool of its own process: nothing of it is remembered."""
    hostile = replies(name, transport, POINTS * POOLS)  # made before the clock runs
    database = Hostile(replies("ordinary texts", transport, 0))
    ask = SEARCHES[transport]
    async with AsyncExitStack() as ends:
        turns = Path(ends.enter_context(tempfile.TemporaryDirectory())) / "turns"
        command, port, admin = await ends.enter_async_context(target(mode, database, turns))
        for number in range(ROUNDS):
            await ask(port, number)
        database.replies, database.given = hostile, 0
        pid = command.process.pid
        forget_peak(pid)
        before, (_, earlier) = usage([pid]), longest(turns)
        watch = Watch(admin)
        watching = asyncio.create_task(asyncio.to_thread(watch.run))
        is_answered = all([await ask(port, ROUNDS + number) for number in range(ROUNDS)])
        await asyncio.sleep(AFTER_SECONDS[mode])
        watch.end()
        await watching
        after, (turn, _) = usage([pid]), longest(turns, earlier)
    what = f"50 × {name}, {mode}, {transport}"
    rise = after.peak - before.resident
    words = (
        f"{before.resident / MIB:.0f} MiB before, {after.peak / MIB:.0f} at the peak, {after.resident / MIB:.0f} after"
    )
    is_read = database.given >= LEAST_READ[mode]
    slowest = (
        f"longest turn {1000 * turn:.0f} ms{'' if is_answered else ', not all answered'}, {database.given} pools read"
    )
    return [
        Finding(
            "S7", what, "loop held ≤ 50 ms of CPU, answered", slowest, is_answered and is_read and turn <= TURN_SECONDS
        ),
        Finding("S7", what, "/livez beside it", f"slowest {1000 * watch.slowest:.0f} ms", None),
        Finding("S7", what, "memory ≤ 64 MiB more", words, rise <= RISE_BYTES),
    ]


async def prove(_: Scale) -> list[Finding]:
    """Each pool in each mode over each transport."""
    return [
        finding
        for name in TEXTS
        for mode in ("on", "shadow")
        for transport in SEARCHES
        for finding in await measured(name, mode, transport)
    ]
