"""The request fence: one of the two places that catch every exception, so that our bug is never the client's error.

Parsing hostile bytes can end in RecursionError or MemoryError as well as in any ValueError, so the fence cannot be a
list. It catches Exception, never BaseException: cancellation passes through.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

T = TypeVar("T")


async def first_standing(rungs: Sequence[Callable[[], Awaitable[T]]], fell: Callable[[Exception], None]) -> T | None:
    """The first rung's result, else the next one's; None when all fell. ``fell`` hears of each failure, in order.

    No rung may have sent a byte to the client: what follows a fall is another answer to the same request.
    """
    for rung in rungs:
        try:
            return await rung()
        except Exception as error:  # noqa: BLE001 - the fence: whatever broke in our part, a lower rung answers
            fell(error)
    return None
