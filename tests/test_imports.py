"""The rules of imports: which layer and which room may import which, and what is loaded late or not at all."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

from support.sources import (
    MODULES,
    PACKAGES,
    ROOT,
    SOURCES,
    TESTS,
    faults_in,
    imported,
    module_name,
    needed,
    parsed,
    text_of,
)
from vecsieve.adapters.backends import BACKENDS
from vecsieve.config.load import load
from vecsieve.proxy.runtime.addresses import data_ports_of

NUMERIC = {"numpy"}
ALLOWED = {
    "config": {"pydantic", "pydantic_core", "yaml", "vecsieve.config"},
    "adapters": NUMERIC | {"orjson", "msgspec", "simdjson", "google", "vecsieve.adapters"},
    "proxy/selection": NUMERIC | {"fastcluster", "vecsieve.proxy.selection"},
}
# The shell may use everything of ours and the libraries of the data plane; jobs, demo and the embedded
# server load the official client and the engine inside functions, so that `serve` starts without them.
SHELL = NUMERIC | {
    "aiohappyeyeballs",
    "aiohttp",
    "grpc",
    "multidict",
    "msgspec",
    "orjson",
    "prometheus_client",
    "pydantic",
    "rich",
    "typer",
    "uvloop",
    "vecsieve",
    "xxhash",
    "yarl",
}
LAZY = {
    "mcp",
    "anyio",
    "uvicorn",
    "daft",
    "duckdb",
    "opentelemetry",
    "pymilvus",
    "qdrant_edge",
    "redis",
    "tiktoken",
}

IMPURE_MODULES = {"asyncio", "time", "logging", "socket", "threading", "random", "os", "prometheus_client", "aiohttp"}


def layer(path: Path) -> str:
    relative = path.relative_to(ROOT).as_posix()
    if relative.startswith("proxy/selection/"):
        return "proxy/selection"
    return relative.split("/", 1)[0]


def is_standard(name: str) -> bool:
    return name.split(".", 1)[0] in sys.stdlib_module_names


def fits(name: str, allowed: set[str]) -> bool:
    return any(name == prefix or name.startswith(prefix + ".") for prefix in allowed)


def test_imports_go_one_way() -> None:
    def stray(path: Path) -> list[str]:
        names = {name for name in imported(path, top_level_only=False) if not is_standard(name)}
        allowed = ALLOWED.get(layer(path), SHELL | LAZY)
        return sorted(name for name in names if not fits(name, allowed))

    assert faults_in(SOURCES, stray) == {}


def test_optional_libraries_are_loaded_only_inside_functions() -> None:
    def eager(path: Path) -> list[str]:
        return sorted(name for name in imported(path, top_level_only=True) if fits(name, LAZY))

    assert faults_in(SOURCES, eager) == {}


def is_impure(node: ast.AST) -> bool:
    if isinstance(node, ast.Call):
        return isinstance(node.func, ast.Name) and node.func.id in {"print", "open", "input"}
    return isinstance(node, ast.AsyncFunctionDef | ast.Await | ast.Global)


def test_the_pure_layers_neither_await_nor_look_at_the_world() -> None:
    def worldly(path: Path) -> list[object]:
        names = {name.split(".", 1)[0] for name in imported(path, top_level_only=False)}
        if path.name == "memo.py":
            names.discard("threading")  # a lock: the loop and the thread of long pools use a cache at once
        lines = [
            node.lineno for node in ast.walk(parsed(path)) if is_impure(node) and isinstance(node, ast.stmt | ast.expr)
        ]
        return [*sorted(names & IMPURE_MODULES), *lines]

    assert faults_in((path for path in SOURCES if layer(path) in {"adapters", "proxy/selection"}), worldly) == {}


def test_imports_have_no_circle_not_even_for_types_or_inside_functions() -> None:
    """So every module imports alone, and every import graph is a picture of floors."""
    needs = {name: needed(path) for name, path in MODULES.items()}
    assert any(needs.values()), "no imports found: this test looks at nothing"
    assert len(list(TopologicalSorter(needs).static_order())) == len(needs)  # raises CycleError, which names them


def test_imports_within_a_layer_are_relative() -> None:
    """No folder is called vecsieve, so a tool that follows paths finds a module by its dots alone."""

    def named(path: Path) -> list[str]:
        package = ".".join(module_name(path).split(".")[:2])
        nodes = (node for node in ast.walk(parsed(path)) if isinstance(node, ast.ImportFrom) and not node.level)
        return [source for node in nodes if fits(source := node.module or "", {package})]

    assert faults_in(SOURCES, named) == {}


# Each imports from those before it alone.
ROOMS = (
    *("selection", "runtime", "telemetry", "search", "writes", "http", "grpc", "admin", "api"),
    *("process", "server", "cli", "__main__", "demo", "jobs", "mcp"),
)


def test_the_rooms_of_the_proxy_stand_in_one_order() -> None:
    def room(module: str) -> int:
        return ROOMS.index(module.removeprefix("vecsieve.proxy.").split(".", 1)[0])

    def upward(path: Path) -> list[str]:
        importer = module_name(path)
        theirs = {name for name in needed(path) if name.startswith("vecsieve.proxy.")}
        return [] if importer == "vecsieve.proxy" else sorted(name for name in theirs if room(name) > room(importer))

    assert faults_in((path for path in SOURCES if path.is_relative_to(ROOT / "proxy")), upward) == {}


def test_every_module_imports() -> None:
    names = [name for name, path in MODULES.items() if path.name != "__main__.py"]
    program = "import importlib, sys\nfor name in sys.argv[1:]: importlib.import_module(name)\n"
    done = subprocess.run([sys.executable, "-c", program, *names], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


NOT_FOR_SERVING = {"vecsieve.proxy.demo", "vecsieve.proxy.jobs", "vecsieve.proxy.mcp", "servers", "support"}
OPTIONAL = {"mcp", "tiktoken", "qdrant_client", "qdrant_edge", "opentelemetry"}


# Loaded by what the settings switch on: gRPC; the API, a journal, a settings file, the bars of jobs.
GRPC = {"grpc", "google.protobuf", "vecsieve.proxy.grpc"}
SWITCHED_ON = GRPC | {"vecsieve.proxy.api", "sqlite3", "yaml", "rich"}
# A process that serves, up to where it would wait for requests.
SERVING = """
import sys
from vecsieve.proxy import cli, server

