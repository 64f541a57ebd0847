from __future__ import annotations

import asyncio
import contextlib
import socket
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from vecsieve.proxy.grpc.connections import LONGEST_PATH_BYTES, InnerSocket
from vecsieve.proxy.grpc.frames import Calls


@contextlib.contextmanager
def listening(inner: InnerSocket, backlog: int = 16) -> Iterator[socket.socket]:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as server:
        server.bind(inner.path)
        server.listen(backlog)
        yield server


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
