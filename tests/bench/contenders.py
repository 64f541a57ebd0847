"""What runs in a comparison: the database, VecSieve, the bare relays, nginx; and what VecSieve says of the searches it answered."""

from __future__ import annotations

import contextlib
import json
import re
import shutil
import sys
import tempfile
import urllib.request
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import MappingProxyType

from bench.processes import listening, project_module
from support.network.ports import free_port

NGINX_RELAY = """
daemon off; master_process off; pid {directory}/relay.pid; error_log {directory}/relay.log;
events {{ worker_connections 512; }}
http {{
  access_log off; keepalive_requests 100000000;
  client_body_temp_path {directory}/b; proxy_temp_path {directory}/p; fastcgi_temp_path {directory}/f;
  uwsgi_temp_path {directory}/u; scgi_temp_path {directory}/s;
  upstream database {{ server 127.0.0.1:{upstream}; keepalive 64; }}
  server {{
    listen 127.0.0.1:{port} backlog=512;
    location / {{ proxy_pass http://database; proxy_http_version 1.1; proxy_set_header Connection ""; }}
  }}
}}
"""
NGINX_PATHS = "/usr/sbin:/usr/local/sbin:/usr/bin:/usr/local/bin:/opt/homebrew/bin"
SAMPLE = re.compile(r"^(vecsieve_\w+)(?:\{(.*)\})? (\S+)$", re.MULTILINE)
# On a crowded machine a search may miss its deadline, and its client gets the plain answer. More than this share of those, and
# the figure is one of something else; the tables show the share.
MOST_UNSELECTED = 0.5


# By default searches pass through while a turn of the loop takes 30 ms, which here is what other work on the machine takes.
LAG_ALLOWED = {"VECSIEVE_LIMITS_LAG_SECONDS": "10"}


class OtherSearchError(Exception):
    """The proxy answered, but too few searches were improved: its figure would be a figure of something else."""


@dataclass(frozen=True, slots=True)
class Server:
    """A running server: its port, and the process whose processor time and memory count."""

    port: int
    pid: int


@dataclass(frozen=True, slots=True)
class Database(Server):
    """``grpc_port``: 0 where it speaks HTTP alone."""

    grpc_port: int = 0

    def moved(self) -> dict[str, int]:
        """What it has sent so far: replies, bytes, searches, lookups."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/moved", timeout=10.0) as answer:
            moved: dict[str, int] = json.load(answer)["moved"]
        return moved


@dataclass(frozen=True, slots=True)
class Proxy(Server):
    """``grpc_port``: of the port for gRPC alone, 0 without one."""

    admin: int
    grpc_port: int = 0

    def metrics(self) -> dict[str, float]:
        """Every sample, by its name and labels as they stand in the exposition."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self.admin}/metrics", timeout=10.0) as answer:
            text = answer.read().decode()
        return {f"{name}{{{labels}}}": float(value) for name, labels, value in SAMPLE.findall(text)}

    def improved(self) -> tuple[float, float]:
        """Searches so far: those from which a copy was removed, and all."""
        seen = {at: value for at, value in self.metrics().items() if at.startswith("vecsieve_searches_total{")}
        return sum(value for at, value in seen.items() if 'outcome="dedup"' in at), sum(seen.values())


@contextlib.contextmanager
def vecsieve(
    upstream: Database, *options: str, mode: str = "on", variables: Mapping[str, str] = MappingProxyType({})
) -> Iterator[Proxy]:
    """The proxy as a user starts it, but for LAG_ALLOWED; a port for gRPC too where the database has one. ``variables``: of its environment.
    Raises DidNotStartError.
    """
    port, admin, grpc_port = free_port(), free_port(), free_port() if upstream.grpc_port else 0
    command = [str(Path(sys.executable).with_name("vecsieve")), "serve", "--mode", mode, *options]
    command += ["--upstream", f"http://127.0.0.1:{upstream.port}"]
    command += ["--listen", f"127.0.0.1:{port}", "--admin", f"127.0.0.1:{admin}"]
    if grpc_port:
        command += ["--grpc-upstream", f"127.0.0.1:{upstream.grpc_port}", "--grpc-listen", f"127.0.0.1:{grpc_port}"]
    with listening(command, grpc_port or port, **LAG_ALLOWED, **variables) as pid:
        yield Proxy(port, pid, admin, grpc_port)


@contextlib.contextmanager
def database(dimensions: int, *, has_grpc: bool = False) -> Iterator[Database]:
    """The store behind a port, or behind one for each transport. Raises DidNotStartError."""
    port, grpc_port = free_port(), free_port()
    command = project_module("database", str(port), str(dimensions))
    if has_grpc:
        command = project_module("grpc_database", str(grpc_port), str(dimensions), str(port))
    with listening(command, grpc_port if has_grpc else port) as pid:
        yield Database(port, pid, grpc_port if has_grpc else 0)


@contextlib.contextmanager
def relay(upstream_port: int, *, module: str) -> Iterator[Server]:
    """A relay of this module. Raises DidNotStartError."""
    port = free_port()
    with listening(project_module(module, str(port), str(upstream_port)), port) as pid:
        yield Server(port, pid)


# The least that a relay of grpc.aio, and an aiohttp relay, can do.
grpc_relay = partial(relay, module="grpc_relay")
bare_relay = partial(relay, module="bare_relay")


@contextlib.contextmanager
def nginx_relay(upstream_port: int) -> Iterator[Server | None]:
    """nginx as a reverse proxy, one process; None where it is not installed. Raises DidNotStartError."""
    nginx, port = shutil.which("nginx", path=NGINX_PATHS), free_port()
    if nginx is None:
        yield None
        return
    with tempfile.TemporaryDirectory(prefix="bench-") as name:
        settings = Path(name) / "relay.conf"
        settings.write_text(NGINX_RELAY.format(directory=name, upstream=upstream_port, port=port), encoding="ascii")
        with listening([nginx, "-p", name, "-c", str(settings)], port) as pid:
            yield Server(port, pid)


def unselected(before: tuple[float, float], after: tuple[float, float]) -> float:
    """The share of searches in between from which no copy was removed. Raises OtherSearchError when it is too large."""
    searches = after[1] - before[1]
    share = 1.0 - (after[0] - before[0]) / searches if searches else 1.0
    if share > MOST_UNSELECTED:
        raise OtherSearchError(f"{share:.0%} of {searches:.0f} searches were answered without removing a copy")
    return share
