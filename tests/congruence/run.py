"""The run: a server, the proxy in front of it in every mode, and the suite over REST and over gRPC at each of them.

The suite compares the client's in-memory mode with a server. A test that passes directly must pass in every mode.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ET
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from urllib.parse import urlsplit

from rich.console import Console
from rich.table import Table

from congruence.plugin import GRPC_PORT, REST, TRANSPORT
from support.process import stack
from support.qdrant.embedded import start_embedded_grpc_process

CHECKOUT = "QDRANT_CLIENT_CHECKOUT"
SUITE = Path("tests") / "congruence_tests"
DIRECT = "direct"
MODES = (DIRECT, "off", "shadow", "on")
TRANSPORTS = ("rest", "grpc")
OURS = Path(__file__).resolve().parent.parent
MEMORY = Path(
    "/dev/shm"
)  # the suite's persistent clients commit every point to a file; on a disk that is most of the run
TEST_SECONDS = 900
CAUSE_CHARACTERS = 300
REPEATS = 2  # of what fails in a mode alone: two tests of the suite fail one time in ten at a real server

Outcomes = Mapping[str, str]
"""Test -> passed, failed or skipped."""


@dataclass(frozen=True, slots=True)
class Suite:
    """One run: ``outcomes`` of its tests, ``causes``: the first line that each failed test gives."""

    outcomes: Outcomes
    causes: Mapping[str, str]


class SuiteError(Exception):
    """The suite did not run."""


@dataclass(frozen=True, slots=True)
class Server:
    """Where a server speaks REST and gRPC, both with their scheme."""

    rest: str
    grpc: str


def main(arguments: Sequence[str] | None = None) -> int:
    """Run; 1 when a test that passes directly does not pass in a mode, when a mode ran other tests, or when the suite did not run."""
    options = _parser().parse_args(arguments)
    console, ran, lost = Console(width=200, soft_wrap=True), {}, {}
    try:
        checkout = _checked(options.checkout)
        for transport in options.transport or TRANSPORTS:
            for mode in (DIRECT, *(mode for mode in options.mode or MODES if mode != DIRECT)):
                with server(options) as direct, through(direct, mode) as reached:
                    here = ran[transport, mode] = suite(checkout, reached, transport, options.rest_of_command)
                    first = losses(ran[transport, DIRECT].outcomes, here.outcomes)
                    lost[transport, mode] = repeated(first, partial(suite, checkout, reached, transport, ()))
                counts = Counter(ran[transport, mode].outcomes.values())
                console.print(f"{transport} {mode}: {dict(counts)}", markup=False)
                for name, cause in sorted(ran[transport, mode].causes.items()):
                    console.print(f"  failed: {name}: {cause}", markup=False)
                for name in sorted(set(first) - set(lost[transport, mode])):
                    console.print(f"  passed when it was repeated: {name}", markup=False)
    except SuiteError as error:
        console.print(f"{error}", markup=False)
        return 1
    outcomes = {key: run.outcomes for key, run in ran.items()}
    uneven = {key: unlike(outcomes[key[0], DIRECT], outcome) for key, outcome in outcomes.items()}
    console.print(table(outcomes, lost))
    for (transport, mode), names in lost.items():
        for name in names:
            console.print(f"passes directly, not over {transport} in mode {mode}: {name}", markup=False)
    for (transport, mode), names in uneven.items():
        if names:
            complaint = f"{transport} {mode} did not run the tests of {transport} {DIRECT}: {len(names)} differ, such as {names[0]}"
            console.print(complaint, markup=False)
    return int(any(lost.values()) or any(uneven.values()))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--checkout", default=os.environ.get(CHECKOUT), help=f"a checkout of qdrant-client; ${CHECKOUT}"
    )
    parser.add_argument("--rest", help="the URL of a server to run against; without it the embedded one is started")
    parser.add_argument("--grpc", help="where that server speaks gRPC, on the same host")
    parser.add_argument("--mode", action="append", choices=MODES, help="one of the modes; all of them without any")
    parser.add_argument("--transport", action="append", choices=TRANSPORTS)
    parser.add_argument("rest_of_command", nargs="*", metavar="-- pytest's", help="more for pytest, such as -k query")
    return parser


def _checked(path: str | None) -> Path:
    if path is None:
        raise SuiteError(f"{CHECKOUT} is not set; wanted: a checkout of https://github.com/qdrant/qdrant-client")
    checkout = Path(path).resolve()
    if not (checkout / SUITE).is_dir():
        raise SuiteError(f"{path}: no {SUITE} there; wanted: a checkout of https://github.com/qdrant/qdrant-client")
    return checkout


@contextmanager
def server(options: argparse.Namespace) -> Iterator[Server]:
    """The one asked for, or the embedded one, new for each run."""
    if options.rest is not None:
        if options.grpc is None:
            raise SuiteError("--rest needs --grpc beside it: the suite compares both")
        yield Server(options.rest, options.grpc if "//" in options.grpc else f"http://{options.grpc}")
        return
    with start_embedded_grpc_process() as (rest, grpc):
        yield Server(rest, grpc)


@contextmanager
def through(direct: Server, mode: str) -> Iterator[Server]:
    """The server itself, or a proxy before it, which speaks both on one port."""
    if mode == DIRECT:
        yield direct
        return
    with stack.serve(direct.rest, "--grpc-upstream", direct.grpc, "--mode", mode) as (url, _):
        yield Server(url, url)


def suite(checkout: Path, reached: Server, transport: str, more: Sequence[str] = (), only: Sequence[str] = ()) -> Suite:
    """One run of the suite, in a process whose `qdrant_client` is the checkout's. Nothing is written to the checkout.

    ``only``: the tests to run; without any, all of them.
    """
    selected = [f"{SUITE}/{name.replace('::', '.py::', 1)}" for name in only] or [str(SUITE)]
    with tempfile.TemporaryDirectory(dir=MEMORY if MEMORY.is_dir() else None) as folder:
        report = Path(folder) / "report.xml"
        environment = {
            **os.environ,
            REST: reached.rest,
            GRPC_PORT: str(urlsplit(reached.grpc).port),
            TRANSPORT: transport,
            "PYTHONPATH": str(OURS),
            "PYTHONDONTWRITEBYTECODE": "1",
            "TMPDIR": folder,
        }
        run = subprocess.run(
            [
                *(
                    sys.executable,
                    "-m",
                    "pytest",
                    *selected,
                    "-q",
                    "-p",
                    "congruence.plugin",
                    "-p",
                    "no:cacheprovider",
                ),
                *("--timeout", str(TEST_SECONDS), "--tb=short", "--junitxml", str(report), *more),
            ],
            cwd=checkout,
            env=environment,
            check=False,
            capture_output=True,
            text=True,
        )
        if run.returncode not in {0, 1} or not report.exists():
            raise SuiteError(f"the suite ended with {run.returncode}:\n{run.stdout[-2000:]}{run.stderr[-2000:]}")
        return read_report(report)


def read_report(report: Path) -> Suite:
    """What pytest's JUnit report says of each test. An error of a fixture is a failure of its test."""
    outcomes, causes = {}, {}
    for case in ET.parse(report).iter("testcase"):
        name = f"{case.get('classname', '').rpartition('.')[2]}::{case.get('name')}"
        parts = {part.tag: part for part in case}
        failure = parts.get("failure", parts.get("error"))
        outcomes[name] = "failed" if failure is not None else "skipped" if "skipped" in parts else "passed"
        if failure is not None:
            causes[name] = (failure.get("message") or "no message").partition("\n")[0][:CAUSE_CHARACTERS]
    if not outcomes:
        raise SuiteError("the suite has no tests")
    return Suite(outcomes, causes)


