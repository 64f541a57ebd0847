"""JSON with one host: what is sent, what comes back, and what a refusal says."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, HTTPServer

import numpy as np
import orjson
import pytest

from vecsieve.proxy.demo.database import DatabaseRefusedError, Host


@dataclass(slots=True)
class Invalidation:
    """What a server was sent, and what it answers with."""

    url: str
    status: int = 200
    answer: bytes = b'{"a":1}'
    requests: list[tuple[str, str, dict[str, str], bytes]] = field(default_factory=list)
    ports: set[int] = field(default_factory=set)


@pytest.fixture
def heard() -> Iterator[Invalidation]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", "0")))
            fields = {name.lower(): value for name, value in self.headers.items()}
            state.requests.append((self.command, self.path, fields, body))
            state.ports.add(self.client_address[1])
            self.send_response(state.status)
            self.send_header("X-Said", "Yes")
            self.send_header("Content-Length", str(len(state.answer)))
            self.end_headers()
            self.wfile.write(state.answer)

        def do_GET(self) -> None:
            self.do_POST()

        def log_message(self, *_: object) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    state = Invalidation(f"http://127.0.0.1:{server.server_port}")
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield state
    finally:
        server.shutdown()
        thread.join(10)
        server.server_close()


def test_the_answer_is_read_and_its_fields_are_named_in_lower_case(heard: Invalidation) -> None:
    with closing(Host(heard.url)) as host:
        answer, fields = host.sent("GET", "/indexes")
    assert answer == {"a": 1}
    assert fields["x-said"] == "Yes"
    assert [(method, path, body) for method, path, _, body in heard.requests] == [("GET", "/indexes", b"")]


def test_a_path_in_the_url_stands_before_every_requests_own(heard: Invalidation) -> None:
    with closing(Host(f"{heard.url}/_i/127.0.0.1:9")) as host:
        host.sent("GET", "/query")
    assert heard.requests[0][1] == "/_i/127.0.0.1:9/query"


def test_a_body_goes_as_json_with_numbers_that_read_back_as_they_were(heard: Invalidation) -> None:
    vector = np.array([0.1, -1.5, 3e-8], dtype=np.float32)
    with closing(Host(heard.url, {"Api-Key": "k"})) as host:
        host.sent("POST", "/query", {"vector": vector, "topK": 3})
    _, _, fields, body = heard.requests[0]
    assert (fields["api-key"], fields["content-type"]) == ("k", "application/json")
    sent = orjson.loads(body)
    assert sent["topK"] == 3
    assert np.array_equal(np.array(sent["vector"], dtype=np.float32), vector)


def test_the_connection_is_kept(heard: Invalidation) -> None:
    with closing(Host(heard.url)) as host:
        for _ in range(3):
            host.sent("GET", "/")
    assert len(heard.requests) == 3
    assert len(heard.ports) == 1


@pytest.mark.parametrize("status", [301, 400, 404, 500])
def test_a_refusal_names_the_request_the_status_and_what_was_said(heard: Invalidation, status: int) -> None:
    heard.status, heard.answer = status, b"no such index" + b"." * 500
    with (
        closing(Host(heard.url)) as host,
        pytest.raises(
            DatabaseRefusedError, match=rf"POST /query was answered with {status}: no such index\.+$"
        ) as caught,
    ):
        host.sent("POST", "/query", {})
    assert len(str(caught.value)) < 300


def test_nobody_there_is_an_error_of_the_connection() -> None:
    with closing(Host("http://127.0.0.1:1")) as host, pytest.raises(ConnectionRefusedError):
        host.sent("GET", "/")
