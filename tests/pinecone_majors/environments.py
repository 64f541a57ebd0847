"""One environment per major of each client, made once and kept: Python's by venv and pip, TypeScript's by npm."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import Enum
from pathlib import Path
from types import MappingProxyType

HERE = Path(__file__).resolve().parent
INSTALL_SECONDS = 600.0
SCENARIO_SECONDS = 120.0

# Exact, so that a red run is a change of ours. The newest of each major at the time of writing.
PYTHON: Mapping[str, str] = MappingProxyType(
    {"5": "5.4.2", "6": "6.0.2", "7": "7.3.0", "8": "8.1.2", "9": "9.1.0", "10": "10.2.0"}
)
TYPESCRIPT: Mapping[str, str] = MappingProxyType({"2": "2.2.2", "4": "4.1.0", "6": "6.1.4", "8": "8.2.0", "9": "9.0.0"})
# Up to 8, gRPC and (where there is one) asyncio want libraries by extras; from 9 on all is there.
EXTRAS: Mapping[str, str] = MappingProxyType(
    {"5": "[grpc]", "6": "[grpc,asyncio]", "7": "[grpc,asyncio]", "8": "[grpc,asyncio]"}
)
NO_ASYNCIO = frozenset({"5"})
# What makes an index that is opened by name speak gRPC in plaintext, where it is not said to the index itself.
PLAIN_GRPC = MappingProxyType({"10": (("PINECONE_GRPC_SCHEME", "http"),)})


class Way(Enum):
    """How a client reaches the emulator, directly and through the proxy. Only ``TLS`` has it, on both sides of the proxy."""

    REST = "rest"
    GRPC = "grpc"
    TLS = "tls"


class ScenarioFailedError(Exception):
    """A client's program ended badly. The message ends with what it printed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Client:
    """A client that can be run. ``command``: all but the control plane's URL and the plan.

    ``by``: the way on which it is put. ``environment``: what is said to it beside ours. ``companion``: of a client over gRPC
    the same one over REST, which must see the same.
    """

    name: str
    command: tuple[str, ...]
    after: tuple[str, ...]
    folder: Path
    by: Way = Way.REST
    environment: tuple[tuple[str, str], ...] = ()
    companion: Client | None = None

    def messages(self, control: str, plan: Path) -> str:
        """What it prints. Raises ScenarioFailedError."""
        done = subprocess.run(
            [*self.command, control, str(plan), *self.after],
            cwd=self.folder,
            env={**os.environ, **dict(self.environment)},
            capture_output=True,
            text=True,
            timeout=SCENARIO_SECONDS,
            check=False,
        )
        if done.returncode:
            raise ScenarioFailedError(f"{self.name} ended with status {done.returncode}:\n{done.stderr[-2000:]}")
        return done.stdout


def python(folder: Path, major: str) -> list[Client]:
    """The Python client of a major: sync, asyncio where it has it, gRPC plain and over TLS."""
    home = folder / f"py{major}"
    interpreter, installed = home / "bin" / "python", home / ".installed"
    requirement = f"pinecone{EXTRAS.get(major, '')}=={PYTHON[major]}"
    if not installed.exists() or installed.read_text(encoding="utf-8") != requirement:
        _run([sys.executable, "-m", "venv", "--clear", str(home)])
        _run([str(interpreter), "-m", "pip", "install", "--quiet", requirement])
        installed.write_text(requirement, encoding="utf-8")
    sync = Client(
        name=f"py{major} sync", command=(str(interpreter), str(HERE / "scenario.py")), after=("sync",), folder=home
    )
    over_grpc = replace(
        sync,
        name=f"py{major} grpc",
        after=("grpc",),
        by=Way.GRPC,
        environment=PLAIN_GRPC.get(major, ()),
        companion=sync,
    )
    made = [over_grpc, replace(over_grpc, name=f"py{major} grpc, TLS", by=Way.TLS, environment=(), companion=None)]
    if major not in NO_ASYNCIO:
        made.insert(0, replace(sync, name=f"py{major} asyncio", after=("asyncio",)))
    return [sync, *made]


def typescript(folder: Path, major: str) -> list[Client]:
    """The TypeScript client of a major."""
    home = folder / f"ts{major}"
    if not (home / ".installed").exists():
        shutil.rmtree(home, ignore_errors=True)
        home.mkdir(parents=True)
        (home / "package.json").write_text('{"private": true}\n', encoding="utf-8")
        package = f"@pinecone-database/pinecone@{TYPESCRIPT[major]}"
        _run(["npm", "install", "--silent", "--no-audit", "--no-fund", package], home)
        (home / ".installed").touch()
    return [Client(name=f"ts{major}", command=("node", str(HERE / "scenario.mjs")), after=(), folder=home)]


def _run(command: list[str], folder: Path | None = None) -> None:
    subprocess.run(command, cwd=folder, check=True, timeout=INSTALL_SECONDS, stdin=subprocess.DEVNULL)