async def loaded(self):
    print(*sys.modules, file=sys.stderr)

server.Instance.serve = loaded
cli.main()
"""


@pytest.mark.parametrize("backend", BACKENDS)
def test_serving_imports_nothing_of_other_commands_or_backends_and_nothing_that_is_switched_off(backend: str) -> None:
    settings = load(file=None, environment={}, flags={"backend": backend})
    ports = ["--listen", "--admin", *(["--grpc-listen"] if settings.grpc.listen else [])]
    options = ["--backend", backend, *(word for option in ports for word in (option, "127.0.0.1:0"))]
    done = subprocess.run(
        [sys.executable, "-c", SERVING, "serve", *options], capture_output=True, text=True, check=True
    )
    loaded = done.stderr.split()
    packages = {name: row.rest.adapter.__module__.rpartition(".")[0] for name, row in BACKENDS.items()}
    assert packages[backend] in loaded
    others = set(packages.values()) - {packages[backend]}
    used = GRPC if any(port.grpc is not None for port in data_ports_of(settings)) else set()
    assert [name for name in loaded if fits(name, NOT_FOR_SERVING | OPTIONAL | others | (SWITCHED_ON - used))] == []


BARE = re.compile(rf"^[ \t]*(?:from|import)[ \t]+(?:{'|'.join(PACKAGES)})(?:[.,\s]|$)", re.MULTILINE)


@pytest.mark.parametrize("line", ["import config", "    from proxy.cli import main", "import adapters.x as y"])
def test_a_bare_name_is_noticed(line: str) -> None:
    assert BARE.search(f"x = 1\n{line}\n")
    assert not BARE.search(line.replace("import ", "import vecsieve.").replace("from ", "from vecsieve."))


def test_the_bare_names_of_other_projects_are_never_imported() -> None:
    assert faults_in((*SOURCES, *TESTS), lambda path: BARE.findall(text_of(path))) == {}
