"""The watch of C sees a listener that is held up, and its judge a loop that is held too long."""

from __future__ import annotations

import time
from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Thread

from prove.costly_bodies import HELD_SECONDS, Watch, held

HOLD_SECONDS = 0.2


class Held(BaseHTTPRequestHandler):
    """Answers at once, but for the third request of a connection."""

    protocol_version = "HTTP/1.1"
    answered = 0

    def do_GET(self) -> None:
        self.answered += 1
        if self.answered == 3:
            time.sleep(HOLD_SECONDS)
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the library's own name
        """Nothing."""


def test_a_listener_that_is_held_up_is_seen() -> None:
    with HTTPServer(("127.0.0.1", 0), Held) as server:
        Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        with Watch(f"http://127.0.0.1:{server.server_port}") as watch:
            time.sleep(2 * HOLD_SECONDS)
        server.shutdown()
    assert watch.slowest >= HOLD_SECONDS


def test_a_loop_that_is_held_too_long_is_unmet() -> None:
    assert held("a body", 0.004, 0.004 + HELD_SECONDS, HELD_SECONDS).met
    assert not held("a body", 0.004, 0.005 + HELD_SECONDS, HELD_SECONDS).met
