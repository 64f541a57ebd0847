"""The event of a sweep's end goes to the operator's own address, once, within its time, and no secret is printed."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from threading import Thread
from typing import Any, cast

import pytest

from support.process.hook_receiver import receiving
from vecsieve.config.problems import SettingsError
from vecsieve.proxy.jobs.sweep import event
from vecsieve.proxy.jobs.sweep.event import Receiver
from vecsieve.proxy.jobs.sweep.report import Report


@dataclass(frozen=True)
class Done:
    """The end of a sweep."""

    collection: str = "c"
    points: int = 1
    pairs: int = 0
    redundant: int = 0
    families: int = 0
    applied: Any = None


DONE = cast(Report, Done())


@pytest.fixture
def secret(tmp_path: Path) -> Path:
    path = tmp_path / "secret"
    path.write_bytes(b"a secret of a good length")
    return path


@contextmanager
def repeating(piece: bytes, *, pause: float = 0.0) -> Iterator[str]:
    """The URL of a receiver that says this for ever."""
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def serve() -> None:
            connection, _ = listening.accept()
            with connection, suppress(OSError):
                while True:
                    connection.sendall(piece)
                    time.sleep(pause)

        thread = Thread(target=serve)
        thread.start()
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"
        thread.join()


@pytest.mark.parametrize(
    ("piece", "pause"),
    [(b"HTTP/1.1 100 Continue\r\n\r\n", 0.001), (b"H", 0.1)],
)
def test_a_receiver_without_an_end_is_given_up_in_time(
    secret: Path, monkeypatch: pytest.MonkeyPatch, piece: bytes, pause: float
) -> None:
    monkeypatch.setattr(event, "SECONDS", 0.5)
    with repeating(piece, pause=pause) as url:
        started = time.monotonic()
        assert Receiver(url, secret).send(DONE) is not None
        assert time.monotonic() - started < 5


def test_a_redirect_is_not_followed(secret: Path) -> None:
    with receiving() as receiver:
        receiver.statuses = [307]
        assert Receiver(f"{receiver.url}/hook", secret).send(DONE) == "status 307"
    assert receiver.paths == ["/hook"]


def test_no_proxy_of_the_environment_is_asked(secret: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "HTTP_PROXY", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    with receiving() as receiver:
        assert Receiver(receiver.url, secret).send(DONE) is None


@pytest.mark.parametrize(
    "url",
    [
        "http://user:hunter2@host/hook",
        "http://host/hook?token=hunter2",
        "http://host/hook#hunter2",
        "https://hunter2@169.254.169.254",
        "ftp://user:hunter2@host",
    ],
)
def test_an_address_with_a_secret_is_refused_without_showing_it(secret: Path, url: str) -> None:
    with pytest.raises(SettingsError, match="--webhook") as caught:
        Receiver(url, secret)
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize("url", ["http://169.254.169.254", "http://10.0.0.1:80/hook", "http://[::1]:1", "http://hook"])
def test_an_address_within_the_operators_network_is_the_operators_choice(secret: Path, url: str) -> None:
    Receiver(url, secret)
