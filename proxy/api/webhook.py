"""The webhook: events of the write gate, sent in batches to the receiver that the settings name.

One task takes events from a bounded queue, so no write ever waits for the receiver. A batch that fails is sent again twice under the same
`webhook-id`, then given up and counted: delivery is at most three attempts, and no event outlives the process. Requests go through a
connection pool of their own, with the checks of the database's: TLS is verified, redirects are not followed.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from functools import partial
from secrets import token_hex

from vecsieve.config.addresses import origin_of
from vecsieve.config.applications import WebhookSettings
from vecsieve.config.schema import UpstreamSettings
from vecsieve.proxy.admin.access import token_in
from vecsieve.proxy.http.upstream import Upstream
from vecsieve.proxy.search.errors import first_success
from vecsieve.proxy.telemetry.labels import Delivery, EventSink
from vecsieve.proxy.telemetry.log import FIELDS
from vecsieve.proxy.telemetry.metrics import Metrics
from vecsieve.proxy.writes.events import Feed, Told, batch, key_of, signed

LOGGER = logging.getLogger("vecsieve.webhook")
SECRET_FILE = "webhook.secret_file"  # noqa: S105 - the name of a setting
BATCH_BYTES = 256 * 1024
ANSWER_BYTES = 64 * 1024  # more of an answer is not read: its connection ends
WAITS = (0.0, 1.0, 5.0)  # seconds before each attempt
FLUSH_SECONDS = 1.0  # a silent receiver must not delay the end of a process
CONNECTIONS = 2


class Webhook:
    """The webhook of one process. Make it inside the event loop. Raises SettingsError for an unusable secret."""

    def __init__(
        self,
        settings: WebhookSettings,
        url: str,
        upstream: UpstreamSettings,
        feed: Feed,
        *,
        metrics: Metrics,
        now: Callable[[], float],
    ) -> None:
        origin = origin_of(url)
        self._path = url.removeprefix(origin) or "/"
        self._key = key_of(token_in(settings.secret_file, SECRET_FILE) or b"")
        self._seconds = settings.deadline_seconds
        self._sender = Upstream(upstream.model_copy(update={"url": origin, "pool_connections": CONNECTIONS}))
        self._queue = feed.listener(EventSink.WEBHOOK, settings.queue_bytes)
        self._metrics = metrics
        self._now = now
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._task = asyncio.create_task(self._run(), name="vecsieve-webhook")

    async def close(self) -> None:
        """Send what waits, for a moment; the rest is dropped and counted."""
        self._queue.end()
        if self._task is not None:
            await asyncio.wait([self._task], timeout=FLUSH_SECONDS)
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        self._queue.forget()
        await self._sender.close()

    async def _run(self) -> None:
        while (taken := await self._queue.take(most_bytes=BATCH_BYTES)) is not None:
            if taken.events:
                await self._delivered(taken.events, taken.dropped)

    async def _delivered(self, events: list[Told], dropped: int) -> None:
        body = batch([told.data for told in events], dropped)
        own = token_hex(16)
        is_done = False
        try:
            for seconds in WAITS:
                await asyncio.sleep(seconds)
                is_done = await first_success([partial(self._sent, body, own)], _failed) or False
                result = Delivery.DELIVERED if is_done else Delivery.FAILED
                self._metrics.webhook_requests_total.labels(result).inc()
                if is_done:
                    return
        finally:
            if not is_done:
                self._queue.drop(len(events))

    async def _sent(self, body: bytes, own: str) -> bool:
        """Whether the receiver took it. Raises UpstreamExchangeError and ReplyTooLargeError."""
        fields = {"content-type": "application/json", **signed(self._key, body, id=own, seconds=int(self._now()))}
        async with self._sender.send(
            method="POST",
            raw_target=self._path,
            headers=tuple((name.encode(), value.encode()) for name, value in fields.items()),
            body=body,
            deadline_seconds=self._seconds,
        ) as reply:
            await reply.read_bounded(ANSWER_BYTES)
            if not (is_taken := 200 <= reply.status < 300):
                LOGGER.warning("the webhook's receiver refused events", extra={FIELDS: {"status": reply.status}})
            return is_taken


def _failed(error: Exception) -> None:
    LOGGER.warning("the webhook's receiver was not reached", extra={FIELDS: {"error": type(error).__name__}})
