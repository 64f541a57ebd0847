from __future__ import annotations

import asyncio
import contextlib
import socket
import stat
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from support.network.relay_server import Invalidation
from vecsieve.proxy.grpc.connections import (
    FLOODING_SECONDS,
    LONGEST_PATH_BYTES,
    LONGEST_PAUSE_SECONDS,
    MOST_ADDRESSES,
    PAUSE_SECONDS,
    InnerSocket,
    SharedConnection,
    SharedConnections,
)
from vecsieve.proxy.grpc.frames import Calls
from vecsieve.proxy.http.connections import Connections


class Visitor(SharedConnection):
    """A connection that ends when it is cut, or never."""

    is_unsent = False

    def __init__(self, connections: SharedConnections, *, may_finish: bool = False, ends: bool = True) -> None:
        self.connections = connections
        self.may_finish = may_finish
        self.ends = ends
        self.cuts = 0
        self.goodbyes = 0

    def send_goaway(self) -> None:
        self.goodbyes += 1

    def leave(self) -> None:
        raise AssertionError("only an idle connection is asked to leave")

    def cut(self) -> None:
        self.cuts += 1
        if self.ends:
            self.connections.leave(self)


def connections(limit: int = 10) -> tuple[SharedConnections, Connections, Invalidation]:
    heard = Invalidation()
    ledger = Connections(limit=limit, events=heard)
    return SharedConnections(ledger), ledger, heard


async def test_guests_count_in_the_ledger_and_its_limit_holds_for_them() -> None:
    here, ledger, heard = connections(limit=2)
    first, second, third = (Visitor(here) for _ in range(3))
    assert here.enter(first)
    assert here.enter(second)
    assert not here.enter(third)
    assert (len(here), len(ledger), heard.rejected) == (2, 2, ["limit"])
    here.leave(first)
    assert here.enter(third)
    assert len(ledger) == 2


async def test_leaving_twice_or_without_a_place_is_nothing() -> None:
    here, ledger, _ = connections()
    stays, goes = Visitor(here), Visitor(here)
    here.enter(stays)
    here.leave(goes)
    here.enter(goes)
    here.leave(goes)
    here.leave(goes)
    assert len(ledger) == 1


async def test_closing_cuts_the_undecided_at_once_and_lets_the_others_finish() -> None:
    here, _, _ = connections()
    undecided, busy = Visitor(here), Visitor(here, may_finish=True)
    here.enter(undecided)
    here.enter(busy)
    closing = asyncio.create_task(here.close(grace_seconds=30))
    await asyncio.sleep(0)
    assert (undecided.cuts, busy.cuts) == (1, 0)
    await asyncio.sleep(0)
    assert not closing.done()
    here.leave(busy)
    await asyncio.wait_for(closing, 10)
    assert busy.cuts == 0


async def test_one_that_never_ends_does_not_hold_up_the_exit() -> None:
    here, _, _ = connections()
    stays = Visitor(here, ends=False)
    here.enter(stays)
    await asyncio.wait_for(here.close(grace_seconds=0), 5)
    assert stays.cuts > 0, "it was cut, though in vain"
    assert len(here) == 1


async def test_nobody_enters_a_closed_house() -> None:
    here, ledger, _ = connections()
    await here.close(grace_seconds=0)
    assert not here.enter(Visitor(here))
    assert len(ledger) == 0


async def test_closing_with_nobody_there_takes_no_time_and_tasks_are_cancelled() -> None:
    here, _, _ = connections()
    waiting = here.tasks.start(asyncio.sleep(60, None))
    await here.close(grace_seconds=60)
    assert waiting.cancelled()


async def test_those_are_counted_who_are_owed_something() -> None:
    here, _, _ = connections()
    waits, content = Visitor(here), Visitor(here)
    waits.is_unsent = True
    assert here.enter(waits)
    assert here.enter(content)
    assert here.unsent == 1
    here.leave(waits)
    assert here.unsent == 0


async def test_everybody_is_asked_to_leave_once_who_comes_later_as_well() -> None:
    here, _, _ = connections()
    early, late = Visitor(here), Visitor(here)
    here.enter(early)
    here.send_goaway()
    here.send_goaway()
    here.enter(late)
    assert (early.goodbyes, late.goodbyes) == (1, 1)


