"""A receiver of the webhook: takes requests over HTTP on a thread of its own, and keeps every one."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from support.network.http_scripts import Script, in_a_thread
from vecsieve.proxy.writes.events import signed


@dataclass(slots=True)
class Receiver:
    """What came. ``statuses``: what the next requests are answered with; then 204."""

    url: str = ""
    statuses: list[int] = field(default_factory=list)
    bodies: list[bytes] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    paths: list[str] = field(default_factory=list)

    @property
    def events(self) -> list[dict[str, Any]]:
        """Each request once, in their order."""
        bodies = dict(zip((head["webhook-id"] for head in self.headers), self.bodies, strict=True))
        return [event for body in bodies.values() for event in json.loads(body)["events"]]

    def wait_for_points(self, collection: str, name: str, count: int, seconds: float = 30.0) -> list[dict[str, Any]]:
        """So many points of a collection's events of this name, once they are there."""
        until = time.monotonic() + seconds
        while True:
            events = [event for event in self.events if (event["collection"], event["event"]) == (collection, name)]
            points = [point for event in events for point in event["points"]]
            if len(points) >= count:
                return points
            assert time.monotonic() < until, f"of {name} came {points}"
            time.sleep(0.02)

    def is_signed_by(self, secret: bytes) -> bool:
        """Whether all requests are."""
        return all(
            signed(secret, body, id=head["webhook-id"], seconds=int(head["webhook-timestamp"])).items() <= head.items()
            for body, head in zip(self.bodies, self.headers, strict=True)
        )


@contextmanager
def receiving() -> Iterator[Receiver]:
    receiver = Receiver()

    class Hook(Script):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            receiver.paths.append(self.path)
            receiver.headers.append({name.lower(): value for name, value in self.headers.items()})
            receiver.bodies.append(self.content())
            status = receiver.statuses.pop(0) if receiver.statuses else 204
            self.answer(status=status, fields={"Location": "/elsewhere"} if status == 307 else {})

    with in_a_thread(Hook) as receiver.url:
        yield receiver
