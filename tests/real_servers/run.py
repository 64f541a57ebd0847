"""The run: each server whose program is named, its table, and the client tests against it."""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import MappingProxyType

from prove import search_nodes
from rich.console import Console

from real_servers import qdrant_verdict, search_verdict, weaviate_verdict
from real_servers.verdict import Verdict, explained, table
from support.process import real_servers

ROOT = Path(__file__).resolve().parents[2]
_INSIDE = "REAL_SERVER_DEFAULT_NETWORK"


@dataclass(frozen=True, slots=True)
class Kind:
    """``variable``: what names its program. ``tests``: those of its clients."""

    variable: str
    judged: Callable[[str], list[Verdict]]
    tests: tuple[str, ...]


_SEARCH_TESTS = ("tests/clients/test_opensearch_server.py", "tests/clients/test_opensearch_clients.py")
KINDS: Mapping[str, Kind] = MappingProxyType(
    {
        "qdrant": Kind(real_servers.QDRANT, qdrant_verdict.judged, ()),
        **{
            product.value: Kind(variable, partial(search_verdict.judged, product), _SEARCH_TESTS)
            for product, variable in search_nodes.VARIABLES.items()
        },
        "weaviate": Kind(
            real_servers.WEAVIATE,
            weaviate_verdict.judged,
            (
                "tests/clients/test_weaviate_through_the_proxy.py",
                "tests/clients/test_real_weaviate.py",
                "tests/clients/test_write_gate_of_weaviate.py",
            ),
        ),
    }
)


def main() -> int:
    """Run; 1 when something differs that must not, when a test fails, or when no program is named."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("only", nargs="*", help="servers; without any, all whose program is named")
    parser.add_argument("--no-tests", action="store_true", help="the table alone")
    given = parser.parse_args()
    if unknown := set(given.only) - KINDS.keys():
        parser.error(f"no such server: {', '.join(sorted(unknown))}; there are {', '.join(KINDS)}")
    programs = {name: path for name, kind in KINDS.items() if (path := real_servers.program(kind.variable))}
    names = given.only or list(programs)
    if not names or set(names) - programs.keys():
        missing = sorted(KINDS[name].variable for name in (set(names) or set(KINDS)) - programs.keys())
        parser.error(f"name the server's program: {', '.join(missing)}")
    enter_private_network()
    console, status = Console(width=None if sys.stdout.isatty() else 120), 0
    for name in names:
        verdicts = KINDS[name].judged(programs[name])
        console.print(table(verdicts))
        for verdict in verdicts:
            for line in explained(verdict):
                console.print(line, markup=False, highlight=False)
        status |= int(not all(verdict.is_good for verdict in verdicts))
        if KINDS[name].tests and not given.no_tests:
            sys.stdout.flush()  # what follows writes to the same place by itself
            command = [sys.executable, "-m", "pytest", "-q", "-n", "0", "--timeout", "600", *KINDS[name].tests]
            status |= int(subprocess.run(command, cwd=ROOT, check=False).returncode != 0)
    return status


def enter_private_network() -> None:
    """Start this program again in a network of its own that has loopback alone, where the system lets us.

    Weaviate's gRPC port listens on every interface, whatever it is told.
    """
    if _INSIDE in os.environ:
        return
    tools = shutil.which("unshare"), shutil.which("ip")
    inside = ["unshare", "--net", "--map-root-user", "sh", "-c", 'ip link set lo up && exec "$@"', "sh"]
    if not all(tools) or subprocess.run([*inside, "true"], capture_output=True, check=False).returncode:
        sys.stderr.write(
            "No network of its own here (unshare and ip): Weaviate's gRPC port is open to others meanwhile.\n"
        )
        return
    os.environ[_INSIDE] = "1"
    os.execvp(inside[0], [*inside, sys.executable, "-m", "tests.real_servers", *sys.argv[1:]])
