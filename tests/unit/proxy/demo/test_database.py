"""JSON with one host: what is sent, what comes back, and what a refusal says. And child processes, which always end."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from unittest import mock

import numpy as np
import orjson
import pytest

from support.pinecone.emulator import emulated
from support.process.demo_runs import is_alive
from support.process.stack import exchange
from vecsieve.proxy.demo import database
from vecsieve.proxy.demo.database import (
    ANY_PORT,
    ChildFailedError,
    DatabaseRefusedError,
    Host,
    child,
    fronted,
)


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


# Child processes: announced addresses, failures told, always ended.


PYTHON = (sys.executable, "-c")
READY = "fake listening on"


@pytest.mark.parametrize(
    ("is_kept", "taken", "listen", "admin"),
    [
        (True, (), "127.0.0.1:6343", "127.0.0.1:9464"),
        (True, ("127.0.0.1:6343",), ANY_PORT, "127.0.0.1:9464"),
        (False, (), ANY_PORT, ANY_PORT),
    ],
)
def test_a_demo_that_stays_has_the_usual_ports_if_they_are_free(
    is_kept: bool, taken: tuple[str, ...], listen: str, admin: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun: list[str] = []

    @contextmanager
    def started(arguments: Sequence[str], *, announces: Sequence[str], **_: object) -> Iterator[dict[str, str]]:
        begun.extend(arguments)
        yield dict.fromkeys(announces, "http://127.0.0.1:1")

    monkeypatch.setattr(database, "child", started)
    monkeypatch.setattr(database, "is_free", lambda address: address not in taken)
    with database.fronted("http://127.0.0.1:2", backend="qdrant", is_kept=is_kept):
        assert (begun[begun.index("--listen") + 1], begun[begun.index("--admin") + 1]) == (listen, admin)


def test_a_port_in_use_is_not_free() -> None:
    with socket.create_server(("127.0.0.1", 0)) as there:
        address = f"127.0.0.1:{there.getsockname()[1]}"
        assert not database.is_free(address)
    assert database.is_free("127.0.0.1:0")


WAITS = "import time\ntime.sleep(60)\n"


def announcing(*lines: str, then: str = WAITS) -> str:
    return f"print({chr(10).join(lines)!r}, flush=True)\n{then}"


def run(script: str, *announces: str, seconds: float = 20.0) -> Mapping[str, str]:
    with (
        mock.patch.object(database, "START_SECONDS", seconds),
        child((script,), announces=announces, program=PYTHON) as urls,
    ):
        return urls


def test_each_announced_address_is_found_among_other_lines() -> None:
    script = announcing("hello", f"{READY} http://127.0.0.1:4711", "noise http://no.where", "b admin on http://[::1]:9")
    urls = run(script, READY, "b admin on")
    assert urls == {READY: "http://127.0.0.1:4711", "b admin on": "http://[::1]:9"}


def test_the_process_is_gone_after_the_block() -> None:
    with child((announcing_pid(),), announces=("pid",), program=PYTHON) as urls:
        pid = int(urls["pid"].rpartition(":")[2])
        assert is_alive(pid)
    assert not is_alive(pid)


def announcing_pid(then: str = WAITS) -> str:
    return f"import os\nprint(f'pid http://x:{{os.getpid()}}', flush=True)\n{then}"


def test_the_process_is_gone_after_an_error_in_the_block() -> None:
    seen: list[int] = []
    with pytest.raises(KeyboardInterrupt):
        interrupted(seen)
    assert not is_alive(seen[0])


def interrupted(seen: list[int]) -> None:
    with child((announcing_pid(),), announces=("pid",), program=PYTHON) as urls:
        seen.append(int(urls["pid"].rpartition(":")[2]))
        raise KeyboardInterrupt


def test_a_process_that_ends_early_is_told_with_its_code_and_last_words() -> None:
    with pytest.raises(ChildFailedError, match=r"ended with code 3(.|\n)*address in use") as caught:
        run("import sys\nsys.stderr.write('address in use')\nsys.exit(3)", READY)
    assert "did not start" in str(caught.value)


def test_a_silent_process_is_given_up_and_ended() -> None:
    started = time.monotonic()
    with pytest.raises(ChildFailedError, match="has printed nothing"):
        run(WAITS, READY, seconds=0.2)
    assert time.monotonic() - started < 10


def test_an_address_that_never_comes_is_missed_even_when_others_came() -> None:
    with pytest.raises(ChildFailedError):
        run(announcing(f"{READY} http://127.0.0.1:1", then=""), READY, "other")


def test_only_the_last_lines_are_told() -> None:
    with pytest.raises(ChildFailedError) as caught:
        run("for number in range(500): print('line', number)", READY)
    assert "line 499" in str(caught.value)
    assert "line 0\n" not in str(caught.value)


def test_a_child_that_talks_on_is_never_blocked_by_a_full_pipe() -> None:
    flood = "import sys\nfor _ in range(300): print('x' * 1000)\nprint('done http://x:1', flush=True)\n" + WAITS
    assert run(flood, "done") == {"done": "http://x:1"}


def test_output_that_is_no_utf_8_does_no_harm() -> None:
    script = "import sys\nsys.stdout.buffer.write(b'\\xff\\xfe\\n')\n" + announcing(f"{READY} http://127.0.0.1:1")
    assert run(script, READY) == {READY: "http://127.0.0.1:1"}


def test_the_users_own_settings_do_not_reach_the_child(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VECSIEVE_MODE", "off")
    script = "import os\nprint('seen', 'VECSIEVE_MODE' in os.environ, 'http://x:1', flush=True)\n" + WAITS
    assert run(script, "seen False") == {"seen False": "http://x:1"}


def test_ctrl_c_in_the_terminal_does_not_reach_the_child() -> None:
    script = f"import os\nprint('group', os.getsid(0) == os.getpid(), 'http://x:{os.getpid()}', flush=True)\n" + WAITS
    assert run(script, "group True")


def test_a_child_that_ignores_the_request_to_end_is_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(database, "STOP_SECONDS", 0.2)
    stubborn = "import signal\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\n" + announcing_pid()
    with child((stubborn,), announces=("pid",), program=PYTHON) as urls:
        pid = int(urls["pid"].rpartition(":")[2])
    assert not is_alive(pid)


def test_a_child_that_has_already_ended_is_no_trouble() -> None:
    with child((announcing_pid(then=""),), announces=("pid",), program=PYTHON) as urls:
        pid = int(urls["pid"].rpartition(":")[2])
        deadline = time.monotonic() + 10
        while is_running(pid) and time.monotonic() < deadline:
            time.sleep(0.01)
    assert not is_alive(pid)


def is_running(pid: int) -> bool:
    """Alive and not merely waiting to be collected."""
    return Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()[0] != "Z"


def test_the_command_line_is_the_program_by_default() -> None:
    with (
        pytest.raises(ChildFailedError, match="vecsieve no-such-command did not start"),
        child(("no-such-command",), announces=(READY,)),
    ):
        pass


def test_a_signal_while_a_child_is_being_started_still_ends_it(monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[int] = []
    real = subprocess.Popen

    def interrupted(*arguments: object, **options: object) -> subprocess.Popen[str]:
        process: subprocess.Popen[str] = real(*arguments, **options)  # type: ignore[call-overload]  # - passed through
        started.append(process.pid)
        signal.raise_signal(signal.SIGINT)  # as if it came between fork and return
        return process

    monkeypatch.setattr(subprocess, "Popen", interrupted)
    with pytest.raises(KeyboardInterrupt):
        run(announcing(f"{READY} http://127.0.0.1:1"), READY)
    assert len(started) == 1
    assert not is_alive(started[0])


# The proxy of the demo, in front of what is to be asked.


def test_the_proxy_leads_to_the_engine_and_its_admin_pages_are_there() -> None:
    with emulated() as emulator, fronted(emulator.url, backend="pinecone") as at:
        assert at.engine == emulator.url
        assert exchange(at.proxy, "GET", "/indexes", headers={"Api-Key": "any"}).body == b'{"indexes":[]}'
        assert json.loads(exchange(at.admin, "GET", "/egress").body)["searches"] == 0
        assert exchange(at.admin, "GET", "/livez").status == 200


def test_a_proxy_that_cannot_start_says_why() -> None:
    with (
        pytest.raises(ChildFailedError, match=r"vecsieve serve did not start(.|\n)*upstream"),
        fronted("nonsense", backend="qdrant"),
    ):
        pass
