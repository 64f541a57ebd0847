from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from vecsieve.proxy.search.errors import first_success

Rung = Callable[[], Awaitable[str]]


def failing(error: Exception) -> Rung:
    async def rung() -> str:
        raise error

    return rung


async def standing() -> str:
    return "stands"


@pytest.mark.parametrize("error", [ValueError("x"), RecursionError(), MemoryError(), KeyError("k"), AssertionError()])
async def test_whatever_breaks_the_next_rung_answers_and_the_failure_is_heard(error: Exception) -> None:
    heard: list[Exception] = []
    assert await first_success([failing(error), standing], heard.append) == "stands"
    assert heard == [error]


async def test_a_standing_rung_leaves_the_lower_ones_alone() -> None:
    def untouchable() -> Awaitable[str]:
        raise AssertionError("the lower rung was entered")

    heard: list[Exception] = []
    assert await first_success([standing, untouchable], heard.append) == "stands"


async def test_when_all_fall_nothing_is_returned_and_each_is_heard_in_order() -> None:
    first, second = ValueError("first"), ValueError("second")
    heard: list[Exception] = []
    assert await first_success([failing(first), failing(second)], heard.append) is None
    assert heard == [first, second]


async def test_cancellation_passes_through_unheard() -> None:
    async def cancelled() -> str:
        raise asyncio.CancelledError

    heard: list[Exception] = []
    with pytest.raises(asyncio.CancelledError):
        await first_success([cancelled, standing], heard.append)
    assert heard == []
