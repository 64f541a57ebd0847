"""Weaviate's own client, in an environment of its own: it wants older versions of grpcio and protobuf than the proxy has."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from support.stack import command
from support.weaviate_server import Weaviate

VERSION = "4.23.1"
HOME = Path(__file__).resolve().parents[2] / ".clients" / f"weaviate-{VERSION}"
INTERPRETER = HOME / "bin" / "python"
SCENARIO = Path(__file__).with_name("weaviate_scenario.py")
SECONDS = 120.0

NEEDS_CLIENT = pytest.mark.skipif(
    not INTERPRETER.exists(),
    reason=f"no client of Weaviate here: python -m venv {HOME.name} in .clients, pip install weaviate-client=={VERSION} there",
)


@dataclass(frozen=True, slots=True)
class Place:
    """Where a client is pointed: a port for REST, and another for gRPC. ``admin``: the proxy's own."""

    rest: str
    grpc: str
    admin: str = ""


def direct(server: Weaviate) -> Place:
    """Without the proxy."""
    return Place(server.url, server.grpc)


@contextmanager
def fronted(server: Weaviate, mode: str | None, *options: str) -> Iterator[Place]:
    """The proxy in front of the emulator, for the block. ``mode``: None leaves it to the policies."""
    ports = ("--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--grpc-listen", "127.0.0.1:0")
    upstream = ("--upstream", server.url, "--grpc-upstream", server.grpc)
    modes = () if mode is None else ("--mode", mode)
    with command("serve", "--backend", "weaviate", *modes, *ports, *upstream, *options) as running:
        urls = running.addresses(3)
        yield Place(urls["serve"], urls["gRPC"].removeprefix("http://"), urls["admin"])


def told(place: Place, what: str) -> Any:
    """What the client saw. ``what``: fill or ask."""
    ports = (str(urlsplit(place.rest).port), place.grpc.rpartition(":")[2])
    done = subprocess.run(
        [str(INTERPRETER), str(SCENARIO), *ports, what], capture_output=True, text=True, timeout=SECONDS, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout)
