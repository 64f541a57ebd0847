"""Qdrant's clients of other languages, each built where what it needs is to be had; made once and kept.

The ordinary tool of each language fetches the client. It is told of other places in its own way: GOFLAGS=-modfile=… for
modules that lie elsewhere; for Java, JAVA_CLIENT_CLASSPATH names the jars, since none is fetched here.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

HERE = Path(__file__).resolve().parent
INSTALL_SECONDS = 900.0
SCENARIO_SECONDS = 180.0

# Exact, so that a red run is a change of ours. Go's version stands in go/go.mod.
NODE = "@qdrant/js-client-grpc@1.19.0"
JARS = "JAVA_CLIENT_CLASSPATH"
JAVA_WANTS = f"io.qdrant:client 1.18.3, a gRPC transport and gson: name their jars in {JARS}"


class NotAvailableError(Exception):
    """A client that cannot be built on this machine. The message says what is missing."""


class ScenarioFailedError(Exception):
    """A client's program ended badly. The message ends with what it printed."""


@dataclass(frozen=True, slots=True)
class Client:
    """A program that can be run with a host, a port and the file of a plan."""

    name: str
    command: tuple[str, ...]
    folder: Path

    def messages(self, address: str, plan: Path) -> str:
        """What it prints. Raises ScenarioFailedError."""
        host, _, port = address.rpartition(":")
        command = [*self.command, host, port, str(plan)]
        try:
            return _run(command, self.folder, SCENARIO_SECONDS)
        except subprocess.SubprocessError as failed:
            raise ScenarioFailedError(f"{self.name}: {_message(failed)}") from failed


def go(folder: Path) -> Client:
    """Qdrant's client for Go, over grpc-go."""
    home = folder / "go"
    shutil.copytree(HERE / "go", home, dirs_exist_ok=True)
    _built(["go", "build", "-mod=mod", "-o", "client", "."], home)
    return Client("go", (str(home / "client"),), home)


def node(folder: Path) -> Client:
    """Qdrant's client for JavaScript, over Connect and Node's own HTTP/2."""
    home = folder / "node"
    installed = home / ".installed"
    if not installed.exists() or installed.read_text(encoding="utf-8") != NODE:
        shutil.rmtree(home, ignore_errors=True)
        home.mkdir(parents=True)
        (home / "package.json").write_text('{"private": true}\n', encoding="utf-8")
        _built(["npm", "install", "--silent", "--no-audit", "--no-fund", NODE], home)
        installed.write_text(NODE, encoding="utf-8")
    return Client("node", ("node", str(HERE / "node" / "scenario.mjs")), home)


def java(folder: Path) -> Client:
    """Qdrant's client for Java, over grpc-java."""
    jars = os.environ.get(JARS)
    if not jars:
        raise NotAvailableError(JAVA_WANTS)
    home = folder / "java"
    home.mkdir(parents=True, exist_ok=True)
    sources = [str(file) for file in sorted((HERE / "java").glob("*.java"))]
    _built(["javac", "-encoding", "UTF-8", "-d", str(home), "-cp", jars, *sources], home)
    return Client("java", ("java", "-cp", f"{home}{os.pathsep}{jars}", "Scenario"), home)


CLIENTS: Mapping[str, Callable[[Path], Client]] = MappingProxyType({"go": go, "node": node, "java": java})


def _built(command: list[str], folder: Path) -> None:
    try:
        _run(command, folder, INSTALL_SECONDS)
    except FileNotFoundError as missing:
        raise NotAvailableError(f"there is no {command[0]} here") from missing
    except subprocess.SubprocessError as failed:
        raise NotAvailableError(f"`{' '.join(command[:2])}` came to nothing: {_message(failed)}") from failed


def _run(command: list[str], folder: Path, seconds: float) -> str:
    done = subprocess.run(
        command, cwd=folder, check=True, timeout=seconds, stdin=subprocess.DEVNULL, capture_output=True, text=True
    )
    return done.stdout


def _message(failed: subprocess.SubprocessError) -> str:
    text = failed.stderr if isinstance(failed, subprocess.CalledProcessError) else None
    return f"{failed}\n{(text or '')[-2000:]}".strip()
