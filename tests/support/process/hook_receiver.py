"""A receiver of the webhook: takes requests over HTTP on a thread of its own, and keeps every one."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

from vecsieve.proxy.writes.events import signed


@dataclass(slots=True)
class Receiver:
    """What came. ``statuses``: what the next requests are answered with; then 204."""

    port: int = 0
    statuses: list[int] = field(default_factory=list)
    bodies: list[bytes] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    paths: list[str] = field(default_factory=list)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

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

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            receiver.paths.append(self.path)
            receiver.headers.append({name.lower(): value for name, value in self.headers.items()})
            receiver.bodies.append(body)
            status = receiver.statuses.pop(0) if receiver.statuses else 204
            self.send_response(status)
            if status == 307:
                self.send_header("Location", "/elsewhere")
            if status != 204:
                self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Nothing is printed."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    receiver.port = server.server_address[1]
    thread = Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield receiver
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
