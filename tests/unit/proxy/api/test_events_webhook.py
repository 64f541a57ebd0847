"""The webhook against a real receiver: signed batches, repeated when they fail, bounded and counted."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from msgspec import Raw
from prometheus_client import CollectorRegistry

from support.deploy.expositions import value
from support.network.ports import free_ports
from support.network.streams import serving
from support.process.hook_receiver import Receiver, receiving
from vecsieve.config.applications import WebhookSettings
from vecsieve.config.problems import SettingsError
from vecsieve.config.schema import UpstreamSettings
from vecsieve.proxy.api import events as webhook
from vecsieve.proxy.api.events import QUEUE_BYTES, Webhook
from vecsieve.proxy.telemetry.metrics import Metrics
from vecsieve.proxy.writes.events import EventName, EventPoint, Feed

SECRET = b"a secret of a good length"


@dataclass(frozen=True, slots=True)
class Sending:
    feed: Feed
    hook: Webhook
    registry: CollectorRegistry

    def emit(self, number: int) -> None:
        self.feed.emit(EventName.ADDED, "c", [EventPoint(id=Raw(b"%d" % number))])

    def count(self, name: str, **labels: str) -> float:
        return value(self.registry, name, **labels)

    async def until(self, name: str, count: float, **labels: str) -> None:
        async with asyncio.timeout(30):
            while self.count(name, **labels) < count:
                await asyncio.sleep(0.01)


@asynccontextmanager
async def sending(url: str, folder: Path, *, queue_bytes: int = QUEUE_BYTES) -> AsyncIterator[Sending]:
    (folder / "secret").write_bytes(SECRET + b"\n")
    registry = CollectorRegistry()
    metrics = Metrics(registry, backend="qdrant")
    feed = Feed(now=lambda: 1.0, dropped=lambda sink, count: metrics.events_dropped_total.labels(sink).inc(count))
    settings = WebhookSettings.model_validate({"url": url, "secret_file": str(folder / "secret")})
    made = Webhook(
        settings, url, UpstreamSettings(), feed, metrics=metrics, now=lambda: 1_800_000_000.9, queue_bytes=queue_bytes
    )
    made.start()
    try:
        yield Sending(feed, made, registry)
    finally:
        await made.close()


@pytest.fixture
def _short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(webhook, "WAITS", (0.0, 0.01, 0.01))


async def test_events_come_signed_at_the_path_of_the_url(tmp_path: Path) -> None:
    with receiving() as receiver:
        async with sending(f"{receiver.url}/hook/", tmp_path) as sender:
            sender.emit(1)
            await sender.until("webhook_requests_total", 1, result="delivered")
            sender.emit(2)
            await sender.until("webhook_requests_total", 2, result="delivered")
    assert [point["id"] for event in receiver.events for point in event["points"]] == [1, 2]
    assert set(receiver.paths) == {"/hook/"}
    assert receiver.is_signed_by(SECRET)
    assert not receiver.is_signed_by(b"another secret of that length")
    assert {head["content-type"] for head in receiver.headers} == {"application/json"}


@pytest.mark.usefixtures("_short_waits")
async def test_a_batch_that_is_refused_comes_again_under_the_same_id_and_is_then_given_up(tmp_path: Path) -> None:
    with receiving() as receiver:
        receiver.statuses = [500, 429, 204, 500, 307, 404]
        async with sending(receiver.url, tmp_path) as sender:
            sender.emit(1)
            await sender.until("webhook_requests_total", 1, result="delivered")
            sender.emit(2)
            await sender.until("events_dropped_total", 1, sink="webhook")
            sender.emit(3)
            await sender.until("webhook_requests_total", 2, result="delivered")
            assert sender.count("webhook_requests_total", result="failed") == 5
    assert [len({head["webhook-id"] for head in receiver.headers[at : at + 3]}) for at in (0, 3)] == [1, 1]
    assert "/elsewhere" not in receiver.paths
    assert [json.loads(body)["dropped"] for body in (receiver.bodies[0], receiver.bodies[-1])] == [0, 1]


@pytest.mark.usefixtures("_short_waits")
async def test_without_a_receiver_events_are_dropped_and_counted_and_the_queue_is_bounded(tmp_path: Path) -> None:
    (port,) = free_ports(1)
    async with sending(f"http://127.0.0.1:{port}", tmp_path, queue_bytes=400) as sender:
        for number in range(50):
            sender.emit(number)
        await sender.until("events_dropped_total", 50, sink="webhook")
    assert sender.count("webhook_requests_total", result="delivered") == 0


async def test_at_the_end_what_waits_is_sent(tmp_path: Path) -> None:
    with receiving() as receiver:
        async with sending(receiver.url, tmp_path) as sender:
            for number in range(5):
                sender.emit(number)
    assert [point["id"] for event in receiver.events for point in event["points"]] == [0, 1, 2, 3, 4]


async def test_a_silent_receiver_holds_up_no_end_and_what_waits_is_counted(tmp_path: Path) -> None:
    async def silent(reader: asyncio.StreamReader, _writer: asyncio.StreamWriter) -> None:
        await reader.read()

    async with serving(silent) as port, sending(f"http://127.0.0.1:{port}", tmp_path) as sender:
        sender.emit(1)
        await asyncio.sleep(0.05)
        sender.emit(2)
        async with asyncio.timeout(20):
            await sender.hook.close()
        assert sender.count("events_dropped_total", sink="webhook") == 2


def test_a_secret_that_is_too_short_is_refused(tmp_path: Path) -> None:
    (tmp_path / "secret").write_bytes(b"short")
    settings = WebhookSettings(url="http://127.0.0.1:1", secret_file=str(tmp_path / "secret"))
    feed = Feed(now=lambda: 1.0, dropped=lambda _sink, _count: None)
    metrics = Metrics(CollectorRegistry(), backend="qdrant")
    with pytest.raises(SettingsError, match="secret_file"):
        Webhook(settings, "http://127.0.0.1:1", UpstreamSettings(), feed, metrics=metrics, now=lambda: 1.0)


@pytest.fixture(autouse=True)
def _no_waiting_for_a_receiver(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(webhook, "FLUSH_SECONDS", 0.3)


def test_the_receiver_knows_a_changed_body() -> None:
    """A check of the check above."""
    receiver = Receiver(bodies=[b"{}"], headers=[{"webhook-id": "a", "webhook-timestamp": "1"}])
    assert not receiver.is_signed_by(SECRET)
