"""Writes whose clients have gone: once sent whole they are seen through, because cutting them could undo half of one.

Qdrant drops a request's work when its connection closes. A client that goes away before its body was sent whole takes
the write with it, as it would without a proxy.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine

from vecsieve.proxy.failures import ClientBodyError, UpstreamFailure
from vecsieve.proxy.http.raw_request import Upload
from vecsieve.proxy.http.reply import UpstreamReply


class Writes:
    """Owns the writes that outlive their clients."""

    def __init__(self) -> None:
        self._left_behind: set[asyncio.Task[None]] = set()

    def __len__(self) -> int:
        return len(self._left_behind)

    async def see_through(self, opening: Coroutine[None, None, UpstreamReply], upload: Upload | None) -> UpstreamReply:
        """Await the reply to a write. On cancellation it goes on alone when its body was sent whole, else it is cut.

        A write without a body counts as sent: it was when its head was.
        """
        task = asyncio.create_task(opening, name="vecsieve-write")
        try:
            await asyncio.wait({task})
        except asyncio.CancelledError:
            self._leave(task, cut=upload is not None and not upload.is_sent)
            raise
        return task.result()

    async def close(self, *, grace_seconds: float) -> None:
        """Wait for the writes left behind, then cut what remains."""
        if not self._left_behind:
            return
        _, late = await asyncio.wait(self._left_behind, timeout=grace_seconds)
        for task in late:
            task.cancel()
        await asyncio.gather(*late, return_exceptions=True)

    def _leave(self, task: asyncio.Task[UpstreamReply], *, cut: bool) -> None:
        if cut:
            task.cancel()
        rest = asyncio.create_task(_finish(task), name="vecsieve-write-left-behind")
        self._left_behind.add(rest)
        rest.add_done_callback(self._left_behind.discard)


async def _finish(task: asyncio.Task[UpstreamReply]) -> None:
    """Wait for the reply's head: the database has done the work. Nobody is left to be told."""
    try:
        await asyncio.wait({task})
    except asyncio.CancelledError:
        task.cancel()
        raise
    if task.cancelled():
        return
    try:
        reply = task.result()
    except (UpstreamFailure, ClientBodyError):
        return
    await reply.close()
