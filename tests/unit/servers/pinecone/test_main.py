"""The emulator as a process: it says where it listens, answers there, and ends when it is told to."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from bench.processes import free_port
from servers.pinecone.__main__ import main

from support.stack import exchange, serve
from vecsieve.proxy.demo.backends import EMULATOR, READY

PROGRAM = "tests/servers/pinecone"
DOCUMENT = (Path(__file__).resolve().parents[4] / "docs" / "pinecone.md").read_text(encoding="utf-8")
INDEX = {
    "name": "docs",
    "dimension": 3,
    "metric": "cosine",
    "spec": {"serverless": {"cloud": "aws", "region": "us-east-1"}},
}


def test_it_says_where_it_is_answers_there_and_ends_by_ctrl_c_without_a_complaint() -> None:
    command = (sys.executable, str(EMULATOR))
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            line = process.stdout.readline().strip()
            assert line.startswith(f"{READY} http://127.0.0.1:")
            assert exchange(line.rpartition(" ")[2], "GET", "/indexes", headers={"Api-Key": "any"}).status == 200
            process.send_signal(signal.SIGINT)
            _, complaint = process.communicate(timeout=60)
        finally:
            process.kill()
    assert (process.returncode, complaint) == (0, "")


def test_it_listens_where_it_is_told_and_the_proxy_finds_its_indexes() -> None:
    """The two commands of docs/pinecone.md."""
    port = free_port()
    assert f"python {PROGRAM} --listen 127.0.0.1:5080" in DOCUMENT
    assert "vecsieve serve --backend pinecone --upstream http://127.0.0.1:5080" in DOCUMENT
    command = (sys.executable, str(EMULATOR), "--listen", f"127.0.0.1:{port}")
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline().strip() == f"{READY} http://127.0.0.1:{port}"
            with serve(f"http://127.0.0.1:{port}", "--backend", "pinecone") as (proxy, _):
                made = exchange(proxy, "POST", "/indexes", json.dumps(INDEX).encode(), {"Api-Key": "any"})
                assert made.status == 201
                assert json.loads(made.body)["host"].startswith(f"{proxy}/_i/127.0.0.1:")
            process.send_signal(signal.SIGTERM)
            _, complaint = process.communicate(timeout=60)
        finally:
            process.kill()
    assert (process.returncode, complaint) == (0, "")


@pytest.mark.parametrize("where", ["nowhere", "127.0.0.1", "127.0.0.1:seventy"])
def test_an_address_that_is_none_is_a_usage_error(
    where: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", [PROGRAM, "--listen", where])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 2
    assert "--listen" in capsys.readouterr().err
