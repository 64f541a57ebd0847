"""A stand-in for the model that Weaviate's text2vec-transformers asks over HTTP: each word has a direction of its own, and a text's
vector is the sum of its words'.

Texts of the same words are near each other, others are not; the same text always has the same vector.
"""

from __future__ import annotations

import json
import random
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

DIMENSION = 128


def vector_of(text: str) -> list[float]:
    """Of a text without words, its first axis."""
    words = [random.Random(word) for word in text.lower().split()]
    sums = [sum(word.gauss(0, 1) for word in words) for _ in range(DIMENSION)]
    return sums if words else [1.0, *sums[1:]]


class _Model(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        """Ready, and nothing to say of itself."""
        self._answer({})

    def do_POST(self) -> None:
        """The vector of a text."""
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        vector = vector_of(body["text"])
        self._answer({"text": body["text"], "dims": len(vector), "vector": vector})

    def _answer(self, content: dict[str, Any]) -> None:
        body = json.dumps(content).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *arguments: Any) -> None:  # noqa: A002 - the base class's name for it
        """Nothing."""


@contextmanager
def listening() -> Iterator[str]:
    """Its URL, for the block."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Model)
    thread = threading.Thread(target=server.serve_forever, name="word model", daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join(5)
