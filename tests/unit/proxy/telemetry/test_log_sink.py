"""Lines reach the reader in order and whole; a reader who stalls or leaves costs lines and nothing else."""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from vecsieve.proxy.telemetry.log import PollingSink, ThreadedSink

LINE = b"x" * 99 + b"\n"


class Losses:
    """Counts lost lines."""

    def __init__(self) -> None:
        self.lines = 0

    def __call__(self) -> None:
        self.lines += 1


@pytest.fixture
def losses() -> Losses:
    return Losses()


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    read, write = os.pipe()
    yield read, write
    for descriptor in (read, write):
        try:
            os.close(descriptor)
        except OSError:
            continue  # the test closed it


def fill(descriptor: int) -> int:
    """Fill a pipe to the brim; returns how many bytes that took."""
    flags = fcntl.fcntl(descriptor, fcntl.F_GETFL)
    fcntl.fcntl(descriptor, fcntl.F_SETFL, flags | os.O_NONBLOCK)
    written = 0
    try:
        while True:
            written += os.write(descriptor, LINE)
    except BlockingIOError:
        return written
    finally:
        fcntl.fcntl(descriptor, fcntl.F_SETFL, flags)


def test_lines_are_written_in_order_before_closing_returns(pipe: tuple[int, int], losses: Losses) -> None:
    read, write = pipe
    sink = ThreadedSink(write, on_drop=losses)
    for number in range(500):
        sink.put(b"%d\n" % number)
    sink.close()
    assert os.read(read, 65536).split() == [b"%d" % number for number in range(500)]
    assert losses.lines == 0


def test_a_stalled_reader_costs_lines_and_no_time(pipe: tuple[int, int], losses: Losses) -> None:
    read, write = pipe
    fill(write)
    sink = ThreadedSink(write, queued_lines=10, on_drop=losses)
    started = time.monotonic()
    for _ in range(1000):
        sink.put(LINE)
    assert time.monotonic() - started < 5.0
    assert 1000 - 10 - 1 <= losses.lines <= 990
    while os.read(read, 65536) == b"":
        pass
    sink.close()


def test_closing_gives_up_on_a_stalled_reader(pipe: tuple[int, int]) -> None:
    read, write = pipe
    fill(write)
    sink = ThreadedSink(write, queued_lines=1)
    sink.put(LINE)
    sink.put(LINE)
    started = time.monotonic()
    sink.close()
    assert time.monotonic() - started < 10.0
    os.read(read, 65536)  # let the thread end


def test_a_reader_who_left_costs_lines_and_no_exception(pipe: tuple[int, int], losses: Losses) -> None:
    read, write = pipe
    os.close(read)
    sink = ThreadedSink(write, on_drop=losses)
    for _ in range(5):
        sink.put(LINE)
    sink.close()
    assert losses.lines == 5


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full to stand for a full disk")
def test_a_full_disk_costs_lines_and_no_exception(losses: Losses) -> None:
    descriptor = os.open("/dev/full", os.O_WRONLY)
    try:
        for sink in (ThreadedSink(descriptor, on_drop=losses), PollingSink(descriptor)):
            sink.put(LINE)
            sink.close()
        assert losses.lines == 1
    finally:
        os.close(descriptor)


def test_a_reader_who_comes_back_gets_whole_lines(tmp_path: Path) -> None:
    target = tmp_path / "log"
    descriptor = os.open(target, os.O_WRONLY | os.O_CREAT)
    try:
        sink = ThreadedSink(descriptor)
        sink.put(b"one\n")
        sink.put(b"two\n")
        sink.close()
    finally:
        os.close(descriptor)
    assert target.read_bytes() == b"one\ntwo\n"


def test_a_descriptor_that_somebody_made_non_blocking_still_gets_everything(
    pipe: tuple[int, int], losses: Losses
) -> None:
    read, write = pipe
    filled = fill(write)
    fcntl.fcntl(write, fcntl.F_SETFL, os.O_NONBLOCK)
    sink = ThreadedSink(write, on_drop=losses)
    sink.put(b"late\n")
    seen = b""
    while len(seen) < filled + 5:
        seen += os.read(read, 65536)
    sink.close()
    assert seen.endswith(b"late\n")
    assert losses.lines == 0


def test_polling_writes_at_once_where_there_is_room(pipe: tuple[int, int]) -> None:
    read, write = pipe
    sink = PollingSink(write)
    sink.put(b"now\n")
    assert os.read(read, 100) == b"now\n"


def test_polling_never_waits_for_a_stalled_reader_and_drops_the_line(pipe: tuple[int, int]) -> None:
    read, write = pipe
    filled = fill(write)
    PollingSink(write).put(b"lost\n")
    seen = 0
    while seen < filled:
        seen += len(os.read(read, 65536))
    os.close(write)
    assert (seen, os.read(read, 100)) == (filled, b"")
