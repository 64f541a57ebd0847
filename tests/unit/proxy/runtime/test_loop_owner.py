from __future__ import annotations

import asyncio
import gc
import logging
from typing import Any

import pytest

from vecsieve.proxy.runtime.loop import Owner


class Unexpected:
    """What the loop would print of tasks whose exceptions nobody retrieved."""

    def __init__(self) -> None:
        self.contexts: list[dict[str, Any]] = []
        asyncio.get_running_loop().set_exception_handler(lambda _, context: self.contexts.append(context))


async def failing(begun: asyncio.Event | None = None) -> None:
    if begun is not None:
        await begun.wait()
    raise RuntimeError("secret words")


async def settled() -> None:
    for _ in range(3):
        await asyncio.sleep(0)
    gc.collect()


async def test_work_without_a_waiter_that_fails_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    unexpected, owner = Unexpected(), Owner()
    owner.start(failing())
    await settled()
    assert len(owner) == 0
    assert [(record.levelno, record.name) for record in caplog.records] == [(logging.ERROR, "vecsieve.loop")]
    assert "secret" not in caplog.records[0].getMessage()
    assert unexpected.contexts == []


async def test_a_failure_that_its_waiter_gets_is_not_logged(caplog: pytest.LogCaptureFixture) -> None:
    with pytest.raises(RuntimeError):
        await Owner().to_the_end(failing())
    await settled()
    assert caplog.records == []


@pytest.mark.parametrize("times", [1, 2])
async def test_a_failure_after_its_waiter_has_left_is_logged_once(times: int, caplog: pytest.LogCaptureFixture) -> None:
    unexpected, owner, begun = Unexpected(), Owner(), asyncio.Event()
    waiter = asyncio.create_task(owner.to_the_end(failing(begun)))
    for _ in range(times):
        await asyncio.sleep(0)
        waiter.cancel()
    await asyncio.sleep(0)
    begun.set()
    with pytest.raises(asyncio.CancelledError):
        await waiter
    await settled()
    assert [record.name for record in caplog.records] == ["vecsieve.loop"]
    assert unexpected.contexts == []


async def test_work_that_is_cancelled_at_the_end_is_not_logged(caplog: pytest.LogCaptureFixture) -> None:
    owner = Owner()
    owner.start(failing(asyncio.Event()))
    await asyncio.sleep(0)
    await owner.close()
    await settled()
    assert caplog.records == []
