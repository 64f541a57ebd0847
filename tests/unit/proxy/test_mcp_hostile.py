"""Messages that no client sends: each costs itself alone, and the next one is answered."""

from __future__ import annotations

import io
import json
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Thread
from typing import Any

import pytest

from vecsieve.proxy import mcp
from vecsieve.proxy.mcp import Lines, Places, ToolError, called, tools_of

NOWHERE = "http://127.0.0.1:1"
BEGIN = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}}
EARLIER = (
    json.dumps({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": BEGIN}).encode()
    + b'\n{"jsonrpc":"2.0","method":"notifications/initialized"}\n'
)


def call(arguments: bytes, name: bytes = b'"optimize"') -> bytes:
    return b'{"jsonrpc":"2.0","id":5,"method":"tools/call","params":{"name":%s,"arguments":%s}}' % (name, arguments)


def ping(number: int, id: bytes | None = None) -> bytes:  # noqa: A002 - as in the protocol
    return b'{"jsonrpc":"2.0","id":%s,"method":"ping"}' % (b'"ping %d"' % number if id is None else id)


HOSTILE = (
    b"[" * 100_000 + b"]" * 100_000,
    call(b'{"a":' * 50_000 + b"1" + b"}" * 50_000),
    call(b'{"a":' * 190 + b"1" + b"}" * 190),
    call(b"[]", b"7"),
    call(b"null", b"null"),
    call(b'{"count":' + b"9" * 100_000 + b"}", b'"explain"'),
    call(b'{"collection":"c","vector":[1e999,NaN]}', b'"search"'),
    call(b'{"chunks":[{"id":1,"text":"\\ud800"}]}'),
    call(b"{}", b'"evil\\nvecsieve: a line\\u001b[31m"'),
    b'{"jsonrpc":"2.0","id":5,"method":"evil\\nvecsieve: a line"}',
    b'{"jsonrpc":"2.0","id":5,"method":"tools/call","params":null}',
    b'{"jsonrpc":"2.0","method":"tools/call","params":{"name":"optimize","arguments":{}}}',
    b'{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"nobody\'s"}}',
    b'{"jsonrpc":"2.0","id":99,"result":{}}',
    b"[" + ping(0, b"5") + b"," + ping(0, b"6") + b"]",
    ping(0, b'{"a":1}'),
    ping(0, b"9" * 5000),
    b"\xff\xfe\x00 no text",
    b"",
    b'{"jsonrpc":"2.0","id":5,"method":"ping","params":{"a":"' + b"x" * mcp.BODY_BYTES + b'"}}',
)


@contextmanager
def serving(url: str = NOWHERE) -> Iterator[subprocess.Popen[bytes]]:
    program = [sys.executable, "-m", "vecsieve.proxy", "mcp", "--url", url]
    with subprocess.Popen(program, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as running:
        try:
            yield running
        finally:
            running.kill()


def test_after_each_the_next_message_is_answered_and_nothing_is_logged() -> None:
    lines = [line for number, message in enumerate(HOSTILE) for line in (message, ping(number))]
    answers: list[dict[str, Any]] = []
    with serving() as running:
        assert running.stdin is not None
        assert running.stdout is not None
        feeding = Thread(target=running.stdin.write, args=(EARLIER + b"\n".join(lines) + b"\n{half",))
        feeding.start()
        pings = {f"ping {number}" for number in range(len(HOSTILE))}
        while pings:  # the input ends afterwards: the package drops calls that are not answered by then
            answers.append(json.loads(running.stdout.readline()))
            pings.discard(str(answers[-1].get("id")))
        feeding.join()
        _, err = running.communicate(timeout=60)
    assert running.returncode == 0
    assert err == b"", "no message reaches the log"


@pytest.mark.parametrize("size", [7, 8, 9, 16, 17, 100])
@pytest.mark.parametrize("end", [b"\n", b""])
def test_a_line_beyond_the_limit_takes_no_more_memory_and_the_next_one_is_whole(
    monkeypatch: pytest.MonkeyPatch, size: int, end: bytes
) -> None:
    monkeypatch.setattr(mcp, "BODY_BYTES", 8)
    read = list(iter(Lines(io.BytesIO(b"x" * size + end + b"next\n" * bool(end)), encoding="utf-8").readline, ""))
    assert read[0] == ("x" * size + end.decode() if size < 8 else read[0])
    assert max(map(len, read)) <= 8
    assert read[-1] == ("next\n" if end else read[0])


@pytest.mark.parametrize("collection", ["../../telemetry", "a/b?c#d", "a\r\nX: y", "", "x" * 5000])
@pytest.mark.parametrize("backend", ["qdrant", "milvus", "weaviate"])
async def test_whatever_a_model_asks_of_an_unusable_database_is_an_error_for_the_model(
    backend: str, collection: str
) -> None:
    unset: dict[str, Any] = dict.fromkeys(("admin_token", "tokenizer", "api_key_env"))
    known = {
        tool.name: tool
        for tool in tools_of(Places(backend=backend, url=NOWHERE, admin=NOWHERE, environment={}, **unset))
    }
    for tool, arguments in (("search", {"vector": [1.0]}), ("analyze", {})):
        with pytest.raises(ToolError):
            await called(known, tool, {"collection": collection, **arguments})


def test_a_call_that_waits_for_the_database_does_not_delay_the_end() -> None:
    with (
        socket.create_server(("127.0.0.1", 0)) as listening,
        serving(f"http://127.0.0.1:{listening.getsockname()[1]}") as running,
    ):
        assert running.stdin is not None
        running.stdin.write(EARLIER + call(b'{"collection":"c","vector":[1.0]}', b'"search"') + b"\n")
        running.stdin.flush()
        connection, _ = listening.accept()
        with connection:
            assert connection.recv(1), "the call waits for this connection's answer"
            running.stdin.close()
            assert running.wait(15.0) == 0  # half of the time that its client waits