@pytest.fixture
async def clock(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    """Stops the loop's clock; sets it."""
    loop = asyncio.get_running_loop()
    begun = loop.time()

    def at(seconds: float) -> None:
        monkeypatch.setattr(loop, "time", lambda: begun + seconds)

    at(0.0)
    return at


@pytest.mark.usefixtures("clock")
async def test_connections_of_an_address_that_floods_begin_one_after_another_and_others_at_once() -> None:
    here, _, _ = connections()
    assert here.pause_seconds("10.0.0.1") is None
    for _ in range(100):
        here.cut_flood("10.0.0.1")
    pauses = [here.pause_seconds("10.0.0.1") for _ in range(3)]
    assert pauses == pytest.approx([0.0, PAUSE_SECONDS, 2 * PAUSE_SECONDS])
    assert here.pause_seconds("10.0.0.2") is None


@pytest.mark.usefixtures("clock")
async def test_no_connection_waits_longer_than_the_longest_pause() -> None:
    here, _, _ = connections()
    here.cut_flood("10.0.0.1")
    pauses = [here.pause_seconds("10.0.0.1") or 0.0 for _ in range(1000)]
    assert max(pauses) == pauses[-1] == pytest.approx(LONGEST_PAUSE_SECONDS)


async def test_an_address_that_stopped_flooding_waits_no_more(clock: Callable[[float], None]) -> None:
    here, _, _ = connections()
    here.cut_flood("10.0.0.1")
    here.pause_seconds("10.0.0.1")
    clock(FLOODING_SECONDS)
    assert [here.pause_seconds("10.0.0.1") for _ in range(2)] == [None, None]


async def test_the_addresses_of_those_that_were_cut_are_bounded() -> None:
    here, _, _ = connections()
    for number in range(2 * MOST_ADDRESSES):
        here.cut_flood(str(number))
    assert MOST_ADDRESSES / 2 < len(here._flooding) <= MOST_ADDRESSES


@contextlib.contextmanager
def listening(inner: InnerSocket, backlog: int = 16) -> Iterator[socket.socket]:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as server:
        server.bind(inner.path)
        server.listen(backlog)
        yield server


async def test_a_connection_holds_a_whole_read_on_its_way() -> None:
    inner = InnerSocket(Calls())
    with listening(inner), await inner.connect() as connected, socket.socket(socket.AF_UNIX) as usual:
        sizes = [one.getsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF) for one in (connected, usual)]
    inner.close()
    assert sizes[0] > sizes[1]


async def test_it_lies_in_a_directory_of_its_own_which_goes_with_it() -> None:
    inner = InnerSocket(Calls())
    directory = Path(inner.path).parent
    assert inner.grpc == f"unix:{inner.path}"
    assert stat.S_IMODE(directory.stat().st_mode) == 0o700
    with listening(inner), await inner.connect():
        pass
    inner.close()
    assert not directory.exists()


async def test_without_a_place_for_a_directory_it_has_an_abstract_name(monkeypatch: pytest.MonkeyPatch) -> None:
    def read_only(prefix: str) -> None:
        raise OSError(30, "Read-only file system", prefix)

    monkeypatch.setattr(tempfile, "TemporaryDirectory", read_only)
    inner, other = InnerSocket(Calls()), InnerSocket(Calls())
    assert inner.path.startswith("\0vecsieve-")
    assert inner.grpc == f"unix-abstract:{inner.path[1:]}"
    assert inner.path != other.path
    with listening(inner), await inner.connect():
        pass
    inner.close()


async def test_a_path_too_long_for_the_kernel_is_not_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    deep = tmp_path / ("d" * LONGEST_PATH_BYTES)
    deep.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(deep))
    inner = InnerSocket(Calls())
    assert inner.path.startswith("\0")
    assert list(deep.iterdir()) == []


async def test_where_nobody_listens_connecting_fails_at_once() -> None:
    inner = InnerSocket(Calls())
    with pytest.raises(FileNotFoundError):
        await inner.connect()
    inner.close()


async def test_a_full_backlog_is_waited_out() -> None:
    inner = InnerSocket(Calls())
    with listening(inner, backlog=0) as server, await inner.connect():
        late = asyncio.create_task(inner.connect())
        await asyncio.sleep(0.05)
        assert not late.done(), "control: the backlog was to be full"
        accepted, _ = server.accept()
        with accepted, await late as connected:
            assert connected.getpeername() == inner.path
    inner.close()


async def test_giving_up_on_a_full_backlog_leaves_no_socket_open() -> None:
    inner = InnerSocket(Calls())
    with listening(inner, backlog=0), await inner.connect():
        open_before = len(list(Path("/proc/self/fd").iterdir()))
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.05):
                await inner.connect()
        assert len(list(Path("/proc/self/fd").iterdir())) == open_before
    inner.close()