def losses(direct: Outcomes, outcome: Outcomes) -> list[str]:
    """Tests that pass directly and not here; one that did not run here did not pass."""
    return [name for name, result in direct.items() if result == "passed" and outcome.get(name) != "passed"]


def repeated(names: Sequence[str], run: Callable[[Sequence[str]], Suite]) -> list[str]:
    """Those of the lost tests that fail each time: a server that answers a test now so, now so fails it directly as well."""
    lost = list(names)
    for _ in range(REPEATS):
        if lost:
            outcomes = run(lost).outcomes
            lost = [name for name in lost if outcomes.get(name) != "passed"]
    return lost


def unlike(direct: Outcomes, outcome: Outcomes) -> list[str]:
    """Tests that ran directly or here, not both. A skipped test ran where it is skipped directly, too."""
    ran, here = ({name for name, result in results.items() if result != "skipped"} for results in (direct, outcome))
    return sorted(ran ^ here)


def table(outcomes: Mapping[tuple[str, str], Outcomes], lost: Mapping[tuple[str, str], Sequence[str]]) -> Table:
    """One line a transport and mode."""
    summary = Table(title="qdrant-client's congruence tests")
    for column in ("transport", "mode", "passed", "failed", "skipped", "passed directly, not here"):
        summary.add_column(column)
    for key, outcome in outcomes.items():
        counts = Counter(outcome.values())
        numbers = [str(counts[result]) for result in ("passed", "failed", "skipped")]
        summary.add_row(*key, *numbers, str(len(lost[key])))
    return summary
