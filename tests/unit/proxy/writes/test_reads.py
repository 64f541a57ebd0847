"""What the gate asks the database for is read beside the loop where it is large, however small the write is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, TypeVar, cast

import pytest

from vecsieve.adapters.contract import Question
from vecsieve.proxy.runtime.loop import LongWork
from vecsieve.proxy.search.exchange import Questioner
from vecsieve.proxy.writes.reads import INLINE_BYTES, Reads

T = TypeVar("T")


@dataclass
class Work:
    """Runs everything at once, and counts it."""

    runs: int = 0

    async def run(self, work: Callable[[], T]) -> T:
        self.runs += 1
        return work()


@dataclass(frozen=True)
class Write:
    plain: bytes


@pytest.mark.parametrize(
    ("write", "replies", "is_long"),
    [
        (10, [], False),
        (INLINE_BYTES, [], False),
        (INLINE_BYTES + 1, [], True),
        (10, [INLINE_BYTES], True),
        (10, [INLINE_BYTES // 2, INLINE_BYTES // 2], True),
        (10, [100, 100], False),
    ],
)
async def test_large_replies_are_read_beside_the_loop(write: int, replies: list[int], is_long: bool) -> None:
    work = Work()
    unused: Any = None
    reads = Reads(unused, unused, unused, breaker=unused, work=cast("LongWork", work))
    exchange = cast("Questioner", Write(bytes(write)))
    assert await reads.done(exchange, lambda: 7, [bytes(size) for size in replies]) == 7
    assert work.runs == is_long


async def test_a_read_that_is_late_before_it_begins_takes_no_probe_of_the_breaker() -> None:
    unused: Any = None
    services: Any = SimpleNamespace(clock=lambda: 10.0)
    reads = Reads(unused, unused, services, breaker=unused, work=unused)
    with pytest.raises(TimeoutError):
        await reads.ask(cast("Questioner", Write(b"")), Question(method="GET", target="/"), until=10.0)
