"""Each framework in an environment of its own, made once and kept: Python's by venv and pip, JavaScript's by npm, Java's by Maven."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

WRITERS = Path(__file__).resolve().parent / "writers"
INSTALL_SECONDS = 900.0
WRITE_SECONDS = 180.0
_PINNED = re.compile(r"<artifactId>([\w-]+-qdrant[\w-]*)</artifactId>\s*<version>([\w.-]+)</version>")


class NotAvailableError(Exception):
    """A framework that cannot be installed on this machine, or did not write. The message says why."""


@dataclass(frozen=True, slots=True)
class Writer:
    """A framework's program. It is given a kind of database, its address and the file of a plan. ``libraries``: with their versions."""

    libraries: tuple[str, ...]
    command: tuple[str, ...]
    folder: Path

    def write(self, kind: str, address: str, plan: Path) -> None:
        """Let it write the plan's passages. Raises NotAvailableError."""
        _run([*self.command, kind, address, str(plan)], self.folder, WRITE_SECONDS)


def python(script: str, *requirements: str) -> Callable[[Path], Writer]:
    """What installs a framework for Python."""

    def installed(folder: Path) -> Writer:
        home = folder / f"framework-{Path(script).stem}"
        interpreter, done = home / "bin" / "python", home / ".installed"
        if not done.exists() or done.read_text(encoding="utf-8") != "\n".join(requirements):
            _run([sys.executable, "-m", "venv", "--clear", str(home)])
            _run([str(interpreter), "-m", "pip", "install", "--quiet", *requirements])
            done.write_text("\n".join(requirements), encoding="utf-8")
        return Writer(requirements, (str(interpreter), str(WRITERS / script)), home)

    return installed


def javascript(script: str, *requirements: str) -> Callable[[Path], Writer]:
    """What installs a framework for JavaScript."""

    def installed(folder: Path) -> Writer:
        home = folder / f"framework-{Path(script).stem}"
        done = home / ".installed"
        if not done.exists() or done.read_text(encoding="utf-8") != "\n".join(requirements):
            shutil.rmtree(home, ignore_errors=True)
            home.mkdir(parents=True)
            (home / "package.json").write_text('{"private": true}\n', encoding="utf-8")
            _run(["npm", "install", "--silent", "--no-audit", "--no-fund", *requirements], home)
            done.write_text("\n".join(requirements), encoding="utf-8")
        return Writer(requirements, ("node", str(WRITERS / script)), home)

    return installed


def java(name: str) -> Callable[[Path], Writer]:
    """What installs a framework for Java; its version stands in its pom.xml."""

    def installed(folder: Path) -> Writer:
        home, source = folder / f"framework-{name}", WRITERS / name
        jars, pom = home / "classpath", source / "pom.xml"
        pinned = _PINNED.search(pom.read_text(encoding="utf-8"))
        if pinned is None:
            raise ValueError(f"no version of a library in {pom}")
        home.mkdir(parents=True, exist_ok=True)
        if not jars.exists() or jars.stat().st_mtime < pom.stat().st_mtime:
            goal = "org.apache.maven.plugins:maven-dependency-plugin:3.6.0:build-classpath"
            _run(["mvn", "-q", "-B", "-f", str(pom), goal, f"-Dmdep.outputFile={jars}"])
        path = jars.read_text(encoding="utf-8").strip()
        _run(["javac", "-encoding", "UTF-8", "-d", str(home), "-cp", path, str(source / "Writer.java")])
        command = ("java", "-cp", f"{home}{os.pathsep}{path}", "Writer")
        return Writer((f"{pinned[1]}:{pinned[2]}",), command, home)

    return installed


# Exact, so that a recording changes only where a version does. The newest at the time of writing.
_LANGCHAIN = python("langchain.py", "langchain-core==1.8.3", "langchain-qdrant==1.1.0", "langchain-chroma==1.1.0")
_MEM0 = python("mem0_store.py", "mem0ai==2.2.1", "chromadb==1.5.9")
# Framework and database -> what installs it.
FRAMEWORKS: Mapping[tuple[str, str], Callable[[Path], Writer]] = MappingProxyType(
    {
        ("llamaindex", "qdrant"): python(
            "llamaindex.py", "llama-index-core==0.14.25", "llama-index-vector-stores-qdrant==0.10.4"
        ),
        ("langchain", "qdrant"): _LANGCHAIN,
        ("langchain", "chroma"): _LANGCHAIN,
        ("langchain-js", "qdrant"): javascript("langchain_js.mjs", "@langchain/qdrant@1.0.3", "@langchain/core@1.4.0"),
        ("haystack", "qdrant"): python("haystack_store.py", "haystack-ai==3.4.1", "qdrant-haystack==13.1.0"),
        ("mem0", "qdrant"): _MEM0,
        ("mem0", "chroma"): _MEM0,
        ("langchain4j", "qdrant"): java("langchain4j"),
        ("spring-ai", "qdrant"): java("spring_ai"),
    }
)
# Reached over gRPC, the only way of Qdrant's client for Java.
OVER_GRPC = frozenset({"langchain4j", "spring-ai"})


def _run(command: list[str], folder: Path | None = None, seconds: float = INSTALL_SECONDS) -> None:
    """Raises NotAvailableError."""
    try:
        subprocess.run(
            command, cwd=folder, check=True, timeout=seconds, stdin=subprocess.DEVNULL, capture_output=True, text=True
        )
    except FileNotFoundError as missing:
        raise NotAvailableError(f"there is no {command[0]} here") from missing
    except subprocess.CalledProcessError as failed:
        raise NotAvailableError(f"`{' '.join(command[:4])[:200]}`: {failed.stderr[-1500:]}") from failed
    except subprocess.TimeoutExpired as late:
        raise NotAvailableError(f"`{' '.join(command[:4])[:200]}` took more than {seconds:g} s") from late
