"""The emulator as a process: it says where it listens, answers there, and ends when it is told to."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest

from support.stack import exchange
from vecsieve.proxy.demo.emulating import READY


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_it_says_where_it_is_answers_there_and_ends_without_a_complaint(number: signal.Signals) -> None:
    command = (sys.executable, "-m", "vecsieve.proxy.demo.emulating")
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            line = process.stdout.readline().strip()
            assert line.startswith(f"{READY} http://127.0.0.1:")
            assert exchange(line.rpartition(" ")[2], "GET", "/indexes", headers={"Api-Key": "any"}).status == 200
            process.send_signal(number)
            _, complaint = process.communicate(timeout=20)
        finally:
            process.kill()
    assert (process.returncode, complaint) == (0, "")
