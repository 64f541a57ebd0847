"""The board's numbers belong to one place each, and a child's are seen by its parent."""

from __future__ import annotations

import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vecsieve.proxy.process.runtime import Board, Phase


def test_everything_is_zero_at_first() -> None:
    board = Board(2)
    assert [(board.pid(n), board.phase(n), board.restarts(n), board.heartbeat_ms(n)) for n in range(2)] == [
        (0, Phase.EMPTY, 0, 0)
    ] * 2
    assert not board.is_draining


def test_a_process_takes_its_place() -> None:
    board = Board(2)
    board.begin(1, 4711, now_ms=5000)
    board.set_phase(1, Phase.READY)
    board.count_restart(1)
    board.count_restart(1)
    board.beat(1, 6000)
    assert (board.pid(1), board.phase(1), board.restarts(1), board.heartbeat_ms(1)) == (4711, Phase.READY, 2, 6000)
    assert (board.pid(0), board.phase(0), board.restarts(0), board.heartbeat_ms(0)) == (0, Phase.EMPTY, 0, 0)


def test_draining_touches_no_place() -> None:
    board = Board(1)
    board.drain()
    assert board.is_draining
    assert board.pid(0) == 0


@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 2**62)), max_size=40))
def test_writes_to_one_place_are_never_seen_in_another(writes: list[tuple[int, int]]) -> None:
    """Invariant: each place reads back the last number written to it, and no other."""
    board, last = Board(5), dict.fromkeys(range(5), 0)
    for place, number in writes:
        board.beat(place, number)
        last[place] = number
    assert [board.heartbeat_ms(place) for place in range(5)] == list(last.values())


def test_a_child_writes_and_its_parent_reads() -> None:
    program = (
        "import os\n"
        "from vecsieve.proxy.process.runtime import Board, Phase\n"
        "board = Board(1)\n"
        "pid = os.fork()\n"
        "if pid == 0:\n"
        "    board.set_phase(0, Phase.READY)\n"
        "    os._exit(0)\n"
        "os.waitpid(pid, 0)\n"
        "print(board.phase(0).name)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=30)
    assert done.stdout == "READY\n"


@pytest.mark.parametrize("place", [1, 7])
def test_there_is_nothing_beyond_the_last_place(place: int) -> None:
    with pytest.raises(IndexError):
        Board(1).pid(place)
